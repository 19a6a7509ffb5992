"""The folder of an evaluation: its settings, the parts, and the merged predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from pydantic import Field

import manifests
from pipeline.config import StrictTable, one_of, read_toml, validated
from pipeline.errors import UnfinishedError, UserError
from pipeline.storage import SMALL_FILE, Store
from pipeline.transforms.registry import FAMILIES

EVALUATION_FILE = "evaluation.toml"
CHUNKS_FILE = "units.txt"
PREDICTIONS_FILE = "predictions.parquet"
PARTS = "parts"

FACT_CHUNK, FACT_PIXELS_CHANGED, FACT_PIXELS_CHECKED = "unit", "pixels_changed", "pixels_checked"
"""Metadata of parts, the last two also of the merged file: the chunk's digest, and how many samples this machine
decodes to other pixels than the manifest has, of how many compared."""

FACT_EVALUATION = "evaluation"
"""Metadata of the merged file: the digest of the evaluation's settings."""

Precision = Literal["fp32", "bf16", "fp16"]

SHOWN = 5
"""Missing shards that a message names."""


class ModelTable(StrictTable):
    """``[model]``: its name in reports, where it came from, and digests of its weights and code.

    ``code`` is empty for files, whose digest covers both.
    """

    name: str
    spec: str
    weights: str = ""
    digest: str
    code: str = ""
    classes: Annotated[int, Field(ge=1)]


class InputTable(StrictTable):
    """``[input]``: the side that images are resized to (0: their own), and their normalisation on 0..1."""

    size: Annotated[int, Field(ge=0, le=4096)] = 0
    mean: tuple[float, float, float]
    std: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]


class RunTable(StrictTable):
    """``[run]``: everything else that may change the predictions."""

    device: str
    precision: Precision = "fp32"
    batch: Annotated[int, Field(ge=1)]
    channels_last: bool = False
    compile: bool = False


class DataSetTable(StrictTable):
    """``[data_set]``: what the model was evaluated on."""

    name: str
    family: Annotated[str, one_of(FAMILIES)]
    profile: str
    manifest_sha256: str
    samples: int
    failed: int


class EvaluationTable(StrictTable):
    """``evaluation.toml``."""

    model: ModelTable
    input: InputTable
    run: RunTable
    data_set: DataSetTable
    software: Mapping[str, str] = {}
    """Library -> version, of those that the predictions depend on."""

    def to_toml(self) -> str:
        """Return the content of evaluation.toml."""
        return tomli_w.dumps(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all settings, hexadecimal."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()


def part_file(chunk: str) -> str:
    """Return the file for the predictions of one chunk."""
    return f"{PARTS}/{chunk}.parquet"


def read_table(store: Store) -> EvaluationTable:
    """Return the settings of an evaluation. Raise UserError where there is none."""
    if store.size(EVALUATION_FILE) < 0:
        raise UserError(
            f"{store.root} is not an evaluation: it has no {EVALUATION_FILE}; name a folder of evaluate --out"
        )
    where = f"{store.root}/{EVALUATION_FILE}"
    return validated(EvaluationTable, read_toml(store.read(EVALUATION_FILE, limit=SMALL_FILE), where), where)


def is_finished(store: Store, table: EvaluationTable, frames: int) -> bool:
    """Return whether the predictions of an evaluation are complete: sealed, and one for each of ``frames``."""
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
    """Raise UnfinishedError, naming what is missing, unless the predictions are complete."""
    again = "run the same evaluate command again"
    if store.size(PREDICTIONS_FILE) >= 0:
        if manifests.is_sealed_file(store.path(PREDICTIONS_FILE)):
            return
        raise UserError(f"{store.root}/{PREDICTIONS_FILE} is damaged or of an earlier version: {again}")
    chunks = store.read(CHUNKS_FILE).decode(errors="replace").split() if store.size(CHUNKS_FILE) >= 0 else []
    found = store.listing(PARTS, ".parquet")
    missing = [chunk for chunk in chunks if part_file(chunk) not in found]
    named = ", ".join(missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")
    what = f"{len(missing)} of {len(chunks)} shards are missing: {named}" if missing else "its parts are not merged"
    raise UnfinishedError(f"the evaluation {store.root} is not finished ({what}); {again}")


def pixels_changed(store: Store) -> tuple[int, int]:
    """Return how many samples decoded to other pixels than were built, and how many were compared."""
    facts = manifests.read_facts(store.path(PREDICTIONS_FILE))
    try:
        return int(facts.get(FACT_PIXELS_CHANGED, 0)), int(facts.get(FACT_PIXELS_CHECKED, 0))
    except ValueError as error:
        raise UserError(
            f"{store.root}/{PREDICTIONS_FILE} has no valid counts of compared samples: run the same evaluate "
            "command again"
        ) from error
