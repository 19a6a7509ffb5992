"""The errors that ImageNet-C's metrics are normalised by: AlexNet's published ones, or an evaluated model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.report.baseline import ALEXNET, EvaluatedBaseline, has_published_baseline
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.matching import CleanError, clean_error
from pipeline.evaluate.report.scores import Evaluation, Scores, error_scores
from pipeline.transforms.family import Condition

Errors = Callable[[str, Sequence[int]], Sequence[float] | None]
"""A function of a corruption and severities that returns the error at each severity; None if one is unknown."""


@dataclass(frozen=True)
class ErrorBaseline:
    """Errors of the baseline.

    Attributes:
        name: Name of the baseline.
        clean_error: Its error on clean images, 0..1; None if unknown.
        errors: Its errors over all images of the evaluation.
        relative_errors: Its errors over the images that have a clean version, for relative metrics.
    """

    name: str
    clean_error: float | None
    errors: Errors
    relative_errors: Errors


def error_baseline(
    evaluation: Evaluation,
    scores: Scores[Condition],
    clean: CleanError | None,
    context: ReportContext,
    benchmark: Sequence[str],
) -> ErrorBaseline | None:
    """Return the baseline of an evaluation's errors; None if there is none.

    Args:
        evaluation: Evaluation to normalise.
        scores: Its scores.
        clean: Its clean error, if known.
        context: State of the report.
        benchmark: Corruptions that means are taken over.

    Raises:
        UserError: If the evaluated baseline does not match the evaluation.
    """
    if context.evaluated_baseline:
        return _evaluated_baseline(context.evaluated_baseline, evaluation, scores, clean, context, benchmark)
    if has_published_baseline(evaluation.table):
        return ErrorBaseline(ALEXNET, alexnet.ALEXNET_CLEAN_ERROR, _published_errors, _published_errors)
    return None


def _published_errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
    try:
        return alexnet.alexnet_errors(name, levels)
    except ValueError:  # no published value for this corruption or severity
        return None


def _evaluated_baseline(
    baseline: EvaluatedBaseline,
    evaluation: Evaluation,
    scores: Scores[Condition],
    clean: CleanError | None,
    context: ReportContext,
    benchmark: Sequence[str],
) -> ErrorBaseline | None:
    """Return the errors of an evaluated model on the same images; None if it has no evaluation of the family."""
    candidates = baseline.scores_of(evaluation, error_scores)
    if not candidates:
        return None
    columns = baseline.match_columns(evaluation, scores, candidates)
    baseline.check_complete(evaluation, scores.keys, columns, benchmark, lambda key: key.transform)
    means = {key: column.mean() for key, column in columns.items()}
    if clean is None:
        return ErrorBaseline(baseline.name, None, _known(means), _known({}))
    relative = {key: column.mean(among=clean.rows) for key, column in columns.items()}
    images, other = scores.images.take(clean.rows), next(iter(columns.values())).evaluation
    reference = clean_error(other, images, baseline.clean, context.chosen, context.warn)
    if reference is not None and len(reference.rows) < len(images.ids):
        context.warn(
            f"{evaluation.folder}: the baseline has only {len(reference.rows):,} of its {len(images.ids):,} clean "
            "images, so relative metrics are omitted"
        )
        reference = None
    return ErrorBaseline(baseline.name, reference.value if reference else None, _known(means), _known(relative))


def _known(means: Mapping[Condition, float]) -> Errors:
    """Return a lookup of the errors of a corruption at some severities, which returns None if one is missing."""

    def errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
        values = [means.get(Condition(name, level)) for level in levels]
        return None if None in values else [error for error in values if error is not None]

    return errors
