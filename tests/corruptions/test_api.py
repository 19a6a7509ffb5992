"""The public functions of ``corruptions``: arguments, errors, and inputs that stay unchanged."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
import perturbations
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from corruptions.draws import UnseededDraws
from tests.factories.images import assert_corrupted_copy, blocks
from tests.golden import names


def test_names_are_those_of_the_table_in_order() -> None:
    groups = names.groups(names.CORRUPTIONS)
    assert {**groups, "extra": groups["validation"]} == corruptions.GROUPS
    assert corruptions.names() == corruptions.GROUPS["benchmark"]
    assert all(corruptions.names(group) == expected for group, expected in corruptions.GROUPS.items())


def test_get_returns_the_published_parameters(shared: Path) -> None:
    published = json.loads((shared / "spec" / "parameters.json").read_text())["corruptions"]
    for name, entry in published.items():
        row = corruptions.get(name)
        for profile in PROFILE_SIDES:
            for severity in SEVERITIES:
                parameters = row.parameters(profile, severity)
                values = [getattr(parameters, field) for field in entry["fields"]]
                assert values == entry["severities"][profile][severity - 1], (name, profile, severity)


@pytest.mark.parametrize("name", corruptions.names("all"))
def test_corrupt_returns_a_new_array_and_keeps_the_input(name: str) -> None:
    image = blocks(40, 56)
    before = image.copy()
    result = corruptions.corrupt(image, name, 3)
    assert_corrupted_copy(result, image, before)


@pytest.mark.parametrize("name", corruptions.names("all"))
def test_memory_layout_of_the_input_changes_nothing(name: str) -> None:
    image = blocks(40, 56)
    expected = corruptions.corrupt(image, name, 2, seed=3)
    read_only = image.copy()
    read_only.flags.writeable = False
    strided = np.repeat(image, 2, axis=1)[:, ::2]
    for other in (read_only, strided, np.asfortranarray(image)):
        assert np.array_equal(corruptions.corrupt(other, name, 2, seed=3), expected)


@pytest.mark.parametrize("name", corruptions.names("all"))
def test_grey_equals_three_equal_channels(name: str) -> None:
    grey = blocks(40, 56)[..., 0]
    expected = corruptions.corrupt(np.repeat(grey[..., None], 3, axis=2), name, seed=4)
    assert np.array_equal(corruptions.corrupt(grey, name, seed=4), expected)
    assert np.array_equal(corruptions.corrupt(grey[..., None], name, seed=4), expected)


def test_numpy_integers_are_accepted() -> None:
    expected = corruptions.corrupt(blocks(40, 56), "fog", 2, seed=7)
    assert np.array_equal(corruptions.corrupt(blocks(40, 56), "fog", np.int64(2), seed=np.uint8(7)), expected)


def test_equal_seeds_give_equal_images() -> None:
    first, again, other, top = (
        corruptions.corrupt(blocks(40, 56), "gaussian_noise", seed=seed) for seed in (1, 1, 2, 2**128 - 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, top)


@pytest.mark.parametrize(
    "call",
    [
        lambda image, name, **draws: corruptions.corrupt(image, name, 3, **draws),
        lambda image, name, **draws: perturbations.perturb(image, name, profile="cifar", **draws),
    ],
)
def test_noise_without_a_seed_warns_once_at_the_second_image(
    call: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnseededDraws, "_first", None)
    monkeypatch.setattr(UnseededDraws, "_warned", False)
    one, other = blocks(40, 56), 255 - blocks(40, 56)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noisy = call(one, "gaussian_noise")
        call(one, "speckle_noise")
        call(other, "brightness")
        assert np.array_equal(call(one, "gaussian_noise", seed=0), noisy)
        call(other, "gaussian_noise", seed=0)
        call(other, "gaussian_noise", rng=np.random.RandomState(1))
    with pytest.warns(UserWarning, match="seed=index") as caught:
        call(other, "shot_noise")
    assert [each.filename for each in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(one, "shot_noise")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"image": [[1]]}, TypeError, "image must be a numpy array, not list"),
        (
            {"image": np.ones((32, 32, 3))},
            TypeError,
            r"image must be uint8 .* not float64; use \(image \* 255\)\.round\(\)\.astype\(numpy\.uint8\)",
        ),
        ({"image": np.full((32, 32, 3), 99)}, TypeError, r"not int64; use \(image\)\.round\(\)\.astype"),
        ({"image": np.full((32, 32, 3), -0.5)}, TypeError, r"scale it to 0\.\.255 \(undo a normalisation\)"),
        ({"image": np.zeros((32, 32, 4), np.uint8)}, ValueError, r"shape \(32, 32, 4\); use image\[\.\.\., :3\]"),
        ({"image": np.zeros((3, 32, 32), np.uint8)}, ValueError, r"\(3, 32, 32\); use image\.transpose\(1, 2, 0\)"),
        ({"image": np.zeros((2, 32, 32, 3), np.uint8)}, ValueError, "not of shape .*; pass one image at a time"),
        ({"image": np.ma.zeros((32, 32, 3), np.uint8)}, ValueError, r"a masked array; use image\.filled\(0\)"),
        ({"image": np.zeros((15, 40, 3), np.uint8)}, ValueError, "at least 16 x 16, not 15 x 40"),
        (
            {"name": "gausian_noise"},
            ValueError,
            "unknown corruption 'gausian_noise' .did you mean 'gaussian_noise'.*; allowed: gaussian_noise",
        ),
        ({"severity": 0}, ValueError, r"severity must be 1\.\.5, not 0"),
        ({"severity": 6}, ValueError, r"severity must be 1\.\.5, not 6"),
        ({"severity": True}, TypeError, "severity must be an integer, not True"),
        ({"severity": "1"}, TypeError, "severity must be an integer, not '1'"),
        ({"profile": "mnist"}, ValueError, "unknown profile 'mnist'; allowed: imagenet"),
        ({"seed": -1}, ValueError, r"seed must be 0 <= seed < 2\*\*128, not -1"),
        ({"seed": 2**128}, ValueError, "seed must be"),
        ({"seed": "1"}, TypeError, "seed must be an integer, not '1'"),
        ({"seed": True}, TypeError, "seed must be an integer, not True"),
        ({"seed": np.zeros(2, int)}, TypeError, "seed must be an integer, not array"),
        ({"rng": np.random.default_rng(1)}, TypeError, "rng must be a numpy.random.RandomState or None, not Generator"),
        ({"options": None}, TypeError, "options must be corruptions.Options, not NoneType"),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    call: dict[str, Any] = {"image": blocks(40, 56), "name": "contrast", **arguments}
    with pytest.raises(error, match=message):
        corruptions.corrupt(call.pop("image"), call.pop("name"), **call)


def test_options_reject_an_unknown_motion() -> None:
    with pytest.raises(ValueError, match="unknown motion 'gpu'; allowed: native, imagemagick"):
        corruptions.Options(motion="gpu")


def test_names_rejects_an_unknown_group() -> None:
    with pytest.raises(ValueError, match="unknown group 'sound'; allowed: benchmark, validation, all"):
        corruptions.names("sound")


def test_import_loads_no_heavy_module_and_starts_no_thread() -> None:
    script = (
        "import sys, threading, corruptions\n"
        "heavy = {'ray', 'torch', 'skimage', 'pandas', 'pyarrow', 'wand', 'matplotlib', 'imagecorruptions'}\n"
        "print(sorted(heavy & set(sys.modules)), threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "1"]


@pytest.mark.parametrize("name", ["fog", "snow"])
def test_corruptor_equals_corrupt(name):
    image = np.random.RandomState(0).randint(0, 256, (20, 24, 3)).astype(np.uint8)
    corruptor = corruptions.corruptor(name, 3, profile="cifar")
    for seed in (0, 1, 2**128 - 1):
        assert np.array_equal(corruptor(image, seed), corruptions.corrupt(image, name, 3, profile="cifar", seed=seed))
    with pytest.raises(ValueError, match="at least 16 x 16"):
        corruptor(image[:8], 0)
    with pytest.raises(ValueError, match=r"severity must be 1\.\.5, not 6"):
        corruptions.corruptor(name, 6)
