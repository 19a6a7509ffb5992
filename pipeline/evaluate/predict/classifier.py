"""Inference on a device: from uint8 images to ranked classes, in batches."""

import math
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pipeline.errors import UserError, is_exhausted
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.guards import first_line
from pipeline.evaluate.predict.stream import FrameBatch
from pipeline.evaluate.results.folder import EvaluationTable
from pipeline.evaluate.results.predictions import Outputs
from pipeline.tasks.schema import Task

PRECISIONS = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}

ASYNCHRONOUS = frozenset({"cuda"})
"""Types of devices that copy while they compute."""

_NO_GRADIENTS = "does not require grad"
"""Part of torch's message about a backward pass of outputs that were computed without gradients."""


class Normaliser:
    """A function that normalises images to (x / largest value of the type - mean) / std, and may pad them to a batch.

    The memory of the result is reused, because allocating it for each batch takes longer than the arithmetic.
    """

    def __init__(
        self,
        batch: int,
        mean: Sequence[float],
        std: Sequence[float],
        device: torch.device,
        pads: bool = False,
        channels_last: bool = False,
    ) -> None:
        self._batch, self._pads, self._channels_last = batch, pads, channels_last
        self._mean, self._std = (torch.tensor(values, dtype=torch.float32, device=device) for values in (mean, std))
        # On a CPU, process one image at a time, so that its values stay in the cache.
        self._images_per_step = 1 if device.type == "cpu" else batch
        self._values = torch.empty(0, device=device)
        self._factors = self._terms = self._values

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return normalised images, float32 of shape (N, 3, H, W), with channels first or last in memory.

        The next call overwrites the result. With padding, zeros follow up to the batch size.

        Args:
            images: Images, uint8 or uint16 of shape (N, H, W, 3), with N at most the batch size.
        """
        count, height, width, channels = images.shape
        if self._channels_last:
            shape = (self._batch, height, width * channels)
        else:  # bytes are moved in a quarter of the time of floats
            images, shape = images.permute(0, 3, 1, 2), (self._batch, channels, height * width)
        if self._values.shape != shape:
            self._values = self._mean.new_empty(shape)
            one = torch.iinfo(images.dtype).max
            per_channel = 1 / (self._std * one), self._mean / self._std
            # Repeat the channel values for a whole row, since broadcasting three numbers is slow.
            self._factors, self._terms = (
                each.repeat(width) if self._channels_last else each[:, None] for each in per_channel
            )
        rows = images.reshape(count, *shape[1:])
        for start in range(0, count, self._images_per_step):
            part = slice(start, min(start + self._images_per_step, count))
            self._values[part].copy_(rows[part]).mul_(self._factors).sub_(self._terms)
        values = self._values if self._pads else self._values[:count]
        values[count:].zero_()
        if not self._channels_last:
            return values.view(-1, channels, height, width)
        return values.view(-1, height, width, channels).permute(0, 3, 1, 2)


class Copies:
    """Copies between the CPU and a device. A GPU makes them while it computes, and the CPU does not wait for them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device) if device.type in ASYNCHRONOUS else None  # type: ignore[no-untyped-call]

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy on the device, or the tensor if it is there. What is computed next waits for the copy."""
        if self._stream is None or tensor.device.type == self._device.type:
            return tensor.to(self._device)
        if not tensor.is_pinned():  # the CPU waits for copies of other memory
            tensor = tensor.pin_memory()
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copy = tensor.to(self._device, non_blocking=True)
        computing.wait_stream(self._stream)
        copy.record_stream(computing)
        return copy

    def to_cpu(self, tensors: Sequence[torch.Tensor]) -> "Pending":
        """Start to copy the results of what was started before."""
        if self._stream is None:
            return Pending(tuple(tensors))
        computing = torch.cuda.current_stream(self._device)
        copies = tuple(tensor.to("cpu", non_blocking=True) for tensor in tensors)  # to pinned memory
        return Pending(copies, computing.record_event())


@dataclass(frozen=True)
class Pending:
    """The outputs of a batch, in the order of the fields of ``Outputs``, which may not be computed yet.

    Attributes:
        outputs: Their tensors.
        ready: Event of the GPU after which they are in the memory of the CPU. None if it need not be waited for.
    """

    outputs: tuple[torch.Tensor, ...]
    ready: torch.cuda.Event | None = None

    def wait(self) -> Outputs:
        """Wait for the outputs and return them."""
        if self.ready is not None:
            self.ready.synchronize()
        return fetched(self.outputs)


class Classifier:
    """A model on its device, with the precision, input size and batch size of an evaluation."""

    def __init__(self, table: EvaluationTable, model: Model) -> None:
        run = table.run
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
        _allow_tf32(run.precision == "tf32")
        self.device = torch.device(run.device)
        self._copies = Copies(self.device)
        self._table = table
        module = model.module.to(self.device)
        if run.channels_last:
            module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._weight_dtypes = {weights.dtype for weights in module.parameters() if weights.is_floating_point()}
        self._module = torch.compile(module) if run.compile else module
        self._own: Any = getattr(model.module, "inner", None)
        self._ordered = table.stream is not None
        pads = not self._ordered and (self.device.type != "cpu" or run.compile or model.batch is not None)
        self._normalise = Normaliser(run.batch, table.input.mean, table.input.std, self.device, pads, run.channels_last)
        self._type = PRECISIONS[run.precision]
        self._gradients: Any = torch.enable_grad if self._ordered else torch.inference_mode
        if self._type and not self._ordered:  # autocast keeps casts of trainable weights only, and not in this mode
            self._gradients = torch.no_grad
            for weights in module.parameters():
                weights.requires_grad_(weights.is_floating_point())
        self._groups = Groups(table.task, self.device) if table.task and table.task.groups else None

    def casting_once(self) -> AbstractContextManager[object]:
        """Return a context in which autocast keeps the weights that it has cast, unless they may change."""
        return nullcontext() if self._ordered else torch.autocast(self.device.type, enabled=False)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of a batch, float32 of shape (N, classes), on the device.

        Batches of a GPU, and of a model that accepts one shape, are padded to the full batch size. In a stream, the
        model may adapt to its images: it gets a copy without padding, and may use gradients.

        Args:
            images: RGB images, uint8 of shape (N, H, W, 3), with N at most the batch size.

        Raises:
            UserError: The model raises any exception.
        """
        count, size = len(images), self._table.input.size
        reused = values = self._normalise(self._copies.to_device(images))
        if size and values.shape[2:] != (size, size):
            values = torch.nn.functional.interpolate(values, (size, size), mode="bilinear", antialias=True)
        if self._ordered and values.data_ptr() == reused.data_ptr():
            values = values.clone()
        cast = torch.autocast(self.device.type, self._type) if self._type else nullcontext()
        try:
            with self._gradients(), cast, redirect_stdout(sys.stderr):
                return self._module(values)[:count].detach().float()
        except (UserError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also SystemExit, which would end the command with exit code 0
            if is_exhausted(error):
                raise MemoryError(torch_message(error)) from error
            side = " x ".join(map(str, values.shape[:1:-1]))
            raise UserError(
                f"the model {self._table.model.spec} fails on a batch of {len(values)} images of {side}: "
                f"{torch_message(error)}; {self._advice(error)}"
            ) from error

    def _advice(self, error: BaseException) -> str:
        """Return advice for a model that fails."""
        if _NO_GRADIENTS in str(error) and not self._ordered:
            return "gradients are disabled; a model that adapts at test time needs --ordered (in Python ordered=True)"
        other = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in self._weight_dtypes - {torch.float32}))
        if other:
            return f"its weights are {other} but images are float32: call .float() in the factory, and use --precision"
        layout = "--no-channels-last, " if self._table.run.channels_last else ""
        return f"try {layout}--input-size N to resize the images, or --batch-size N"

    def reset(self) -> None:
        """Call the model's own method ``reset``. Raise UserError if it raises any exception."""
        try:
            with redirect_stdout(sys.stderr):
                self._own.reset()
        except Exception as error:  # the user's code can raise any exception
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise UserError(f"reset() of the model {self._table.model.spec} fails: {reason}") from error

    def start(self, batch: FrameBatch) -> Pending:
        """Start computing a batch and return its outputs. Raise UserError if the model lacks the class of a label."""
        labels = np.array([frame.label for frame in batch.frames])
        if labels.max() >= self._table.labels:
            frame = batch.frames[int(labels.argmax())]
            raise UserError(f"{frame.key} has label {frame.label}, but the model has only {self._table.labels} classes")
        on_device = self._copies.to_device(torch.from_numpy(labels))
        logits = self.logits(batch.images)
        if logits.shape[1] != self._table.model.classes:
            classes, first = logits.shape[1], self._table.model.classes
            raise UserError(
                f"the model {self._table.model.name} returns {classes} classes, but it returned {first} classes for an "
                "earlier batch"
            )
        return self._copies.to_cpu(ranked(logits, on_device, self._groups, self._table.shortcut))

    def finish(self, outputs: Pending) -> Outputs:
        """Wait for the outputs of a batch and return them. Raise UserError if they are NaN or infinite."""
        received = outputs.wait()
        if not np.isfinite(received.confidence).all():
            raise UserError(
                f"the model {self._table.model.name} returns NaN or infinite values: with fp16, try bf16 or fp32"
            )
        return received


def fetched(outputs: tuple[torch.Tensor, ...]) -> Outputs:
    """Return what ``ranked`` returned as arrays; waits for a device other than a GPU."""
    top5, rank, probability, confidence, free, *others = (each.cpu().numpy() for each in outputs)
    return Outputs(
        top5.astype(np.int32), rank.astype(np.int32), probability, confidence, free.astype(np.int32), *others
    )


def _allow_tf32(allowed: bool) -> None:
    """Allow or forbid products of 19-bit numbers on a GPU, which torch allows for convolutions by default."""
    cudnn: Any = torch.backends.cudnn
    matmul: Any = torch.backends.cuda.matmul
    try:
        _ = cudnn.allow_tf32, matmul.allow_tf32
        cudnn.allow_tf32 = matmul.allow_tf32 = allowed
    except RuntimeError:  # the process has set fp32_precision of torch 2.9; setting both leaves neither readable
        for operation in (cudnn.conv, cudnn.rnn, matmul):
            operation.fp32_precision = "tf32" if allowed else "ieee"


def torch_message(error: BaseException) -> str:
    """Return the last line of a torch error, which is the most specific; for others, the type and first line."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines and isinstance(error, RuntimeError) else first_line(error)


class Groups:
    """The groups of classes that a task counts, on the device of the model."""

    def __init__(self, task: Task, device: torch.device) -> None:
        widest = max(map(len, task.groups))
        # Repeat the first class of each group, which does not change the maximum.
        members = [[*group, *[group[0]] * (widest - len(group))] for group in task.groups]
        self._members = torch.tensor(members, device=device)
        self._sizes = torch.tensor([len(group) for group in task.groups], device=device)
        self._beyond = torch.arange(widest, device=device) >= self._sizes[:, None]
        self._by_mean, self.beside_labels = task.combine == "mean", task.labels_are is not None
        self._group_of_class = torch.full((task.outputs,), -1, device=device)
        self._group_of_class[self._members] = torch.arange(len(task.groups), device=device)[:, None]

    def logits(self, logits: torch.Tensor, normalised: bool) -> torch.Tensor:
        """Return the logit of each group, (N, groups), of those of classes (N, classes), or of probabilities.

        It is the largest one of the group, or the logit of the mean probability.
        """
        members = logits[:, self._members]
        if not self._by_mean:
            return members.amax(dim=2)
        if normalised:
            return members.masked_fill(self._beyond, 0).sum(dim=2) / self._sizes
        return members.masked_fill(self._beyond, -math.inf).logsumexp(dim=2) - self._sizes.log()

    def of(self, classes: torch.Tensor) -> torch.Tensor:
        """Return the group of each class; -1 for a class in no group."""
        return self._group_of_class[classes]


def ranked(
    logits: torch.Tensor,
    labels: torch.Tensor,
    groups: Groups | None,
    shortcut: int | None = None,
    *,
    normalised: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of each image, in the order of the fields of ``Outputs``.

    Of equal logits, the lower class index ranks first. Unknown labels have rank 0 and probability NaN. If one of the
    logits is NaN or infinite, the confidence is NaN. ``shortcut`` is the class that a shortcut leads to. ``normalised``
    logits are probabilities already.
    """
    chosen = groups.logits(logits, normalised) if groups else logits
    choices = logits if groups and groups.beside_labels else chosen
    order = torch.sort(choices, dim=1, descending=True, stable=True).indices
    known = labels >= 0
    label = labels.clamp(min=0)[:, None]
    rank = (order == label).to(torch.int32).argmax(dim=1) + 1
    probabilities = choices / choices.sum(dim=1, keepdim=True) if normalised else choices.softmax(dim=1)
    own = probabilities.gather(1, label)[:, 0]
    missing = torch.full_like(own, float("nan"))
    largest = logits.amax(dim=1)
    free = order[:, 0]
    if groups:
        free = chosen.argmax(dim=1) if groups.beside_labels else groups.of(logits.argmax(dim=1))
    return (
        order[:, :TOP],
        torch.where(known, rank, torch.zeros_like(rank)),
        torch.where(known, own, missing),
        torch.where(largest.isfinite(), probabilities.amax(dim=1), missing),
        free,
        probabilities.square().sum(dim=1),
        missing if shortcut is None else probabilities[:, shortcut],
    )
