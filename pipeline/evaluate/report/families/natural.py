"""The reports on images without a transform: clean, natural under a distribution shift, and anomalous."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats, Numbers
from pipeline.evaluate.metrics.bootstrap import draws_of_groups, wilson
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import Images, Untransformed, read_untransformed
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, TransformNames, complement
from pipeline.evaluate.report.real_labels import VALIDATION_IMAGES, complete_images, real_images
from pipeline.evaluate.report.subject import (
    CALIBRATION,
    CALIBRATION_OF_CLEAN,
    means_of,
    measures_of,
    natural_calibration,
)
from pipeline.evaluate.report.views import COUNT, INTERVAL
from pipeline.tasks.schema import Task
from pipeline.text import counted
from pipeline.transforms.clean import FAMILY

# Clean images

TOP1_ERROR, TOP5_ERROR = Metric("top-1 error", -1, of_clean=True), Metric("top-5 error", -1, of_clean=True)
REAL_ACCURACY = Metric("accuracy (ReaL)", 1, of_clean=True)
REAL_TOP5_ACCURACY = Metric("top-5 accuracy (ReaL)", 1, of_clean=True)

IMAGENET = "imagenet"
"""The figure of natural robustness that is the accuracy on clean images; the data set of published errors on them."""


def measure_clean(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on clean images."""
    clean = context.clean[evaluation.location]
    errors = np.stack([clean.top1_errors, clean.predicted.label_rank[:, 0] > metrics.TOP], axis=1)
    measures = means_of([TOP1_ERROR, TOP5_ERROR], errors, context.resamples)
    natural = {} if evaluation.groups_digest else {IMAGENET: complement(measures[0], "accuracy")}
    if real := real_images(evaluation, clean.images, context.real, context.warn):
        predicted = clean.predicted.top1[real.rows, 0], clean.predicted.top5[real.rows, 0]
        hits = np.stack([metrics.real_hits(each, real.labels) for each in predicted], axis=1)
        measures += means_of([REAL_ACCURACY, REAL_TOP5_ACCURACY], hits, context.resamples)
        measures.append(Measure("images (ReaL)", len(hits)))
        natural |= {REAL_ACCURACY.name: measures[2]} if natural else {}
    calibration, bins = natural_calibration(clean, context)
    complete = complete_images(evaluation, clean.images.ids)
    yield context.results(
        CLEAN_REPORT,
        evaluation,
        clean.images,
        measures=[*measures, *calibration],
        counts={"images": (len(clean.images.ids), complete)},
        clean_images=evaluation.encoded,
        clean_accuracy=1 - measures[0].value,
        published=IMAGENET if complete == VALIDATION_IMAGES and not evaluation.groups_digest else "",
        natural=natural,
        details=bins,
    )


CLEAN_REPORT = FamilyReport(
    family=FAMILY.name,
    key="clean",
    measure=measure_clean,
    metrics=(
        TOP1_ERROR,
        TOP5_ERROR,
        REAL_ACCURACY,
        REAL_TOP5_ACCURACY,
        Metric("images (ReaL)", 0, "count", COUNT),
        *CALIBRATION_OF_CLEAN,
    ),
    leads=(TOP1_ERROR.name,),
    note=f"Error rates on clean images, in percent, {INTERVAL}. Lower is better, except for accuracies.",
    calibrated=True,
    reassessed=True,
    is_clean=True,
    glossary={
        "Accuracy (ReaL)": "Accuracy by the reassessed labels of the ImageNet validation images, 0 to 9 per image. A "
        "prediction is correct if it is one of the image's labels; a top-5 prediction, if at least one of its five "
        "classes is. Images without a label are not counted."
    },
    sources=("Beyer et al., arXiv 2006.07159 (ReaL)",),
)


# Distribution shifts

ACCURACY = Metric("accuracy", 1)
FREE_ACCURACY, TOP5_ACCURACY = Metric("accuracy (all outputs)", 1), Metric("top-5 accuracy", 1)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)
DROP = Metric("drop (percentage points)", -1, "difference", of_clean=True)
LOWEST = Metric("lowest accuracy of a folder", 1)


def measure_shift(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on natural images under a distribution shift, such as ImageNet-A."""
    natural, task = read_untransformed(evaluation), evaluation.table.task
    free = natural.predicted.free[:, 0] == natural.images.labels
    right = np.stack([~natural.top1_errors, free, natural.predicted.label_rank[:, 0] <= metrics.TOP], axis=1)
    measures = means_of([ACCURACY, FREE_ACCURACY, TOP5_ACCURACY], right, context.resamples)
    accuracy = measures[0]
    if not evaluation.groups_digest:
        del measures[1]  # it equals the accuracy
    if clean := context.clean_counterpart(evaluation, "drop"):
        _warn_of_missing_classes(natural, clean, context)
        measures += _drop(accuracy, clean, context)
    folders = accuracy_by_folder(natural.images, right[:, 0])
    lowest = min(folders, key=folders.__getitem__, default=None)
    if lowest is not None:
        measures.append(Measure(LOWEST.name, folders[lowest]))
    parts = _parts_of(task, natural) if task else {}
    of_parts = [*_of_parts(parts, natural, _parts_of(task, clean) if task and clean else {}, clean)]
    calibration, bins = natural_calibration(natural, context)
    name = task.name if task else ""
    yield context.results(
        SHIFT_REPORT,
        evaluation,
        natural.images,
        measures=[*measures, *of_parts, *calibration],
        counts={"images": (len(natural.images.ids), task.images if task else 0)},
        transforms={
            f"{kind} {part}": TransformNames(kind, benchmark=False, labels=(part,))
            for kind, names in parts.items()
            for part in sorted(set(names))
        },
        clean_images=clean.evaluation.encoded if clean else "",
        clean_accuracy=float(1 - clean.top1_errors.mean()) if clean else math.nan,
        published=name,
        natural={name: accuracy} if name in metrics.NATURAL_FIGURES else {},
        details={"lowest_folder": lowest, **bins},
    )


def _drop(accuracy: Measure, clean: Untransformed, context: Context) -> Iterator[Measure]:
    """Yield the clean accuracy, and minus the accuracy. The images are others, so they are drawn with another seed."""
    bootstrap = metrics.Bootstrap.of(1 - clean.top1_errors, resamples=context.resamples, seed=1)
    means, draws = bootstrap.means[None], bootstrap.draws[:, None]
    count = len(clean.images.ids)
    yield from measures_of(CLEAN_ACCURACY, means, draws, count)
    if accuracy.draws is not None:
        yield from measures_of(DROP, means - accuracy.value, draws - accuracy.draws[:, None], accuracy.images)


def accuracy_by_folder(images: Images, right: Numbers) -> dict[str, float]:
    """Return the accuracy by class folder if a label has several folders, such as one per object; otherwise nothing.

    Source ids start with the folder, and ``right`` is 1 for each image that is classified correctly, (S,).
    """
    names = [folder for folder, slash, _ in (id_.partition("/") for id_ in images.ids) if slash]
    means = _means(names, right) if len(names) == len(images.ids) else {}
    return {name: mean for name, (_, mean) in means.items()} if len(means) > len(np.unique(images.labels)) else {}


def _warn_of_missing_classes(natural: Untransformed, clean: Untransformed, context: Context) -> None:
    classes = np.unique(natural.images.labels)
    missing = np.setdiff1d(classes, clean.images.labels)
    if len(missing):
        context.warn(
            f"{natural.evaluation.folder}: the drop compares different classes, because the clean images, "
            f"{clean.evaluation.folder}, lack {len(missing):,} of its {counted(len(classes), 'class', 'classes')}"
        )


def _parts_of(task: Task, natural: Untransformed) -> Mapping[str, Sequence[str]]:
    """Return for each kind of parts the part of each image."""
    images = natural.images
    parts: dict[str, Sequence[str]] = {}
    if task.classes:
        names = dict(enumerate(task.classes))
        parts["class"] = [names.get(label, str(label)) for label in images.labels.tolist()]
    for position, kind in enumerate(task.folders or ()):
        folders = [id_.split("/")[:-1] for id_ in images.ids]
        if kind and all(len(each) > position for each in folders):
            parts[kind] = [each[position] for each in folders]
    return parts


def _of_parts(
    parts: Mapping[str, Sequence[str]],
    natural: Untransformed,
    clean_parts: Mapping[str, Sequence[str]],
    clean: Untransformed | None,
) -> Iterator[Measure]:
    """Yield accuracy, clean accuracy and drop by part of the data set: by class, and by parts that the task names."""
    for kind, names in parts.items():
        of_clean = _means(clean_parts[kind], 1.0 - clean.top1_errors) if clean and kind in clean_parts else {}
        for part, (count, accuracy) in _means(names, 1.0 - natural.top1_errors).items():
            name = f"{kind} {part}"
            yield _share(ACCURACY, accuracy, name, count)
            if part in of_clean:
                images, clean_accuracy = of_clean[part]
                yield _share(CLEAN_ACCURACY, clean_accuracy, name, images)
                yield Measure(DROP.name, clean_accuracy - accuracy, transform=name, images=count)


def _share(metric: Metric, share: float, part: str, images: int) -> Measure:
    """Return the accuracy on a part of a data set with Wilson's interval."""
    low, high = map(float, wilson(round(share * images), images))
    return Measure(metric.name, share, low, high, part, images=images)


def _means(names: Sequence[str], values: Numbers) -> dict[str, tuple[int, float]]:
    """Return the number of images and the mean of their values by part, in sorted order."""
    distinct, members = np.unique(names, return_inverse=True)
    counts = np.bincount(members)
    means: Floats = np.bincount(members, values) / counts
    return dict(zip(distinct.tolist(), zip(counts.tolist(), means.tolist(), strict=True), strict=True))


SHIFT_REPORT = FamilyReport(
    family=FAMILY.name,
    key="shifts",
    measure=measure_shift,
    metrics=(ACCURACY, FREE_ACCURACY, TOP5_ACCURACY, CLEAN_ACCURACY, DROP, LOWEST, *CALIBRATION),
    leads=(ACCURACY.name,),
    note=f"Accuracy in percent, {INTERVAL}. Higher is better, except for the drop.",
    tables=(
        Pivot(
            "accuracy by {group}",
            [ACCURACY.name, CLEAN_ACCURACY.name, DROP.name],
            "Top-1 accuracy in percent. Higher is better.",
        ),
    ),
    calibrated=True,
    glossary={
        "Accuracy, accuracy (all outputs)": "If a data set has only some of the classes, the model chooses among "
        "these; a class may be a group of its outputs. “All outputs”: it chooses among all of its outputs.",
        "Drop": "The accuracy on clean images of the same classes minus the accuracy, in percentage points. For "
        "held-out subclasses and styles, the clean images are those of the subclasses and styles that are not held "
        "out.",
    },
    sources=(
        "Hendrycks and Dietterich, arXiv 1807.01697 (subclasses of CIFAR-100 and ImageNet-22K, Icons-50)",
        "Recht et al., ICML 2019 (ImageNet-V2)",
        "Geirhos et al., ICLR 2019 (Stylized-ImageNet)",
        "Wang et al., NeurIPS 2019 (ImageNet-Sketch)",
        "Barbu et al., NeurIPS 2019 (ObjectNet)",
        "Hendrycks et al., CVPR 2021 (ImageNet-A)",
        "Hendrycks et al., ICCV 2021 (ImageNet-R)",
        "Dong et al., NeurIPS 2022 (ImageNet-V)",
    ),
)


# Anomalous images

AUPR = Metric("AUPR", 1, "area", of_clean=True)

MAX_RESAMPLES = 200  # maximum number of bootstrap draws of AUPR: each draw sorts all images


def measure_anomalies(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the AUPR of an evaluation on images of none of the classes (ImageNet-O), against clean ones.

    Positive images are the anomalous ones. The score of an image is minus its largest probability among the groups.
    """
    anomalous, task = read_untransformed(evaluation), evaluation.table.task
    clean = context.clean_counterpart(evaluation, AUPR.name)
    measures: list[Measure] = []
    if clean:
        scores = [metrics.anomaly_score(each.confidences[:, None]) for each in (clean, anomalous)]
        drawn = draws_of_groups(_area, scores, resamples=min(context.resamples, MAX_RESAMPLES))
        measures += measures_of(AUPR, np.array([_area(scores)]), drawn[:, None], len(anomalous.images.ids))
    yield context.results(
        ANOMALY_REPORT,
        evaluation,
        anomalous.images,
        measures=measures,
        counts={
            "anomalous images": (len(anomalous.images.ids), task.images if task else 0),
            "clean images": (len(clean.images.ids) if clean else 0, 0),
        },
        clean_images=clean.evaluation.encoded if clean else "",
        published=task.name if task else "",
    )


def _area(groups: Sequence[Numbers]) -> float:
    """Return the AUPR of two groups of anomaly scores: clean, anomalous."""
    anomalous = np.repeat([False, True], [len(group) for group in groups])
    return float(metrics.area_under_precision_recall(np.concatenate(groups), anomalous))


ANOMALY_REPORT = FamilyReport(
    family=FAMILY.name,
    key="anomalies",
    measure=measure_anomalies,
    metrics=(AUPR,),
    leads=(AUPR.name,),
    note=f"Percent, {INTERVAL}. Higher is better. AUPR is the area under the precision-recall curve for detecting "
    "anomalous images among clean ones: the smaller the largest class probability of an image, the higher its anomaly "
    "score.",
    glossary={
        "AUPR": "Area under the precision-recall curve for detecting, by the model's confidence, images that belong to "
        "none of its classes (ImageNet-O) among clean images. A model that is equally confident on all images has the "
        "share of anomalous images."
    },
    sources=("Hendrycks et al., CVPR 2021 (ImageNet-O)",),
    needs_labels=False,
)
