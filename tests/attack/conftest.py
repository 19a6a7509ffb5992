"""Shared clean images and attacks on them."""

from pathlib import Path

import pytest
import torch

from tests.factories.attack_runs import attack, write_clean

torch.set_num_threads(1)  # small models are slower with more, and workers have one

LEVELS = ("0.5/255", "2/255", "4/255")


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of 24 images that the linear models get right. Tests must not change it."""
    return write_clean(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="session")
def attacked(clean: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return FGSM, PGD and MIM on the linear model of two classes, at three budgets. Tests must not change it."""
    out = tmp_path_factory.mktemp("adversarial") / "data"
    result = attack(clean, out, "two_classes", ["fgsm", "pgd_linf", "mim"], LEVELS)
    assert result.complete
    return out
