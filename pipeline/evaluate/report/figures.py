"""Plots drawn by matplotlib: one SVG per panel for the page, and the whole plot as PDF or SVG for papers.

Equal plots have equal bytes. Neither pyplot nor the settings of the user's process are used or changed.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

from pipeline.errors import UserError
from pipeline.evaluate.report.labels import LETTER, SIZE, TEXT_LINE, places, shortened, words
from pipeline.evaluate.report.panels import (
    COLOURS,
    DASHES,
    HATCHES,
    HEAT,
    INK,
    LINE,
    MARKERS,
    PAPER,
    SOFT,
    by_name,
    draw,
    index_of,
    is_small,
    opacity_of,
    room_of,
    titled,
)
from pipeline.evaluate.report.views import Axis, Panel, Plot, Point

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

THEME = {
    INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)", PAPER: "var(--panel)",
    **{colour: f"var(--c{index})" for index, colour in enumerate(COLOURS)}, HEAT: "var(--heat)",
}  # fmt: skip
"""Names of the colours in the style of the page, which has a dark theme."""

PAGE_WIDTH, SMALL_WIDTH = 3.3, 1.65  # width of a panel of the page in inches, and of one of many small panels
COLUMN, BOTH_COLUMNS = 3.35, 7.0  # width of one column of a two-column article in inches, and of both
LEGEND_LENGTH = 44

PREFIXES = (
    "axes.", "errorbar.", "figure.", "font.", "grid.", "hatch.", "legend.", "lines.", "markers.", "patch.", "path.",
    "pdf.", "savefig.", "svg.", "text.", "xtick.", "ytick.",
)  # fmt: skip
"""Settings of matplotlib that decide how a plot looks."""

SETTINGS: Mapping[str, Any] = {
    "axes.edgecolor": SOFT, "axes.labelcolor": INK, "axes.labelsize": SIZE, "axes.linewidth": 0.6,
    "axes.spines.right": False, "axes.spines.top": False, "axes.axisbelow": True, "font.family": ["DejaVu Sans"],
    "font.size": SIZE, "grid.color": LINE, "grid.linewidth": 0.6, "hatch.linewidth": 0.7, "legend.fontsize": SIZE,
    "legend.frameon": False, "lines.linewidth": 1.3, "lines.markersize": 4.2, "pdf.fonttype": 42, "text.color": INK,
    "text.parse_math": False, "xtick.color": SOFT, "xtick.labelcolor": INK, "xtick.labelsize": SIZE,
    "ytick.color": SOFT, "ytick.labelcolor": INK, "ytick.labelsize": SIZE, "xtick.major.size": 2.5,
    "ytick.major.size": 2.5, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
}  # fmt: skip
"""Settings of matplotlib."""


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the mark ``kind``, the index of the model that decides its look, and the opacity."""

    text: str
    kind: Literal["line", "bar", "point", "published", "limit", "shade"]
    slot: int = 0
    opacity: float = 1.0


def panels(plot: Plot, models: Sequence[str], name: str = "plot") -> list[str]:
    """Return each panel as an SVG element for a page, with an alternative text that has all values.

    The position of a model among all ``models`` of the report decides its colour and mark in every figure, and ``name``
    is a prefix that makes ids unique in the page. Raises UserError if matplotlib is not installed, as ``figure`` and
    ``drawn`` do.
    """
    from html import escape

    numbers, drawn = _numbers(plot), []
    with style({"svg.fonttype": "none"}):
        for index, panel in enumerate(plot.panels):
            room = room_of(plot, panel, SMALL_WIDTH if is_small(plot) else PAGE_WIDTH)
            figure = _figure(room.width, room.height)
            draw(figure, room, (0.0, 0.0), plot, panel, models, numbers)
            svg = svg_file(figure, f"{name}-{index + 1}")
            size = f'viewBox="0 0 {72 * room.width:g} {72 * room.height:g}"'
            wide = f' wide" style="min-width: {96 * room.width:.0f}px' if room.width > PAGE_WIDTH else ""
            start = f'<svg class="plot{wide}" role="img" aria-label="{escape(described(plot, panel))}" {size}>'
            drawn.append(start + _inline(svg, f"{name}-{index + 1}"))
    return drawn


def figure(plot: Plot, models: Sequence[str]) -> Figure:
    """Return the whole plot as a figure of matplotlib, as wide as one or both columns of a two-column article."""
    with style({}):
        return _whole(plot, models)


def drawn(plot: Plot, models: Sequence[str]) -> dict[str, bytes]:
    """Return the whole plot as files for a paper: PDF with embedded fonts, and SVG with letters as outlines."""
    with style({"svg.fonttype": "path"}):
        from matplotlib.backends.backend_pdf import FigureCanvasPdf

        whole = _whole(plot, models)
        file, canvas = io.BytesIO(), cast(Any, FigureCanvasPdf(whole))
        canvas.print_pdf(file, metadata={"Creator": "robustshards", "CreationDate": None, "Producer": None})
        return {"pdf": file.getvalue(), "svg": svg_file(whole, "robustshards")}


def described(plot: Plot, panel: Panel) -> str:
    """Return the alternative text of a panel, with all values, or with the ends of those of a frequency map."""
    x, y = panel.x, panel.y
    percent = " in percent" if y.format.scale == 100 else ""
    if plot.kind == "frequency map":  # too many values for a text
        known = sorted((each.y, int(each.name), float(each.x)) for each in panel.known)
        parts = [f"{y.format.text(value)} at p {p}, q {q:g}" for value, p, q in (known[0], known[-1])]
        note = f"; {panel.note}" if panel.note else ""
        return f"Frequency map, {panel.title}, {y.name}{percent} by frequency: from {' to '.join(parts)}{note}."
    kind = {"reliability": "Reliability diagram"}.get(plot.kind, f"{plot.kind.capitalize()} plot")
    kind = kind.replace("map plot", "map").replace("s plot", " plot")
    if plot.kind == "bars":
        parts = [
            f"{words(name)}: " + ", ".join(f"{model} {y.format.text(value)}" for model, value in of_name.items())
            for name, of_name in by_name(panel).items()
        ]
    else:
        parts = [text for name, line in panel.lines.items() if (text := _values(plot, panel, name, line))]
    by = f" by {x.name}" * (plot.kind != "bars" and bool(x.name))
    return f"{kind}, {panel.title + ', ' if panel.title else ''}{y.name}{percent}{by}: {'; '.join(parts)}."


def legend(plot: Plot, models: Sequence[str]) -> list[Key]:
    """Return the legend of a plot; empty for a map, whose panels have the names of models."""
    every = list(chain.from_iterable(panel.points for panel in plot.panels))
    if plot.kind in ("heat map", "frequency map"):
        return []
    if plot.kind == "reliability":
        names = list(dict.fromkeys(each.name for each in every if each.name))
        shades = [Key(name, "shade", 0, opacity_of(index, len(names))) for index, name in enumerate(names)]
        return [*(shades if len(shades) > 1 else ()), Key("perfectly calibrated", "limit")]
    if plot.kind == "scatter":
        numbers = _numbers(plot)
        of_name = {each.name: each.published for each in every}
        keys = [
            Key(f"{number} {name}", "published" if of_name[name] else "point", index_of(name, models))
            for name, number in numbers.items()
        ]
        published = [Key("published values", "published")] * (not numbers and any(each.published for each in every))
        return [*published, *keys]
    names = list(dict.fromkeys(each.name for each in every))
    kind: Literal["bar", "line"] = "bar" if plot.kind == "bars" else "line"
    keys = [Key(name, kind, index_of(name, models)) for name in names]
    return [*keys, *([Key(plot.limit_name, "limit")] if plot.limit is not None and plot.limit_name else [])]


def _values(plot: Plot, panel: Panel, name: str, line: Sequence[Point]) -> str:
    """Return the values of a line as text; empty if it has none."""
    pairs = [(_position(panel.x, each.x), panel.y.format.text(each.y)) for each in line if each.marked]
    ordered = plot.kind in ("reliability", "scatter")
    texts = [f"{value} at {position}" if ordered else f"{position} {value}" for position, value in pairs]
    return f"{name}: {', '.join(texts)}".removeprefix(": ") if texts else ""


def _position(axis: Axis, at: float | str) -> str:
    if isinstance(at, str):
        return at
    return axis.ticks[at] if axis.ticks and at in axis.ticks else axis.format.text(at)


@contextmanager
def style(more: Mapping[str, Any]) -> Iterator[None]:
    """Set matplotlib up, whatever the process set, and restore its settings."""
    try:
        import matplotlib
    except ImportError:
        raise UserError("figures need matplotlib: pip install 'robustshards[evaluate]'") from None
    defaults = matplotlib.rcParamsDefault
    own: dict[Any, object] = {name: defaults[name] for name in defaults if name.startswith(PREFIXES)}
    with matplotlib.rc_context(own | dict(SETTINGS) | dict(more)):
        yield


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="none")


def svg_file(figure: Figure, salt: str) -> bytes:
    """Return a figure as SVG. Its ids are hashes with the salt, so that equal figures are equal files."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file, canvas = io.BytesIO(), cast(Any, FigureCanvasSVG(figure))
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        canvas.print_svg(file, metadata={"Creator": "robustshards", "Date": None, "Format": None, "Type": None})
    return file.getvalue()


def _inline(svg: bytes, name: str) -> str:
    """Return the contents and the end of an SVG for a page: with unique ids, the colours of the theme, and no links."""
    text = svg.decode()
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index(">", text.index("<svg")) + 1 :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL).replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda each: f' id="{name}-{each[1]}"' if each[1] in used else "", text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub("|".join(THEME), lambda each: THEME[each[0]], text)
    return re.sub(r"\n\s*", "\n", re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)).strip()


def _numbers(plot: Plot) -> dict[str, int]:
    """Return the number of each point of a scatter plot in its key; empty if there is room for all names."""
    if plot.kind != "scatter":
        return {}
    rooms = [room_of(plot, panel, PAGE_WIDTH) for panel in plot.panels]
    if all(place for panel, room in zip(plot.panels, rooms, strict=True) for _, place in places(panel, room.inner, {})):
        return {}
    names = dict.fromkeys(each.name for panel in plot.panels for each in panel.points)
    return {name: index for index, name in enumerate(names, 1)}


def _whole(plot: Plot, models: Sequence[str]) -> Figure:
    """Draw all panels in rows, with their titles, and the legend below."""
    count, numbers = len(plot.panels), _numbers(plot)
    most = {"lines": 5 if is_small(plot) else 3, "frequency map": 3, "reliability": 4}.get(plot.kind, 2)
    columns = max(min(count, most), 1)
    width = COLUMN if columns == 1 else BOTH_COLUMNS
    rooms = [room_of(plot, panel, width / columns) for panel in plot.panels]
    width = max(width, columns * max((room.width for room in rooms), default=width))
    if plot.kind == "reliability" and columns == 1:
        rooms = [replace(room, width=COLUMN, height=0.8 * COLUMN) for room in rooms]
    named = any(panel.title for panel in plot.panels) and (
        count > 1 or plot.kind in ("heat map", "frequency map", "reliability")
    )
    outer = 1.7 * TEXT_LINE * (count > 0 and not rooms[0].labelled)
    head = named * 1.5 * TEXT_LINE
    tall = [max(room.height for room in rooms[row : row + columns]) + head for row in range(0, count, columns)]
    keys = legend(plot, models)
    names = shortened([key.text for key in keys], LEGEND_LENGTH)
    letters = max(map(len, names.values()), default=0) + 6
    across = max(1, min(len(keys), int(width / (LETTER * letters))))
    below = TEXT_LINE * math.ceil(len(keys) / across) + 0.1 if keys else 0.0
    height = sum(tall) + outer + below
    drawing = _figure(width, height)
    top = height
    for index, (panel, room) in enumerate(zip(plot.panels, rooms, strict=True)):
        row, column = divmod(index, columns)
        top = height - sum(tall[:row]) - head
        left = outer + column * (width - outer) / columns
        fitted = replace(room, width=min(room.width, (width - outer) / columns))
        draw(drawing, fitted, (left, top - room.height), plot, panel, models, numbers)
        if named:
            letters = max(int(fitted.width / (1.15 * LETTER)), 8)
            title = shortened([each.title for each in plot.panels], letters)[panel.title]
            drawing.text((left + 0.05) / width, (top + 0.35 * TEXT_LINE) / height, title, weight="bold")
    if outer and plot.panels:
        x, y = titled(plot.panels[0].x), titled(plot.panels[0].y)
        drawing.text(0.5, (below + 0.3 * TEXT_LINE) / height, x, ha="center", va="bottom")
        middle = (below + outer + (height - below - outer) / 2) / height
        drawing.text(0.02 / width, middle, y, rotation=90, ha="left", va="center")
    if keys:
        handles = [_handle(key) for key in keys]
        drawing.legend(
            handles, [names[key.text] for key in keys], loc="lower center", ncols=across, borderaxespad=0.1,
            handlelength=2.2, columnspacing=1.2, labelspacing=0.3,
        )  # fmt: skip
    return drawing


def _handle(key: Key) -> Artist:
    """Return the mark of an entry of a legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour, marker = COLOURS[key.slot % len(COLOURS)], MARKERS[key.slot % len(MARKERS)]
    look: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.5, "color": colour, "marker": marker}
    if key.kind == "bar":
        return Patch(facecolor=colour, edgecolor=PAPER, hatch=HATCHES[key.slot % len(HATCHES)], linewidth=0)
    if key.kind in ("limit", "shade"):
        return Line2D([], [], color=INK, alpha=key.opacity, linestyle=(0, (4, 2)) if key.kind == "limit" else "-")
    if key.kind == "published":
        look = {"marker": "o", "color": PAPER, "markeredgecolor": SOFT}
    return Line2D([], [], linestyle=DASHES[key.slot % len(DASHES)] if key.kind == "line" else "", **look)
