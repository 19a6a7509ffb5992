"""Each frame of the reference file, reproduced from the published draws."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import perturbations
from corruptions.catalogue import PROFILE_SIDES
from corruptions.preparation import PROFILE_STEPS
from perturbations.views import make_views
from tests.golden import names

SEED = 2000
"""Seed of the reference frames."""


@pytest.fixture(scope="module")
def golden(golden_folder: Path) -> dict[str, np.ndarray]:
    with np.load(golden_folder / "imagenet_p.npz") as archive:
        return dict(archive)


def photograph(golden: dict[str, np.ndarray], profile: str) -> np.ndarray:
    if f"{profile}/0/source" not in golden:
        pytest.skip(f"no reference frames for profile {profile}")
    with Image.open(io.BytesIO(golden[f"{profile}/0/source"].tobytes())) as image:
        return np.array(image.convert("RGB"))


def sequences(name: str) -> list[tuple[int, str]]:
    """Return each difficulty and its name in the reference file."""
    return [(level, name if level == 1 else f"{name}_{level}") for level in perturbations.get(name).numbers]


@pytest.mark.parametrize("profile", PROFILE_SIDES)
def test_the_base_equals_the_published_one(golden: dict[str, np.ndarray], profile: str) -> None:
    views = make_views(photograph(golden, profile), PROFILE_STEPS[profile])
    np.testing.assert_array_equal(views.base, golden[f"{profile}/0/base"])


@pytest.mark.parametrize("name", names.published(names.PERTURBATIONS))
@pytest.mark.parametrize("profile", PROFILE_SIDES)
def test_perturb_equals_the_published_frames(
    golden: dict[str, np.ndarray], profile: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    source = photograph(golden, profile)
    differing, largest = [], []
    for level, published in sequences(name):
        rng = np.random.RandomState(SEED)
        frames = perturbations.perturb(source, name, profile=profile, difficulty=level, rng=rng)
        prefix = f"{profile}/0/{published}/"
        assert len(frames) == golden[prefix + "length"] == perturbations.frame_count(name, profile)
        for key, published_frame in golden.items():
            if key.startswith(prefix) and not key.endswith("length"):
                difference = np.abs(frames[int(key.removeprefix(prefix))].astype(int) - published_frame)
                differing.append((difference > 0).mean())
                largest.append(difference.max())
    worst = f"{100 * max(differing):.4f} % of values differ, largest difference {max(largest)}"
    record_property("parity", f"{profile:9} {name:17} {worst}")
    assert max(largest) == 0


def test_the_reference_file_is_covered(golden: dict[str, np.ndarray], references: Path) -> None:
    expected = {f"{profile}/0/{item}" for profile in PROFILE_SIDES for item in ("source", "base")}
    for profile in PROFILE_SIDES:
        for name in names.published(names.PERTURBATIONS):
            count = perturbations.frame_count(name, profile)
            for _, published in sequences(name):
                kept = ("length", 0, 1, count // 2, count - 1)
                expected |= {f"{profile}/0/{published}/{item}" for item in kept}
    assert set(golden) == expected
