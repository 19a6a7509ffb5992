"""All that decides the digits of an evaluation: what was asked for, what the model says, and what is found out."""

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
"""A larger batch must be faster by this factor to be taken."""

LARGEST_SIDE = 4096
"""Pixels: side of the images that a model is given."""

LARGEST_BATCH_BYTES = 2**30
"""Bytes of a batch as the model takes it: 1783 images of 224 x 224."""

NUMBERS = 1e-6, 1e6
"""Least standard deviation, and the largest standard deviation and mean: beyond them float32 has no digits left."""

LONGEST_NAME = 200
"""Characters of what reports call a model."""

NOT_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Kinds of characters (Unicode's categories) that would break a line or cannot be written."""

DEVICES = ("cpu", "cuda", "mps", "xpu")
"""Kinds of devices that compute: torch knows others, which only pretend to."""


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate, with which model, to where, and how.

    ``batch``, ``workers``: 0 picks the number. ``size``, ``mean``, ``std``, ``loaders``: None takes the model's or the
    machine's. ``trust_model``: load files that can run code. ``executor``: auto, ray or local. ``data``: where the files
    of an index are.
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
    """A precision by its name. Raises UserError."""
    if name not in PRECISIONS:
        raise UserError(f"the precision {name!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    return name  # type: ignore[return-value]


def settings(
    request: EvaluationRequest,
    data_set: DataSet,
    chunks: Sequence[Chunk],
    model: Model,
    earlier: EvaluationTable | None,
) -> EvaluationTable:
    """All that decides the predictions. What was found out by an earlier run stands. Raises UserError."""
    first = next((chunk for chunk in chunks if chunk.frames), None)
    if first is None:
        raise UserError(f"{data_set.name} has no sample that did not fail: there is nothing to evaluate")
    row = next(row for row in data_set.rows_of(first) if row.height)
    height, width = row.height or 0, row.width or 0
    told = model.input
    size = told.size if request.size is None else request.size
    if size is not None and not 0 <= size <= LARGEST_SIDE:
        raise UserError(f"the input size {size} is not allowed: give --input-size 1 to {LARGEST_SIDE}, or 0 for none")
    manifest = file_digest(data_set.store.path(MANIFEST_FILE))
    batch = request.batch or model.batch or (earlier.run.batch if earlier else 0)
    if model.batch and batch != model.batch:
        raise UserError(f"the model {request.model} takes batches of {model.batch} alone, not of {batch}")
    largest = largest_batch(height, width, size)
    if not 0 <= batch <= largest:
        raise UserError(
            f"a batch of {batch} images of {width} x {height} pixels is not allowed: give --batch-size 1 to {largest}, "
            "or 0 to let it be found"
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
            mean=_checked(request.mean or told.mean, "--mean", -NUMBERS[1]),
            std=_checked(request.std or told.std, "--std", NUMBERS[0]),
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
    """Return how many images a batch may have: as they are, and as the model takes them. At least 1."""
    pixels = max(height * width, (size or 0) ** 2)
    return max(LARGEST_BATCH_BYTES // (pixels * 3 * 4), 1)


def _checked_name(request: EvaluationRequest) -> str:
    """What reports call the model. Raises UserError."""
    if request.name is None:
        return _storable(request.model, "--model")
    name = request.name
    if not name.strip() or len(name) > LONGEST_NAME or {*map(category, name)} & NOT_IN_NAMES:
        raise UserError(
            f"the model cannot be called {name[:LONGEST_NAME]!a}: give --name with 1 to {LONGEST_NAME} "
            "characters, without control characters or line breaks"
        )
    return name


def _storable(text: str, option: str) -> str:
    """A text that a file of UTF-8 can hold. Raises UserError."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{option} {text!a} is not valid UTF-8: rename the file, or make a link to it") from error
    return text


def _checked(numbers: tuple[float, float, float], option: str, least: float) -> tuple[float, float, float]:
    """Three numbers that images can be normalised with. Raises UserError."""
    if not all(math.isfinite(number) and least <= number <= NUMBERS[1] for number in numbers):
        given = ",".join(map(str, numbers))
        raise UserError(f"{given} cannot be used: give {option} with three numbers of {least:g} to {NUMBERS[1]:g}")
    return numbers


def _device(asked: str) -> str:
    """The device by name. Raises UserError where it is not there."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(asked).type
        if kind not in DEVICES:
            raise ValueError(f"{', '.join(DEVICES)} are allowed")
        torch.zeros(1, device=asked)
    except Exception as error:  # torch raises what it likes, down to ModuleNotFoundError
        raise UserError(f"the device {asked!r} is not there: {first_line(error)}; cpu always is") from error
    return kind if kind == "cpu" else asked


def _try(table: EvaluationTable, model: Model, height: int, width: int) -> int:
    """One batch of black images; the number of classes. Raises UserError where the model does not take it."""
    try:
        images = torch.zeros((table.run.batch, height, width, 3), dtype=torch.uint8)
        classifier = Classifier(table, model)
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        raise UserError(
            f"the model {table.model.spec} cannot be run on {table.run.device} with a batch of {table.run.batch}: "
            f"{last_line(error)}; --batch-size N sets the batch"
        ) from error
    return int(classifier.logits(images).cpu().shape[1])


def _with_batch(table: EvaluationTable, model: Model, height: int, width: int, largest: int) -> EvaluationTable:
    """The smallest batch beyond which larger ones are hardly faster, or do not fit."""
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
    """Images per second, of three batches after the first."""
    images = torch.zeros((batch, height, width, 3), dtype=torch.uint8)
    for turn in range(4):
        if turn == 1:
            start = perf_counter()
        classifier.logits(images).sum().item()
    return 3 * batch / (perf_counter() - start)
