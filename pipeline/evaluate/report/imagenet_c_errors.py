"""The errors of a model on ImageNet-C, for data sets of other corruptions that are compared with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import corruptions
from pipeline.evaluate.metrics.checks import Floats
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.corruption_rows import columns_of, is_complete, mean_error_of
from pipeline.evaluate.report.join import label_conflict, match
from pipeline.evaluate.report.matching import differing_settings, unfit
from pipeline.evaluate.report.scores import Evaluation, Images, Rows, error_scores
from pipeline.transforms.imagenet_c import FAMILY


@dataclass(frozen=True)
class ErrorsOnImageNetC:
    """The mean error of images over the 15 corruptions of ImageNet-C and their severities.

    Attributes:
        evaluation: The evaluation that has them.
        errors: Mean error of each image, (images,), 0..1.
        rows: Rows of these images among those of the other data set.
        difference: A clause on other photographs with the same ids; empty if there are none.
    """

    evaluation: Evaluation
    errors: Floats
    rows: Rows
    difference: str


def errors_on_imagenet_c(evaluation: Evaluation, images: Images, context: ReportContext) -> ErrorsOnImageNetC | None:
    """Return the errors of the same model on the same images under the 15 corruptions of ImageNet-C.

    Args:
        evaluation: Evaluation on other corruptions.
        images: Its images.
        context: State of the report. It receives a warning if evaluations on ImageNet-C cannot be used.

    Returns:
        The errors; None unless exactly one evaluation of the report has them.
    """
    of_model = [
        other
        for other in context.evaluations
        if (other.table.data_set.family, other.table.model.name) == (FAMILY.name, evaluation.table.model.name)
    ]
    checked = [_checked(evaluation, images, other) for other in of_model]
    found = [each for each in checked if isinstance(each, ErrorsOnImageNetC)]
    reasons = [each for each in checked if isinstance(each, str)]
    if len(found) == 1:
        _warn(evaluation, images, found[0], context)
        return found[0]
    if found:
        folders = " and ".join(each.evaluation.folder for each in found)
        reasons = [f"{folders} all have its images under the corruptions of ImageNet-C: give one of them"]
    if reasons:
        context.warn(f"{evaluation.folder}: no difference to ImageNet-C's corruptions: {'; '.join(reasons)}")
    return None


def _checked(evaluation: Evaluation, images: Images, other: Evaluation) -> ErrorsOnImageNetC | str:
    """Return the errors of an evaluation on ImageNet-C, or why they cannot be compared."""
    if reason := unfit(evaluation, other):
        return f"{other.folder} {reason}"
    scores = error_scores(other)
    columns, benchmark = columns_of(scores.keys), corruptions.names("benchmark")
    counted = {name: columns[name] for name in benchmark if name in columns}
    if not is_complete(counted, benchmark):
        return f"{other.folder} lacks some of the {len(benchmark)} corruptions at five severities"
    common = match(images, scores.images)
    if not len(common.rows):
        return f"{other.folder} {common.difference or 'has no images in common with this evaluation'}"
    if conflict := label_conflict(evaluation, images, other, scores.images, common):
        return conflict
    errors = np.asarray(mean_error_of(scores.values[common.others], counted))
    return ErrorsOnImageNetC(other, errors, common.rows, common.difference)


def _warn(evaluation: Evaluation, images: Images, found: ErrorsOnImageNetC, context: ReportContext) -> None:
    """Warn if the compared evaluations differ in more than their corruptions."""
    folder, other = evaluation.folder, found.evaluation
    if len(found.rows) < len(images.ids):
        context.warn(
            f"{other.folder} contains only {len(found.rows):,} of the {len(images.ids):,} images of {folder}: the "
            f"difference to ImageNet-C's corruptions uses only these{found.difference and f'; it {found.difference}'}"
        )
    if differ := differing_settings(evaluation, other):
        context.warn(
            f"{folder} and {other.folder}, its images under ImageNet-C's corruptions, were evaluated with different "
            f"settings: {differ}"
        )
