"""Fixtures of the tests of the public functions: a small data set, and copies of it."""

import shutil
from pathlib import Path

import pytest

import robustshards as rs


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory, small_source: Path) -> Path:
    """Six images x two corruptions x two severities as PNG. Tests must not modify it."""
    folder = tmp_path_factory.mktemp("face") / "data"
    built = rs.build(
        "imagenet-c", small_source, folder, only=["contrast", "brightness"], severities=(1, 3), encoder="png", workers=1
    )
    assert built.complete
    assert built.failed == 0
    return folder


@pytest.fixture
def copied(data_folder: Path, tmp_path: Path) -> Path:
    """A copy of the data set that a test may modify."""
    return shutil.copytree(data_folder, tmp_path / "copied")
