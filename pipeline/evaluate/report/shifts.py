"""The report on natural images under a distribution shift, such as ImageNet-A: accuracy, drop from clean images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.arrays import Floats, Numbers
from pipeline.evaluate.report.calibration import CalibrationSummary, CalibrationTable, natural_calibration
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean
from pipeline.evaluate.report.family import Figure, ReportFamily, ReportLayout
from pipeline.evaluate.report.formats import COUNT
from pipeline.evaluate.report.scores import Evaluation, Images, Untransformed, read_untransformed
from pipeline.evaluate.report.strata import ROW_FIGURES, Stratum, strata_of, strata_tables
from pipeline.text import counted
from pipeline.transforms.clean import FAMILY


@dataclass(frozen=True)
class ShiftSummary:
    """The accuracy of one model on natural images under a distribution shift.

    Attributes:
        model: Name of the model.
        data_set: Name of the data set in this report.
        images: Number of images.
        failed: Number of failed samples.
        accuracy: Top-1 accuracy; among the groups of the task if it has groups.
        free_accuracy: Top-1 accuracy among all outputs of the model: the first one must be in the group of the label.
            None if the task has no groups, since it equals ``accuracy``.
        top5_accuracy: Top-5 accuracy.
        clean_accuracy: Top-1 accuracy on clean images with the same labels; None if they were not evaluated.
        drop: Clean accuracy minus accuracy.
        clean_images: How the clean images are stored; empty if they were not evaluated.
        lowest_folder_accuracy: Accuracy of the class folder with the lowest one; None if each label has one folder.
        lowest_folder: Name of this folder.
        complete_images: Number of images of the complete data set; 0 if unknown.
        manifest_sha256: Digest of the data set's manifest.
        source_ids_sha256: Digest of the sorted source ids of the images.
        calibration: Calibration of the probabilities; of groups if the task has groups.
        strata: Accuracy by class and by the other parts that the task names; empty if it names none.
    """

    model: str
    data_set: str
    images: int
    failed: int
    accuracy: Estimate
    free_accuracy: Estimate | None
    top5_accuracy: Estimate
    clean_accuracy: float | None = None
    drop: Estimate | None = None
    lowest_folder_accuracy: float | None = None
    lowest_folder: str | None = None
    complete_images: int = 0
    manifest_sha256: str = ""
    source_ids_sha256: str = ""
    calibration: CalibrationSummary | None = None
    strata: Sequence[Stratum] = ()
    clean_images: str = ""


def summarise_shift(evaluation: Evaluation, context: ReportContext) -> list[ShiftSummary]:
    """Return the summary of an evaluation on natural images under a distribution shift."""
    natural, task = read_untransformed(evaluation), evaluation.table.task
    errors = np.stack([natural.top1_errors, natural.free_errors, natural.top5_errors], axis=1)
    bootstrap = context.bootstrap(1 - errors)
    about = context.about(evaluation, natural.images)
    clean = context.clean_counterpart(evaluation, "drop")
    if clean:
        _warn_of_missing_classes(natural, clean, context)
    folders = accuracy_by_folder(natural.images, 1 - natural.top1_errors)
    lowest = min(folders, key=folders.__getitem__, default=None)
    return [
        ShiftSummary(
            model=about.model,
            data_set=about.data_set,
            images=len(natural.images.ids),
            failed=about.failed,
            accuracy=column_mean(bootstrap, 0),
            free_accuracy=column_mean(bootstrap, 1) if evaluation.groups_digest else None,
            top5_accuracy=column_mean(bootstrap, 2),
            clean_accuracy=float(1 - clean.top1_errors.mean()) if clean else None,
            drop=_drop(natural, clean, context) if clean else None,
            lowest_folder_accuracy=folders[lowest] if lowest is not None else None,
            lowest_folder=lowest,
            complete_images=task.images if task else 0,
            manifest_sha256=about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
            calibration=natural_calibration(natural, context),
            strata=strata_of(natural, clean),
            clean_images=clean.evaluation.encoded if clean else "",
        )
    ]


def accuracy_by_folder(images: Images, right: Numbers) -> dict[str, float]:
    """Return the accuracy by class folder if a label has several folders, such as one per object; otherwise nothing.

    Args:
        images: Images whose source ids start with the folder.
        right: 1 for each image that is classified correctly, 0 for others, (S,).
    """
    names = [folder for folder, slash, _ in (id_.partition("/") for id_ in images.ids) if slash]
    folders, members = np.unique(names, return_inverse=True)
    if len(names) < len(images.ids) or len(folders) <= len(np.unique(images.labels)):
        return {}
    means: Floats = np.bincount(members, right) / np.bincount(members)
    return dict(zip(folders.tolist(), means.tolist(), strict=True))


def _drop(natural: Untransformed, clean: Untransformed, context: ReportContext) -> Estimate:
    """Return the clean accuracy minus the accuracy. The images are others, so they are drawn with another seed."""
    shifted = context.bootstrap(natural.top1_errors)
    other = context.bootstrap(clean.top1_errors, seed=1)
    return Bootstrap(shifted.means - other.means, shifted.draws - other.draws).estimate(lambda drop: drop)


def _warn_of_missing_classes(natural: Untransformed, clean: Untransformed, context: ReportContext) -> None:
    classes = np.unique(natural.images.labels)
    missing = np.setdiff1d(classes, clean.images.labels)
    if len(missing):
        context.warn(
            f"{natural.evaluation.folder}: the drop compares different classes, because the clean images, "
            f"{clean.evaluation.folder}, lack {len(missing):,} of its {counted(len(classes), 'class', 'classes')}"
        )


ACCURACY = Figure("accuracy", lambda summary: summary.accuracy, higher_is_better=True)

REPORT = ReportFamily(
    FAMILY.name,
    summarise_shift,
    ReportLayout[ShiftSummary](
        key="shifts",
        figures=(
            ACCURACY,
            Figure("accuracy (all outputs)", lambda summary: summary.free_accuracy),
            Figure("top-5 accuracy", lambda summary: summary.top5_accuracy),
            Figure("clean accuracy", lambda summary: summary.clean_accuracy, of_clean=True),
            Figure("drop (percentage points)", lambda summary: summary.drop, of_clean=True),
            Figure("lowest accuracy of a folder", lambda summary: summary.lowest_folder_accuracy),
        ),
        leads=(ACCURACY,),
        note="Accuracy in percent, with the 95 % confidence interval over images in brackets. Higher is better, except "
        "for the drop.",
        counts=(
            Figure("images", lambda summary: summary.images, COUNT, total=lambda summary: summary.complete_images),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        tables=strata_tables,
        rows=lambda summary: summary.strata,
        row_figures=ROW_FIGURES,
        clean_accuracy=lambda summary: summary.clean_accuracy,
        clean_images=lambda summary: summary.clean_images,
        calibration=CalibrationTable(),
        glossary=(
            (
                "Accuracy, accuracy (all outputs)",
                "If a data set has only some of the classes, the model chooses among these; a class may be a group of "
                "its outputs. “All outputs”: it chooses among all of its outputs.",
            ),
            (
                "Drop",
                "The accuracy on clean images of the same classes minus the accuracy, in percentage points. For "
                "held-out subclasses and styles, the clean images are those of the subclasses and styles that are "
                "not held out.",
            ),
        ),
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
    ),
)
