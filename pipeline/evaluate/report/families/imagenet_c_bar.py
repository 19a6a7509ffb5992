"""The report on ImageNet-C-bar and CIFAR-10-C-bar."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import corruptions
from pipeline.evaluate.metrics.alexnet import SEVERITIES
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.calibration import CALIBRATION, calibration_of
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families import imagenet_c as c
from pipeline.evaluate.report.join import differing_settings, label_conflict, match, unfit
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Results, TransformNames
from pipeline.evaluate.report.real_labels import complete_images
from pipeline.evaluate.report.scores import Images, Rows, Scores, condition_scores
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_c_bar import FAMILY, PUBLISHED

ON_IMAGENET_C = Metric("mean error on ImageNet-C's corruptions", -1)
DIFFERENCE = Metric("difference to ImageNet-C's corruptions", -1, "difference")

PUBLISHED_SETS = {("imagenet", 1000): "imagenet-c-bar", ("cifar", 10): "cifar-10-c-bar"}
"""Data set of published figures by profile and number of classes."""


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-C-bar or CIFAR-10-C-bar.

    Means are over the ten corruptions that were published for the profile of the images; if the data set has none of
    them, over all its corruptions.
    """
    table = evaluation.table
    ten = PUBLISHED.get(table.data_set.profile, ())
    scores, clean, grid, base = c.read_errors(evaluation, context, ten)
    calibration, bins = calibration_of(evaluation, scores, context, benchmark=ten, what="corruption", levels=SEVERITIES)
    measures = [*c.error_measures(grid, base), *_compared(evaluation, scores, context, ten)]
    if clean:
        paired = c.clean_grid(scores, clean, context, ten)
        measures += paired.estimate(c.CLEAN_ERROR, lambda means: means.others[..., 0], covers="")
    normalised = any(each.metric == c.CE.name for each in measures)
    published = "" if evaluation.groups_digest else PUBLISHED_SETS.get((table.data_set.profile, table.labels), "")
    yield context.results(
        REPORT,
        evaluation,
        scores.images,
        measures=[*measures, *calibration],
        counts={"images": (grid.images, complete_images(evaluation, scores.images.ids))},
        transforms={name: TransformNames("benchmark", name in ten) for name in grid.transforms},
        baseline=base.name if base and normalised else "",
        published=published,
        clean_images=clean.encoded if clean else "",
        clean_accuracy=1 - clean.value if clean else math.nan,
        details={"complete": grid.is_complete, **bins},
    )


# The same images under the corruptions of ImageNet-C


@dataclass(frozen=True)
class _OnImageNetC:
    """The mean errors of images over the corruptions of ImageNet-C and their severities, (images,), 0..1.

    Attributes:
        evaluation: The evaluation that has them.
        errors: Mean error of each image.
        rows: Rows of these images among those of the other data set.
        difference: A clause on other photographs with the same ids; empty if there are none.
    """

    evaluation: Evaluation
    errors: Floats
    rows: Rows
    difference: str


def _compared(
    evaluation: Evaluation, scores: Scores[Condition], context: Context, ten: tuple[str, ...]
) -> Iterator[Measure]:
    """Yield the mean error on ImageNet-C over the images that both evaluations have, and the difference to it.

    Nothing unless exactly one evaluation of the report has them.
    """
    of_model = [
        other
        for other in context.evaluations
        if (other.table.data_set.family, other.table.model.name) == (c.REPORT.family, evaluation.table.model.name)
    ]
    checked = [_checked(evaluation, scores.images, other) for other in of_model]
    found = [each for each in checked if isinstance(each, _OnImageNetC)]
    reasons = [each for each in checked if isinstance(each, str)]
    if len(found) == 1:
        _warn(evaluation, scores.images, found[0], context)
        errors, others = scores.values[found[0].rows, :, 0], found[0].errors[:, None]
        grid = context.grid(scores, errors, others=others, benchmark=ten, what="corruption", levels=SEVERITIES)
        yield from grid.estimate(ON_IMAGENET_C, lambda means: means.others[..., 0], covers="")
        yield from grid.estimate(DIFFERENCE, lambda means: grid.mean(means.cells) - means.others[..., 0])
        return
    if found:
        folders = " and ".join(each.evaluation.folder for each in found)
        reasons = [f"{folders} all have its images under the corruptions of ImageNet-C: give one of them"]
    if reasons:
        context.warn(f"{evaluation.folder}: no difference to ImageNet-C's corruptions: {'; '.join(reasons)}")


def _checked(evaluation: Evaluation, images: Images, other: Evaluation) -> _OnImageNetC | str:
    """Return the errors of an evaluation on ImageNet-C, or why they cannot be compared."""
    if reason := unfit(evaluation, other):
        return f"{other.folder} {reason}"
    scores, benchmark = condition_scores(other), corruptions.names("benchmark")
    columns = [column for column, key in enumerate(scores.keys) if key.transform in benchmark]
    if {scores.keys[column] for column in columns} != {
        Condition(name, level) for name in benchmark for level in SEVERITIES
    }:
        return f"{other.folder} lacks some of the {len(benchmark)} corruptions at five severities"
    common = match(images, scores.images)
    if not len(common.rows):
        return f"{other.folder} {common.difference or 'has no images in common with this evaluation'}"
    if conflict := label_conflict(evaluation, images, other, scores.images, common):
        return conflict
    errors = scores.values[np.ix_(common.others, np.array(columns))].mean(axis=1)
    return _OnImageNetC(other, errors, common.rows, common.difference)


def _warn(evaluation: Evaluation, images: Images, found: _OnImageNetC, context: Context) -> None:
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


REPORT = FamilyReport(
    family=FAMILY.name,
    key="c_bar",
    measure=measure,
    metrics=(
        c.MEAN_ERROR,
        ON_IMAGENET_C,
        DIFFERENCE,
        c.MCE,
        c.CLEAN_ERROR,
        *(c.CE, c.ERROR, c.ACCURACY, c.MEAN_ACCURACY),
        *CALIBRATION,
    ),
    leads=(c.MEAN_ERROR.name,),
    note="Percent, with the 95 % confidence interval over images in brackets. Lower is better. The difference, in "
    "percentage points, is the mean corruption error minus that of the same model on the same images under the 15 "
    "corruptions of ImageNet-C, which are also those of CIFAR-10-C.",
    normalised_note="mCE is in percent of the baseline's errors.",
    tables=(
        replace(c.ERROR_TABLE, unless=""),
        c.ACCURACY_TABLE,
        c.CURVE_TABLE,
        replace(c.CE_TABLE, metrics=[c.CE.name]),
    ),
    calibrated=("corruption", "severity"),
    glossary=(
        (
            "Difference to ImageNet-C's corruptions",
            "The mean corruption error on ImageNet-C-bar minus that on ImageNet-C, or CIFAR-10-C-bar minus CIFAR-10-C, "
            "both unnormalised, in percentage points. Both sets are about equally hard for a plain ResNet-50, so a "
            "large difference shows that a model is robust to the corruptions of ImageNet-C more than to others.",
        ),
    ),
    sources=("Mintun, Kirillov and Xie, NeurIPS 2021 (ImageNet-C-bar, CIFAR-10-C-bar)",),
)
