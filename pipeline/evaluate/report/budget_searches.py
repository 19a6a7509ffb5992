"""Searches for the smallest budgets, as ``budgets`` wrote them, with the checks that a report needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

import manifests
from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.checks import Floats
from pipeline.evaluate.report.scores import reading
from pipeline.evaluate.report.tested import Tested
from pipeline.evaluate.results.budgets import (
    BUDGETS_FILE,
    BUDGETS_SCHEMA,
    FACT_SETTINGS,
    SETTINGS_FILE,
    BudgetsTable,
    read_budgets_table,
)
from pipeline.evaluate.results.predictions import MAX_CONDITION_ROWS
from pipeline.storage import Store
from pipeline.text import LONGEST_PATH, printable

COLUMNS = ("source_id", "right_before", "found", "smallest", "error")
"""Columns that reports need."""


@dataclass(frozen=True)
class BudgetSearch(Tested[BudgetsTable]):
    """A finished search for the smallest budgets at which an attack on one model succeeds.

    ``table``: contents of ``budgets.toml``.
    """

    @cached_property
    def images(self) -> SearchedImages:
        """The images that were attacked without an error.

        Raises:
            UserError: If the file is damaged, or no image was attacked.
        """
        path = self.store.path(BUDGETS_FILE)
        with reading(self.folder):
            rows = sum(group.rows for group in manifests.read_row_groups(path))
            if rows > MAX_CONDITION_ROWS:
                raise UserError(f"{self.folder} has {rows:,} images: a report shows at most {MAX_CONDITION_ROWS:,}")
            with pq.ParquetFile(path) as file:
                if not file.schema_arrow.remove_metadata().equals(BUDGETS_SCHEMA):
                    raise UserError(
                        f"{path} does not have the columns of budgets: {', '.join(file.schema_arrow.names)}"
                    )
                table = file.read(columns=list(COLUMNS), use_threads=False)
            attacked = table.filter(table["error"].is_null())
            if not attacked.num_rows:
                raise UserError(f"{self.folder}: none of {rows:,} images was attacked without an error")
            before = attacked["right_before"].to_numpy()
            smallest = metrics.smallest_budgets(before, attacked["found"].to_numpy(), attacked["smallest"].to_numpy())
        ids = attacked["source_id"].to_pylist()
        return SearchedImages(ids, before, smallest, rows - attacked.num_rows)


@dataclass(frozen=True)
class SearchedImages:
    """The smallest budgets of images.

    Attributes:
        ids: Source ids, length S.
        right_before: Whether the model is right without an attack, (S,).
        smallest: Smallest budget, (S,): 0 where the model is wrong anyway, infinite where none was found.
        failed: Number of further images that could not be attacked.
    """

    ids: Sequence[str]
    right_before: NDArray[np.bool_]
    smallest: Floats
    failed: int


def open_budgets(folder: str, store: Store) -> BudgetSearch:
    """Open a folder that ``budgets`` wrote.

    Raises:
        UserError: If the folder has no valid search.
        UnfinishedError: If the search is incomplete.
    """
    with reading(folder):
        table = read_budgets_table(store)
        if store.size(BUDGETS_FILE) < 0:
            raise UnfinishedError(f"the search {store.root} is not finished; run the same budgets command again")
        path = store.path(BUDGETS_FILE)
        if not manifests.is_sealed_file(path):
            raise UserError(f"{store.root}/{BUDGETS_FILE} is damaged: run the same budgets command again")
        if manifests.read_facts(path).get(FACT_SETTINGS) != table.digest:
            raise UserError(
                f"{store.root}: {BUDGETS_FILE} does not belong to {SETTINGS_FILE}: one of the two was changed or "
                "copied; run budgets again into a new folder"
            )
    return BudgetSearch(printable(folder, LONGEST_PATH), table, store)
