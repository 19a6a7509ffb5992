"""The folder of an evaluation: what was asked of which model, its parts, and the predictions once all are there."""

from __future__ import annotations

from typing import Annotated, Literal

import tomli_w
from pydantic import Field

import manifests
from pipeline.errors import UnfinishedError, UserError
from pipeline.families import FAMILIES
from pipeline.storage import Store
from pipeline.tables import StrictTable, one_of, read_toml, validated

EVALUATION_FILE = "evaluation.toml"
UNITS_FILE = "units.txt"
PREDICTIONS_FILE = "predictions.parquet"
PARTS = "parts"

FACT_UNIT, FACT_PIXELS_CHANGED, FACT_PIXELS_CHECKED = "unit", "pixels_changed", "pixels_checked"
"""Metadata of parts, the last two also of the merged file: the unit's digest, and samples that this machine decodes to
other pixels than the data set's manifest has, of those that were compared."""

Precision = Literal["fp32", "bf16", "fp16"]

SHOWN = 5
"""Missing units that a message names."""


class ModelTable(StrictTable):
    """``[model]``: its name in reports, where it came from, and what tells its weights apart."""

    name: str
    spec: str
    weights: str = ""
    digest: str
    classes: Annotated[int, Field(ge=1)]


class InputTable(StrictTable):
    """``[input]``: side of the images that the model was given (0: as they are), and their normalisation on 0..1."""

    size: Annotated[int, Field(ge=0, le=4096)] = 0
    mean: tuple[float, float, float]
    std: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]


class RunTable(StrictTable):
    """``[run]``: all else that may change a digit of the predictions."""

    device: str
    precision: Precision = "fp32"
    batch: Annotated[int, Field(ge=1)]
    channels_last: bool = False
    compile: bool = False


class DataSetTable(StrictTable):
    """``[data_set]``: what the model was shown."""

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

    def to_toml(self) -> str:
        """As a TOML file."""
        return tomli_w.dumps(self.model_dump(mode="json"))


def part_file(unit: str) -> str:
    """Where the predictions of one unit go."""
    return f"{PARTS}/{unit}.parquet"


def read_table(store: Store) -> EvaluationTable:
    """What was evaluated. Raises UserError where there is no evaluation."""
    if store.size(EVALUATION_FILE) < 0:
        raise UserError(f"{store.root} is no evaluation: it has no {EVALUATION_FILE}")
    where = f"{store.root}/{EVALUATION_FILE}"
    return validated(EvaluationTable, read_toml(store.read(EVALUATION_FILE).decode(), where), where)


def require_finished(store: Store) -> None:
    """Raises UnfinishedError, naming what is missing, unless the predictions are whole."""
    if store.size(PREDICTIONS_FILE) >= 0:
        return
    units = store.read(UNITS_FILE).decode().split() if store.size(UNITS_FILE) >= 0 else []
    there = store.listing(PARTS, ".parquet")
    missing = [unit for unit in units if part_file(unit) not in there]
    named = ", ".join(missing[:SHOWN]) + (" ..." if len(missing) > SHOWN else "")
    what = f"{len(missing)} of {len(units)} shards are missing: {named}" if missing else "its parts are not merged"
    raise UnfinishedError(f"the evaluation {store.root} is not finished ({what}); run the same evaluate command again")


def pixels_changed(store: Store) -> tuple[int, int]:
    """How many samples this evaluation saw with other pixels than were built, and how many it compared."""
    facts = manifests.read_facts(store.path(PREDICTIONS_FILE))
    return int(facts.get(FACT_PIXELS_CHANGED, 0)), int(facts.get(FACT_PIXELS_CHECKED, 0))
