"""Tests of invalid options of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UserError
from pipeline.evaluate.predict.settings import largest_batch
from tests.factories.evaluator import outcome


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": (0.0, 1.0, 1.0)}, r"invalid --std 0.0,1.0,1.0: use three numbers from 1e-06 to"),
        ({"std": (-1.0, 1.0, 1.0)}, "invalid --std .*: use three numbers"),
        ({"std": (1.0, 1.0, float("inf"))}, "invalid --std .*: use three numbers"),
        ({"std": (1e-30, 1.0, 1.0)}, "invalid --std .*: use three numbers"),
        ({"mean": (float("nan"), 0.0, 0.0)}, r"invalid --mean nan,0.0,0.0: use three numbers"),
        ({"size": 10**9}, "invalid input size 1000000000: use --input-size 1 to 4096, or 0"),
        (
            {"batch": 10**9},
            r"invalid batch size 1000000000 for images of 224 x 224: use --batch-size 1 to 1783",
        ),
        ({"size": 4096, "batch": 6}, "use --batch-size 1 to 5"),
        ({"batch": -1}, "use --batch-size"),
        ({"device": "meta"}, "the device 'meta' is not available: ValueError: use cpu, cuda, mps, xpu"),
        ({"device": "cpu\0"}, "is not available"),
        ({"device": ""}, "is not available"),
        ({"loaders": 10**6}, "invalid --loaders 1000000: use 0 to"),
        ({"workers": 10**6}, "invalid --workers 1000000: use 0 to"),
        ({"name": ""}, "invalid name '': use --name with 1 to 200 characters"),
        ({"name": "a\nb"}, r"invalid name 'a\\nb': use --name"),
        ({"name": "a\0"}, "use --name"),
        ({"name": "\udce9"}, "use --name"),
        ({"name": "x" * 10**6}, "use --name"),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_written(
    built_once: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        outcome(built_once, tmp_path / "r", **options)
    assert len(str(caught.value)) < 1000
    assert not (tmp_path / "r/evaluation.toml").exists()


def test_the_batch_size_is_limited_by_its_bytes() -> None:
    assert largest_batch(32, 32, None) == 2**30 // (32 * 32 * 3 * 4)
    assert largest_batch(32, 32, 224) == largest_batch(224, 224, 0)
    assert largest_batch(30_000, 30_000, None) == 1
