"""The 15 corruptions of ImageNet-C-bar and CIFAR-10-C-bar (Mintun, Kirillov & Xie, 2021).

The names are spelled as published. Sizes other than the published squares are ours: fractions of a side refer to the
shorter side, positions are drawn over all rows and columns, and the whole image is covered.
"""

from collections.abc import Callable, Mapping
from typing import Any

from corruptions.c_bar import geometry, lattices, light, spectral, waves
from corruptions.catalogue import Transform, draw_nothing

GROUP = "c-bar"
"""Group of these corruptions."""

LEVELS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "imagenet": {
        "caustic_refraction": (2.35, 3.2, 4.9, 6.6, 9.15),
        "inverse_sparkles": (1, 2, 4, 9, 10),
        "sparkles": (1, 2, 3, 5, 6),
        "perlin_noise": (4.6, 5.2, 5.8, 7.6, 8.8),
        "blue_noise_sample": (0.8, 1.6, 2.4, 4, 5.6),
        "plasma_noise": (4.75, 7, 8.5, 9.25, 10),
        "checkerboard_cutout": (2, 3, 4, 5, 6),
        "cocentric_sine_waves": (3, 5, 8, 9, 10),
        "single_frequency_greyscale": (1, 1.5, 2, 4.5, 5),
        "brownish_noise": (1, 2, 3, 4, 5),
    },
    "cifar": {
        "blue_noise_sample": (0.7, 1.4, 2.1, 3.5, 4.2),
        "checkerboard_cutout": (1, 2, 3, 4, 5),
        "inverse_sparkles": (1, 1.5, 2.5, 4.5, 5),
        "pinch_and_twirl": (5.5, 6, 6.5, 8.5, 10),
        "ripple": (5.5, 6, 6.5, 7.5, 8),
        "brownish_noise": (2.5, 4, 5.5, 6.5, 7),
        "circular_motion_blur": (2.8, 3.6, 4.4, 5.2, 6),
        "lines": (0.5, 1, 1.5, 2, 2.5),
        "sparkles": (0.7, 3.5, 5.6, 6.3, 7),
        "transverse_chromatic_abberation": (1, 2, 5, 9, 10),
    },
}
"""Profile -> the ten corruptions of its data set (ImageNet-C-bar, CIFAR-10-C-bar), in published order -> their levels
at each severity."""

PUBLISHED: Mapping[str, tuple[str, ...]] = {profile: tuple(levels) for profile, levels in LEVELS.items()}
"""Profile -> names of its corruptions, in published order."""

_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any], Callable[..., Any]]] = {
    "caustic_refraction": (1, light.refract, light.draw_water),
    "inverse_sparkles": (1, light.fade_outside, light.draw_star),
    "sparkles": (1, light.add_stars, light.draw_stars),
    "perlin_noise": (2, lattices.add_noise, lattices.draw_gradients),
    "blue_noise_sample": (1, spectral.sample_by_blue_noise, spectral.draw_blue_noise),
    "plasma_noise": (1, waves.add_plasma, waves.draw_plasma),
    "checkerboard_cutout": (1, lattices.cut_out, lattices.draw_board),
    "cocentric_sine_waves": (2, waves.add_rings, waves.draw_rings),
    "single_frequency_greyscale": (2, waves.add_wave, waves.draw_wave),
    "brownish_noise": (1, spectral.add_brownish_noise, spectral.draw_brownish_noise),
    "pinch_and_twirl": (1, geometry.twirl, geometry.draw_twirls),
    "ripple": (1, geometry.ripple, geometry.draw_waves),
    "circular_motion_blur": (1, geometry.circular_motion_blur, draw_nothing),
    "lines": (1, geometry.add_lines, geometry.draw_bundle),
    "transverse_chromatic_abberation": (1, geometry.zoom_channels, geometry.draw_order),
}
"""Name -> version, how the corruption is applied, and what it draws."""

CORRUPTIONS: Mapping[str, Transform] = {
    name: Transform(name, version, GROUP, {key: row[name] for key, row in LEVELS.items() if name in row}, apply, draw)
    for name, (version, apply, draw) in _FUNCTIONS.items()
}
"""Name -> corruption: the ten of ImageNet-C-bar in published order, then the other five of CIFAR-10-C-bar."""
