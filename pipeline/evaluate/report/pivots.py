"""Measures as tables and plots: key figures, pivots, calibration, and published figures of one data set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pipeline.evaluate.report.across import MARK, PublishedFigure, comparable_models, difference
from pipeline.evaluate.report.calibration import ADAPTIVE_ECE, BRIER, ECE, NLL, RELIABILITY
from pipeline.evaluate.report.labels import words
from pipeline.evaluate.report.load import LOSSY
from pipeline.evaluate.report.measures import (
    FEW_IMAGES,
    Measure,
    Metric,
    Pivot,
    Results,
    Section,
    TransformNames,
)
from pipeline.evaluate.report.views import (
    COUNT,
    EXTRA,
    LOSSY_CLEAN,
    PARTIAL,
    PERCENT,
    Axis,
    Cell,
    Column,
    Number,
    Panel,
    Plot,
    PlotKind,
    Series,
    Table,
)
from pipeline.text import printable

EXTRA_GROUP = "not in the benchmark"
"""Title of the plot of transforms that are not in the benchmark."""

MISSING = Number(math.nan)


def sections_of(results: Iterable[Results]) -> list[Section]:
    """Return the sections of results that are sorted by report; a repeated model name gets a number."""
    sections = []
    for report, group in groupby(results, key=lambda each: each.report):
        titles: dict[str, dict[str, Results]] = {}
        for each in group:
            models = titles.setdefault(printable(each.section), {})
            name = printable(each.model)
            earlier = sum(printable(other.model) == name for other in models.values())
            models[f"{name} ({earlier + 1})" if earlier else name] = each
        sections += [Section(title, report, models) for title, models in titles.items()]
    return sections


def tables_of(section: Section, published: Iterable[PublishedFigure]) -> list[Table]:
    """Return the tables of a data set that have rows."""
    tables = [
        _key_figures(section),
        *(table for pivot in section.report.tables for table in _pivot_tables(section, pivot)),
        *section.report.more(section),
        *_calibration_table(section),
        *_published_tables(section, [each for each in published if _is_here(section, each)]),
    ]
    caption = _caption(section)
    return [replace(table, caption=table.caption or caption) for table in tables if table.rows]


def _caption(section: Section) -> str:
    """Return what the values of a section were measured on."""
    counts = {next(iter(each.counts.items()), ("images", (0, 0))) for each in section.models.values()}
    shown = sorted({f"{number:,} {name}" for name, (number, _) in counts if number})
    return f"{section.title}, {' or '.join(shown)}" if shown else section.title


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


def lossy_note(section: Section) -> str:
    """Return the explanation of the mark of numbers that depend on lossy clean images; empty if there are none."""
    encoders = {model: each.clean_images for model, each in section.models.items()}
    lossy = "; ".join(f"{model}: {encoder}" for model, encoder in encoders.items() if encoder.endswith(LOSSY))
    return lossy and f"{LOSSY_CLEAN} depends on clean images that were compressed again: {lossy}."


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


def _notes(section: Section, note: str, metrics: Sequence[Metric], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a note with the explanations of all marks in a table."""
    extra = any(str(row[0]).endswith(f" {EXTRA}") for row in rows)
    numbers = [each for row in rows for each in row if isinstance(each, Number)]
    parts = _part_notes(section, [metric.name for metric in metrics]) if any(each.partial for each in numbers) else ()
    notes = (
        note,
        f"{EXTRA} not in the benchmark, so not included in means." if extra else "",
        *parts,
        lossy_note(section) if any(each.lossy for each in numbers) else "",
    )
    return " ".join(filter(None, notes))


# Key figures


def _key_figures(section: Section) -> Table:
    """Return the table of all metrics of the data set: metrics as rows, models as columns."""
    report, models = section.report, section.models
    rows: list[Sequence[Cell]] = []
    shown: list[Metric] = []
    for metric in report.metrics:
        measures = {model: each.whole(metric.name) for model, each in models.items()}
        if metric.key and any(measures.values()):
            shown.append(metric)
            best = best_model(section, metric)
            cells = (cell(models[model], metric, each, best=model == best) for model, each in measures.items())
            rows.append([metric.name, *cells])
    numbers = rows[:]
    normalised = report.normalised_note and any(metric.normalised for metric in report.metrics)
    if normalised:
        rows.append(["baseline", *(printable(each.baseline) if each.baseline else "none" for each in models.values())])
    if any(each.clean_images for each in models.values()):
        rows.append(["clean images", *(each.clean_images or "none" for each in models.values())])
    for name in dict.fromkeys(name for each in models.values() for name in each.counts):
        counts = ((each.counts.get(name), each) for each in models.values())
        rows.append(
            [name, *(Number(found[0], format=COUNT, total=found[1]) if found else MISSING for found, _ in counts)]
        )
    without = "No baseline: the metrics are not normalised." if normalised else ""
    baseline = report.normalised_note if any(each.baseline for each in models.values()) else without
    few = any(0 < each.images < FEW_IMAGES for each in models.values())
    note = " ".join(
        filter(
            None,
            (
                report.note,
                baseline,
                f"Intervals from fewer than {FEW_IMAGES} images are not reliable." if few else "",
                _images_note(section),
            ),
        )
    )
    columns = [Column("metric", number=False), *(Column(model) for model in models)]
    return Table(section.title, "key figures", _notes(section, note, shown, numbers), columns, rows)


def best_model(section: Section, metric: Metric) -> str:
    """Return the model that is better than every other one by more than chance explains; empty if there is none."""
    models = comparable_models(section, metric) if metric.better else []
    measures = {model: section.models[model].whole(metric.name) for model in models}
    known = {model: each for model, each in measures.items() if each}
    best = max(known, key=lambda model: metric.better * known[model].value, default="")
    others = [each for model, each in known.items() if model != best]
    for other in others:
        found = difference(known[best], other)
        if found is None or metric.better * (found.low if metric.better > 0 else found.high) <= 0:
            return ""
    return best if others else ""


def _images_note(section: Section) -> str:
    """Return a note if the models were evaluated on different images or builds; empty otherwise."""
    models = section.models
    if len({each.source_ids_sha256 for each in models.values()}) > 1:
        counts = (f"{model} {each.images:,}" for model, each in models.items())
        return f"Not comparable: the models were not evaluated on the same images ({', '.join(counts)})."
    if len({each.manifest_sha256 for each in models.values()}) > 1:
        return "The models were evaluated on images with the same names, but the manifests of the data sets differ."
    return ""


# Pivots

Found = Mapping[tuple[str, str, int | None, str], Measure]
"""Measures by model, transform, level and metric."""


def _pivot_tables(section: Section, pivot: Pivot) -> Iterator[Table]:
    """Yield the tables of a pivot: one, or one for each group of transforms."""
    if pivot.unless and all(any(m.metric == pivot.unless for m in each.measures) for each in section.models.values()):
        return
    names = _transforms(section)
    if "{group}" not in pivot.title:
        yield _pivot_table(section, pivot, names)
        return
    for group in dict.fromkeys(each.group for each in names.values()):
        named = replace(pivot, title=pivot.title.format(group=group), head=[group])
        yield _pivot_table(section, named, {name: each for name, each in names.items() if each.group == group})


def _transforms(section: Section) -> dict[str, TransformNames]:
    """Return how each transform is shown; transforms of the benchmark come first."""
    found: dict[str, TransformNames] = {}
    for each in section.models.values():
        for name, names in each.transforms.items():
            found.setdefault(name, names)
    return dict(sorted(found.items(), key=lambda each: not each[1].benchmark))


def _marked(name: str, names: Mapping[str, TransformNames]) -> list[str]:
    """Return the cells that name a transform, with a mark if it is not in a benchmark that others are in."""
    extra = not names[name].benchmark and any(each.benchmark for each in names.values())
    labels = names[name].labels or (name,)
    return [printable(label) + (f" {EXTRA}" if extra else "") for label in labels]


def _pivot_table(section: Section, pivot: Pivot, names: Mapping[str, TransformNames]) -> Table:
    """Return the table of the measures of some transforms, or of levels."""
    of_data_set = pivot.rows == "level"
    found = {
        (model, each.transform, each.level, each.metric): each
        for model, results in section.models.items()
        for each in results.measures
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
            measures = [(key[0], section.report.metric(key[3]), found.get(key)) for key in keys]
            if any(each for _, _, each in measures):
                short = len(columns) > len(section.models) or by_model
                cells = [cell(section.models[model], metric, each, short=short) for model, metric, each in measures]
                rows.append([*labels, *(models if by_model else ()), *cells])
    head = [Column(title, number=False) for title in (*pivot.head, *(("model",) if by_model else ()))]
    note = _notes(section, pivot.note, metrics, rows)
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
            yield _marked(name, names), name, None
            continue
        of_name = {key[2] for key in found if key[1] == name}
        for level in sorted(of_name, key=lambda level: level or 0):
            labels = {each.condition(name, level) for each in section.models.values() if name in each.transforms}
            marked = "".join(_marked(name, names)).removeprefix(printable(name))
            yield [", ".join(sorted(map(printable, labels))) + marked], name, level


# Plots


def _plot(section: Section, pivot: Pivot, names: Mapping[str, TransformNames], found: Found) -> Plot | None:
    """Return the plot of a pivot; None if there is nothing to draw."""
    if not found or not pivot.plot:
        return None
    metric = section.report.metric(pivot.metrics[0])
    of_metric = {key[:3]: each for key, each in found.items() if key[3] == metric.name}
    y = Axis(metric.name, metric.format)
    ticks = {float(level): str(level) for level in pivot.ticks} or None
    panels: list[Panel] = []
    kind: PlotKind = "lines"
    if pivot.plot == "lines":
        panels = [Panel(pivot.title, _curves(section, "", of_metric), Axis(pivot.axis, COUNT, ticks=ticks), y)]
    elif pivot.plot == "small lines" and (ticks or len({key[2] for key in of_metric if key[2] is not None}) > 1):
        panels = [
            Panel(
                words(" ".join(_marked(name, names))),
                _curves(section, name, of_metric),
                Axis(pivot.axis, COUNT, ticks=ticks),
                y,
            )
            for name in names
        ]
    elif pivot.plot == "heat map":
        kind = "heat map"
        columns, lines = ({names[name].labels[axis]: None for name in names} for axis in (0, 1))
        by_labels = {names[name].labels: name for name in names}
        panels = [
            Panel(
                model,
                [
                    Series(
                        line,
                        list(columns),
                        [_value(of_metric, model, by_labels.get((column, line))) for column in columns],
                    )
                    for line in lines
                ],
                Axis(pivot.head[0]),
                Axis(pivot.head[1], metric.format),
            )
            for model in section.models
        ]
    else:
        kind = "bars"
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(printable(names[name].group) if names[name].benchmark else EXTRA_GROUP, []).append(name)
        panels = [
            Panel(group, _bars(section, members, of_metric), Axis(pivot.head[0]), y)
            for group, members in groups.items()
        ]
    panels = [panel for panel in panels if any(not math.isnan(y) for each in panel.series for y in each.y)]
    baselines = dict.fromkeys(printable(each.baseline) for each in section.models.values() if each.baseline)
    limit = 1.0 if kind == "bars" and metric.normalised else None
    return Plot(kind, panels, limit, f"baseline: {', '.join(baselines)}" if limit else "") if panels else None


def bars_of_models(sections: Iterable[Section], metric: str) -> Plot | None:
    """Return the plot of a metric of whole data sets, one panel for each; None if no model has it."""
    panels, normalised = [], False
    for section in sections:
        found = section.report.metric(metric)
        measures = {model: measure for model, each in section.models.items() if (measure := each.whole(metric))}
        series = [Series(model, [metric], [each.value], [each.low], [each.high]) for model, each in measures.items()]
        if series:
            panels.append(Panel(section.title, series, Axis(""), Axis(metric, found.format)))
            normalised |= found.normalised
    return Plot("bars", panels, 1.0 if normalised else None, "baseline") if panels else None


def _curves(section: Section, transform: str, found: Mapping[tuple[str, str, int | None], Measure]) -> list[Series]:
    """Return the values of a transform by level, one curve per model that has some."""
    curves = []
    for model in section.models:
        points = sorted(
            (key[2], each) for key, each in found.items() if key[:2] == (model, transform) and key[2] is not None
        )
        if points:
            levels, measures = zip(*points, strict=True)
            low, high = [m.low for m in measures], [m.high for m in measures]
            curves.append(Series(model, [float(each) for each in levels], [m.value for m in measures], low, high))
    return curves


def _bars(
    section: Section, members: Sequence[str], found: Mapping[tuple[str, str, int | None], Measure]
) -> list[Series]:
    """Return the values of some transforms, one series per model."""
    known = [name for name in members if any((model, name, None) in found for model in section.models)]
    missing = Measure("", math.nan)
    series = []
    for model in section.models:
        measures = [found.get((model, name, None), missing) for name in known]
        low, high = [m.low for m in measures], [m.high for m in measures]
        series.append(Series(model, [words(printable(name)) for name in known], [m.value for m in measures], low, high))
    return series


def _value(found: Mapping[tuple[str, str, int | None], Measure], model: str, transform: str | None) -> float:
    measure = found.get((model, transform or "", None))
    return measure.value if measure else math.nan


# Calibration

CALIBRATION_NOTE = (
    "ECE in percent, in bins of equal width or (adaptive) of equal mass; NLL in nats. Lower is better. ± is half the "
    "width of the 95 % confidence interval; ECE has none, because it is larger in bootstrap samples than in the images."
)


def _calibration_table(section: Section) -> Iterator[Table]:
    """Yield the calibration table of a data set with reliability diagrams; nothing if no model has a calibration."""
    if section.report.calibrated is None or not section.has(ECE.name):
        return
    what, axis = section.report.calibrated
    found = {
        (model, each.transform, each.level, each.metric): each
        for model, results in section.models.items()
        for each in results.measures
    }
    calibrated = [model for model in section.models if (model, "", None, ECE.name) in found]
    levels = sorted({key[2] for key in found if key[3] == ECE.name and not key[1] and key[2] is not None})
    shown = levels if len(levels) > 1 else []
    names = _transforms(section) if any(key[1] and key[3] == ECE.name for key in found) else {}
    rows: list[Sequence[Cell]] = []
    for transform in ("", *names):
        for model in calibrated:
            keys = [
                *((level, ECE.name) for level in shown),
                *((None, each.name) for each in (ECE, ADAPTIVE_ECE, NLL, BRIER)),
            ]
            measures = [
                (section.report.metric(name), found.get((model, transform, level, name))) for level, name in keys
            ]
            if any(each for _, each in measures):
                label = [" ".join(_marked(transform, names)) if transform else "mean"] if names else []
                cells = (cell(section.models[model], metric, each, short=True) for metric, each in measures)
                rows.append([*label, model, *cells])
    columns = [Column(what, number=False)] * bool(names) + [Column("model", number=False)]
    columns += [Column(title, "ECE") for title in (*map(str, shown), "mean", "adaptive")] if shown else []
    columns += [Column(each.name) for each in ((NLL, BRIER) if shown else (ECE, ADAPTIVE_ECE, NLL, BRIER))]
    note = _notes(section, CALIBRATION_NOTE, [section.report.metric(ECE.name)], rows)
    panels = [
        Panel(
            model,
            [
                _reliability(f"{axis} {level}" if len(bins) > 1 else "", at)
                for bins in [section.models[model].details[RELIABILITY]]
                for level, at in bins.items()
            ],
            Axis("confidence"),
            Axis("accuracy"),
        )
        for model in calibrated
    ]
    yield Table(section.title, "calibration", note, columns, rows, Plot("reliability", panels))


def _reliability(name: str, bins: Sequence[Mapping[str, float]]) -> Series:
    """Return the curve of a reliability diagram."""
    most = max((each["images"] for each in bins), default=1)
    return Series(
        name,
        [each["confidence"] for each in bins],
        [each["accuracy"] for each in bins],
        sizes=[each["images"] / most for each in bins],
    )


# Published figures

PUBLISHED_NOTE = (
    f"Models marked {MARK} were not evaluated here: their figures are those that the papers print. They are "
    "not ranked, and nothing is normalised by them."
)


def _is_here(section: Section, figure: PublishedFigure) -> bool:
    return (figure.family, figure.section) == (section.report.key, section.title)


def _published_tables(section: Section, figures: Sequence[PublishedFigure]) -> Iterator[Table]:
    """Yield tables that compare the models of a section with published ones: of the whole data set, by transform."""
    published: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for each in figures:
        published.setdefault((each.model, each.source), {})[each.transform, each.metric] = each.value
    names = {(each.transform, each.metric) for each in figures}
    whole = [metric for metric in section.report.metrics if ("", metric.name) in names]
    if whole:
        yield _published_models(section, whole, published)
    for metric in section.report.metrics:
        if any(transform and name == metric.name for transform, name in names):
            yield _published_transforms(section, metric, published)


def _published_note(metrics: Sequence[Metric]) -> str:
    """Return the explanation of a table, which begins with the unit of its figures."""
    unit = "Percent." if all(metric.format == PERCENT for metric in metrics) else "In the units of the key figures."
    return f"{unit} {PUBLISHED_NOTE}"


Published = Mapping[tuple[str, str], Mapping[tuple[str, str], float]]
"""Figures by transform and name, of each model and source."""


def _published_models(section: Section, metrics: Sequence[Metric], published: Published) -> Table:
    """Return the table of figures of the whole data set: models as rows."""
    rows: list[Sequence[Cell]] = [
        [model, *(cell(each, metric, each.whole(metric.name), short=True) for metric in metrics), "evaluated"]
        for model, each in section.models.items()
    ]
    rows += [
        [model, *(Number(values.get(("", each.name), math.nan), format=each.format) for each in metrics), source]
        for (model, source), values in published.items()
        if any(("", each.name) in values for each in metrics)
    ]
    columns = [Column("model", number=False), *(Column(each.name) for each in metrics), Column("source", number=False)]
    note = _notes(section, _published_note(metrics), metrics, rows)
    return Table(section.title, "published models", note, columns, rows)


def _published_transforms(section: Section, metric: Metric, published: Published) -> Table:
    """Return the table of a metric of transforms: transforms as rows, models as columns."""
    columns: dict[str, dict[str, Number]] = {
        model: {
            each.transform: cell(results, metric, each, short=True)
            for each in results.measures
            if each.metric == metric.name and each.transform and each.level is None
        }
        for model, results in section.models.items()
    }
    for (model, _), values in published.items():
        of_model = {
            transform: value for (transform, name), value in values.items() if transform and name == metric.name
        }
        if of_model:
            columns[model] = {name: Number(value, format=metric.format) for name, value in of_model.items()}
    transforms = dict.fromkeys(
        name for values in published.values() for name, of in values if name and of == metric.name
    )
    rows: list[Sequence[Cell]] = [
        [name, *(cells.get(name, MISSING) for cells in columns.values())] for name in transforms
    ]
    heads = [Column("transform", number=False), *map(Column, columns)]
    return Table(section.title, f"{metric.name} of published models", _published_note([metric]), heads, rows)
