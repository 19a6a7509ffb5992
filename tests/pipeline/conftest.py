"""Finished data sets that tests of their readers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run
from tests.pipeline.sources.layouts import cifar_10


@pytest.fixture(scope="session")
def cifar_c(tmp_path_factory: pytest.TempPathFactory, robustshards: Run) -> Path:
    """Two corruptions x five severities of five made CIFAR images. Not to be changed by a test."""
    folder = tmp_path_factory.mktemp("cifar-c")
    command = ("build", "cifar-10-c", "--source", cifar_10(folder), "--out", folder / "data", "--only", "contrast,fog")
    done = robustshards(*command, "--shard-size", 3, "--workers", 2)
    assert done.returncode == 0, done.stderr
    return folder / "data"


@pytest.fixture(scope="session")
def sequences(tmp_path_factory: pytest.TempPathFactory, small_source: Path, robustshards: Run) -> Path:
    """Noise at two difficulties and rotation of two images, as JPEG frames. Not to be changed by a test."""
    folder = tmp_path_factory.mktemp("sequences") / "data"
    command = ("build", "tiny-imagenet-p", "--source", small_source, "--out", folder, "--limit", 2)
    done = robustshards(*command, "--only", "gaussian_noise,rotate", "--difficulty", "1,2")
    assert done.returncode == 0, done.stderr
    return folder
