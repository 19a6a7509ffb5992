"""The folder of a budgets run: its settings, and the smallest budget at which an attack succeeds on each image."""

from collections.abc import Mapping
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from pipeline.config import StrictTable, read_toml, validated
from pipeline.errors import UserError
from pipeline.evaluate.results.folder import DataSetTable, DigestedTable, InputTable, ModelTable, RunTable
from pipeline.execution.resumable import JobFolder
from pipeline.recipes.attacks import CleanTable, Norm
from pipeline.storage import SMALL_FILE, Store

SETTINGS_FILE = "budgets.toml"
BUDGETS_FILE = "budgets.parquet"

BUDGETS = JobFolder("search", SETTINGS_FILE, BUDGETS_FILE, "parts", "block")  # the folder of a budgets run
FACT_SETTINGS = "budgets"  # metadata key of the merged file: digest of the settings

BUDGETS_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("label", pa.int64(), nullable=False),
        pa.field("right_before", pa.bool_(), nullable=False),
        pa.field("found", pa.bool_(), nullable=False),
        pa.field("smallest", pa.float64(), nullable=False),
        pa.field("largest_survived", pa.float64(), nullable=False),
        pa.field("error", pa.string()),
    ]
)
"""One row per image, in the order of the data set. ``smallest``: norm of the smallest perturbation that was found, for
pixel values 0..1; 0 where the model is wrong anyway, infinite where none was found. ``largest_survived``: largest
budget at which the attack failed; 0 if there is none. ``error``: why the image could not be attacked; its other values
are then those of an image that the attack did not reach."""


class SearchTable(StrictTable):
    """The table ``[search]``."""

    attack: str
    norm: Norm  # of the budgets
    largest: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # budget, for pixel values 0..1
    steps: Annotated[int, Field(ge=0)]  # halvings of the bracket; 0 for attacks that minimise the norm themselves
    seed: Annotated[int, Field(ge=0)] = 0
    settings: Mapping[str, int | float] = {}


class BudgetsTable(DigestedTable):
    """The content of ``budgets.toml``."""

    search: SearchTable
    model: ModelTable
    input: InputTable
    run: RunTable
    data_set: DataSetTable
    clean: CleanTable
    device: str
    """Name of the device that computed the attacks."""
    software: Mapping[str, str] = {}
    """Versions of the libraries that the budgets depend on, by name."""


def is_budgets(store: Store) -> bool:
    """Return whether a folder is one of a budgets run."""
    return store.size(SETTINGS_FILE) >= 0


def read_budgets_table(store: Store) -> BudgetsTable:
    """Return the settings of a budgets run. Raise UserError if they are missing or invalid."""
    if not is_budgets(store):
        raise UserError(f"{store.root} has no {SETTINGS_FILE}: give a folder that robustshards budgets wrote")
    where = f"{store.root}/{SETTINGS_FILE}"
    return validated(BudgetsTable, read_toml(store.read(SETTINGS_FILE, limit=SMALL_FILE), where), where)
