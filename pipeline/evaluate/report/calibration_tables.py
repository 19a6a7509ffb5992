"""The calibration table of a data set, its reliability diagrams, and its values as CSV lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.evaluate.report.calibration import LevelCalibration
from pipeline.evaluate.report.family import Column, Figure, Models, ReportLayout, Table
from pipeline.evaluate.report.formats import FINE, PLAIN, Cell, Number, Value
from pipeline.evaluate.report.plots import Diagrams, Plot, PlotKind
from pipeline.evaluate.report.tables import coverage, extra_note, is_lossy, lossy_note, marked_names, part_notes

FIGURES = (
    Figure("ECE", lambda calibration: calibration.ece),
    Figure("adaptive ECE", lambda calibration: calibration.adaptive_ece),
    Figure("NLL", lambda calibration: calibration.nll, PLAIN),
    Figure("Brier score", lambda calibration: calibration.brier_score, FINE),
)
"""Metrics of a ``Calibration``."""

NOTE = (
    "ECE in percent, in bins of equal width or (adaptive) of equal mass; NLL in nats. Lower is better. ± is half the "
    "width of the 95 % confidence interval; ECE has none, because it is larger in bootstrap samples than in the images."
)

GLOSSARY = (
    (
        "ECE, adaptive ECE",
        "Expected calibration error: images are sorted into 15 bins by confidence, the probability of the predicted "
        "class. ECE is the mean distance between accuracy and mean confidence over the bins, weighted by their images. "
        "The bins have equal width or, for adaptive ECE, equally many images. Reliability diagrams show accuracy "
        "against confidence for the bins of equal width: below the diagonal, the model is overconfident.",
    ),
    (
        "NLL, Brier score",
        "Negative log-likelihood: the mean of -ln p, where p is the probability of the label. Brier score: the mean "
        "squared distance of all probabilities from 1 for the label and 0 for other classes, from 0 to 2.",
    ),
)

SOURCES = ("Guo et al., ICML 2017 (ECE)", "Nixon et al., CVPR Workshops 2019 (adaptive ECE)")


def calibration_tables(layout: ReportLayout[Any], section: str, models: Models[Any]) -> Iterator[Table]:
    """Yield the calibration table of a data set with reliability diagrams; nothing if no model has a calibration."""
    if layout.calibration is None:
        return
    definition = layout.calibration
    known = {model: found for model, each in models.items() if (found := definition.value(each))}
    if not known:
        return
    levels = sorted({level for each in known.values() for level in each.overall.levels})
    shown = levels if len(levels) > 1 else []
    means = Figure("means", lambda summary: None if definition.value(summary) is None else 1, over=lambda row: 1)
    transformed = any(each.transforms for each in known.values())
    rows: list[Sequence[Cell]] = []
    for model, each in known.items():
        marks = bool(coverage(layout, models[model], means)), is_lossy(layout, models[model], definition)
        rows.append([*["mean"] * transformed, model, *_cells(each.overall, shown, *marks)])
    for transform, marked in (marked_names(layout, models) if transformed else {}).items():
        for model, each in known.items():
            if transform in each.transforms:
                rows.append([marked, model, *_cells(each.transforms[transform], shown)])
    columns = [Column(definition.what, number=False)] * transformed + [Column("model", number=False)]
    columns += [Column(title, "ECE") for title in (*map(str, shown), "mean", "adaptive")] if shown else []
    columns += [Column(figure.name) for figure in (FIGURES[2:] if shown else FIGURES)]
    note = " ".join((NOTE + extra_note(str(row[0]) for row in rows), *part_notes(layout, models, [means])))
    if definition.of_clean:
        note = f"{note} {lossy_note(layout, models)}".rstrip()
    diagrams = Diagrams({model: each.reliability for model, each in known.items()}, definition.axis)
    yield Table(section, "calibration", note, columns, rows, Plot(PlotKind.RELIABILITY, diagrams))


def _cells(
    calibration: LevelCalibration, levels: Sequence[int], partial: bool = False, lossy: bool = False
) -> Iterator[Cell]:
    """Yield the cells of ECE by level, and of all metrics averaged over levels."""
    for level in levels:
        yield Number(calibration.levels[level].ece if level in calibration.levels else None, partial=partial)
    for figure in FIGURES:
        yield Number(figure.value(calibration.mean), figure.format, short=True, partial=partial, lossy=lossy)


def calibration_lines(layout: ReportLayout[Any], summary: Any) -> Iterator[tuple[str, int | None, str, Value]]:
    """Yield transform, level, name and value of all calibration metrics.

    An empty transform is the mean over transforms, no level the mean over levels.
    """
    found = layout.calibration.value(summary) if layout.calibration else None
    if found is None:
        return
    for transform, calibration in {"": found.overall, **found.transforms}.items():
        for figure in FIGURES:
            yield (transform, None, figure.name, figure.value(calibration.mean))
            for level, each in calibration.levels.items():
                yield (transform, level, figure.name, figure.value(each))
