"""The 15 corruptions of ImageNet-C-bar and CIFAR-10-C-bar (Mintun, Kirillov & Xie, 2021).

The names are spelled as published. Sizes other than the published squares are ours: fractions of a side refer to the
shorter side, positions are drawn over all rows and columns, and the whole image is covered.
"""

from __future__ import annotations

from collections.abc import Mapping

from corruptions.c_bar import geometry, lattices, light, spectral, waves
from corruptions.c_bar.catalogue import GROUP
from corruptions.catalogue import Transform

PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "imagenet": (
        *("caustic_refraction", "inverse_sparkles", "sparkles", "perlin_noise", "blue_noise_sample", "plasma_noise"),
        *("checkerboard_cutout", "cocentric_sine_waves", "single_frequency_greyscale", "brownish_noise"),
    ),
    "cifar": (
        *("blue_noise_sample", "checkerboard_cutout", "inverse_sparkles", "pinch_and_twirl", "ripple"),
        *("brownish_noise", "circular_motion_blur", "lines", "sparkles", "transverse_chromatic_abberation"),
    ),
}
"""Profile -> names of the ten corruptions of its data set (ImageNet-C-bar, CIFAR-10-C-bar), in published order."""

_ROWS = {row.name: row for part in (light, lattices, spectral, waves, geometry) for row in part.CORRUPTIONS}
CORRUPTIONS: Mapping[str, Transform] = {
    name: _ROWS[name] for name in dict.fromkeys((*PUBLISHED["imagenet"], *PUBLISHED["cifar"]))
}
"""Name -> corruption: the ten of ImageNet-C-bar in published order, then the other five of CIFAR-10-C-bar."""

GROUPS: Mapping[str, tuple[str, ...]] = {GROUP: tuple(CORRUPTIONS)}
"""Group -> names in published order."""
