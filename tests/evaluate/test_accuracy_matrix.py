"""Accuracy matrices: measured, interpolated and continued after an interruption."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import corruptions
from corruptions import ccc
from pipeline.errors import UserError
from pipeline.evaluate.predict import accuracy_matrix
from pipeline.evaluate.predict.accuracy_matrix import MatrixPlan, clean_images, measure, refined
from pipeline.images.encoders import Jpeg
from pipeline.sources.kinds import AUTO, open_source
from pipeline.transforms.seeds import sample_seed
from robustshards.torch import CCC


def classify(images: np.ndarray) -> np.ndarray:
    """Return class 0 for images with little variation, else 1."""
    return (images.std(axis=(1, 2, 3)) > 60).astype(np.int64)


@pytest.fixture(scope="module")
def clean(small_source: Path) -> accuracy_matrix.PreparedImages:
    return clean_images(open_source(AUTO, str(small_source)), 4, 1)


def test_matrices_are_measured_and_continued(
    tmp_path: Path, clean: accuracy_matrix.PreparedImages, small_source: Path
) -> None:
    plan = MatrixPlan("model", "digest", clean.digest, len(clean.ids), 3, 7, ccc.HARD)
    assert (len(clean.ids), len(plan.pairs), plan.cells) == (4, 12, 57)
    calls = 0

    def interrupted(images: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt
        return classify(images)

    with pytest.raises(KeyboardInterrupt):
        measure(plan, clean, interrupted, tmp_path / "a.npz", 1, str)
    with pytest.raises(UserError, match=r"lacks .* of 12 pairs that baseline 0 needs"):
        CCC(small_source, tmp_path / "a.npz", baseline=0, speed=4, images=4)
    texts: list[str] = []
    measure(plan, clean, classify, tmp_path / "a.npz", 1, texts.append)
    measure(plan, clean, classify, tmp_path / "b.npz", 2, lambda text: None)
    assert texts[0].startswith("40 cells of 4 images: about 0 minutes")  # neither single corruptions nor two pairs
    assert texts[-1].startswith("0 of 40 cells left")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert len(CCC(small_source, tmp_path / "a.npz", baseline=0, speed=4, images=4, batch_size=2)) == 2
    with pytest.raises(UserError, match="of another model, images or settings"):
        measure(replace(plan, seed=8), clean, classify, tmp_path / "a.npz", 1, str)

    with np.load(tmp_path / "a.npz") as archive:
        grid = archive["n1_gaussian_noise_n2_contrast"]
    made = []
    for image, id_ in zip(clean.pixels, clean.ids, strict=True):
        noisy = corruptions.corrupt(image, "gaussian_noise", 2.5, seed=sample_seed(7, id_, "first", 0))
        made.append(Jpeg().stored(corruptions.corrupt(noisy, "contrast", 5)))
    assert grid[10, 20] == 100 * (classify(np.stack(made)) == clean.labels).mean()
    assert (
        grid[0, 0] == 100 * (classify(np.stack([Jpeg().stored(each) for each in clean.pixels])) == clean.labels).mean()
    )


def test_accuracies_between_the_nodes_are_interpolated() -> None:
    grid = refined(np.array([[0.0, 100.0], [40.0, 60.0]]))
    assert grid.shape == (21, 21)
    assert grid[[0, 0, 20, 20, 10, 0], [0, 20, 0, 20, 10, 5]].tolist() == [0, 100, 40, 60, 50, 25]


def test_sources_without_images_are_refused() -> None:
    with pytest.raises(UserError, match="all of them with labels"):
        clean_images([], 4, 1)
