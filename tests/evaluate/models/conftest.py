"""Fixtures for tests of models."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT
from tests.factories.models import FACTORIES, WRITERS


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=WRITERS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module with factories to the current folder, which is not in ``sys.path``, and return its name."""
    package = f"factories_{tmp_path.name.replace('-', '_')}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "made.py").write_text(FACTORIES)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.chdir(tmp_path)
    return f"{package}.made"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Return the path of the file that an exploit creates if it runs."""
    return tmp_path / "ran"
