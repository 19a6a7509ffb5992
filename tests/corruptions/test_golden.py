"""Each image of the reference file, reproduced from the published draws."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import corruptions
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from tests.golden import fidelity, names, published

LARGEST_DIFFERENCE = 3
"""Largest allowed difference in levels."""
MORE_THAN_ONE_LEVEL = 0.001
"""Largest allowed fraction of values that differ by more than one level."""
INEXACT = {"defocus_blur"}
"""Corruptions with values that differ from the published ones."""
FIRST_SEED = 1000
"""The reference images were drawn with RandomState(1000 + severity)."""

PUBLISHED = names.published(names.CORRUPTIONS)

GOLDEN_INPUTS = {"imagenet": 2, "inception": 1, "tiny": 2, "cifar": 2}
GOLDEN_SEVERITIES = {"imagenet": SEVERITIES, "inception": (1, 3, 5), "tiny": SEVERITIES, "cifar": SEVERITIES}


LEVELS_OFF = {"defocus_blur": 1, "motion_blur": 1, "spatter": 1}
"""Corruption -> largest difference in levels from the outputs of the profile of detection. Others are equal."""


@pytest.fixture(scope="module")
def golden(golden_folder: Path) -> dict[str, np.ndarray]:
    with np.load(golden_folder / "imagenet_c.npz") as archive:
        return dict(archive)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("profile", PROFILE_SIDES)
def test_corrupt_equals_the_published_image(
    golden: dict[str, np.ndarray], profile: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    fractions, largest = [], []
    for index, severity in product(range(GOLDEN_INPUTS[profile]), GOLDEN_SEVERITIES[profile]):
        expected = golden.get(f"{profile}/{index}/{name}/{severity}")
        if expected is not None:
            image, rng = golden[f"{profile}/{index}/input"], np.random.RandomState(FIRST_SEED + severity)
            ours = corruptions.corrupt(image, name, severity, profile=profile, rng=rng)
            difference = np.abs(ours.astype(int) - expected)
            fractions.append((difference > 1).mean())
            largest.append(difference.max())
    if not fractions:
        pytest.skip(f"no reference images for profile {profile}")
    worst = f"{100 * max(fractions):.4f} % of values differ by more than one level, largest difference {max(largest)}"
    record_property("parity", f"{profile:9} {name:17} {worst}")
    assert max(fractions) <= MORE_THAN_ONE_LEVEL
    assert max(largest) <= (LARGEST_DIFFERENCE if name in INEXACT else 0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_outputs_of_any_size_equal_those_of_imagecorruptions(references: Path, name: str) -> None:
    with np.load(references / "native.npz") as archive:
        outputs = list(fidelity.native_outputs(dict(archive), name=name))
    assert len(outputs) >= 25
    largest = [int(np.abs(output.found.astype(int) - output.expected).max()) for output in outputs]
    assert max(largest) <= LEVELS_OFF.get(name, 0)


def test_the_reference_file_is_covered(golden: dict[str, np.ndarray], references: Path) -> None:
    expected = {
        f"{profile}/{index}/{item}"
        for profile in PROFILE_SIDES
        for index in range(GOLDEN_INPUTS[profile])
        for item in ("input", *(f"{name}/{severity}" for name in PUBLISHED for severity in GOLDEN_SEVERITIES[profile]))
    }
    assert set(golden) == expected


def test_the_committed_part_equals_the_reference_file(shared: Path) -> None:
    with np.load(published.FOLDER / "imagenet_c.npz") as part, np.load(shared / "golden" / "imagenet_c.npz") as whole:
        assert {key.split("/")[2] for key in part} == {"input", *PUBLISHED}
        for key in part:
            np.testing.assert_array_equal(part[key], whole[key])
