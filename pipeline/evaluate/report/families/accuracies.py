"""Reports on accuracies by transform and level: ImageNet-S, -Syn2Nat, -3DCC, and families that have no report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pipeline.evaluate import metrics
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.real_labels import has_imagenet_labels
from pipeline.evaluate.report.subject import CALIBRATION, Subject
from pipeline.evaluate.report.views import INTERVAL, PLAIN, WIDTH
from pipeline.transforms import imagenet_3dcc_noise, imagenet_s, syn2nat
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
    more: Callable[[Subject], Iterator[Measure]] = lambda subject: iter(()),
    published: str = "",
    levels: bool = True,
    options: dict[str, Any] | None = None,
    **shown: Any,
) -> FamilyReport:
    """Return the report on a family whose transforms produce images, not sequences.

    Args:
        family: The family.
        names: Returns how a transform is shown.
        more: Returns further measures.
        published: Data set of the published figures, which are of models with 1000 classes.
        levels: Whether there are accuracies by transform and level; without, there is one level.
        options: Benchmark, noun for its transforms, and its levels, as for ``Grid``.
        shown: Fields of the report that differ from those of most families.
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


def _spread(subject: Subject) -> Iterator[Measure]:
    """Yield the standard deviation over the pairs of decoder and resize operator."""
    yield from subject.grid.estimate(NSD, lambda means: metrics.normalised_standard_deviation(1 - means.cells[..., 0]))


def _pair(name: str) -> TransformNames:
    pair = imagenet_s.PAIRS[name]
    return TransformNames(labels=(pair.decoder, pair.resize))


IMAGENET_S = accuracy_report(
    imagenet_s.FAMILY,
    _pair,
    _spread,
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
        "percentage points. 0 means that the accuracy does not depend on how images are decoded and resized.",
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
        "of ImageNet-Syn2Nat, in percentage points. Other candidates are not included in means.",
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
    note=f"{NOTE} ImageNet-3DCC has twelve corruptions. A mean over the three that need no depth is not that of "
    "ImageNet-3DCC, and is marked.",
    glossary={
        "ImageNet-3DCC": "Twelve corruptions at five severities. Three of them, iso_noise, low_light and color_quant, "
        "can be made from the picture alone; the others need its depth or a video encoder, and are evaluated as "
        "published. Published accuracies are on 5,000 images.",
    },
    sources=("Kar, Yeo, Atanov and Zamir, CVPR 2022 (ImageNet-3DCC)", "RobustBench (accuracies on ImageNet-3DCC)"),
)
