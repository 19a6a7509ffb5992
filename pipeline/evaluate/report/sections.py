"""The data sets of a report: key figures, calibration and published figures of each, and the tables of its family."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from pipeline.evaluate.report.across import MARK, PublishedFigure, ranking
from pipeline.evaluate.report.measures import Measure, Metric, Results, Section
from pipeline.evaluate.report.pivots import MISSING, cell, cells_of, marked, notes, pivot_tables, transforms_of
from pipeline.evaluate.report.subject import CALIBRATION, ECE, RELIABILITY
from pipeline.evaluate.report.views import COUNT, PERCENT, Axis, Cell, Column, Number, Panel, Plot, Point, Table
from pipeline.text import printable

FEW_IMAGES = 30  # number of images below which a bootstrap interval is not reliable


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
        *(table for pivot in section.report.tables for table in pivot_tables(section, pivot)),
        *section.report.more(section),
        *_calibration_table(section),
        *_published_tables(section, published),
    ]
    caption = _caption(section)
    return [replace(table, caption=table.caption or caption) for table in tables if table.rows]


def _caption(section: Section) -> str:
    """Return what the values of a section were measured on: number of images, seed of the data set."""
    models = section.models.values()
    counts = {next(iter(each.counts.items()), ("images", (0, 0))) for each in models}
    images = " or ".join(sorted({f"{number:,} {name}" for name, (number, _) in counts if number}))
    seeds = " and ".join(str(seed) for seed in sorted({each.seed for each in models if each.seed is not None}))
    return ", ".join(filter(None, (images, seeds and f"seed {seeds}")))


# Key figures


def _key_figures(section: Section) -> Table:
    """Return the table of all metrics of the data set: metrics as rows, models as columns."""
    report, models = section.report, section.models
    rows: list[Sequence[Cell]] = []
    shown: list[Metric] = []
    for metric in report.metrics:
        measures = {model: each.whole(metric.name) for model, each in models.items()}
        if metric.key and any(measures.values()):
            ranked = ranking(section, metric)
            best = next((model for model, ranks in ranked.ranks.items() if ranks == (1, 1)), "") if ranked else ""
            cells = (cell(models[model], metric, each, best=model == best) for model, each in measures.items())
            rows.append([metric.name, *cells])
            shown.append(metric)
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
    unreliable = f"Intervals from fewer than {FEW_IMAGES} images are not reliable." if few else ""
    note = notes(section, shown, numbers, report.note, baseline, unreliable, _images_note(section))
    columns = [Column("metric", number=False), *map(Column, models)]
    return Table(section.title, "key figures", note, columns, rows)


def _images_note(section: Section) -> str:
    """Return a note if the models were evaluated on different images or builds; empty otherwise."""
    models = section.models
    if len({each.source_ids_sha256 for each in models.values()}) > 1:
        counts = (f"{model} {each.images:,}" for model, each in models.items())
        return f"Not comparable: the models were not evaluated on the same images ({', '.join(counts)})."
    if len({each.manifest_sha256 for each in models.values()}) > 1:
        return "The models were evaluated on images with the same names, but the manifests of the data sets differ."
    return ""


# Calibration

CALIBRATION_NOTE = (
    "ECE in percent, in bins of equal width or (adaptive) of equal mass; NLL in nats. Lower is better. ± is half the "
    "width of the 95 % confidence interval; ECE has none, because it is larger in bootstrap samples than in the images."
)


def _calibration_table(section: Section) -> Iterator[Table]:
    """Yield the calibration table of a data set with reliability diagrams; nothing if no model has a calibration."""
    found = section.found
    calibrated = [model for model in section.models if (model, "", None, ECE.name) in found]
    if not calibrated:
        return
    levels = sorted({key[2] for key in found if key[3] == ECE.name and not key[1] and key[2] is not None})
    shown = levels if len(levels) > 1 else []
    names = transforms_of(section) if any(key[1] and key[3] == ECE.name for key in found) else {}
    rows: list[Sequence[Cell]] = []
    for transform in ("", *names):
        for model in calibrated:
            places = [*((level, ECE) for level in shown), *((None, each) for each in CALIBRATION)]
            keys = [(model, transform, level, metric.name) for level, metric in places]
            if cells := cells_of(section, keys, short=True):
                label = [" ".join(marked(transform, names)) if transform else "mean"] if names else []
                rows.append([*label, model, *cells])
    columns = [Column(section.report.transform, number=False)] * bool(names) + [Column("model", number=False)]
    columns += [Column(title, "ECE") for title in (*map(str, shown), "mean", "adaptive")] if shown else []
    columns += [Column(each.name) for each in CALIBRATION[2 if shown else 0 :]]
    note = notes(section, [section.report.metric(ECE.name)], rows, CALIBRATION_NOTE)
    panels = []
    for model in calibrated:
        points: list[Point] = []
        by_level = section.models[model].details[RELIABILITY]
        for level, bins in by_level.items():
            name = f"{section.report.level} {level}" if len(by_level) > 1 else ""
            most = max((each["images"] for each in bins), default=1)
            points += [Point(name, each["confidence"], each["accuracy"], size=each["images"] / most) for each in bins]
        panels.append(Panel(model, points, Axis("confidence"), Axis("accuracy")))
    yield Table(section.title, "calibration", note, columns, rows, Plot("reliability", panels))


# Published figures

PUBLISHED_NOTE = (
    f"Models marked {MARK} were not evaluated here: their figures are those that the papers print. They are "
    "not ranked, and nothing is normalised by them."
)


def _published_tables(section: Section, published: Iterable[PublishedFigure]) -> Iterator[Table]:
    """Yield tables that compare the models of a section with published ones: of the whole data set, by transform."""
    here = [each for each in published if (each.family, each.section) == (section.report.key, section.title)]
    values = {(each.model, each.source, each.metric, _place(each)): each.value for each in here}
    models = list(dict.fromkeys((each.model, each.source) for each in here if not each.transform))
    whole = [each for each in section.report.metrics if any(key[2:] == (each.name, "") for key in values)]
    if whole:
        rows: list[Sequence[Cell]] = [
            [model, *(cell(each, metric, each.whole(metric.name), short=True) for metric in whole), "evaluated"]
            for model, each in section.models.items()
        ]
        for model, source in models:
            printed = (Number(values.get((model, source, of.name, ""), math.nan), format=of.format) for of in whole)
            rows.append([model, *printed, source])
        heads = [Column(each.name) for each in whole]
        columns = [Column("model", number=False), *heads, Column("source", number=False)]
        note = notes(section, whole, rows, _published_note(whole))
        yield Table(section.title, "published models", note, columns, rows)
    for metric in section.report.metrics:
        of_transforms = [each for each in here if each.transform and each.metric == metric.name]
        cells: dict[str, dict[str, Number]] = {}
        for model, results in section.models.items():
            own = (each for each in results.measures if each.metric == metric.name and each.transform)
            cells[model] = {_place(each): cell(results, metric, each, short=True) for each in own}
        for each in of_transforms:
            cells.setdefault(each.model, {})[_place(each)] = Number(each.value, format=metric.format)
        rows = [
            [place, *(of_model.get(place, MISSING) for of_model in cells.values())]
            for place in dict.fromkeys(map(_place, of_transforms))
        ]
        title, heads = f"{metric.name} of published models", [Column("transform", number=False), *map(Column, cells)]
        yield Table(section.title, title, _published_note([metric]), heads, rows)


def _place(figure: PublishedFigure | Measure) -> str:
    """Return the transform of a figure, with its level if it has one."""
    return figure.transform if figure.level is None else f"{figure.transform} {figure.level}"


def _published_note(metrics: Sequence[Metric]) -> str:
    """Return the explanation of a table, which begins with the unit of its figures."""
    unit = "Percent." if all(metric.format == PERCENT for metric in metrics) else "In the units of the key figures."
    return f"{unit} {PUBLISHED_NOTE}"
