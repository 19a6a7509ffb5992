"""The report on corruptions of ImageNet-3DCC: accuracies, whose mean says how many of the twelve it is over."""

from __future__ import annotations

from pipeline.evaluate.report.families.default import default_report
from pipeline.transforms.imagenet_3dcc_noise import FAMILY, OTHERS

PUBLISHED = "imagenet-3dcc"
"""Data set of the published figures."""

REPORT = default_report(
    FAMILY,
    benchmark=(*FAMILY.names, *OTHERS),
    published=PUBLISHED,
    note="ImageNet-3DCC has twelve corruptions. A mean over the three that need no depth is not that of ImageNet-3DCC, "
    "and is marked.",
    glossary=(
        (
            "ImageNet-3DCC",
            "Twelve corruptions at five severities. Three of them, iso_noise, low_light and color_quant, can be made "
            "from the picture alone; the others need its depth or a video encoder, and are evaluated as published. "
            "Published accuracies are on 5,000 images.",
        ),
    ),
    sources=("Kar, Yeo, Atanov and Zamir, CVPR 2022 (ImageNet-3DCC)", "RobustBench (accuracies on ImageNet-3DCC)"),
)
