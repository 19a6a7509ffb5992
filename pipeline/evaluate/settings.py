"""All that decides the digits of an evaluation: what was asked for, what the model says, and what is found out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from pipeline.dataset import MANIFEST_FILE, DataSet, Unit
from pipeline.errors import UserError
from pipeline.evaluate.classifier import PRECISIONS, Classifier
from pipeline.evaluate.folder import DataSetTable, EvaluationTable, InputTable, ModelTable, Precision, RunTable
from pipeline.evaluate.models import Model

BATCHES_TRIED = (8, 16, 32, 64, 128, 256, 512, 1024)
LARGEST_ON_CPU = 64
WORTH_IT = 1.05
"""A larger batch must be faster by this factor to be taken."""


@dataclass(frozen=True)
class Request:
    """What to evaluate, with which model, to where, and how. Zero or None: found out, or what the model says."""

    data_set: str
    model: str
    output: str
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


def checked_precision(name: str) -> Precision:
    """A precision by its name. Raises UserError."""
    if name not in PRECISIONS:
        raise UserError(f"the precision {name!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    return name  # type: ignore[return-value]


def settings(
    request: Request, data_set: DataSet, units: Sequence[Unit], model: Model, earlier: EvaluationTable | None
) -> EvaluationTable:
    """All that decides the predictions. What was found out by an earlier run stands. Raises UserError."""
    first = next((unit for unit in units if unit.frames), None)
    if first is None:
        raise UserError(f"{data_set.name} has no sample that did not fail: there is nothing to evaluate")
    row = next(row for row in data_set.rows_of(first) if row.height)
    told = model.input
    size = told.size if request.size is None else request.size
    with open(data_set.store.path(MANIFEST_FILE), "rb") as file:
        manifest = hashlib.file_digest(file, "sha256").hexdigest()
    batch = request.batch or model.batch or (earlier.run.batch if earlier else 0)
    if model.batch and batch != model.batch:
        raise UserError(f"the model {request.model} takes batches of {model.batch} alone, not of {batch}")
    table = EvaluationTable(
        model=ModelTable(
            name=request.name or request.model,
            spec=request.model,
            weights=request.weights or "",
            digest=model.digest,
            classes=1,
        ),
        input=InputTable(
            size=0 if size is None or (row.height, row.width) == (size, size) else size,
            mean=request.mean or told.mean,
            std=request.std or told.std,
        ),
        run=RunTable(
            device=_device(request.device),
            precision=request.precision,
            batch=batch or BATCHES_TRIED[0],
            channels_last=request.channels_last,
            compile=request.compile,
        ),
        data_set=DataSetTable(
            name=data_set.name,
            family=data_set.family_name,
            profile=row.profile,
            manifest_sha256=manifest,
            samples=sum(unit.samples for unit in units),
            failed=sum(unit.count - unit.samples for unit in units),
        ),
    )
    height, width = row.height or 0, row.width or 0
    classes = _try(table, model, height, width)
    table = table.model_copy(update={"model": table.model.model_copy(update={"classes": classes})})
    return table if batch else _with_batch(table, model, height, width)


def _device(asked: str) -> str:
    """The device by name. Raises UserError where it is not there."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=asked)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"the device {asked!r} is not there: {str(error).splitlines()[0]}; cpu always is") from error
    return asked


def _try(table: EvaluationTable, model: Model, height: int, width: int) -> int:
    """One batch of black images; the number of classes. Raises UserError where the model does not take it."""
    images = torch.zeros((table.run.batch, height, width, 3), dtype=torch.uint8)
    try:
        logits = Classifier(table, model).logits(images)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise UserError(
            f"the model {table.model.spec} does not take a batch of {table.run.batch} images of {width} x {height}: "
            f"{str(error).strip().splitlines()[-1]}; --input-size N resizes them, --batch-size N sets the batch"
        ) from error
    return int(logits.shape[1])


def _with_batch(table: EvaluationTable, model: Model, height: int, width: int) -> EvaluationTable:
    """The smallest batch beyond which larger ones are hardly faster, or do not fit."""
    best, rate = table, 0.0
    for size in BATCHES_TRIED:
        if table.run.device == "cpu" and size > LARGEST_ON_CPU:
            break
        tried = table.model_copy(update={"run": table.run.model_copy(update={"batch": size})})
        try:
            now = _rate(Classifier(tried, model), size, height, width)
        except RuntimeError:  # torch's out-of-memory errors are among them
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
