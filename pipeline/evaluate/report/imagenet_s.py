"""The report on ImageNet-S."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.report.estimates import Estimate, _column, _Figures, _mean_of
from pipeline.evaluate.report.family import Column, Family, Figure, Table
from pipeline.evaluate.report.formats import PLAIN, shown
from pipeline.evaluate.report.scores import About, Scores
from pipeline.text import printable
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_s import PAIRS


def _pair_tables(family: Family, section: str, models: Mapping[str, Any]) -> Iterator[Table]:
    names = dict.fromkeys((row.decoder, row.resize) for each in models.values() for row in each.rows)
    found = [{(row.decoder, row.resize): row.accuracy for row in each.rows} for each in models.values()]
    rows = [[printable(d), printable(r), *(shown(each.get((d, r))) for each in found)] for d, r in names]
    columns = [Column("decoder", number=False), Column("resize operator", number=False), *map(Column, models)]
    note = "Percent, with the 95 % interval over images. Higher is better."
    yield Table(section, "accuracy by decoder and resize operator", note, columns, rows, "pairs")


SYSTEM_NOISE_FIGURES = (Figure("mean accuracy", "mean_accuracy"), Figure("NSD (percentage points)", "nsd", PLAIN))


@dataclass(frozen=True)
class PairRow:
    """Accuracy through one pair of decoder and resize operator."""

    name: str
    decoder: str
    resize: str
    accuracy: Estimate


@dataclass(frozen=True)
class SystemNoiseSummary:
    """ImageNet-S, of one model. ``nsd``: minus the standard deviation of the accuracies, in percentage points."""

    model: str
    data_set: str
    images: int
    failed: int
    rows: Sequence[PairRow]
    mean_accuracy: Estimate
    nsd: Estimate
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def system_noise_figures(scores: Scores[Condition], about: About, resamples: int) -> SystemNoiseSummary:
    """Return the figures of ImageNet-S."""
    figures = _Figures(1 - scores.values, resamples)
    names = [condition.transform for condition in scores.keys]
    return SystemNoiseSummary(
        about.model,
        about.data_set,
        len(scores.images.ids),
        about.failed,
        [
            PairRow(name, PAIRS[name].decoder, PAIRS[name].resize, figures.estimate(_column(place)))
            for place, name in enumerate(names)
        ],
        figures.estimate(_mean_of(range(len(names)))),
        figures.estimate(lambda means: -100 * means.std(axis=-1)),
        about.manifest_sha256,
        about.source_ids_sha256,
    )
