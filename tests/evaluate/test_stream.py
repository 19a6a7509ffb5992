"""Tests of the normalisation of batches, whose memory is reused, of copies to a GPU, and of precisions."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.evaluate.models.libraries import from_module
from pipeline.evaluate.predict import classifier
from pipeline.evaluate.predict.classifier import Classifier, Normaliser
from pipeline.evaluate.predict.stream import FrameBatch
from pipeline.evaluate.results.folder import DataSetTable, EvaluationTable, InputTable, ModelTable, Precision, RunTable
from pipeline.evaluate.results.predictions import Frame
from robustshards._process import preserve_process

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(1, 20),
    st.booleans(),
    st.booleans(),
)
def test_normalised_values_equal_the_formula(
    counts: list[int], height: int, width: int, pads: bool, channels_last: bool
) -> None:
    normalise = Normaliser(4, MEAN, STD, torch.device("cpu"), pads, channels_last)
    for seed, count in enumerate(counts):
        images = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3)).astype(np.uint8)
        values = normalise(torch.from_numpy(images))
        assert values.shape == (4 if pads else count, 3, height, width)
        assert values.is_contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        assert values.dtype == torch.float32
        expected = ((images / 255 - MEAN) / STD).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(values[:count].numpy(), expected, atol=2e-6)
        assert not values[count:].any()


def test_batches_may_change_their_image_size() -> None:
    normalise = Normaliser(2, (0, 0, 0), (1, 1, 1), torch.device("cpu"))
    for side in (8, 5, 8):
        values = normalise(torch.full((2, side, side, 3), 51, dtype=torch.uint8))
        assert values.shape == (2, 3, side, side)
        assert values.numpy() == pytest.approx(0.2)


class _Gpu(TorchDispatchMode):
    """A GPU that stands for tensors without memory, and counts what the CPU waits for.

    Such tensors have no values, so that a function that asks for one (``item``, ``nonzero``, a mask) fails.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.waits, self.log, self.streams = list[str](), list[str](), ["computing"]
        monkeypatch.setattr(classifier, "ASYNCHRONOUS", {"meta"})
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: "copying")
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self)
        monkeypatch.setattr(torch.cuda, "stream", self.on)
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
        monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: False)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: self.log.append("kept"))

    @contextmanager
    def on(self, stream: str) -> Iterator[None]:
        self.streams.append(stream)
        yield
        self.streams.pop()

    def wait_stream(self, stream: str) -> None:
        self.log.append(f"wait for {stream}")

    def record_event(self) -> "_Gpu":
        self.log.append("event")
        return self

    def synchronize(self) -> None:
        self.waits.append("event")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if func is torch.ops.aten._to_copy.default and "device" in options and options["device"] != args[0].device:
            self.log.append(f"to {options['device']} {self.streams[-1]}")
            if not options.get("non_blocking"):
                self.waits.append("copy")
            if options["device"] == torch.device("cpu"):
                return torch.zeros(args[0].shape, dtype=args[0].dtype)
        return func(*args, **options)


def _table(device: str, precision: Precision) -> EvaluationTable:
    return EvaluationTable(
        model=ModelTable(name="made", spec="made", digest="", classes=4),
        input=InputTable(mean=MEAN, std=STD),
        run=RunTable(device=device, batch=4, precision=precision),
        data_set=DataSetTable(name="made", family="none", profile="", manifest_sha256="", samples=1, failed=0),
    )


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_batch_waits_for_a_gpu_once(monkeypatch: pytest.MonkeyPatch, precision: Precision) -> None:
    gpu = _Gpu(monkeypatch)
    monkeypatch.setattr(torch, "autocast", lambda *arguments: nullcontext())  # knows no device without memory
    made = Classifier(_table("meta", precision), from_module(_network()))
    frames = [Frame("key", "id", label) for label in (0, 3)]
    with gpu:
        batches = [FrameBatch(0, torch.zeros((2, 8, 8, 3), dtype=torch.uint8), frames, last=True) for _ in range(2)]
        started = [made.start(batch) for batch in batches]
        assert gpu.waits == []  # both batches are in flight
        copied = ["to meta copying", "wait for copying", "kept"]
        fetched = 7 * ["to cpu computing"]  # one for each output
        assert gpu.log == 2 * [*copied, *copied, *fetched, "event"]
        assert [made.finish(outputs).label_rank.tolist() for outputs in started] == 2 * [[0, 0]]
    assert gpu.waits == ["event", "event"]


@pytest.mark.parametrize(("precision", "expected"), [("fp32", False), ("tf32", True)])
def test_only_tf32_shortens_the_numbers_of_a_gpu(precision: Precision, expected: bool) -> None:
    run = RunTable(device="cpu", batch=4, precision=precision)
    table: Any = SimpleNamespace(run=run, input=InputTable(mean=MEAN, std=STD), stream=None, task=None)
    backends: Any = torch.backends
    with preserve_process():
        Classifier(table, from_module(torch.nn.Flatten()))
        assert backends.cudnn.allow_tf32 == backends.cuda.matmul.allow_tf32 == expected


class _Casts(TorchDispatchMode):
    """Counts how often a tensor of a shape is cast."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.count, self._shape = 0, shape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._to_copy.default and tuple(args[0].shape) == self._shape
        return func(*args, **(kwargs or {}))


def test_bf16_casts_weights_once() -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3)).astype(np.uint8))
    with preserve_process(), _Casts((4, 3, 3, 3)) as casts:
        made = Classifier(_table("cpu", "bf16"), from_module(_network()))
        expected = made.logits(images)
        made.logits(images)
        assert casts.count == 2
        with made.casting_once():
            logits = [made.logits(images) for _ in range(3)]
        assert casts.count == 3
    assert all(torch.equal(each, expected) for each in logits)
    assert not torch.equal(expected, Classifier(_table("cpu", "fp32"), from_module(_network())).logits(images))
