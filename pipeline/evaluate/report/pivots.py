"""Measures as tables and plots: cells with their marks, and pivots."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from pipeline.evaluate.report.labels import words
from pipeline.evaluate.report.load import LOSSY
from pipeline.evaluate.report.measures import Found, Key, Measure, Metric, Pivot, Results, Section, TransformNames
from pipeline.evaluate.report.views import (
    COUNT,
    EXTRA,
    LOSSY_CLEAN,
    PARTIAL,
    Axis,
    Cell,
    Column,
    Number,
    Panel,
    Plot,
    PlotKind,
    Point,
    Table,
)
from pipeline.text import printable

EXTRA_GROUP = "not in the benchmark"  # title of the plot of transforms that are not in the benchmark
MISSING, UNKNOWN = Number(math.nan), Measure("", math.nan)


# Cells and their notes


def cell(
    results: Results, metric: Metric, measure: Measure | None, *, short: bool = False, best: bool = False
) -> Number:
    """Return the cell of a measure, with marks; a missing one for None."""
    if measure is None:
        return replace(MISSING, format=metric.format)
    lossy = metric.of_clean and results.clean_images.endswith(LOSSY)
    return Number(
        measure.value,
        measure.low,
        measure.high,
        metric.format,
        short=short,
        partial=bool(measure.covers),
        lossy=lossy,
        best=best,
    )


def cells_of(section: Section, keys: Iterable[Key], *, short: bool) -> list[Number]:
    """Return the cells of measures; nothing if there is none of them."""
    cells = [
        cell(section.models[key[0]], section.report.metric(key[3]), section.found.get(key), short=short) for key in keys
    ]
    return cells if any(each.exists for each in cells) else []


def _part_notes(section: Section, metrics: Sequence[str]) -> Iterator[str]:
    """Yield a note on the metrics that cover only part of the benchmark, with the models that they are of."""
    parts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for model, each in section.models.items():
        marked: dict[str, dict[str, None]] = {}
        for measure in each.measures:
            if measure.covers and not measure.transform and measure.metric in metrics:
                marked.setdefault(measure.covers, {})[measure.metric] = None
        for covers, of_part in marked.items():
            parts.setdefault((covers, tuple(of_part)), []).append(model)
    for (covers, names), models in parts.items():
        yield f"{PARTIAL} {', '.join(models)}: {', '.join(names)} averaged over {covers}."


def notes(section: Section, metrics: Sequence[Metric], rows: Sequence[Sequence[Cell]], *texts: str) -> str:
    """Return the note of a table: texts, and the explanations of all marks in its rows."""
    extra = any(str(row[0]).endswith(f" {EXTRA}") for row in rows)
    numbers = [each for row in rows for each in row if isinstance(each, Number)]
    parts = _part_notes(section, [metric.name for metric in metrics]) if any(each.partial for each in numbers) else ()
    any_lossy = any(each.lossy for each in numbers)
    encoders = ((model, each.clean_images) for model, each in section.models.items())
    lossy = "; ".join(f"{model}: {encoder}" for model, encoder in encoders if encoder.endswith(LOSSY))
    explanations = (
        f"{EXTRA} not in the benchmark, so not included in means." if extra else "",
        *parts,
        f"{LOSSY_CLEAN} depends on clean images that were compressed again: {lossy}." if any_lossy else "",
    )
    return " ".join(filter(None, (*texts, *explanations)))


# Pivots


def pivot_tables(section: Section, pivot: Pivot) -> Iterator[Table]:
    """Yield the tables of a pivot: one, or one for each group of transforms."""
    if pivot.unless and all(any(m.metric == pivot.unless for m in each.measures) for each in section.models.values()):
        return
    of_levels, report = pivot.rows == "level", section.report
    head = pivot.head or ((report.level,) if of_levels else (report.transform,))
    pivot = replace(pivot, head=head, axis=pivot.axis or (head[0] if of_levels else report.level))
    names = transforms_of(section)
    if "{group}" not in pivot.title:
        yield _pivot_table(section, pivot, names)
        return
    for group in dict.fromkeys(each.group for each in names.values()):
        named = replace(pivot, title=pivot.title.format(group=group), head=[group])
        yield _pivot_table(section, named, {name: each for name, each in names.items() if each.group == group})


def transforms_of(section: Section) -> dict[str, TransformNames]:
    """Return how each transform is shown; transforms of the benchmark come first."""
    found: dict[str, TransformNames] = {}
    for each in section.models.values():
        for name, names in each.transforms.items():
            found.setdefault(name, names)
    return dict(sorted(found.items(), key=lambda each: not each[1].benchmark))


def marked(name: str, names: Mapping[str, TransformNames]) -> list[str]:
    """Return the cells that name a transform, with a mark if it is not in a benchmark that others are in."""
    extra = not names[name].benchmark and any(each.benchmark for each in names.values())
    labels = names[name].labels or (name,)
    return [printable(label) + (f" {EXTRA}" if extra else "") for label in labels]


def _pivot_table(section: Section, pivot: Pivot, names: Mapping[str, TransformNames]) -> Table:
    """Return the table of the measures of some transforms, or of levels."""
    of_data_set = pivot.rows == "level"
    found = {
        key: each
        for key, each in section.found.items()
        if each.metric in pivot.metrics and (each.transform in names or (of_data_set and not each.transform))
        if not (of_data_set and each.level is None)
    }
    if pivot.rows == "transform" and pivot.columns == "model":
        found = {key: each for key, each in found.items() if each.level is None}
    metrics = [
        metric for metric in map(section.report.metric, pivot.metrics) if any(key[3] == metric.name for key in found)
    ]
    levels = sorted({key[2] for key in found if key[2] is not None})
    by_model = pivot.rows.endswith("model")
    columns = _columns(section, pivot, metrics, levels)
    rows: list[Sequence[Cell]] = []
    for labels, transform, level in _row_keys(section, pivot, names, found, levels):
        for models in [[model] for model in section.models] if by_model else [list(section.models)]:
            keys = [
                (model, transform, at if pivot.columns == "level" else level, metric.name)
                for model in models
                for metric in metrics
                for at in ([*levels, None] if pivot.columns == "level" else [None])
            ]
            short = len(columns) > len(section.models) or by_model
            if cells := cells_of(section, keys, short=short):
                rows.append([*labels, *(models if by_model else ()), *cells])
    head = [Column(title, number=False) for title in (*pivot.head, *(("model",) if by_model else ()))]
    note = notes(section, metrics, rows, pivot.note)
    plot = pivot.plot(section) if callable(pivot.plot) else _plot(section, pivot, names, found)
    return Table(section.title, pivot.title, note, [*head, *columns], rows, plot)


def _columns(section: Section, pivot: Pivot, metrics: Sequence[Metric], levels: Sequence[int]) -> list[Column]:
    """Return the columns of numbers."""
    if pivot.columns == "level":
        return [*(Column(f"{pivot.level}{level}") for level in levels), Column("mean")]
    if pivot.columns == "metric":
        return [Column(metric.name) for metric in metrics]
    if len(metrics) == 1:
        return [Column(model) for model in section.models]
    return [Column(metric.name, model) for model in section.models for metric in metrics]


def _row_keys(
    section: Section, pivot: Pivot, names: Mapping[str, TransformNames], found: Found, levels: Sequence[int]
) -> Iterator[tuple[Sequence[str], str, int | None]]:
    """Yield label cells, transform and level of the rows."""
    if pivot.rows == "level":
        yield from (([str(level)], "", level) for level in levels)
        return
    for name in names:
        if not pivot.rows.startswith("condition"):
            yield marked(name, names), name, None
            continue
        of_name = {key[2] for key in found if key[1] == name}
        for level in sorted(of_name, key=lambda level: level or 0):
            labels = {each.condition(name, level) for each in section.models.values() if name in each.transforms}
            mark = "".join(marked(name, names)).removeprefix(printable(name))
            yield [", ".join(sorted(map(printable, labels))) + mark], name, level


# Plots


def _plot(section: Section, pivot: Pivot, names: Mapping[str, TransformNames], found: Found) -> Plot | None:
    """Return the plot of a pivot; None if there is nothing to draw."""
    if not found or not pivot.plot:
        return None
    metric = section.report.metric(pivot.metrics[0])
    of_metric = {key[:3]: each for key, each in found.items() if key[3] == metric.name}
    levels = sorted({key[2] for key in of_metric if key[2] is not None})
    ticks = {float(level): str(level) for level in pivot.ticks} or None
    kind: PlotKind = "heat map" if pivot.plot == "heat map" else "bars"
    if pivot.plot == "lines" or (pivot.plot == "small lines" and (ticks or len(levels) > 1)):
        kind = "lines"
    shown = (
        {"": pivot.title} if pivot.plot == "lines" else {name: words(" ".join(marked(name, names))) for name in names}
    )
    titles = shown if kind == "lines" else {}
    panels: dict[str, list[Point]] = {name: [] for name in titles}
    known = {key[1] for key in of_metric if key[2] is None}
    at: float | str
    for model, name, level in product(section.models, shown, levels if kind == "lines" else [None]):
        each = of_metric.get((model, name, level), UNKNOWN)
        if level is not None:
            drawn, panel, of, at = each is not UNKNOWN, name, model, float(level)
        elif kind == "heat map":
            drawn, panel, of, at = True, model, names[name].labels[1], names[name].labels[0]
        else:
            group = printable(names[name].group) if names[name].benchmark else EXTRA_GROUP
            drawn, panel, of, at = name in known, group, model, words(printable(name))
        if drawn:
            panels.setdefault(panel, []).append(Point(of, at, each.value, each.low, each.high))
    x = Axis(pivot.axis, COUNT, ticks=ticks) if kind == "lines" else Axis(pivot.head[0], COUNT)
    y = Axis(metric.name, metric.format)
    filled = [
        Panel(titles.get(name, name), points, _axis_of(x, name, names) if kind == "lines" else x, y)
        for name, points in panels.items()
        if any(not math.isnan(each.y) for each in points)
    ]
    baselines = dict.fromkeys(printable(each.baseline) for each in section.models.values() if each.baseline)
    limit = 1.0 if kind == "bars" and metric.normalised else None
    return Plot(kind, filled, limit, f"baseline: {', '.join(baselines)}" if limit else "") if filled else None


def _axis_of(x: Axis, name: str, names: Mapping[str, TransformNames]) -> Axis:
    """Return an axis of levels with what the names of a transform at its levels add to its own name."""
    levels = names[name].levels if name in names else {}
    texts = {float(level): text.removeprefix(f"{name} at ") for level, text in levels.items()}
    return replace(x, ticks=texts) if texts else x


def bars_of_models(sections: Iterable[Section], metric: str) -> Plot | None:
    """Return the plot of a metric of whole data sets, one panel for each; None if no model has it."""
    panels, normalised = [], False
    for section in sections:
        found = section.report.metric(metric)
        measures = {model: measure for model, each in section.models.items() if (measure := each.whole(metric))}
        points = [Point(model, metric, each.value, each.low, each.high) for model, each in measures.items()]
        if points:
            panels.append(Panel(section.title, points, Axis(""), Axis(metric, found.format)))
            normalised |= found.normalised
    return Plot("bars", panels, 1.0 if normalised else None, "baseline") if panels else None
