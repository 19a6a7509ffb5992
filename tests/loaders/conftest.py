"""Data sets that several tests of loaders read."""

from __future__ import annotations

from pathlib import Path

import pytest

import robustshards as rs
from pipeline.datasets.base import DataSet


@pytest.fixture(scope="session")
def rendered(small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """Return the rendered data set with the samples of ``built_once``."""
    folder = tmp_path_factory.mktemp("rendered")
    selection = {"only": "contrast,gaussian_noise", "severities": (1, 3)}
    return rs.render("imagenet-c", small_source, folder / "data", cache=folder / "cache", **selection)
