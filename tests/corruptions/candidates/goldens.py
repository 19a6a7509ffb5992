"""Reference outputs of the candidates with their draws."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Golden(NamedTuple):
    """One reference: its key, the input, the draws as ``corruptions.apply`` takes them, and the output."""

    key: str
    image: np.ndarray
    draws: dict[str, Any]
    expected: np.ndarray


@cache
def _arrays(references: Path) -> Mapping[str, np.ndarray]:
    with np.load(references / "syn2nat.npz") as archive:
        return dict(archive)


@cache
def _draws(text: bytes) -> dict[str, dict[str, Any]]:
    return json.loads(text)


def load(references: Path, name: str) -> Iterator[Golden]:
    """Yield the references of one candidate."""
    arrays = _arrays(references)
    for key in _draws(arrays["draws"].tobytes()):
        if key.startswith(f"{name}/"):
            yield Golden(key, *arguments(arrays, key), arrays[key])


def arguments(arrays: Mapping[str, np.ndarray], key: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the input of a reference, and its draws as ``corruptions.apply`` takes them."""
    name, image, _ = key.split("/")
    source = arrays[f"input/{image}"]
    recorded = _draws(arrays["draws"].tobytes())[key]
    return source, expanded(name, recorded, *source.shape[:2])


def expanded(name: str, recorded: Mapping[str, Any], height: int, width: int) -> dict[str, Any]:
    """Return the draws of a reference, with the arrays that its parameters of noise stand for."""
    rng = np.random.RandomState(recorded.get("random_state"))
    if name == "GaussNoise":
        return {**recorded, "gauss": rng.normal(0, recorded["var"] ** 0.5, (height, width, 3))}
    if name == "MultiplicativeNoise":
        return {**recorded, "multiplier": rng.uniform(0.7, 1.3, (height, width, 1))}
    if name == "ISONoise":
        luminance = rng.poisson(recorded["lam"], (height, width))
        colour = rng.normal(0, recorded["color_sigma"], (height, width))
        return {**recorded, "luminance_noise": luminance, "color_noise": colour}
    if name == "ElasticTransform":
        corners = rng.uniform(-50, 50, (3, 2))
        dx, dy = (2 * rng.rand(height, width) - 1 for _ in range(2))
        return {**recorded, "corners": corners, "dx": dx, "dy": dy}
    return dict(recorded)
