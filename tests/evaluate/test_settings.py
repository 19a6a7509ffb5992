"""Tests of invalid options of an evaluation, and of its batch size."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import robustshards as rs
from pipeline.errors import UserError
from pipeline.evaluate.predict.evaluate import default_loaders
from pipeline.evaluate.predict.settings import largest_batch
from tests.conftest import write_small_source
from tests.factories.commands import in_this_process
from tests.factories.evaluator import outcome


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"std": (0.0, 1.0, 1.0)},
            r"invalid --std 0,1,1: use three numbers from 0 to 1 \(--std: from 1e-06\), .* 0 to 1$",
        ),
        ({"std": (-1.0, 1.0, 1.0)}, "invalid --std .*: use three numbers"),
        (
            {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)},
            "invalid --mean 123.675,116.28,103.53 --std 58.395,57.12,57.375: use three numbers from 0 to 1 .*"
            "divide by 255: --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225$",
        ),
        ({"std": (1.0, 1.0, float("inf"))}, "invalid --std .*: use three numbers"),
        ({"std": (1e-30, 1.0, 1.0)}, "invalid --std .*: use three numbers"),
        ({"mean": (float("nan"), 0.0, 0.0)}, r"invalid --mean nan,0,0: use three numbers"),
        ({"input_size": 10**9}, "invalid input size 1000000000: use --input-size 1 to 4096, or 0"),
        ({"batch_size": 10**9}, r"invalid batch size 1000000000 for images of 224 x 224: use --batch-size 1 to 1783"),
        ({"input_size": 4096, "batch_size": 6}, "use --batch-size 1 to 5"),
        ({"batch_size": -1}, "invalid batch_size -1: use an integer of at least 0"),
        ({"device": "meta"}, "the device 'meta' is not available: ValueError: use cpu, cuda, mps, xpu"),
        ({"device": "cpu\0"}, "is not available"),
        ({"device": ""}, "is not available"),
        ({"loaders": 10**6}, "invalid --loaders 1000000: use 0 to"),
        ({"workers": 10**6}, "invalid --workers 1000000: use 0 to"),
        ({"name": ""}, "invalid name '': use 1 to 200 characters"),
        ({"name": "a\nb"}, r"invalid name 'a\\nb': use 1 to 200"),
        ({"name": "a\0"}, "use 1 to 200"),
        ({"name": "\udce9"}, "use 1 to 200"),
        ({"name": "x" * 10**6}, "use 1 to 200"),
    ],
)
def test_invalid_options_are_rejected_before_anything_is_written(
    built_once: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        outcome(built_once, tmp_path / "r", **options)
    assert len(str(caught.value)) < 1000
    assert not (tmp_path / "r/evaluation.toml").exists()


@pytest.mark.parametrize(
    ("device", "images", "cpus", "loaders"),
    [
        ("cpu", 10**6, 16, 0), ("cuda", 5000, 16, 0), ("cuda:1", 5001, 16, 15), ("cuda", 10**6, 64, 16),
        ("cuda", 10**6, 1, 1),
    ],
)  # fmt: skip
def test_loader_processes_read_many_images_for_a_gpu(device: str, images: int, cpus: int, loaders: int) -> None:
    assert default_loaders(device, images * 224 * 224, cpus) == loaders


def test_the_batch_size_is_limited_by_its_bytes() -> None:
    assert largest_batch(32, 32, None) == 2**30 // (32 * 32 * 3 * 4)
    assert largest_batch(32, 32, 224) == largest_batch(224, 224, 0)
    assert largest_batch(30_000, 30_000, None) == 1


class Counting(torch.nn.Module):
    """A model that counts the images that it is given, and fails for more than ``limit`` at once, as a small GPU."""

    seen: ClassVar[list[int]] = []
    limit = 1000

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if len(images) > self.limit:
            raise torch.OutOfMemoryError
        self.seen.append(len(images))
        return images.mean(dim=(1, 2, 3))[:, None] * torch.arange(7.0)


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of 100 small images."""
    return write_small_source(tmp_path_factory.mktemp("hundred"), images=100, classes=7)


@pytest.mark.parametrize(
    ("recipe", "options", "allowed"),
    [
        ("tiny-imagenet-c", {"only": ["contrast"], "severities": (1, 3), "shard_size": 10}, 220),
        ("tiny-imagenet-c-clean", {}, 110),
        ("tiny-imagenet-c-clean", {"shard_size": 9}, 110),
    ],
)
def test_a_first_evaluation_computes_hardly_more_than_its_images(
    hundred: Path, tmp_path: Path, recipe: str, options: dict[str, Any], allowed: int
) -> None:
    with in_this_process():
        rs.build(recipe, hundred, tmp_path / "data", workers=1, **options)
    Counting.seen.clear()
    evaluation = rs.evaluate(Counting(), tmp_path / "data")
    assert evaluation.done.frames == 100 * (allowed // 100) <= sum(Counting.seen) <= allowed
    assert evaluation.table.run.batch == min(options.get("shard_size", 100), 1024)


def test_the_default_batch_size_is_kept_and_the_last_batch_is_padded_only_for_one_shape(
    built_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {"plain": ({}, [4, 2] * 4), "compiled": ({"compile": True}, [4, 4] * 4)}
    for name, (options, sizes) in (cases | {"given": ({"batch_size": 3}, [3, 1, 2] * 4)}).items():
        Counting.seen.clear()
        assert rs.evaluate(Counting(), built_once, tmp_path / name, **options).table.run.batch in (3, 4)
        assert Counting.seen[-len(sizes) :] == sizes
        assert len(Counting.seen) <= len(sizes) + 3  # trials
    monkeypatch.setattr(Counting, "limit", 2)
    halved = rs.evaluate(Counting(), built_once, tmp_path / "small", compile=True)
    assert (halved.table.run.batch, halved.complete) == (2, True)
    text = (file := tmp_path / "small/evaluation.toml").read_text()
    file.write_text(text.replace('device = "cpu"', 'device = "cpu:0"'))  # the number of a device does not matter
    again = rs.evaluate(Counting(), built_once, tmp_path / "small", compile=True)
    assert file.read_text() == text
    assert (again.table.run.batch, again.done.frames) == (2, 0)
    with pytest.raises(UserError, match="fails on a batch of 4 images"):
        rs.evaluate(Counting(), built_once, tmp_path / "given 4", compile=True, batch_size=4)
