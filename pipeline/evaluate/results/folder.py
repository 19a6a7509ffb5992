"""The folder of an evaluation: settings, predictions parts, and the merged predictions."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from pydantic import Field

import manifests
from pipeline.config import StrictTable, one_of, read_toml, validated
from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate.results.predictions import SCHEMA, SHORTCUT_SCHEMA, STREAM_SCHEMA
from pipeline.execution.resumable import JobFolder
from pipeline.recipes.attacks import AttackTable
from pipeline.storage import SMALL_FILE, Store
from pipeline.tasks.lists import IMAGENET
from pipeline.tasks.schema import Steps, Task
from pipeline.transforms.registry import FAMILIES

EVALUATION_FILE = "evaluation.toml"
CHUNKS_FILE = "chunks.txt"
PREDICTIONS_FILE = "predictions.parquet"

EVALUATION = JobFolder("evaluation", EVALUATION_FILE, PREDICTIONS_FILE, "parts", "chunk")
"""The folder of an evaluation. ``chunks.txt`` lists the chunks of the data set."""

FACT_PIXELS_CHANGED, FACT_PIXELS_CHECKED = "pixels_changed", "pixels_checked"
"""Metadata keys of parts and of the merged file: numbers of samples with changed pixels, and of compared samples."""

FACT_EVALUATION = "evaluation"  # metadata key of the merged file: the digest of the evaluation's settings

Precision = Literal["fp32", "tf32", "bf16", "fp16"]

DESCRIPTIVE = {"note", "parameters", "multiply_adds"}  # fields of [model] that predictions do not depend on
NOT_IDENTIFYING = {"model": DESCRIPTIVE, "data_set": {"encoder", "seed", "pixel_root"}}
"""Fields that are not part of the identity of an evaluation: descriptions, and what the manifest implies."""

FILES = "files"  # encoder of data sets that are files of other tools
MAX_SHARDS_SHOWN = 5  # maximum number of missing shards listed in an error message


class ModelTable(StrictTable):
    """The table ``[model]``."""

    name: str  # in reports
    spec: str  # factory, file or library model that it was loaded from
    weights: str = ""  # file with its state dict; empty for the model's own weights
    digest: str  # SHA-256 of its files or weights
    code: str = ""  # SHA-256 of its code; empty for model files, whose digest covers the code
    classes: Annotated[int, Field(ge=1)]  # number of outputs
    note: str | None = None  # of the user for reports, for example how the model was trained
    parameters: Annotated[int, Field(ge=0)] | None = None  # their number; None if unknown
    multiply_adds: Annotated[int, Field(ge=0)] | None = None  # for one image; None if unknown


class InputTable(StrictTable):
    """The table ``[input]``."""

    size: Annotated[int, Field(ge=0, le=4096)] = 0  # side that images are resized to, in pixels; 0 keeps their size
    mean: tuple[float, float, float]  # of channels, for pixel values 0..1
    std: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]
    steps: Steps | None = None  # preparation of images that are not prepared yet; None keeps them as they are
    resize: str | None = None  # resize operator of these steps
    decoder: str | None = None  # fingerprint of the decoder of these images


class RunTable(StrictTable):
    """The table ``[run]``: device, precision, batch size and other settings that may change the predictions.

    ``predictions`` is the digest of predictions that were given instead of a model; device, precision, batch size and
    ``[input]`` are then unknown.
    """

    device: str
    precision: Precision = "fp32"
    batch: Annotated[int, Field(ge=1)]
    channels_last: bool = False
    compile: bool = False
    predictions: str | None = None


class StreamTable(StrictTable):
    """The table ``[stream]``: the order in which a model that may adapt saw the images, in one process."""

    protocol: str
    seed: Annotated[int, Field(ge=0)]  # of the orders
    parameters: Mapping[str, str | int | float | bool]  # of the protocol, without those that are None
    order_sha256: str
    entries: tuple[Annotated[int, Field(ge=0)], ...]  # number of samples of each
    repeats: bool  # an image may come twice under one condition, or be left out
    subset: str | None = None  # name of the subset of images; None for all
    missing: int | None = None  # number of images of the subset that the data set lacks

    def __str__(self) -> str:
        """Return it for people."""
        parameters = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        images = f", {self.subset} ({self.missing or 0:,} of its images are missing)" if self.subset else ""
        return f"protocol {self.protocol} ({parameters}), seed {self.seed}, order {self.order_sha256[:12]}{images}"


class DataSetTable(StrictTable):
    """The table ``[data_set]``: what was evaluated.

    The manifest of a rendered data set, which has none, is its content: the digest of its recipe and images, which a
    built and a rendered data set share. Encoder and seed are None where they are unknown.
    """

    name: str
    family: Annotated[str, one_of(FAMILIES)]
    profile: str
    manifest_sha256: str
    content_sha256: str | None = None
    samples: int  # that did not fail
    failed: int
    pass_all: Annotated[int, Field(ge=0)] | None = None  # the lowest level that can leave its images unchanged
    encoder: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_=.: -]{0,99}$")] | None = None  # or FILES
    seed: Annotated[int, Field(ge=0)] | None = None  # of its recipe; None if it has none
    pixel_root: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None  # of all its images (roots.json)

    @property
    def is_rendered(self) -> bool:
        """Whether it is a rendered data set."""
        return self.content_sha256 == self.manifest_sha256


class DigestedTable(StrictTable):
    """The settings of a job on a model and a data set, with a digest of those that its results depend on."""

    def to_toml(self) -> str:
        """Return the content of the file of settings."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    def identity(self) -> dict[str, Any]:
        """Return all settings that the results depend on, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True, exclude=NOT_IDENTIFYING)

    @property
    def digest(self) -> str:
        """The hexadecimal SHA-256 of all settings that the results depend on."""
        return hashlib.sha256(tomli_w.dumps(self.identity()).encode()).hexdigest()


class EvaluationTable(DigestedTable):
    """The content of ``evaluation.toml``. Fields without a value are not written."""

    model: ModelTable
    input: InputTable
    run: RunTable
    data_set: DataSetTable
    stream: StreamTable | None = None
    """The order of the images for a model that may adapt. None if the order does not matter."""
    task: Task | None = None
    """The task of the data set. None: each output of the model is a class."""
    attack: AttackTable | None = None
    """How the adversarial images of the data set were made. None for every other family."""
    software: Mapping[str, str] = {}
    """Versions of the libraries that the predictions depend on, by name."""

    def with_run(self, **changes: Any) -> Self:
        """Return these settings with other values in the table ``[run]``."""
        return self.model_copy(update={"run": self.run.model_copy(update=changes)})

    @property
    def labels(self) -> int:
        """The number of labels that the model chooses among: the groups of the task, or all outputs."""
        return self.task.labels if self.task else self.model.classes

    @property
    def shortcut(self) -> int | None:
        """The class whose probability is recorded for all images; None without a shortcut, and for streams."""
        return None if self.stream else shortcut_of(self.data_set.family, self.task, self.model.classes)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its predictions."""
        return STREAM_SCHEMA if self.stream else SCHEMA if self.shortcut is None else SHORTCUT_SCHEMA

    @property
    def digest(self) -> str:
        """The hexadecimal SHA-256 of all settings that predictions depend on.

        It is the same for a built and a rendered data set with the same content, which have different manifests.
        """
        settings = self.identity()
        if self.data_set.content_sha256 is not None:
            del settings["data_set"]["manifest_sha256"]
        return hashlib.sha256(tomli_w.dumps(settings).encode()).hexdigest()

    def identity(self) -> dict[str, Any]:
        """Return all settings that predictions depend on, as JSON values; of the device its kind, not its number."""
        settings = super().identity()
        settings["run"]["device"] = settings["run"]["device"].partition(":")[0]
        return settings


def shortcut_of(family: str, task: Task | None, classes: int) -> int | None:
    """Return the class that the shortcut of a family leads to, if the outputs of a model are ImageNet's classes."""
    labels = task.labels if task else classes
    return FAMILIES[family].shortcut if labels == classes == len(IMAGENET) else None


def read_table(store: Store) -> EvaluationTable:
    """Return the settings of an evaluation. Raise UserError if they are missing or invalid."""
    if store.size(EVALUATION_FILE) < 0:
        raise UserError(
            f"{store.root} is not an evaluation, since it has no {EVALUATION_FILE}: give a folder that evaluate wrote"
        )
    where = f"{store.root}/{EVALUATION_FILE}"
    return validated(EvaluationTable, read_toml(store.read(EVALUATION_FILE, limit=SMALL_FILE), where), where)


def is_finished(store: Store, table: EvaluationTable, frames: int) -> bool:
    """Return whether the merged predictions are sealed, have the same settings and contain ``frames`` rows."""
    if store.size(PREDICTIONS_FILE) < 0:
        return False
    path = store.path(PREDICTIONS_FILE)
    if not manifests.is_sealed_file(path) or manifests.read_facts(path).get(FACT_EVALUATION) != table.digest:
        return False
    try:
        return bool(pq.read_metadata(path).num_rows == frames)
    except (OSError, pa.ArrowException):
        return False


def require_finished(store: Store) -> None:
    """Raise UnfinishedError with the missing shards if predictions are missing, UserError if they are damaged."""
    remedy = "run the same evaluate command again"
    if store.size(PREDICTIONS_FILE) >= 0:
        if manifests.is_sealed_file(store.path(PREDICTIONS_FILE)):
            return
        raise UserError(f"{store.root}/{PREDICTIONS_FILE} is damaged: {remedy}")
    chunks = store.read(CHUNKS_FILE).decode(errors="replace").split() if store.size(CHUNKS_FILE) >= 0 else []
    parts = store.listing(EVALUATION.parts, ".parquet")
    missing = [chunk for chunk in chunks if EVALUATION.part(chunk) not in parts]
    names = ", ".join(missing[:MAX_SHARDS_SHOWN]) + (" ..." if len(missing) > MAX_SHARDS_SHOWN else "")
    reason = f"{len(missing)} of {len(chunks)} shards are missing: {names}" if missing else "its parts are not merged"
    raise UnfinishedError(f"the evaluation {store.root} is not finished ({reason}); {remedy}")


def pixels_changed(store: Store) -> tuple[int, int]:
    """Return the number of samples with changed pixels and the number of compared samples."""
    facts = manifests.read_facts(store.path(PREDICTIONS_FILE))
    try:
        return int(facts.get(FACT_PIXELS_CHANGED, 0)), int(facts.get(FACT_PIXELS_CHECKED, 0))
    except ValueError as error:
        raise UserError(
            f"{store.root}/{PREDICTIONS_FILE} has no valid counts of compared samples: run the same evaluate "
            "command again"
        ) from error
