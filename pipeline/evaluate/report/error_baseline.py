"""What the errors of ImageNet-C are divided by: AlexNet's as published, or those of an evaluated model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import corruptions
from pipeline.evaluate.metrics import alexnet
from pipeline.evaluate.report.baseline import ALEXNET, OwnBaseline, has_published_baseline
from pipeline.evaluate.report.belonging import CleanError, clean_error
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.scores import Evaluation, Scores, error_scores
from pipeline.transforms.family import Condition

Errors = Callable[[str, Sequence[int]], Sequence[float] | None]
"""A corruption and severities -> its error at each, where all are known."""


@dataclass(frozen=True)
class ErrorBaseline:
    """Errors of the baseline; ``relative_errors`` are over the images of which the clean error is known."""

    name: str
    clean_error: float | None
    errors: Errors
    relative_errors: Errors


def error_baseline(
    each: Evaluation, scores: Scores[Condition], clean: CleanError | None, context: ReportContext
) -> ErrorBaseline | None:
    """Return what the errors of an evaluation are divided by; None where there is no baseline."""
    if context.own:
        return _own_baseline(context.own, each, scores, clean, context)
    if has_published_baseline(each.table):
        return ErrorBaseline(ALEXNET, alexnet.ALEXNET_CLEAN_ERROR, _published_errors, _published_errors)
    return None


def _published_errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
    try:
        return alexnet.alexnet_errors(name, levels)
    except ValueError:  # not published: a corruption of others, or part of the levels of one of validation
        return None


def _own_baseline(
    own: OwnBaseline, each: Evaluation, scores: Scores[Condition], clean: CleanError | None, context: ReportContext
) -> ErrorBaseline | None:
    """Return the errors of an evaluated model over the same images; None where it has no such evaluation."""
    candidates = own.scores_of(each, error_scores)
    if not candidates:
        return None
    found = own.counterparts(each, scores, candidates)
    own.check_complete(each, scores.keys, found, corruptions.names("benchmark"), lambda key: key.transform)
    means = {key: counterpart.mean() for key, counterpart in found.items()}
    if clean is None:
        return ErrorBaseline(own.name, None, _known(means), _known({}))
    relative = {key: counterpart.mean(among=clean.rows) for key, counterpart in found.items()}
    images, other = scores.images.take(clean.rows), next(iter(found.values())).evaluation
    reference = clean_error(other, images, own.clean, context.warn)
    if reference is not None and len(reference.rows) < len(images.ids):
        context.warn(f"{each.folder}: the baseline's clean images are fewer, so nothing is relative to them")
        reference = None
    return ErrorBaseline(own.name, reference.value if reference else None, _known(means), _known(relative))


def _known(means: Mapping[Condition, float]) -> Errors:
    """Return a function of a corruption and severities that gives the errors at all of them, or None."""

    def errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
        found = [means.get(Condition(name, level)) for level in levels]
        return None if None in found else [error for error in found if error is not None]

    return errors
