"""The public functions of ``perturbations``: arguments, errors, and inputs that stay unchanged."""

import numpy as np
import pytest

import corruptions
import perturbations
from corruptions.catalogue import PROFILE_SIDES
from tests.golden import names

NOISE = ("gaussian_noise", "shot_noise", "speckle_noise")


def photograph(height: int = 90, width: int = 120) -> np.ndarray:
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(height).integers(0, 40, (height, width, 3))
    waves = np.stack([rows * 2, columns * 2, rows + columns], axis=2) % 200
    return (waves + noise).astype(np.uint8)


def test_names_are_those_of_the_table_in_order() -> None:
    assert names.groups(names.PERTURBATIONS) == perturbations.GROUPS
    assert perturbations.names() == perturbations.GROUPS["benchmark"]
    assert perturbations.names("noise") == ("gaussian_noise", "shot_noise")


@pytest.mark.parametrize("name", perturbations.names("all"))
def test_frame_equals_the_frame_of_the_sequence(name: str) -> None:
    for profile in ("tiny", "cifar"):
        source = photograph()
        frames = perturbations.perturb(source, name, profile=profile, seed=5)
        side = PROFILE_SIDES[profile]
        assert frames.shape == (perturbations.frame_count(name, profile), side, side, 3)
        assert frames.dtype == np.uint8
        for index in (0, 1, 7, len(frames) - 1):
            np.testing.assert_array_equal(
                perturbations.frame(source, name, index, profile=profile, seed=5), frames[index]
            )


@pytest.mark.parametrize("name", perturbations.names("all"))
def test_perturb_keeps_the_source_and_depends_on_the_seed(name: str) -> None:
    source = photograph()
    frames = perturbations.perturb(source, name, profile="tiny", seed=2**128 - 1)
    np.testing.assert_array_equal(source, photograph())
    source.flags.writeable = False
    again = perturbations.perturb(source, name, profile="tiny", seed=2**128 - 1)
    np.testing.assert_array_equal(again, frames)
    other = perturbations.perturb(source, name, profile="tiny", seed=0)
    assert (other != frames).any() == (name in (*NOISE, "snow", "spatter"))


@pytest.mark.parametrize("name", perturbations.names("all"))
def test_difficulty_changes_only_noise(name: str) -> None:
    one, three = (
        perturbations.perturb(photograph(), name, profile="tiny", difficulty=difficulty) for difficulty in (1, 3)
    )
    assert (one != three).any() == (name in NOISE)
    assert tuple(perturbations.get(name).numbers) == ((1, 2, 3) if name in NOISE else (1,))


@pytest.mark.parametrize("name", perturbations.names("all"))
def test_perturb_accepts_any_source_size(name: str) -> None:
    for size in ((16, 16), (1, 1), (1, 4000), (4000, 1), (60, 900), (7, 5)):
        frames = perturbations.perturb(photograph(*size), name, profile="tiny", seed=1)
        assert frames.shape[1:] == (64, 64, 3)


@pytest.mark.parametrize("size", [(1, 4000), (3000, 200)])
@pytest.mark.parametrize("name", ["translate", "rotate", "tilt", "scale", "zoom_blur"])
def test_perturb_accepts_long_strips(name: str, size: tuple[int, int]) -> None:
    assert perturbations.frame(photograph(*size), name, 3).shape == (224, 224, 3)


def test_grey_equals_three_equal_channels() -> None:
    grey = photograph()[:, :, 0]
    frames = perturbations.perturb(grey, "rotate", profile="tiny")
    coloured = perturbations.perturb(np.repeat(grey[:, :, None], 3, axis=2), "rotate", profile="tiny")
    np.testing.assert_array_equal(frames, coloured)


@pytest.mark.parametrize("name", perturbations.names("all"))
def test_perturb_accepts_any_preparation(name: str) -> None:
    """ImageNet 64x64 has no crop, and a recipe can use a side that no profile has."""
    for steps, side in (([("square", 64)], 64), ([("shorter_side", 50), ("center_crop", 40)], 40)):
        views = perturbations.make_views(photograph(), steps)
        assert perturbations.perturber(name, profile="tiny")(views, 0).shape[1:] == (side, side, 3)


def test_options_reject_an_unknown_motion() -> None:
    with pytest.raises(ValueError, match="unknown motion 'fast'"):
        perturbations.perturb(photograph(), "motion_blur", options=corruptions.Options(motion="fast"))


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"name": "fog"}, ValueError, "unknown perturbation 'fog'; allowed: gaussian_noise"),
        ({"profile": "big"}, ValueError, "unknown profile 'big'; allowed: imagenet"),
        ({"difficulty": 0}, ValueError, r"difficulty must be 1\.\.3, not 0"),
        ({"difficulty": 4}, ValueError, r"difficulty must be 1\.\.3, not 4"),
        ({"difficulty": 1.5}, TypeError, "difficulty must be an integer, not 1.5"),
        ({"seed": -1}, ValueError, "seed must be"),
        ({"rng": np.random.default_rng()}, TypeError, r"rng must be a numpy\.random\.RandomState"),
        ({"source": photograph().astype(float)}, TypeError, "must be uint8"),
        ({"source": photograph()[..., :2]}, ValueError, "must be RGB"),
        ({"source": photograph()[:0]}, ValueError, "at least 1 x 1, not 0 x 120"),
        ({"options": None}, TypeError, r"corruptions\.Options"),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(
    change: dict[str, object], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        perturbations.perturb(**{"source": photograph(), "name": "snow", **change})


def test_frame_names_an_index_out_of_range() -> None:
    with pytest.raises(IndexError, match=r"translate has frames 0\.\.40, not 41"):
        perturbations.frame(photograph(), "translate", 41)
    with pytest.raises(ValueError, match="unknown group 'extra'"):
        perturbations.names("extra")
