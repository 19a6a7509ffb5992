"""The report on ImageNet-C-bar and CIFAR-10-C-bar."""

from collections.abc import Iterator
from dataclasses import replace

from pipeline.evaluate.metrics.alexnet import SEVERITIES
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families import imagenet_c as c
from pipeline.evaluate.report.join import Images, Match, condition_scores, differing_settings, join
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Results, TransformNames
from pipeline.evaluate.report.subject import CALIBRATION, Subject
from pipeline.evaluate.report.views import INTERVAL
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
    subject = Subject(evaluation, context, benchmark=ten, what="corruption", levels=SEVERITIES)
    base = c.error_baseline(subject)
    measures = [*c.error_measures(subject.grid, base), *_compared(subject)]
    if subject.paired:
        measures += subject.paired.estimate(c.CLEAN_ERROR, lambda means: means.others[..., 0], covers="")
    published = "" if evaluation.groups_digest else PUBLISHED_SETS.get((table.data_set.profile, table.labels), "")
    yield subject.results(
        REPORT,
        measures,
        transforms={name: TransformNames("benchmark", name in ten) for name in subject.grid.transforms},
        published=published,
        **c.corruption_fields(subject, base, measures),
    )


# The same images under the corruptions of ImageNet-C


def _compared(subject: Subject) -> Iterator[Measure]:
    """Yield the mean error on ImageNet-C over the images that both evaluations have, and the difference to it.

    Nothing unless exactly one evaluation of the report has them.
    """
    evaluation, context = subject.evaluation, subject.context
    model = evaluation.table.model.name
    others = [
        _on_imagenet_c(evaluation, subject.scores.images, other)
        for other in context.evaluations
        if (other.table.data_set.family, other.table.model.name) == (c.REPORT.family, model)
    ]
    found = [each for each in others if not isinstance(each, str)]
    reasons = [each for each in others if isinstance(each, str)]
    if len(found) > 1:
        folders = " and ".join(other.folder for other, _, _ in found)
        reasons = [f"{folders} all have its images under the corruptions of ImageNet-C: give one of them"]
    if len(found) != 1:
        if reasons:
            context.warn(f"{evaluation.folder}: no difference to ImageNet-C's corruptions: {'; '.join(reasons)}")
        return
    ((other, common, errors),) = found
    if len(common.rows) < len(subject.errors):
        context.warn(
            f"{other.folder} contains only {len(common.rows):,} of the {len(subject.errors):,} images of "
            f"{evaluation.folder}: the difference to ImageNet-C's corruptions uses only these"
            f"{common.difference and f'; it {common.difference}'}"
        )
    if differ := differing_settings(evaluation, other):
        context.warn(
            f"{evaluation.folder} and {other.folder}, its images under ImageNet-C's corruptions, were evaluated with "
            f"different settings: {differ}"
        )
    grid = subject.grid_of(subject.errors[common.rows], errors[:, None])
    yield from grid.estimate(ON_IMAGENET_C, lambda means: means.others[..., 0], covers="")
    yield from grid.estimate(DIFFERENCE, lambda means: grid.mean(means.cells) - means.others[..., 0])


def _on_imagenet_c(evaluation: Evaluation, images: Images, other: Evaluation) -> tuple[Evaluation, Match, Floats] | str:
    """Return an evaluation on ImageNet-C, the common images, and their mean errors; or why it cannot be compared."""
    scores = condition_scores(other)
    columns = [column for column, key in enumerate(scores.keys) if key.transform in c.BENCHMARK]
    if len(columns) < len(c.BENCHMARK) * len(SEVERITIES):
        return f"{other.folder} lacks some of the {len(c.BENCHMARK)} corruptions at five severities"
    common = join(evaluation, images, other, scores.images)
    return common if isinstance(common, str) else (other, common, scores.values[common.others][:, columns].mean(axis=1))


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
    note=f"Percent, {INTERVAL}. Lower is better. The difference, in percentage points, is the mean corruption error "
    "minus that of the same model on the same images under the 15 corruptions of ImageNet-C, which are also those of "
    "CIFAR-10-C.",
    normalised_note="mCE is in percent of the baseline's errors.",
    tables=(
        replace(c.ERROR_TABLE, unless=""),
        c.ACCURACY_TABLE,
        c.CURVE_TABLE,
        replace(c.CE_TABLE, metrics=[c.CE.name]),
    ),
    transform="corruption",
    level="severity",
    calibrated=True,
    glossary={
        "Difference to ImageNet-C's corruptions": "The mean corruption error on ImageNet-C-bar minus that on "
        "ImageNet-C, or CIFAR-10-C-bar minus CIFAR-10-C, both unnormalised, in percentage points. Both sets are about "
        "equally hard for a plain ResNet-50, so a large difference shows that a model is robust to the corruptions of "
        "ImageNet-C more than to others."
    },
    sources=("Mintun, Kirillov and Xie, NeurIPS 2021 (ImageNet-C-bar, CIFAR-10-C-bar)",),
)
