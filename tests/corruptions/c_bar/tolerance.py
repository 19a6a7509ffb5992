"""How far an output of ImageNet-C-bar may differ from a reference with the same draws."""

from collections.abc import Mapping

import numpy as np

EXACT = {"cocentric_sine_waves", "single_frequency_greyscale"}
"""Corruptions whose outputs must equal the references."""
DIFFERENT = 0.01
"""Largest fraction of values that may differ, by one level."""
MORE_DIFFERENT: Mapping[str, float] = {
    "caustic_refraction": 0.02,
    "pinch_and_twirl": 0.02,
    "ripple": 0.02,
    "circular_motion_blur": 0.02,
    "transverse_chromatic_abberation": 0.03,
}
"""The same for corruptions whose last step truncates or rounds sums that are whole or halves but for float noise."""
JUMPS: Mapping[str, float] = {"blue_noise_sample": 1e-4, "checkerboard_cutout": 1e-4, "caustic_refraction": 5e-4}
"""Fraction of pixels, at least one pixel, that may differ by more than a level, where a formula jumps."""


def assert_within(name: str, result: np.ndarray, expected: np.ndarray, message: object = "") -> None:
    """Assert that an output equals a reference within the tolerance of its corruption."""
    assert result.shape == expected.shape, message
    difference = np.abs(result.astype(int) - expected)
    assert (difference > 0).mean() <= (0 if name in EXACT else MORE_DIFFERENT.get(name, DIFFERENT)), message
    jumps = (difference > 1).any(axis=2)
    assert jumps.sum() <= max(JUMPS.get(name, 0.0) * jumps.size, name in JUMPS), message
