"""Golden values of the metrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.evaluate.report import real_labels
from tests.factories.selections import write_accuracies


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    return json.loads((shared / "golden" / "metrics.json").read_text())


@pytest.fixture
def no_real_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide an installed timm, which contains the reassessed labels."""
    monkeypatch.setattr(real_labels, "PACKAGE", "no_such_package")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with tables of accuracies, which is the current one."""
    write_accuracies(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
