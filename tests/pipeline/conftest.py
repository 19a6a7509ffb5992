"""Fixtures of builds in Python."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.storage import trusted_locations
from tests.conftest import SELECTION, Run
from tests.factories.commands import in_this_process


@pytest.fixture(scope="module")
def workers_here() -> Iterator[None]:
    """Run the workers of the builds of a module in the process of the tests. Other modules have real workers."""
    with in_this_process():
        yield


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the recorded sources in the folder of the test instead of the user's cache."""
    monkeypatch.setattr(trusted_locations, "user_cache", lambda: tmp_path / "cache")


@pytest.fixture(scope="session")
def rendered_once(tmp_path_factory: pytest.TempPathFactory, small_source: Path, robustshards: Run) -> Path:
    """Render what the fixture ``built_once`` builds. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("rendered") / "data"
    done = robustshards.succeed("render", "imagenet-c", "--source", small_source, "--out", folder, *SELECTION)
    assert f"{folder} stands for 24 samples: 6 images x 4 conditions" in done.stdout
    return folder


@pytest.fixture
def own_source(small_source: Path, tmp_path: Path) -> Path:
    return shutil.copytree(small_source, tmp_path / "own source")
