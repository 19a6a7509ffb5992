"""All corruptions and perturbations that the tests expect, in one table each.

To add a corruption or a perturbation, add a row with ``published=False``, record its digests with
``python -m tests.golden.digests --write`` and describe it in CHANGELOG.md. No other test lists the names.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Expected(NamedTuple):
    """One expected transform."""

    name: str
    kind: str
    benchmark: bool = True
    """Whether it belongs to the benchmark, not only to its validation."""
    published: bool = True
    """Whether its authors published it, so that reference images and AlexNet's errors exist."""


CORRUPTIONS = (
    Expected("gaussian_noise", "noise"),
    Expected("shot_noise", "noise"),
    Expected("impulse_noise", "noise"),
    Expected("defocus_blur", "blur"),
    Expected("glass_blur", "blur"),
    Expected("motion_blur", "blur"),
    Expected("zoom_blur", "blur"),
    Expected("snow", "weather"),
    Expected("frost", "weather"),
    Expected("fog", "weather"),
    Expected("brightness", "weather"),
    Expected("contrast", "digital"),
    Expected("elastic_transform", "digital"),
    Expected("pixelate", "digital"),
    Expected("jpeg_compression", "digital"),
    Expected("speckle_noise", "noise", benchmark=False),
    Expected("gaussian_blur", "blur", benchmark=False),
    Expected("spatter", "weather", benchmark=False),
    Expected("saturate", "digital", benchmark=False),
)
"""In the order in which ``corruptions.names("all")`` lists them: the benchmark first."""

PERTURBATIONS = (
    Expected("gaussian_noise", "noise"),
    Expected("shot_noise", "noise"),
    Expected("motion_blur", "blur"),
    Expected("zoom_blur", "blur"),
    Expected("snow", "weather"),
    Expected("brightness", "weather"),
    Expected("translate", "digital"),
    Expected("rotate", "digital"),
    Expected("tilt", "digital"),
    Expected("scale", "digital"),
    Expected("speckle_noise", "noise", benchmark=False),
    Expected("gaussian_blur", "blur", benchmark=False),
    Expected("spatter", "weather", benchmark=False),
    Expected("shear", "digital", benchmark=False),
)
"""In the order in which ``perturbations.names("all")`` lists them: the benchmark first."""


def published(table: Sequence[Expected]) -> tuple[str, ...]:
    """Return the names for which reference data was published."""
    return tuple(row.name for row in table if row.published)


def groups(table: Sequence[Expected]) -> Mapping[str, tuple[str, ...]]:
    """Return the names of each group."""
    kinds = ("noise", "blur", "weather", "digital")
    return {
        "benchmark": tuple(row.name for row in table if row.benchmark),
        "validation": tuple(row.name for row in table if not row.benchmark),
        "all": tuple(row.name for row in table),
        **{kind: tuple(row.name for row in table if row.benchmark and row.kind == kind) for kind in kinds},
    }
