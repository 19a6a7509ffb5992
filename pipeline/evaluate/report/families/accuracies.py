"""Reports on accuracies: ImageNet-S, -Syn2Nat, -3DCC, -W, LAION-C, and families without a report of their own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import condition_scores, top1_errors
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.real_labels import has_imagenet_labels
from pipeline.evaluate.report.subject import CALIBRATION, Means, Subject, means_of
from pipeline.evaluate.report.views import INTERVAL, PLAIN, WIDTH
from pipeline.evaluate.results.predictions import ConditionPredictions
from pipeline.transforms import imagenet_3dcc_noise, imagenet_s, imagenet_w, laion_c, syn2nat
from pipeline.transforms.family import Family

MEAN_ACCURACY, ACCURACY = Metric("mean accuracy", 1), Metric("accuracy", 1)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)
RESIDUAL_ROBUSTNESS = Metric("residual robustness", -1, "difference", of_clean=True)
NSD = Metric("NSD (percentage points)", 1, "percentage points", PLAIN)

NOTE = f"Accuracy in percent, {INTERVAL}. Higher is better."
TABLE = Pivot(
    "accuracy by transform and level",
    [ACCURACY.name],
    f"Percent; {WIDTH}. Higher is better.",
    rows="transform, model",
    columns="level",
    level="level ",
    plot="small lines",
)


def accuracy_report(
    family: Family,
    names: Callable[[str], TransformNames] = lambda name: TransformNames("all transforms"),
    more: Callable[[Subject], Iterator[Measure]] = lambda subject: iter(()),  # further measures
    published: str = "",  # data set of the published figures, which are of models with 1000 classes
    levels: bool = True,  # there are accuracies by transform and level; without, there is one level
    options: dict[str, Any] | None = None,  # benchmark, noun for its transforms, and its levels, as for Grid
    **shown: Any,
) -> FamilyReport:
    """Return the report on a family whose transforms produce images, not sequences.

    ``shown`` are fields of the report that differ from those of most families.
    """

    def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
        subject = Subject(evaluation, context, **(options or {}))
        grid = subject.grid
        measures = [
            *grid.estimate(MEAN_ACCURACY, lambda means: 1 - grid.mean(means.cells)),
            *grid.estimate(ACCURACY, lambda means: 1 - metrics.mean_over(means.cells), "transform"),
            *(grid.estimate(ACCURACY, lambda means: 1 - means.cells, "both") if levels else ()),
            *more(subject),
        ]
        transforms = {name: names(name) for name in grid.transforms}
        known = published if has_imagenet_labels(evaluation) else ""
        yield subject.results(report, measures, transforms=transforms, published=known)

    usual: dict[str, Any] = {
        "key": family.name.replace("-", "_"),
        "metrics": (MEAN_ACCURACY, ACCURACY, *CALIBRATION),
        "leads": (MEAN_ACCURACY.name,),
        "note": NOTE,
        "tables": (TABLE,),
        "calibrated": True,
    }
    report = FamilyReport(family=family.name, measure=measure, **{**usual, **shown})
    return report


IMAGENET_S = accuracy_report(
    imagenet_s.FAMILY,
    lambda name: TransformNames(labels=(imagenet_s.PAIRS[name].decoder, imagenet_s.PAIRS[name].resize)),
    lambda subject: subject.grid.estimate(
        NSD, lambda means: metrics.normalised_standard_deviation(1 - means.cells[..., 0])
    ),
    levels=False,
    key="system_noise",
    metrics=(MEAN_ACCURACY, NSD, ACCURACY, *CALIBRATION),
    note=f"Accuracy in percent, NSD in percentage points, {INTERVAL}. Higher is better.",
    tables=(
        Pivot(
            "accuracy by decoder and resize operator",
            [ACCURACY.name],
            f"Top-1 accuracy in percent, {INTERVAL}. Higher is better.",
            head=["decoder", "resize operator"],
            plot="heat map",
        ),
    ),
    transform="pair",
    glossary={
        "NSD": "The negated standard deviation of the accuracy over all pairs of decoder and resize operator, in "
        "percentage points. 0 means that the accuracy does not depend on how images are decoded and resized."
    },
    sources=("Tang et al., RobustART, 2021 (ImageNet-S)",),
)


def _lost(subject: Subject) -> Iterator[Measure]:
    """Yield the accuracy that corruptions cost, over the images that have a clean version."""
    if paired := subject.paired:
        lost = metrics.residual_robustness
        yield from paired.estimate(
            RESIDUAL_ROBUSTNESS, lambda means: lost(1 - means.others[..., 0], 1 - paired.mean(means.cells))
        )
        yield from paired.estimate(
            RESIDUAL_ROBUSTNESS, lambda means: lost(1 - means.others, 1 - means.cells[..., 0]), "transform"
        )
        yield from paired.estimate(CLEAN_ACCURACY, lambda means: 1 - means.others[..., 0], covers="")


SYN2NAT = accuracy_report(
    syn2nat.FAMILY,
    lambda name: TransformNames(syn2nat.CATEGORY_OF.get(name, ""), name in syn2nat.SYN2NAT),
    _lost,
    levels=False,
    options={"benchmark": syn2nat.SYN2NAT, "what": "corruption"},
    key="syn2nat",
    metrics=(RESIDUAL_ROBUSTNESS, MEAN_ACCURACY, CLEAN_ACCURACY, ACCURACY, *CALIBRATION),
    leads=(RESIDUAL_ROBUSTNESS.name, MEAN_ACCURACY.name),
    note=f"Percent, {INTERVAL}. Residual robustness is the clean accuracy minus the mean accuracy on corrupted images: "
    "smaller is better. Compare only models of similar clean accuracy by it.",
    tables=(
        Pivot(
            "accuracy by candidate",
            [ACCURACY.name],
            f"Top-1 accuracy in percent, {INTERVAL}. Higher is better.",
            plot="bars",
        ),
        Pivot(
            "residual robustness by candidate",
            [RESIDUAL_ROBUSTNESS.name],
            f"Clean accuracy minus accuracy, in percentage points, {INTERVAL}. Smaller is better.",
            plot="bars",
        ),
    ),
    transform="candidate",
    glossary={
        "Residual robustness (ImageNet-Syn2Nat)": "The clean accuracy minus the mean accuracy under the 18 corruptions "
        "of ImageNet-Syn2Nat, in percentage points. Other candidates are not included in means."
    },
    sources=("Laugros, Caplier and Ospici, BMVC 2021 (ImageNet-Syn2Nat)",),
)

IMAGENET_3DCC = accuracy_report(
    imagenet_3dcc_noise.FAMILY,
    published="imagenet-3dcc",
    options={
        "benchmark": (*imagenet_3dcc_noise.FAMILY.names, *imagenet_3dcc_noise.OTHERS),
        "what": "corruption",
        "levels": imagenet_3dcc_noise.FAMILY.levels,
    },
    tables=(replace(TABLE, title="accuracy by corruption and severity", level="severity "),),
    transform="corruption",
    level="severity",
    note=f"{NOTE} ImageNet-3DCC has twelve corruptions. A mean over the three that need no depth is not that of "
    "ImageNet-3DCC, and is marked.",
    glossary={
        "ImageNet-3DCC": "Twelve corruptions at five severities. Three of them, iso_noise, low_light and color_quant, "
        "can be made from the picture alone; the others need its depth or a video encoder, and are evaluated as "
        "published. Published accuracies are on 5,000 images."
    },
    sources=("Kar, Yeo, Atanov and Zamir, CVPR 2022 (ImageNet-3DCC)", "RobustBench (accuracies on ImageNet-3DCC)"),
)


# LAION-C: accuracy among 16 superclasses, and among ImageNet's classes where labels are these

MEAN_SUPERCLASS, SUPERCLASS = Metric("mean superclass accuracy", 1), Metric("superclass accuracy", 1)

NONE = -1  # superclass of classes in none of them


def _right(evaluation: Evaluation, predicted: ConditionPredictions) -> Floats:
    """Return whether superclass and class of each image are right, (S, 2); NaN where it has none, or none is known."""
    right, task = 1.0 - top1_errors(evaluation, predicted), evaluation.table.task
    unknown = np.full_like(right, np.nan)
    if task is None or not task.groups:
        return np.stack([unknown, right], axis=1)
    if task.labels_are is None:
        return np.stack([right, unknown], axis=1)
    superclasses = np.full(task.outputs, NONE)
    for superclass, classes in enumerate(task.groups):
        superclasses[list(classes)] = superclass
    labels = superclasses[predicted.labels]
    of_group = np.where(labels == NONE, np.nan, predicted.free[:, 0] == labels)
    return np.stack([of_group, np.where(labels == NONE, np.nan, right)], axis=1)


def measure_laion_c(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on LAION-C, over the images whose class is in a superclass."""
    options = {"benchmark": laion_c.FAMILY.names, "what": "distortion", "levels": laion_c.FAMILY.levels}
    subject = Subject(evaluation, context, condition_scores(evaluation, _right), **options)
    scores = subject.scores
    measures: list[Measure] = []
    counted, outside = 0, 0
    for column, (mean, by_condition) in enumerate(((MEAN_SUPERCLASS, SUPERCLASS), (MEAN_ACCURACY, ACCURACY))):
        values = scores.values[..., column]
        rows = np.flatnonzero(~np.isnan(values).any(axis=1))
        if not rows.size:
            continue
        grid = subject.grid_of(values[rows])
        measures += grid.estimate(mean, lambda means, grid=grid: grid.mean(means.cells))  # type: ignore[misc]
        measures += grid.estimate(by_condition, lambda means: metrics.mean_over(means.cells), "transform")
        measures += grid.estimate(by_condition, lambda means: means.cells, "both")
        counted, outside = len(rows), len(values) - len(rows)
    if not measures:
        context.warn(f"{evaluation.folder}: no image is of one of the 16 superclasses of LAION-C")
    yield subject.results(
        LAION_C,
        measures,
        counts={"images": (counted, 0), "of no superclass": (outside, 0)},
        transforms={name: TransformNames("distortions") for name in laion_c.FAMILY.names},
        published=laion_c.FAMILY.name if any(each.metric == MEAN_SUPERCLASS.name for each in measures) else "",
    )


LAION_C = FamilyReport(
    family=laion_c.FAMILY.name,
    key="laion_c",
    measure=measure_laion_c,
    metrics=(MEAN_SUPERCLASS, MEAN_ACCURACY, SUPERCLASS, ACCURACY),
    leads=(MEAN_SUPERCLASS.name, MEAN_ACCURACY.name),
    note=f"Accuracy in percent, {INTERVAL}; chance among 16 superclasses is 6.25. Higher is better. Numbers over your "
    "own photographs, and with another bank of tiles, differ from the published ones: compare models on one data set.",
    transform="distortion",
    level="severity",
    tables=[
        replace(TABLE, title=f"{of.name} by distortion and severity", metrics=[of.name], level="severity ")
        for of in (SUPERCLASS, ACCURACY)
    ],
    glossary={
        "Superclass accuracy (LAION-C)": "Share of images whose superclass has the largest mean probability of its "
        "classes among 16 superclasses. The mean, not the sum, is published: superclasses of many classes are at a "
        "disadvantage. Images of the 715 classes that are in no superclass are left out."
    },
    sources=("Li, Klein, Brendel, Geirhos and Zimmermann, ICML 2025 (LAION-C)",),
)


# ImageNet-W: what a watermark costs, and how often networks answer it with "carton"

GAP = Metric("IN-W gap", 1, "difference", of_clean=True)
CARTON_GAP = Metric("carton gap", -1, "difference", of_clean=True)
PROBABILITY = Metric("probability of carton", -1)
CLEAN_PROBABILITY = Metric("clean probability of carton", of_clean=True)
PROBABILITY_GAP = Metric("carton probability gap", -1, "difference", of_clean=True)
CARTON_PROBABILITY = Metric("probability of carton on carton images")
ANSWERS = Metric("answers carton", -1)


def measure_imagenet_w(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-W. Gaps are over the images that have a clean version."""
    subject = Subject(evaluation, context, condition_scores(evaluation, _of_carton))
    scores, paired = subject.scores, subject.paired
    labels, of_imagenet = scores.images.labels, has_imagenet_labels(evaluation)
    carton = (labels == imagenet_w.CARTON) & of_imagenet
    measures = [*subject.grid.estimate(ACCURACY, lambda means: 1 - means.cells[..., 0, 0])]
    if paired and subject.clean:
        measures += paired.estimate(GAP, _gap)
        measures += paired.estimate(CLEAN_ACCURACY, lambda means: 1 - means.others[..., 0])
        rows = np.flatnonzero(carton[subject.clean.rows])
        if rows.size:
            cartons = subject.grid_of(subject.errors[subject.clean.rows[rows]], subject.clean.errors[rows, None])
            measures += cartons.estimate(CARTON_GAP, _gap)
    if of_imagenet:
        measures += means_of([ANSWERS], scores.values[..., 2], context.resamples)
        measures += _probabilities(subject)
    if carton.any():
        measures += means_of([CARTON_PROBABILITY], scores.values[carton][..., 3], context.resamples)
    else:
        reason = "it has no image of this class" if of_imagenet else "its labels are not those of ImageNet"
        context.warn(f"{evaluation.folder}: no carton gap, because {reason}")
    yield subject.results(
        IMAGENET_W,
        measures,
        counts={"images": (len(labels), 0), "carton images": (int(carton.sum()), 0)},
        transforms={name: TransformNames() for name in imagenet_w.FAMILY.names},
        published="imagenet-w" if of_imagenet else "",
    )


def _of_carton(evaluation: Evaluation, predicted: ConditionPredictions) -> Floats:
    """Return error, probability of carton, whether it is the answer, and the probability of the label, (S, 4)."""
    shortcut = predicted.shortcut_probability
    columns = [
        top1_errors(evaluation, predicted),
        np.full(len(predicted.labels), np.nan) if shortcut is None else shortcut[:, 0],
        predicted.top1[:, 0] == imagenet_w.CARTON,
        predicted.label_probability[:, 0],
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def _probabilities(subject: Subject) -> Iterator[Measure]:
    """Yield the mean probability of carton, that on the clean images, and how much larger the former is."""
    marked, clean, context = subject.scores.values[..., 1], subject.clean, subject.context
    folder, again = subject.evaluation.folder, "evaluate again into a new folder"
    if np.isnan(marked).any():
        context.warn(f"{folder}: no probability of carton, because it was not recorded: {again}")
        return
    yield from means_of([PROBABILITY], marked, context.resamples)
    if clean is None:
        return
    if clean.shortcuts is None or np.isnan(clean.shortcuts).any():
        context.warn(f"{folder}: no carton probability gap, because its clean images have none: {again}")
    else:
        paired = subject.grid_of(marked[clean.rows], clean.shortcuts[:, None])
        yield from paired.estimate(CLEAN_PROBABILITY, lambda means: means.others[..., 0])
        yield from paired.estimate(PROBABILITY_GAP, lambda means: means.cells[..., 0, 0] - means.others[..., 0])


def _gap(means: Means) -> Floats:
    """Return the accuracy minus that on the clean images, (...)."""
    return np.asarray(means.others[..., 0] - means.cells[..., 0, 0])


IMAGENET_W = FamilyReport(
    family=imagenet_w.FAMILY.name,
    key="imagenet_w",
    measure=measure_imagenet_w,
    metrics=(
        *(GAP, CARTON_GAP, ACCURACY, CLEAN_ACCURACY, ANSWERS),
        *(PROBABILITY, CLEAN_PROBABILITY, PROBABILITY_GAP, CARTON_PROBABILITY),
    ),
    leads=(GAP.name, ACCURACY.name),
    note=f"Percent, gaps in percentage points, {INTERVAL}. A negative IN-W gap and a positive carton gap show that the "
    "model relies on the watermark. Gaps need an evaluation on clean images of the same preparation.",
    glossary={
        "IN-W gap, carton gap": "The accuracy on watermarked images minus that on the same images without the "
        "watermark: over all images, and over those of the class carton, of which the validation set of ImageNet has "
        "50.",
        "Probability of carton, carton probability gap": "The mean probability of the class carton over all "
        "watermarked images, and that minus the same on the clean images. The gap is the most sensitive of these "
        "figures: it needs no image whose answer changes.",
    },
    sources=("Li et al., CVPR 2023 (ImageNet-W)",),
)
