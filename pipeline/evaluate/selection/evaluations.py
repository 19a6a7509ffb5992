"""Accuracies of models from the folders of their evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.evaluate.metrics import mean_over
from pipeline.evaluate.report.join import match
from pipeline.evaluate.report.matching import check_duplicates, check_model_names, display_names, model_names, renamed
from pipeline.evaluate.report.scores import Evaluation, Images, error_scores, open_evaluation, read_untransformed
from pipeline.evaluate.report.sequences import sequence_scores
from pipeline.evaluate.report.tested import LOSSY
from pipeline.evaluate.selection.accuracies import Accuracies, Kind
from pipeline.evaluate.selection.files import CLEAN
from pipeline.text import printable
from pipeline.transforms.registry import FAMILIES

Warn = Callable[[str], None]
"""A function that adds a warning."""


@dataclass(frozen=True)
class Measured:
    """The figures of an evaluation.

    Attributes:
        evaluation: The evaluation.
        images: Its images; None for sequences.
        accuracies: Accuracy by transform, the mean over its levels; images without a transform have the name ``clean``.
            Sequences have none.
    """

    evaluation: Evaluation
    images: Images | None
    accuracies: Mapping[str, float]


def add_evaluations(folders: Iterable[str], accuracies: Accuracies, warn: Warn) -> None:
    """Add the accuracies of evaluations: on clean and natural images, on candidates, and on other benchmarks.

    A data set whose transforms are candidates of ImageNet-Syn2Nat gives one accuracy per candidate. Another one of
    images is a benchmark whose score is its mean residual robustness, and one of sequences is a benchmark whose score
    is its mean flip probability at the lowest difficulty.

    Args:
        folders: Folders or URLs that ``evaluate`` wrote.
        accuracies: Collection to add to.
        warn: Receives the warnings.

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
        if each.role == "anomalous":
            raise UserError(f"{each.folder} has anomalous images, on which no accuracy is defined: leave it out")
        by_model.setdefault(each.table.model.name, []).append(_measured(each))
    for model, measured in by_model.items():
        clean = _clean(measured, warn)
        if clean is not None:
            accuracies.add(Kind.CLEAN, model, CLEAN, clean)
        for one in measured:
            _add(one, model, printable(names[one.evaluation.location]), clean, accuracies)


def _measured(evaluation: Evaluation) -> Measured:
    if evaluation.role:
        natural = read_untransformed(evaluation)
        return Measured(evaluation, natural.images, {CLEAN: float(1 - natural.top1_errors.mean())})
    if FAMILIES[evaluation.table.data_set.family].sequences:
        return Measured(evaluation, None, {})
    scores = error_scores(evaluation)
    by_name: dict[str, list[float]] = {}
    for condition, error in zip(scores.keys, scores.values.mean(axis=0).tolist(), strict=True):
        by_name.setdefault(condition.transform, []).append(1 - error)
    means = {name: float(np.mean(levels)) for name, levels in by_name.items()}
    return Measured(evaluation, scores.images, means)


def _clean(measured: Sequence[Measured], warn: Warn) -> float | None:
    """Return the clean accuracy of a model; None if it was not evaluated on clean images.

    Of several evaluations, the one on the candidates' images is used.
    """
    clean = [each for each in measured if each.evaluation.role == "clean"]
    candidates = [each for each in measured if _has_candidates(each.evaluation)]
    same = [each for each in clean if any(_have_same_images(each.images, other.images) for other in candidates)]
    if len(clean) > 1 and len(same) != 1:
        folders = ", ".join(each.evaluation.folder for each in clean)
        raise UserError(
            f"several evaluations of {clean[0].evaluation.model!r} are on clean images, and not exactly one is on the "
            f"images of the candidates: give one of {folders}"
        )
    if not clean:
        return None
    if candidates and not same:
        warn(
            f"{clean[0].evaluation.folder}: the clean images are not those of the candidates, "
            f"{candidates[0].evaluation.folder}: residual robustness compares different images"
        )
    chosen = (same or clean)[0]
    if chosen.evaluation.encoded.endswith(LOSSY):
        warn(
            f"{chosen.evaluation.folder}: its clean images were compressed again, {chosen.evaluation.encoded}, so "
            "residual robustness is too small"
        )
    return chosen.accuracies[CLEAN]


def _have_same_images(one: Images | None, other: Images | None) -> bool:
    return one is not None and other is not None and len(match(one, other).rows) == len(one.ids) == len(other.ids)


def _has_candidates(evaluation: Evaluation) -> bool:
    """Return whether the transforms of an evaluation's data set are candidates."""
    return evaluation.role is None and set(FAMILIES[evaluation.table.data_set.family].names) <= set(
        corruptions.names("candidates")
    )


def _add(measured: Measured, model: str, name: str, clean: float | None, accuracies: Accuracies) -> None:
    """Add the figures of an evaluation that is not on clean images."""
    evaluation = measured.evaluation
    if evaluation.role == "shift":
        accuracies.add(Kind.NATURAL, model, name, measured.accuracies[CLEAN])
    elif _has_candidates(evaluation):
        for candidate, accuracy in measured.accuracies.items():
            accuracies.add(Kind.CANDIDATE, model, candidate, accuracy)
    elif evaluation.role is None and not measured.accuracies:
        accuracies.add(Kind.SCORE, model, name, _flip_probability(evaluation))
    elif evaluation.role is None:
        if clean is None:
            raise UserError(
                f"{evaluation.folder}: the clean accuracy of {evaluation.model!r} is unknown, so it has no residual "
                "robustness: add its evaluation on clean images"
            )
        mean = mean_over(list(_benchmark(measured.accuracies, corruptions.names("benchmark")).values()))
        accuracies.add(Kind.SCORE, model, name, clean - float(mean))


def _flip_probability(evaluation: Evaluation) -> float:
    """Return the mean flip probability over perturbations at the lowest difficulty."""
    flips = next(iter(sequence_scores(evaluation).values())).flips
    means = dict(zip(flips.keys, flips.values.mean(axis=0).tolist(), strict=True))
    return float(mean_over(list(_benchmark(means, perturbations.names("benchmark")).values())))


def _benchmark(values: Mapping[str, float], benchmark: Iterable[str]) -> Mapping[str, float]:
    """Return the values of the benchmark's transforms, or all if there are none."""
    return {name: values[name] for name in benchmark if name in values} or values
