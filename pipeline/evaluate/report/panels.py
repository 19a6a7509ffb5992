"""One panel of a plot, drawn by matplotlib: lines, bars, a map, a reliability diagram, or points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Literal

from pipeline.evaluate.report.labels import (
    GAP,
    LETTER,
    LONGEST_LABEL,
    NEAR,
    TEXT_LINE,
    label,
    limits,
    places,
    shortened,
)
from pipeline.evaluate.report.views import COUNT, PERCENT, Axis, Panel, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, LINE, PAPER, HEAT = "#191d23", "#566070", "#e1e5ea", "#ffffff", "#d55e00"
"""Colours of text, of secondary text, of grids, of the background, and of heat maps."""

COLOURS = ("#0072b2", "#d45e00", "#009e73", "#c25e9b", "#7a5c00", "#444b54")
"""Colours of models, close to those of Okabe and Ito, but dark enough for lines on white."""

MARKERS = "os^Dv"

DASHES: Sequence[Any] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----")

SMALL = 6  # line plots with more panels than this have small ones
DENSE = 25  # lines with more points than this have no markers
PIXEL, MAP_COLOURS = 8, "viridis"
"""Side in pixels of a value in a frequency map, and its colours, which grey printers and all eyes can order."""

LONGEST_TICK, LONGEST_TITLE = 12, 32
"""Maximum number of characters of a text of a tick, and of the title of an axis."""

BAR, BAR_GAP = 0.135, 0.7  # height of a bar in inches, and the space between two groups as a fraction of it


@dataclass(frozen=True)
class Room:
    """Size of a panel and its margins, in inches; ``labelled`` if its axes have titles of their own."""

    width: float
    height: float
    left: float
    right: float
    bottom: float
    top: float
    labelled: bool = True

    @property
    def inner(self) -> tuple[float, float]:
        """Width and height of the axes."""
        return self.width - self.left - self.right, self.height - self.bottom - self.top


def is_small(plot: Plot) -> bool:
    """Return whether the panels are small, so that the names of the axes are outside of them."""
    return plot.kind == "reliability" or (plot.kind == "lines" and len(plot.panels) > SMALL)


def index_of(name: str, models: Sequence[str]) -> int:
    """Return the position of a model, which decides its look."""
    return models.index(name) if name in models else 0


def by_name(panel: Panel) -> dict[str, dict[str, float]]:
    """Return the finite values of bars by name and model."""
    found: dict[str, dict[str, float]] = {str(each.x): {} for each in panel.points}
    for each in panel.known:
        found[str(each.x)][each.name] = each.y
    return {name: values for name, values in found.items() if values}


def _range(plot: Plot, coordinate: Literal["x", "y"]) -> tuple[float, float]:
    """Return the smallest and the largest value of all panels, with intervals."""
    known = [each for panel in plot.panels for each in panel.known]
    rows = ((each.y, each.low, each.high) if coordinate == "y" else (float(each.x),) for each in known)
    values = [value for value in chain.from_iterable(rows) if math.isfinite(value)]
    return min(values, default=0.0), max(values, default=1.0)


def _ticks(axis: Axis, low: float, high: float, count: int = 5) -> dict[float, str]:
    """Return positions and texts of the ticks of an axis between two values."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if axis.ticks is not None:
        texts = shortened(list(axis.ticks.values()), LONGEST_TICK)
        return {at: texts[text] for at, text in axis.ticks.items()}
    scale = axis.format.scale
    if axis.logarithmic:
        for subs in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
            marks = list(LogLocator(subs=subs).tick_values(low * scale, high * scale))
            inside = [each for each in marks if low * scale <= each <= high * scale]
            if len(inside) <= count:
                break
        if len(inside) > 1:
            return {each / scale: f"{each:g}" for each in inside}
    steps = MaxNLocator(count, steps=[1, 2, 5, 10]).tick_values(low * scale, high * scale)
    return {
        float(each) / scale: f"{round(float(each), 9) + 0:g}".replace("-", "\u2212")
        for each in steps
        if low * scale - 1e-9 <= each <= high * scale + 1e-9
    }


def _without_overlap(ticks: Mapping[float, str], unit: float) -> dict[float, str]:
    """Return the ticks whose texts do not overlap a text to the left. ``unit`` is what an inch of the axis shows."""
    room = unit * LETTER * (1 + max(map(len, ticks.values()), default=0))
    shown: dict[float, str] = {}
    for at, text in sorted(ticks.items()):
        if not shown or at - max(shown) >= room:
            shown[at] = text
    return shown


def draw(
    figure: Figure,
    room: Room,
    corner: tuple[float, float],
    plot: Plot,
    panel: Panel,
    models: Sequence[str],
    numbers: Mapping[str, int],
) -> None:
    """Draw a panel into a room of a figure whose lower left corner is given in inches."""
    width, height = figure.get_size_inches()
    x, y = (corner[0] + room.left) / width, (corner[1] + room.bottom) / height
    axes = figure.add_axes((x, y, room.inner[0] / width, room.inner[1] / height), facecolor="none")
    if plot.kind == "lines":
        _draw_lines(axes, room, plot, panel, models)
    elif plot.kind == "bars":
        _draw_bars(axes, room, plot, panel, models)
    elif plot.kind == "heat map":
        _draw_heat_map(axes, plot, panel)
    elif plot.kind == "frequency map":
        _draw_frequency_map(figure, axes, room, panel)
    elif plot.kind == "reliability":
        _draw_reliability(axes, plot, panel, models)
    else:
        _draw_scatter(axes, room, plot, panel, models, numbers)


def titled(axis: Axis) -> str:
    """Return the title of an axis: the name of its metric, and percent if they are its unit."""
    name = shortened([axis.name], LONGEST_TITLE)[axis.name]
    return f"{name} (%)" if axis.format.scale == PERCENT.scale else name


def _set_axis(axes: Axes, name: Literal["x", "y"], ticks: Mapping[float, str], title: Axis | None = None) -> None:
    from matplotlib.ticker import NullLocator

    axis = getattr(axes, f"{name}axis")
    axis.set_ticks(list(ticks), labels=list(ticks.values()))
    axis.set_minor_locator(NullLocator())
    if title and title.name:
        axis.set_label_text(titled(title))
        axis.labelpad = 2


def _draw_lines(axes: Axes, room: Room, plot: Plot, panel: Panel, models: Sequence[str]) -> None:
    low, high = _range(plot, "y")
    percent = panel.y.format == PERCENT
    low, high = (min(low, 0.0), max(high, 1.0)) if percent else (low, high)
    margin = 0.0 if percent else 0.05 * (high - low) or 0.05
    first, last = _range(plot, "x")
    axes.set_ylim(low - margin, high + margin)
    points = sorted({float(each.x) for panel in plot.panels for each in panel.points})
    if panel.x.logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(first / 1.1, last * 1.1)
    else:
        pad = 0.05 * (last - first) or 0.5
        axes.set_xlim(first - pad, last + pad)
    few = len(points) <= 10 and panel.x.ticks is None and not panel.x.logarithmic
    x_ticks = {at: panel.x.format.text(at) for at in points} if few else _ticks(panel.x, first, last)
    x_ticks = _without_overlap(x_ticks, 1.1 * (last - first) / room.inner[0]) if few else x_ticks
    _set_axis(axes, "x", x_ticks, panel.x if room.labelled else None)
    count = 5 if room.labelled else 3
    y_ticks = {step / 4: f"{25 * step}" for step in range(0, 5, 1 if room.labelled else 2)} if percent else None
    _set_axis(axes, "y", y_ticks or _ticks(panel.y, low, high, count), panel.y if room.labelled else None)
    axes.grid(axis="y")
    for name, line in panel.lines.items():
        slot = index_of(name, models)
        colour = COLOURS[slot % len(COLOURS)]
        x, y = [float(each.x) for each in line], [each.y for each in line]
        if any(math.isfinite(each.low) for each in line):
            ends = [each.low for each in line], [each.high for each in line]
            axes.fill_between(x, *ends, color=colour, alpha=0.18, linewidth=0)
        marks = [index for index, each in enumerate(line) if each.marked]
        axes.plot(
            x, y, color=colour, linestyle=DASHES[slot % len(DASHES)], marker=MARKERS[slot % len(MARKERS)],
            markevery=[] if len(marks) == len(line) > DENSE else marks, markeredgecolor=PAPER,
            markeredgewidth=0.5, markersize=4.6 if room.labelled else 3.6, clip_on=False,
        )  # fmt: skip


def _draw_bars(axes: Axes, room: Room, plot: Plot, panel: Panel, models: Sequence[str]) -> None:
    low, high = _range(plot, "y")
    low, high = min(low, 0.0), max(high, plot.limit or 0.0, 0.0)
    groups = by_name(panel)
    axes.set_xlim(low, high + 0.02 * (high - low or 1))
    _set_axis(axes, "x", _ticks(panel.y, low, high, 4), panel.y if room.labelled else None)
    places, at = {}, 0.0
    centres: dict[float, str] = {}
    for name, values in groups.items():
        for model in values:
            places[name, model] = at + 0.5
            at += 1
        centres[at - len(values) / 2] = label(shortened(list(groups), 2 * LONGEST_LABEL - 4)[name], LONGEST_LABEL)
        at += BAR_GAP
    axes.set_ylim(max(at - BAR_GAP, 1) + 0.3, -0.3)
    _set_axis(axes, "y", centres)
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
    axes.grid(axis="x")
    for model, bars in panel.lines.items():
        slot = index_of(model, models)
        rows, lengths = [places[str(each.x), model] for each in bars], [each.y for each in bars]
        axes.barh(
            rows, lengths, 0.8, color=COLOURS[slot % len(COLOURS)], hatch=HATCHES[slot % len(HATCHES)],
            edgecolor=PAPER, linewidth=0,
        )  # fmt: skip
        ends = [(row, each.low, each.high) for row, each in zip(rows, bars, strict=True) if math.isfinite(each.low)]
        across, lows, highs = ([each[at] for each in ends] for at in range(3))
        axes.hlines(across, lows, highs, color=INK, linewidth=0.8)
        axes.plot([*lows, *highs], [*across, *across], "|", color=INK, markersize=3.5, markeredgewidth=0.8)
        for row, length in zip(rows, lengths, strict=True):
            axes.text(
                1.01, row, panel.y.format.text(length), transform=axes.get_yaxis_transform(), va="center_baseline"
            )
    if plot.limit is not None:
        axes.axvline(plot.limit, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))


def _draw_heat_map(axes: Axes, plot: Plot, panel: Panel) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    columns, rows, best = _columns(plot), _rows(plot), _best(plot, panel)
    largest = max((abs(_best(plot, each) - of.y) for each in plot.panels for of in each.known), default=0) or 1
    axes.set_xlim(0, max(len(columns), 1))
    axes.set_ylim(max(len(rows), 1), 0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.xaxis.tick_top()
    names, many = shortened(columns, LONGEST_LABEL), _is_slanted(plot)
    above = (names[name] if many else label(names[name], 8, 3) for name in columns)
    _set_axis(axes, "x", {index + 0.5: text for index, text in enumerate(above)})
    names = shortened(rows, LONGEST_LABEL)
    _set_axis(axes, "y", {index + 0.5: names[name] for index, name in enumerate(rows)})
    axes.tick_params(length=0, pad=2)
    if many:
        for text in axes.get_xticklabels():
            text.set(rotation=55, ha="left", va="bottom", rotation_mode="anchor")
    values = {(str(each.x), each.name): each.y for each in panel.known}
    for (x, column), (y, row) in product(enumerate(columns), enumerate(rows)):
        value = values.get((column, row))
        if value is None:
            edge: dict[str, Any] = {"facecolor": "none", "edgecolor": SOFT, "linestyle": (0, (2, 2)), "linewidth": 0.5}
            axes.add_artist(Rectangle((x + 0.05, y + 0.08), 0.9, 0.84, **edge))
            continue
        strength = abs(best - value) / largest if plot.strong == "low" else min(max(value / largest, 0), 1)
        axes.add_artist(Rectangle((x, y), 1, 1, facecolor=to_rgba(HEAT, 0.04 + 0.66 * strength), linewidth=0))
        axes.text(x + 0.5, y + 0.5, panel.y.format.text(value), ha="center", va="center")


def _draw_frequency_map(figure: Figure, axes: Axes, room: Room, panel: Panel) -> None:
    """Draw values 0..1 by frequency, one pixel each, with frequency 0 in the middle and the scale beside."""
    import numpy as np

    down, across = (
        [*dict.fromkeys(axis)] for axis in zip(*((int(p.name), float(p.x)) for p in panel.points), strict=True)
    )
    step = across[1] - across[0] if len(across) > 1 else 1.0
    edges = (across[0] - step / 2, across[-1] + step / 2, down[-1] + step / 2, down[0] - step / 2)
    # viewers of SVG and PDF smooth single pixels
    pixels = np.kron(np.array([each.y for each in panel.points]).reshape(len(down), -1), np.ones((PIXEL, PIXEL)))
    shown = axes.imshow(pixels, cmap=MAP_COLOURS, vmin=0, vmax=1, extent=edges, interpolation="none", aspect="auto")
    for name, axis in (("x", panel.x), ("y", Axis("cycles per image down", COUNT))):
        low, high = (across[0], across[-1]) if name == "x" else (down[0], down[-1])
        _set_axis(axes, name, _ticks(axis, low, high, 6), axis)  # type: ignore[arg-type]
    width, height = figure.get_size_inches()
    box = axes.get_position()
    figure.text(box.x0, box.y0 - (room.bottom - 0.3 * TEXT_LINE) / height, panel.note, va="bottom")
    bar = figure.add_axes((box.x1 + 0.08 / width, box.y0, 0.1 / width, box.height))
    figure.colorbar(shown, cax=bar)
    bar.tick_params(pad=2)
    _set_axis(bar, "y", {step / 4: f"{25 * step}" for step in range(5)}, panel.y)


def _draw_reliability(axes: Axes, plot: Plot, panel: Panel, models: Sequence[str]) -> None:
    colour = COLOURS[index_of(panel.title, models) % len(COLOURS)]
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    for name in ("x", "y"):
        _set_axis(axes, name, {0.0: "0", 0.5: "50", 1.0: "100"})
    axes.grid()
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    levels = _rows(plot)
    for name, line in panel.lines.items():
        opacity = opacity_of(levels.index(name), len(levels))
        x, y = [float(each.x) for each in line], [each.y for each in line]
        axes.plot(x, y, color=colour, alpha=opacity, linewidth=1)
        areas = [max(60 * each.size, 2) for each in line]
        axes.scatter(x, y, areas, color=colour, alpha=opacity, linewidth=0, clip_on=False)


def _draw_scatter(
    axes: Axes, room: Room, plot: Plot, panel: Panel, models: Sequence[str], numbers: Mapping[str, int]
) -> None:
    for name, axis, (low, high) in zip(("x", "y"), (panel.x, panel.y), limits(panel), strict=True):
        if axis.logarithmic:
            getattr(axes, f"set_{name}scale")("log")
        getattr(axes, f"set_{name}lim")(low, high)
        _set_axis(axes, name, _ticks(axis, low, high), axis)  # type: ignore[arg-type]
    axes.grid()
    for each, (text, found) in zip(panel.known, places(panel, room.inner, numbers), strict=True):
        x, y, slot, place = float(each.x), each.y, index_of(each.name, models), found or NEAR[0]
        colour, marker = COLOURS[slot % len(COLOURS)], MARKERS[slot % len(MARKERS)]
        if each.published:
            axes.plot(x, y, "o", markersize=5.5, markeredgewidth=0.9, color=PAPER, markeredgecolor=SOFT)
        else:
            axes.plot(x, y, marker, markersize=5.5, markeredgewidth=0.5, color=colour, markeredgecolor=PAPER)
        leader = {"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            text, (x, y), place[:2], textcoords="offset points", ha=place[2], va="center", annotation_clip=False,
            arrowprops=leader if math.hypot(*place[:2]) > 1.8 * GAP else None,
        )  # fmt: skip


def room_of(plot: Plot, panel: Panel, width: float) -> Room:
    """Return the room of a panel of a width in inches."""
    title = 2.6 * TEXT_LINE
    if is_small(plot):
        height = 0.72 * width if plot.kind == "lines" else width
        return Room(width, height, 0.3, 0.13, 0.2, 0.08, labelled=False)
    if plot.kind == "bars":
        bars = sum(len(values) for values in by_name(panel).values())
        tall = max(bars + BAR_GAP * (len(by_name(panel)) - 1), 1) + 0.6
        names = chain.from_iterable(map(by_name, plot.panels))
        left = 0.1 + LETTER * min(LONGEST_LABEL, max(map(len, names), default=1))
        return Room(width, tall * BAR + 0.08 + title, left, 0.4, title, 0.08)
    if plot.kind == "heat map":
        columns, rows = _columns(plot), _rows(plot)
        above = max(label(name, 8, 3).count("\n") + 1.3 for name in [*columns, ""]) * TEXT_LINE
        if _is_slanted(plot):
            above = LETTER * 0.85 * min(max(map(len, columns)), LONGEST_LABEL) + 0.1
        left = 0.1 + LETTER * min(LONGEST_LABEL, max(map(len, rows), default=1))
        width = max(width, left + 0.32 * len(columns) + 0.05)
        right = min(0.6 * above, 0.5) if _is_slanted(plot) else 0.05
        return Room(width, 0.27 * len(rows) + above + 0.04, left, right, 0.04, above)
    if plot.kind == "frequency map":
        left, right = 0.5, 0.62
        bottom = title + TEXT_LINE
        return Room(width, width - left - right + bottom + 0.08, left, right, bottom, 0.08)
    if plot.kind == "scatter":
        return Room(width, width * 0.8, 0.5, 0.12, title, 0.1)
    return Room(width, 0.72 * width, 0.5, 0.1, title, 0.08)


def _columns(plot: Plot) -> list[str]:
    return list(dict.fromkeys(str(each.x) for panel in plot.panels for each in panel.points))


def _rows(plot: Plot) -> list[str]:
    return list(dict.fromkeys(each.name for panel in plot.panels for each in panel.points))


def _best(plot: Plot, panel: Panel) -> float:
    """Return the value of a heat map's palest cell."""
    return max((each.y for each in panel.known), default=0.0) if plot.strong == "low" else 0.0


def _is_slanted(plot: Plot) -> bool:
    """Return whether the names of a heat map's columns are too long for lines of their own."""
    return len(_columns(plot)) > 4


def opacity_of(index: int, count: int) -> float:
    """Return the opacity of one of several levels, of which the last is the strongest."""
    return 1 - 0.7 * (count - 1 - index) / max(count - 1, 1)
