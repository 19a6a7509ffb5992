"""Real severities and streams of CCC, compared with the reference file."""

import io
import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import corruptions
from corruptions import ccc, severities

HALF_SUMS = {("defocus_blur", 0.25)}
"""Where the published sums, by a Fourier transform, end just below whole levels for half of the values."""


@pytest.fixture(scope="module")
def committed(golden_folder: Path) -> Mapping[str, Any]:
    """Return the part of the reference file that is committed, or all of it."""
    with np.load(golden_folder / "ccc.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def golden(references: Path) -> Mapping[str, Any]:
    """Return the reference file."""
    with np.load(references / "ccc.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def accuracies(golden: Mapping[str, Any]) -> dict[str, np.ndarray]:
    names, values = golden["matrix/names"], golden["matrix/values"]
    return {f"n1_{a}_n2_{b}": values[i, j] for i, a in enumerate(names) for j, b in enumerate(names) if i != j}


def pixels(encoded: np.ndarray) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(encoded.tobytes())).convert("RGB"))


def cases(golden: Mapping[str, Any], kind: str) -> list[Any]:
    return [case for case in json.loads(str(golden["cases"])) if case[1] == kind]


def assert_close(ours: np.ndarray, published: np.ndarray, largest: int, where: object) -> None:
    difference = np.abs(ours.astype(int) - published)
    assert difference.max() <= largest, where
    if where not in HALF_SUMS:
        assert (difference > 0).mean() <= 0.0005, where


@pytest.mark.parametrize("name", severities.ZERO)
def test_real_severities_have_the_published_parameters(committed: Mapping[str, Any], name: str) -> None:
    row = corruptions.get(name)
    ours = [severities.interpolate(row, quarters / 4) for quarters in range(21)]
    np.testing.assert_array_equal(ours, committed[f"table/{name}"])


@pytest.mark.parametrize("name", severities.ZERO)
def test_real_severities_equal_the_published_images(golden: Mapping[str, Any], name: str) -> None:
    chosen = [case for case in cases(golden, "single") if case[3][0][0] == name]
    assert len(chosen) == (8 if name != "brightness" else len(chosen))
    for key, _, index, [(_, severity, seed)] in chosen:
        image, rng = pixels(golden[f"{index}/input"]), np.random.RandomState(seed)
        ours = corruptions.corrupt(image, name, float(severity), rng=rng)
        assert_close(ours[index::2], golden[key], 1, (name, severity))


def test_pairs_equal_the_published_images(golden: Mapping[str, Any]) -> None:
    for key, _, _, [_, (name, severity, seed)] in cases(golden, "pair"):
        if f"{key}/second" in golden:
            first, rng = pixels(golden[f"{key}/first"]), np.random.RandomState(seed)
            ours = corruptions.corrupt(first, name, float(severity), rng=rng)
            assert_close(ours[::2], golden[f"{key}/second"], 1, (name, severity))


@pytest.mark.slow
@pytest.mark.parametrize("name", severities.ZERO)
def test_whole_floats_are_whole_severities(name: str) -> None:
    image = np.arange(48 * 40 * 3, dtype=np.uint8).reshape(48, 40, 3)
    for severity in (1, 3, 5):
        expected = corruptions.corrupt(image, name, severity, seed=1)
        np.testing.assert_array_equal(corruptions.corrupt(image, name, np.float32(severity), seed=1), expected)
    for real in (1e-300, 0.01, 0.3, 2.71, 4.3):
        assert corruptions.corrupt(image, name, real, seed=1).shape == image.shape


def test_severity_zero_copies_and_draws_nothing() -> None:
    image, rng = np.full((20, 20, 3), 9, np.uint8), np.random.RandomState(1)
    ours = corruptions.corrupt(image, "gaussian_noise", 0.0, rng=rng)
    assert ours is not image
    np.testing.assert_array_equal(ours, image)
    np.testing.assert_array_equal(corruptions.corruptor("fog", 0.0)(image, 1), image)
    assert rng.random_sample() == np.random.RandomState(1).random_sample()


@pytest.mark.parametrize(
    ("name", "severity", "profile", "message"),
    [
        ("fog", float("nan"), "imagenet", r"severity must be 0\.0\.\.5\.0, not nan"),
        ("fog", -0.25, "imagenet", "not -0.25"),
        ("fog", 5.25, "imagenet", "not 5.25"),
        (
            "spatter",
            2.5,
            "imagenet",
            r"an integer for 'spatter', not 2\.5: only gaussian_noise, .* have real severities",
        ),
        ("Blur", 1.0, "imagenet", "an integer for 'Blur'"),
        ("lines", 1.5, "imagenet", "an integer for 'lines'"),
        ("fog", 2.5, "tiny", "an integer for profile 'tiny', .* with profile 'imagenet'"),
    ],
)
def test_invalid_real_severities_are_refused(name: Any, severity: float, profile: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corruptions.corrupt(np.zeros((200, 200, 3), np.uint8), name, severity, profile=profile, seed=1)


@pytest.mark.parametrize("baseline", [0, 20, 40])
@pytest.mark.parametrize("seed", [43, 44, 45])
def test_walks_equal_the_published_ones(
    golden: Mapping[str, Any], accuracies: dict[str, np.ndarray], baseline: int, seed: int
) -> None:
    index = {ccc.SHORT.get(name, name): number for number, name in enumerate(ccc.NAMES)}
    assert list(index) == list(golden["matrix/names"])
    index |= dict(zip(ccc.NAMES, index.values(), strict=True))
    ours = [
        (index[step.first], index[step.second], 4 * step.first_severity, 4 * step.second_severity)
        for step in islice(ccc.walk(accuracies, baseline, seed), 3000)
    ]
    np.testing.assert_array_equal(ours, golden[f"walk/{baseline}/{seed}"])


def test_paths_equal_the_published_ones(committed: Mapping[str, Any]) -> None:
    numbers = sorted({key.split("/")[1] for key in committed if key.startswith("path/")})
    assert len(numbers) == 12
    for number in numbers:
        matrix, target, expected = (committed[f"path/{number}/{what}"] for what in ("matrix", "target", "path"))
        np.testing.assert_array_equal(ccc.path(matrix, float(target)), expected)


def test_crops_equal_the_published_ones(committed: Mapping[str, Any]) -> None:
    for width, height, *numbers in committed["crop/cases"].tolist():
        assert [*ccc.crop_box(int(width), int(height), numbers[:23])] == numbers[23:]


def test_prepared_images_equal_the_published_ones(golden: Mapping[str, Any]) -> None:
    for index in range(2):
        image = Image.open(io.BytesIO(golden[f"{index}/source"].tobytes()))
        ours = ccc.prepare(image, golden[f"{index}/draws"])
        np.testing.assert_array_equal(ours, pixels(golden[f"{index}/input"]))


def test_orders_and_draws_are_keyed_by_stream_step_and_image() -> None:
    stream = ccc.StreamKey(20.0, 30, 43)
    assert str(stream) == "baseline_20_transition+speed_30_seed_43"
    assert stream.order(2, 100).tolist() == ccc.StreamKey(20, 30, 43).order(2, 100).tolist()
    assert stream.order(2, 100)[:5].tolist() == [62, 24, 13, 65, 85]
    assert len({*stream.order(3, 100).tolist()}) == 30
    (uniforms, *seeds), (others, *more) = stream.draws(2, "a/b"), stream.draws(3, "a/b")
    assert uniforms.shape == (23,)
    assert 0 <= uniforms.min() <= uniforms.max() < 1
    assert len({*seeds, *more, uniforms[0], others[0]}) == 6
    with pytest.raises(ValueError, match="a step needs 30 different images, but the source has 29"):
        stream.order(0, 29)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n1_fog_n2_snow": None}, "lacks 1 of 156 pairs of baseline 20, for example n1_fog_n2_snow"),
        ({"n1_fog_n2_snow": np.full((21, 21), 100.5)}, r"finite and 0\.\.100"),
        ({"n1_fog_n2_snow": np.zeros((21, 20))}, r"must be 21 x 21, not of shape \(21, 20\)"),
        ({"n1_fog_n2_snow": np.zeros((21, 21), complex)}, "must have numbers, not complex128"),
    ],
)
def test_walks_refuse_invalid_matrices(accuracies: dict[str, np.ndarray], change: dict[str, Any], message: str) -> None:
    changed = {key: value for key, value in {**accuracies, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        ccc.walk(changed, 20, 43)


def test_baselines_decide_the_corruptions() -> None:
    assert [len(ccc.names(baseline)) for baseline in (0, 19.9, 20, 39, 40, 100)] == [4, 4, 13, 13, 14, 14]
    for baseline in (-1, 101, float("nan"), "20", True):
        with pytest.raises(ValueError, match="invalid baseline"):
            ccc.names(baseline)
