"""The settings that decide the predictions of an evaluation: requested, the model's, or measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from time import perf_counter
from unicodedata import category

import torch

from pipeline.datasets.base import Chunk, DataSet
from pipeline.datasets.paths import MANIFEST_FILE, file_digest
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.guards import first_line
from pipeline.evaluate.predict.classifier import PRECISIONS, Classifier, last_line
from pipeline.evaluate.results.folder import DataSetTable, EvaluationTable, InputTable, ModelTable, Precision, RunTable

BATCHES_TRIED = (8, 16, 32, 64, 128, 256, 512, 1024)
LARGEST_ON_CPU = 64
WORTH_IT = 1.05
"""A larger batch size is taken only if it is faster by this factor."""

LARGEST_SIDE = 4096
"""Largest side, in pixels, that images are resized to."""

LARGEST_BATCH_BYTES = 2**30
"""Largest batch in bytes, as float32: 1783 images of 224 x 224."""

NUMBERS = 1e-6, 1e6
"""Smallest standard deviation, and largest standard deviation and mean: beyond them float32 loses all precision."""

LONGEST_NAME = 200
"""Longest name of a model in reports, in characters."""

NOT_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that would break a line or cannot be encoded."""

DEVICES = ("cpu", "cuda", "mps", "xpu")
"""Kinds of devices that compute; torch has others, for example meta, which do not."""


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate, with which model, to where, and how.

    ``batch``, ``workers``: 0 picks the number. ``size``, ``mean``, ``std``, ``loaders``: None takes the model's or the
    machine's. ``data``: where the files of an index are. ``trust_model``: load files that can run code. ``executor``:
    auto, ray or local.
    """

    data_set: str
    model: str
    output: str
    _: KW_ONLY
    weights: str | None = None
    name: str | None = None
    device: str = "auto"
    precision: Precision = "fp32"
    channels_last: bool = False
    compile: bool = False
    batch: int = 0
    size: int | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    loaders: int | None = None
    workers: int = 0
    address: str | None = None
    data: str | None = None
    trust_model: bool = False
    executor: str = "auto"


def checked_precision(name: str) -> Precision:
    """Return a precision by its name. Raise UserError for an unknown one."""
    if name not in PRECISIONS:
        raise UserError(f"unknown precision {name!r}: use {', '.join(PRECISIONS)}")
    return name  # type: ignore[return-value]


def settings(
    request: EvaluationRequest,
    data_set: DataSet,
    chunks: Sequence[Chunk],
    model: Model,
    earlier: EvaluationTable | None,
) -> EvaluationTable:
    """Return all settings that decide the predictions.

    Args:
        request: What the user asked for.
        data_set: What the model is run on.
        chunks: All chunks of it.
        model: The loaded model.
        earlier: The settings of an earlier run of the same evaluation, whose batch size is kept.

    Raises:
        UserError: A setting is not allowed, or the model does not take the images.
    """
    first = next((chunk for chunk in chunks if chunk.frames), None)
    if first is None:
        raise UserError(f"{data_set.name} has no sample to evaluate: all of them failed in the build")
    row = next(row for row in data_set.rows_of(first) if row.height)
    height, width = row.height or 0, row.width or 0
    taken = model.input
    size = taken.size if request.size is None else request.size
    if size is not None and not 0 <= size <= LARGEST_SIDE:
        raise UserError(f"invalid input size {size}: give --input-size 1 to {LARGEST_SIDE}, or 0 to keep the size")
    manifest = file_digest(data_set.store.path(MANIFEST_FILE))
    batch = request.batch or model.batch or (earlier.run.batch if earlier else 0)
    if model.batch and batch != model.batch:
        raise UserError(
            f"the model {request.model} takes batches of {model.batch} only: leave --batch-size {batch} out"
        )
    largest = largest_batch(height, width, size)
    if not 0 <= batch <= largest:
        raise UserError(
            f"invalid batch size {batch} for images of {width} x {height}: give --batch-size 1 to {largest}, or 0 "
            "for the fastest"
        )
    table = EvaluationTable(
        model=ModelTable(
            name=_checked_name(request),
            spec=_storable(request.model, "--model"),
            weights=_storable(request.weights or "", "--weights"),
            digest=model.digest,
            code=model.code,
            classes=1,
        ),
        input=InputTable(
            size=0 if size is None or (height, width) == (size, size) else size,
            mean=_checked(request.mean or taken.mean, "--mean", -NUMBERS[1]),
            std=_checked(request.std or taken.std, "--std", NUMBERS[0]),
        ),
        run=RunTable(
            device=_device(request.device),
            precision=request.precision,
            batch=batch or min(BATCHES_TRIED[0], largest),
            channels_last=request.channels_last,
            compile=request.compile,
        ),
        data_set=DataSetTable(
            name=data_set.name,
            family=data_set.family_name,
            profile=row.profile,
            manifest_sha256=manifest,
            samples=sum(chunk.samples for chunk in chunks),
            failed=sum(chunk.count - chunk.samples for chunk in chunks),
        ),
        software=dict(model.software),
    )
    classes = _try(table, model, height, width)
    table = table.model_copy(update={"model": table.model.model_copy(update={"classes": classes})})
    return table if batch else _with_batch(table, model, height, width, largest)


def largest_batch(height: int, width: int, size: int | None) -> int:
    """Return the largest batch size that is allowed, at least 1, for images of a size that are resized to ``size``."""
    pixels = max(height * width, (size or 0) ** 2)
    return max(LARGEST_BATCH_BYTES // (pixels * 3 * 4), 1)


def _checked_name(request: EvaluationRequest) -> str:
    """Return the name of the model in reports. Raise UserError for an invalid one."""
    if request.name is None:
        return _storable(request.model, "--model")
    name = request.name
    if not name.strip() or len(name) > LONGEST_NAME or {*map(category, name)} & NOT_IN_NAMES:
        raise UserError(
            f"invalid name {name[:LONGEST_NAME]!a}: give --name 1 to {LONGEST_NAME} characters, without control "
            "characters or line breaks"
        )
    return name


def _storable(text: str, option: str) -> str:
    """Return a text that can be encoded as UTF-8. Raise UserError for another."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{option} {text!a} is not valid UTF-8: rename the file, or create a link to it") from error
    return text


def _checked(numbers: tuple[float, float, float], option: str, least: float) -> tuple[float, float, float]:
    """Return three numbers that images can be normalised with. Raise UserError for others."""
    if not all(math.isfinite(number) and least <= number <= NUMBERS[1] for number in numbers):
        given = ",".join(map(str, numbers))
        raise UserError(f"invalid {option} {given}: give three numbers from {least:g} to {NUMBERS[1]:g}")
    return numbers


def _device(asked: str) -> str:
    """Return the name of the device to use. Raise UserError where it is not available."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(asked).type
        if kind not in DEVICES:
            raise ValueError(f"use {', '.join(DEVICES)}")
        torch.zeros(1, device=asked)
    except Exception as error:  # torch raises what it likes, down to ModuleNotFoundError
        raise UserError(f"the device {asked!r} is not available: {first_line(error)}; cpu always is") from error
    return kind if kind == "cpu" else asked


def _try(table: EvaluationTable, model: Model, height: int, width: int) -> int:
    """Run one batch of black images and return the number of classes. Raise UserError where the model fails."""
    try:
        images = torch.zeros((table.run.batch, height, width, 3), dtype=torch.uint8)
        classifier = Classifier(table, model)
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        raise UserError(
            f"the model {table.model.spec} cannot be run on {table.run.device} with a batch of {table.run.batch}: "
            f"{last_line(error)}; give a smaller --batch-size"
        ) from error
    return int(classifier.logits(images).cpu().shape[1])


def _with_batch(table: EvaluationTable, model: Model, height: int, width: int, largest: int) -> EvaluationTable:
    """Return the settings with the smallest batch size beyond which larger ones are hardly faster, or do not fit."""
    best, rate = table, 0.0
    for size in BATCHES_TRIED:
        if size > largest or (table.run.device == "cpu" and size > LARGEST_ON_CPU):
            break
        tried = table.model_copy(update={"run": table.run.model_copy(update={"batch": size})})
        try:
            now = _rate(Classifier(tried, model), size, height, width)
        except (UserError, RuntimeError, MemoryError):  # it does not fit
            break
        if now < WORTH_IT * rate:
            break
        best, rate = tried, now
    return best


def _rate(classifier: Classifier, batch: int, height: int, width: int) -> float:
    """Return images per second, over three batches after the first."""
    images = torch.zeros((batch, height, width, 3), dtype=torch.uint8)
    for turn in range(4):
        if turn == 1:
            start = perf_counter()
        classifier.logits(images).sum().item()
    return 3 * batch / (perf_counter() - start)
