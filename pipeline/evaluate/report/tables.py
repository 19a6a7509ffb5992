"""What a report shows: the figures of a summary as tables of strings, for whatever prints them.

Every figure has one name, given here, in all outputs. Means over less than the whole benchmark are marked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import corruptions
import perturbations
from pipeline.evaluate.report.summary import Estimate, Summary
from pipeline.evaluate.results.words import printable

NOTHING = "—"
"""Stands where a figure does not exist."""

PARTIAL, EXTRA = " *", " †"
"""Marks of a mean over a part of the benchmark, and of a transform that is not in the benchmark."""


@dataclass(frozen=True)
class Unit:
    """How a figure is shown: multiplied by ``scale``, with so many ``digits`` after the point."""

    scale: float
    digits: int

    def words(self, value: float) -> str:
        """The figure."""
        return f"{value * self.scale:.{self.digits}f}"


PERCENT, PLAIN = Unit(100, 1), Unit(1, 2)


@dataclass(frozen=True)
class Figure:
    """One figure: its name in every output, and the field of a summary or of its rows that holds it.

    ``normalised``: divided by the baseline's. ``over``: of a mean, the field of the rows that it is the mean of.
    """

    name: str
    field: str
    unit: Unit = PERCENT
    normalised: bool = False
    over: str = ""


@dataclass(frozen=True)
class Column:
    """``model`` stands above the titles of all columns of that model; ``number`` columns are aligned to the right."""

    title: str
    model: str = ""
    number: bool = True


@dataclass(frozen=True)
class Table:
    """Strings ready to be shown. ``section`` is the data set; ``about`` says what it holds, for who plots it."""

    section: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    about: str


@dataclass(frozen=True)
class Headline:
    """The one figure by which a model is known on a data set.

    What there may be none of is empty: its ``interval``, the ``baseline`` that it is divided by, and, of a mean that is
    not over the whole benchmark, the ``part`` that it is over.
    """

    section: str
    figure: str
    value: str
    interval: str
    baseline: str
    part: str


@dataclass(frozen=True)
class Content:
    """A table of transforms: which figures of their rows it shows, and what is said of them."""

    about: str
    title: str
    note: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Family:
    """What is shown of summaries of one kind, which are ``Summary``'s field of that ``name``.

    ``leads``: the first of these that exists is the headline. ``total``: transforms of the benchmark, called ``what``;
    0 where there is no such number. ``normalised_note`` is said where there is a baseline. ``counted``: fields of a
    summary that count. ``rows``: figures of a row.
    """

    name: str
    figures: Sequence[Figure]
    leads: Sequence[str]
    note: str
    counted: Sequence[str] = ("images", "failed")
    total: int = 0
    what: str = ""
    normalised_note: str = ""
    rows: Sequence[Figure] = ()
    tables: Callable[[Family, str, Mapping[str, Any]], Iterable[Table]] = lambda family, section, models: ()
    title: Callable[[Any], str] = lambda summary: summary.data_set


@dataclass(frozen=True)
class Section:
    """A data set: ``models`` maps what a model is called here to its summary, which is one of the family."""

    title: str
    family: Family
    models: Mapping[str, Any]
    tables: Sequence[Table]

    def headline(self, model: str) -> Headline | None:
        """The figure that comes first for a model, if it has any."""
        summary = self.models[model]
        figures = {figure.name: figure for figure in self.family.figures}
        for figure in (figures[name] for name in self.family.leads):
            value, _, interval = shown(getattr(summary, figure.field), figure.unit).partition(" ")
            if value != NOTHING:
                against = printable(summary.baseline) if figure.normalised and summary.baseline else ""
                part = "" if _whole(self.family, summary, figure) else coverage(self.family, summary, figure)
                return Headline(self.title, figure.name, value, interval, against, part)
        return None


@dataclass(frozen=True)
class _Anomalies:
    """One entry of ``Summary.anomalies``, in the form of the other summaries."""

    model: str
    aupr: Estimate
    data_set: str = ""


def sections(summary: Summary) -> list[Section]:
    """The data sets in the order of a report, models of one data set together; without those that have no model."""
    found = []
    for family in FAMILIES:
        for title, models in _by_title(family, summaries_of(summary, family)).items():
            made = [_figures_table(family, title, models), *family.tables(family, title, models)]
            found.append(Section(title, family, models, [table for table in made if table.rows]))
    return found


def tables(summary: Summary) -> list[Table]:
    """All tables of a report, those without a row left out."""
    return [table for section in sections(summary) for table in section.tables]


# Words


def shown(figure: Estimate | float | None, unit: Unit = PERCENT) -> str:
    """``23.4 [22.9, 23.9]``, or ``23.4`` of a figure without an interval."""
    if figure is None or math.isnan(value_of(figure)):
        return NOTHING
    interval = f" [{unit.words(figure.low)}, {unit.words(figure.high)}]" if isinstance(figure, Estimate) else ""
    return f"{unit.words(value_of(figure))}{interval}"


def shown_short(figure: Estimate | float | None, unit: Unit = PERCENT) -> str:
    """``23.4 ±0.5``, half the width of the interval, for tables of many columns."""
    if not isinstance(figure, Estimate) or math.isnan(figure.value):
        return shown(figure, unit)
    return f"{unit.words(figure.value)} ±{unit.words((figure.high - figure.low) / 2)}"


def accuracy(error: Estimate) -> Estimate:
    """One minus an error."""
    return Estimate(1 - error.value, 1 - error.high, 1 - error.low)


def coverage(family: Family, summary: Any, figure: Figure) -> str:
    """Over what a mean goes: ``12 of 15 corruptions``."""
    there = [row for row in summary.rows if getattr(row, figure.over) is not None]
    counted = sum(row.benchmark for row in there)
    if not any(row.benchmark for row in summary.rows):
        return f"{len(there)} {family.what} that are not of the benchmark"
    levels = "" if counted < family.total or summary.complete else ", not at every severity"
    return f"{counted} of {family.total} {family.what}{levels}"


def transforms(models: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> a row of any model, those of the benchmark first."""
    rows: dict[str, Any] = {}
    for summary in models.values():
        for row in summary.rows:
            rows.setdefault(row.name, row)
    return {name: rows[name] for name in sorted(rows, key=lambda name: not rows[name].benchmark)}


def marked_names(models: Mapping[str, Any]) -> dict[str, str]:
    """Name of a transform -> how it is shown: marked, where there is a benchmark that it is not part of."""
    rows = transforms(models)
    any_benchmark = any(row.benchmark for row in rows.values())
    return {
        name: printable(name) + (EXTRA if any_benchmark and not row.benchmark else "") for name, row in rows.items()
    }


def rows_of(summary: Any) -> dict[str, Any]:
    """Name -> row."""
    return {row.name: row for row in summary.rows}


# Tables


def summaries_of(summary: Summary, family: Family) -> Sequence[Any]:
    """What a summary has of one family."""
    if family.name == "anomalies":
        return [_Anomalies(model, aupr) for model, aupr in summary.anomalies.items()]
    found: Sequence[Any] = getattr(summary, family.name)
    return found


def _by_title(family: Family, summaries: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Title of the section -> model -> summary; a second model of the same name is numbered."""
    found: dict[str, dict[str, Any]] = {}
    for each in summaries:
        models = found.setdefault(printable(family.title(each)), {})
        name = printable(each.model)
        again = sum(printable(other.model) == name for other in models.values())
        models[f"{name} ({again + 1})" if again else name] = each
    return found


def _figures_table(family: Family, section: str, models: Mapping[str, Any]) -> Table:
    """Figures downwards, models side by side."""
    rows = []
    for figure in family.figures:
        cells = [_marked(family, each, figure, getattr(each, figure.field)) for each in models.values()]
        if any(cell != NOTHING for cell in cells):
            rows.append([figure.name, *cells])
    if family.total:
        baselines = (each.baseline for each in models.values())
        rows.append(["baseline", *(printable(name) if name else "none" for name in baselines)])
    rows += [[field, *(f"{getattr(each, field):,}" for each in models.values())] for field in family.counted]
    columns = [Column("figure", number=False), *(Column(model) for model in models)]
    return Table(section, "key figures", _figures_note(family, models), columns, rows, "figures")


def _marked(family: Family, summary: Any, figure: Figure, value: Estimate | float | None) -> str:
    text = shown(value, figure.unit)
    return text if text == NOTHING or _whole(family, summary, figure) else text + PARTIAL


def _whole(family: Family, summary: Any, figure: Figure) -> bool:
    """Whether a figure is no mean, or one over the whole benchmark."""
    whole = f"{family.total} of {family.total} {family.what}"
    return not figure.over or coverage(family, summary, figure) == whole


def _figures_note(family: Family, models: Mapping[str, Any]) -> str:
    """How to read the table, and what is not over the whole benchmark."""
    normalised = any(getattr(each, "baseline", None) for each in models.values())
    told = family.normalised_note if normalised or not family.total else "There is no baseline: nothing is normalised."
    parts = _part_notes(family, models, family.figures)
    return " ".join(filter(None, (family.note, told, _images_note(family, models), *parts)))


def _images_note(family: Family, models: Mapping[str, Any]) -> str:
    """Whether the models were evaluated on the same data set, where that is known and they were not."""
    if len({getattr(each, "source_ids_sha256", "") for each in models.values()}) > 1:
        counts = (f"{model} {getattr(each, family.counted[0]):,}" for model, each in models.items())
        return f"Not comparable: the models were not evaluated on the same images ({', '.join(counts)})."
    if len({getattr(each, "manifest_sha256", "") for each in models.values()}) > 1:
        return "The models were evaluated on images of the same names, but the manifests of the data sets differ."
    return ""


def _part_notes(family: Family, models: Mapping[str, Any], figures: Iterable[Figure]) -> Iterator[str]:
    """Of each model, over what its means are that are not over the whole benchmark."""
    for model, each in models.items():
        marked: dict[str, list[str]] = {}
        for figure in figures:
            if getattr(each, figure.field) is not None and not _whole(family, each, figure):
                marked.setdefault(coverage(family, each, figure), []).append(figure.name)
        for over, names in marked.items():
            yield f"{PARTIAL.strip()} {model}: {', '.join(names)} over {over}."


def _corruption_tables(family: Family, section: str, models: Mapping[str, Any]) -> Iterator[Table]:
    yield _curve_table(family, section, models)
    yield _accuracies(section, models)
    yield _by_transform(section, CE_TABLE, models, "corruption")
    if any(all(row.corruption_error is None for row in each.rows) for each in models.values()):
        yield _by_transform(section, MEAN_ERROR_TABLE, models, "corruption")


def _curve_table(family: Family, section: str, models: Mapping[str, Any]) -> Table:
    """Severities downwards, models side by side."""
    severities = sorted({severity for each in models.values() for severity in each.curve})
    rows = [
        [str(s), *(_marked(family, each, CURVE, each.curve.get(s)) for each in models.values())] for s in severities
    ]
    note = "Percent, mean over the corruptions of the benchmark, with the 95 % interval over images. Higher is better."
    note = " ".join((note, *_part_notes(family, models, [CURVE])))
    columns = [Column("severity", number=False), *(Column(model) for model in models)]
    return Table(section, "accuracy by severity", note, columns, rows, "curve")


def _accuracies(section: str, models: Mapping[str, Any]) -> Table:
    """A row for each corruption and model."""
    severities = sorted({s for each in models.values() for row in each.rows for s in row.errors})
    found = {model: rows_of(each) for model, each in models.items()}
    rows = []
    for name, words in marked_names(models).items():
        for model in models:
            if row := found[model].get(name):
                cells = (accuracy(row.errors[s]) if s in row.errors else None for s in severities)
                rows.append([words, model, *map(shown_short, cells), shown_short(accuracy(row.mean_error))])
    columns = [Column("corruption", number=False), Column("model", number=False)]
    columns += [*(Column(str(severity)) for severity in severities), Column("mean")]
    note = f"Percent by severity, ± half of the 95 % interval. Higher is better.{_extra_note(rows)}"
    return Table(section, "accuracy by corruption and severity", note, columns, rows, "accuracies")


def _perturbation_tables(family: Family, section: str, models: Mapping[str, Any]) -> Iterator[Table]:
    for content in (FLIPS_TABLE, RATES_TABLE, DISTANCES_TABLE):
        yield _by_transform(section, content, models, "perturbation")


def _by_transform(section: str, content: Content, models: Mapping[str, Any], what: str) -> Table:
    """Transforms downwards; side by side the models, each with its figures. No row where no model has any figure."""
    every = [row for each in models.values() for row in each.rows]
    figures = [figure for figure in content.figures if any(getattr(row, figure.field) is not None for row in every)]
    words = shown if len(figures) == 1 else shown_short
    marked, rows = marked_names(models), []
    by_name = [rows_of(each) for each in models.values()]
    for name in marked:
        found = [each.get(name) for each in by_name]
        cells = [words(row and getattr(row, figure.field), figure.unit) for row in found for figure in figures]
        if any(cell != NOTHING for cell in cells):
            rows.append([marked[name], *cells])
    columns = [Column(figure.name, model) for model in models for figure in figures]
    if len(figures) == 1:
        columns = [Column(model) for model in models]
    note = content.note + _extra_note(rows)
    return Table(section, content.title, note, [Column(what, number=False), *columns], rows, content.about)


def _extra_note(rows: Iterable[Sequence[str]]) -> str:
    return f"{EXTRA} not of the benchmark, in no mean." if any(row[0].endswith(EXTRA) for row in rows) else ""


def _pair_tables(family: Family, section: str, models: Mapping[str, Any]) -> Iterator[Table]:
    names = dict.fromkeys((row.decoder, row.resize) for each in models.values() for row in each.rows)
    found = [{(row.decoder, row.resize): row.accuracy for row in each.rows} for each in models.values()]
    rows = [[printable(d), printable(r), *(shown(each.get((d, r))) for each in found)] for d, r in names]
    columns = [Column("decoder", number=False), Column("resize operator", number=False), *map(Column, models)]
    note = "Percent, with the 95 % interval over images. Higher is better."
    yield Table(section, "accuracy by decoder and resize operator", note, columns, rows, "pairs")


# Figures

CORRUPTION_FIGURES = (
    Figure("mCE", "mean_corruption_error", normalised=True, over="corruption_error"),
    Figure("relative mCE", "relative_mean_corruption_error", normalised=True, over="relative_corruption_error"),
    Figure("mean corruption error (unnormalised)", "mean_error", over="mean_error"),
    Figure("residual robustness", "residual_robustness", over="mean_error"),
    Figure("clean error", "clean_error"),
)
CURVE = Figure("mean accuracy", "curve", over="mean_error")
CORRUPTION_ROWS = (
    Figure("CE", "corruption_error", normalised=True),
    Figure("relative CE", "relative_corruption_error", normalised=True),
    Figure("mean error (unnormalised)", "mean_error"),
)
PERTURBATION_FIGURES = (
    Figure("mFR", "mean_flip_rate", normalised=True, over="flip_rate"),
    Figure("mean flip probability (unnormalised)", "mean_flip_probability", over="flip_probability"),
    Figure("mT5D", "mean_top5_ratio", normalised=True, over="top5_ratio"),
    Figure("mean top-5 distance (unnormalised)", "mean_top5_distance", PLAIN, over="top5_distance"),
)
PERTURBATION_ROWS = (
    Figure("flip probability", "flip_probability"),
    Figure("flip rate", "flip_rate", normalised=True),
    Figure("top-5 distance", "top5_distance", PLAIN),
    Figure("T5D", "top5_ratio", normalised=True),
)
CE_TABLE = Content(
    "corruption errors",
    "corruption error (CE)",
    "Percent of the baseline's errors, ± half of the 95 % interval. Lower is better, 100 is the baseline.",
    CORRUPTION_ROWS[:2],
)
MEAN_ERROR_TABLE = Content(
    "mean errors",
    "mean error over the severities (unnormalised)",
    "Percent, with the 95 % interval over images. Lower is better.",
    CORRUPTION_ROWS[2:],
)
FLIPS_TABLE = Content(
    "flips",
    "flip probability",
    "How often the prediction changes between frames: percent, with the 95 % interval over sequences. Lower is better.",
    PERTURBATION_ROWS[:1],
)
RATES_TABLE = Content(
    "rates",
    "flip rate (FR)",
    "Percent of the baseline's flip probability, with the 95 % interval over sequences. Lower is better, 100 is the "
    "baseline.",
    PERTURBATION_ROWS[1:2],
)
DISTANCES_TABLE = Content(
    "distances",
    "top-5 distance",
    "How far the first five classes move between frames: 0 to 15; T5D in percent of the baseline's. Lower is better.",
    PERTURBATION_ROWS[2:],
)

SYSTEM_NOISE_FIGURES = (Figure("mean accuracy", "mean_accuracy"), Figure("NSD (percentage points)", "nsd", PLAIN))
CLEAN_FIGURES = (Figure("top-1 error", "error"), Figure("top-5 error", "top5_error"))

FAMILIES: Sequence[Family] = (
    Family(
        "corruptions",
        CORRUPTION_FIGURES,
        ("mCE", "mean corruption error (unnormalised)"),
        "Percent, in brackets the 95 % interval over images. Residual robustness is clean accuracy less mean accuracy. "
        "Lower is better.",
        total=len(corruptions.names("benchmark")),
        what="corruptions",
        normalised_note="mCE and relative mCE are in percent of the baseline's.",
        rows=CORRUPTION_ROWS,
        tables=_corruption_tables,
    ),
    Family(
        "perturbations",
        PERTURBATION_FIGURES,
        ("mFR", "mean flip probability (unnormalised)"),
        "Percent but for top-5 distances, which run from 0 to 15; in brackets the 95 % interval over sequences. "
        "Lower is better.",
        counted=("sequences", "failed"),
        total=len(perturbations.names("benchmark")),
        what="perturbations",
        normalised_note="mFR and mT5D are in percent of the baseline's.",
        rows=PERTURBATION_ROWS,
        tables=_perturbation_tables,
        title=lambda summary: (
            summary.data_set + (f", difficulty {summary.difficulty}" if summary.difficulty != 1 else "")
        ),
    ),
    Family(
        "system_noise",
        SYSTEM_NOISE_FIGURES,
        ("mean accuracy",),
        "In brackets the 95 % interval over images. Accuracy in percent; NSD is minus the standard deviation of the "
        "accuracies. Higher is better.",
        rows=(Figure("accuracy", "accuracy"),),
        tables=_pair_tables,
    ),
    Family(
        "clean",
        CLEAN_FIGURES,
        ("top-1 error",),
        "Images without any transform. Percent, in brackets the 95 % interval over images. Lower is better.",
    ),
    Family(
        "anomalies",
        (Figure("AUPR", "aupr"),),
        ("AUPR",),
        "Area under the precision-recall curve of the anomalies, in percent, in brackets the 95 % interval over "
        "images; an image is the more anomalous the smaller its largest probability. Higher is better.",
        counted=(),
        title=lambda summary: "Anomalies",
    ),
)
"""The kinds of data sets in the order of a report."""


# Outputs


def value_of(figure: Estimate | float) -> float:
    """The figure itself, without its interval."""
    return figure.value if isinstance(figure, Estimate) else figure
