"""Accuracies of models from the folders of their evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.evaluate.metrics import mean_over
from pipeline.evaluate.report.combine import check_duplicates, check_model_names, display_names, model_names, renamed
from pipeline.evaluate.report.families.imagenet_p import sequence_scores
from pipeline.evaluate.report.join import Images, Warn, condition_scores, match, read_untransformed
from pipeline.evaluate.report.load import LOSSY, Evaluation, open_evaluation
from pipeline.evaluate.selection.accuracies import CLEAN, Accuracies, Kind
from pipeline.text import printable
from pipeline.transforms.registry import FAMILIES


@dataclass(frozen=True)
class Measured:
    """The figures of an evaluation: what it is on, its images, its values by transform, and their mean.

    Values are accuracies, means over levels; of images without a transform, one. Of sequences, they are flip
    probabilities at the lowest difficulty. The mean is over the benchmark's transforms, or over all if there are none.
    """

    evaluation: Evaluation
    kind: Kind
    images: Images
    values: Mapping[str, float]
    mean: float


def add_evaluations(folders: Iterable[str], accuracies: Accuracies, warn: Warn) -> None:
    """Add the accuracies of evaluations: on clean and natural images, on candidates, and on other benchmarks.

    A data set whose transforms are candidates of ImageNet-Syn2Nat gives one accuracy per candidate. Another one of
    images is a benchmark whose score is its mean residual robustness, and one of sequences is a benchmark whose score
    is its mean flip probability at the lowest difficulty.

    Raises:
        UserError: A folder has no valid evaluation, images have no labels or are anomalous, the clean accuracy of a
            model is ambiguous, or a model was evaluated twice on one set.
        UnfinishedError: An evaluation is incomplete.
    """
    evaluations = [open_evaluation(folder) for folder in folders]
    models = model_names(evaluations, {}, warn)
    evaluations = [renamed(each, models) for each in evaluations]
    check_model_names(evaluations)
    check_duplicates(evaluations)
    names = display_names(evaluations, warn)
    by_model: dict[str, list[Measured]] = {}
    for each in evaluations:
        by_model.setdefault(each.table.model.name, []).append(_measured(each))
    for model, measured in by_model.items():
        clean = _clean(measured, warn)
        for one in measured:
            found: Mapping[str, float] = {printable(names[one.evaluation.location]): one.mean}
            if one.kind is Kind.CANDIDATE or one is clean:
                found = one.values
            elif one.kind is Kind.CLEAN:
                continue
            elif one.kind is Kind.SCORE and not FAMILIES[one.evaluation.table.data_set.family].sequences:
                if clean is None:
                    raise UserError(
                        f"{one.evaluation.folder}: the clean accuracy of {one.evaluation.model!r} is unknown, so it "
                        "has no residual robustness: add its evaluation on clean images"
                    )
                found = {name: clean.mean - mean for name, mean in found.items()}
            for column, value in found.items():
                accuracies.add(one.kind, model, column, value)


def _measured(evaluation: Evaluation) -> Measured:
    role, family = evaluation.role, FAMILIES[evaluation.table.data_set.family]
    if role == "anomalous":
        raise UserError(f"{evaluation.folder} has anomalous images, on which no accuracy is defined: leave it out")
    if role:
        untransformed = read_untransformed(evaluation)
        kind, right = Kind.CLEAN if role == "clean" else Kind.NATURAL, float(1 - untransformed.top1_errors.mean())
        return Measured(evaluation, kind, untransformed.images, {CLEAN: right}, right)
    if family.sequences:
        flips = next(iter(sequence_scores(evaluation).values()))
        kind, images, benchmark = Kind.SCORE, flips.images, perturbations.names("benchmark")
        names = (key.transform for key in flips.keys)
        values = dict(zip(names, flips.values[..., 0].mean(axis=0).tolist(), strict=True))
    else:
        scores = condition_scores(evaluation)
        right_by: dict[str, list[float]] = {}
        for condition, error in zip(scores.keys, scores.values.mean(axis=0).tolist(), strict=True):
            right_by.setdefault(condition.transform, []).append(1 - error)
        kind = Kind.CANDIDATE if set(family.names) <= set(corruptions.names("candidates")) else Kind.SCORE
        images, benchmark = scores.images, corruptions.names("benchmark")
        values = {name: float(np.mean(each)) for name, each in right_by.items()}
    among = [values[name] for name in benchmark if name in values] or list(values.values())
    return Measured(evaluation, kind, images, values, float(mean_over(among)))


def _clean(measured: Sequence[Measured], warn: Warn) -> Measured | None:
    """Return the figures of a model on clean images: of several, those on the candidates' images. None without any."""
    clean = [each for each in measured if each.kind is Kind.CLEAN]
    candidates = [each for each in measured if each.kind is Kind.CANDIDATE]
    same = [each for each in clean if any(_are_same(each.images, other.images) for other in candidates)]
    if len(clean) > 1 and len(same) != 1:
        folders = ", ".join(each.evaluation.folder for each in clean)
        raise UserError(
            f"several evaluations of {clean[0].evaluation.model!r} are on clean images, and not exactly one is on the "
            f"images of the candidates: give one of {folders}"
        )
    if not clean:
        return None
    chosen = (same or clean)[0]
    if candidates and not same:
        warn(
            f"{chosen.evaluation.folder}: the clean images are not those of the candidates, "
            f"{candidates[0].evaluation.folder}: residual robustness compares different images"
        )
    if chosen.evaluation.encoded.endswith(LOSSY):
        warn(
            f"{chosen.evaluation.folder}: its clean images were compressed again, {chosen.evaluation.encoded}, so "
            "residual robustness is too small"
        )
    return chosen


def _are_same(one: Images, other: Images) -> bool:
    return len(match(one, other).rows) == len(one.ids) == len(other.ids)
