"""Finished evaluations and searches for budgets, and their predictions as values of images."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import manifests
from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics import TOP
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.results import budgets
from pipeline.evaluate.results.budgets import BUDGETS_FILE, BUDGETS_SCHEMA, BudgetsTable, is_budgets, read_budgets_table
from pipeline.evaluate.results.folder import (
    EVALUATION_FILE,
    FACT_EVALUATION,
    FILES,
    PREDICTIONS_FILE,
    EvaluationTable,
    read_table,
    require_finished,
)
from pipeline.evaluate.results.predictions import MAX_CONDITION_ROWS, ConditionPredictions, read_predictions
from pipeline.images.encoders import ENCODERS
from pipeline.storage import Store, open_store
from pipeline.tasks.schema import Role, Task
from pipeline.text import LONGEST_PATH, printable
from pipeline.transforms.clean import FAMILY as CLEAN
from pipeline.transforms.registry import FAMILIES

MAX_CONDITIONS = 2000  # maximum number of conditions of one evaluation: the page has a plot for each transform
LOSSLESS, LOSSY = "(lossless)", "(lossy)"  # ends of descriptions of encoders
Flags = NDArray[np.bool_]


# Folders


@dataclass(frozen=True)
class Tested:
    """The folder of a finished test of one model."""

    folder: str  # or URL, as the user gave it, printable
    table: EvaluationTable | BudgetsTable
    store: Store  # holds the files

    @property
    def model(self) -> str:
        """The printable name of the model."""
        return printable(self.table.model.name)

    @property
    def encoded(self) -> str:
        """How its images are stored, such as ``jpeg quality=85 optimize=true (lossy)``."""
        encoder = self.table.data_set.encoder
        if encoder is None:
            return "unknown encoder"
        if encoder == FILES:
            return "files as published"
        known = ENCODERS.get(encoder.split()[0])
        return f"{encoder} {LOSSLESS if known and known.lossless else LOSSY}"

    @property
    def location(self) -> str:
        """The URL or the resolved path of the folder, equal for different spellings of one folder."""
        return self.store.root if "://" in self.store.root else str(Path(self.store.root).resolve())


def role_of(family: str, task: Task | None) -> Role | None:
    """Return what images are to a report: the role of their task, or clean images; None if they have a transform."""
    if family != CLEAN.name:
        return None
    return task.role if task else "clean"


@dataclass(frozen=True)
class Evaluation(Tested):
    """A finished evaluation of one model on one data set."""

    table: EvaluationTable

    @property
    def role(self) -> Role | None:
        """What the images are to the report."""
        return role_of(self.table.data_set.family, self.table.task)

    @property
    def groups_digest(self) -> str:
        """The digest of the groups of classes that the labels count; empty if each class is a label."""
        return self.table.task.groups_digest if self.table.task else ""

    def predictions(self) -> Iterator[ConditionPredictions]:
        """Yield the predictions, one condition at a time.

        Raises:
            UserError: If the predictions are damaged or empty, or have more than ``MAX_CONDITIONS`` conditions.
        """
        count = 0
        with reading(self.folder):
            for predicted in read_predictions(self.store.path(PREDICTIONS_FILE), self.table.labels):
                count += 1
                if count > MAX_CONDITIONS:
                    raise UserError(
                        f"{self.folder} has more than {MAX_CONDITIONS} conditions (transforms at a level): a report "
                        "cannot show more, evaluate fewer transforms"
                    )
                self._check(predicted)
                yield predicted
            if not count:
                raise UserError(f"{self.folder} contains no predictions: evaluate a data set that has images")

    def levels(self) -> list[int]:
        """Return the levels of all conditions, in ascending order. Raise UserError if one is below 1."""
        levels = set[int]()
        with reading(self.folder), pq.ParquetFile(self.store.path(PREDICTIONS_FILE)) as file:
            for batch in file.iter_batches(columns=["level"]):
                levels.update(pc.unique(batch["level"]).to_pylist())
        if levels and min(levels) < 1:
            raise UserError(
                f"{self.folder} contains the difficulty {min(levels)}, but they start at 1: evaluate only sequences of "
                "the perturbations of ImageNet-P"
            )
        return sorted(levels)

    def damaged_error(self, reason: str) -> UserError:
        """Return the error for invalid predictions."""
        return UserError(f"{self.folder}: {PREDICTIONS_FILE} is damaged: {reason}; evaluate again into a new folder")

    def _check(self, predicted: ConditionPredictions) -> None:
        """Raise UserError if the predictions of a condition do not fit the family."""
        family, labels = FAMILIES[self.table.data_set.family], self.table.labels
        condition = predicted.condition
        if not family.knows(condition.transform):
            raise self.damaged_error(f"{condition.transform!r} is not a transform of the family {family.name}")
        if not family.sequences and predicted.top1.shape[1] != 1:
            raise self.damaged_error(f"{condition} contains sequences, but the family {family.name} has none")
        if predicted.top5.shape[2] != min(TOP, labels):
            raise self.damaged_error(
                f"{condition} lists {predicted.top5.shape[2]} classes per image instead of {min(TOP, labels)}"
            )


def open_evaluation(folder: str) -> Evaluation:
    """Open a folder or URL that ``evaluate`` wrote.

    Raises:
        UserError: If the folder has no valid evaluation.
        UnfinishedError: If the evaluation is incomplete.
    """
    store = open_store(folder)
    with reading(folder):
        table = read_table(store)
        require_finished(store)
        facts = pq.read_metadata(store.path(PREDICTIONS_FILE)).metadata or {}
    if facts.get(FACT_EVALUATION.encode(), b"") != table.digest.encode():
        raise UserError(
            f"{printable(folder, LONGEST_PATH)}: {PREDICTIONS_FILE} does not belong to {EVALUATION_FILE}: one of the "
            "two was changed or copied; evaluate again into a new folder"
        )
    return Evaluation(printable(folder, LONGEST_PATH), table, store)


@contextmanager
def reading(folder: str) -> Iterator[None]:
    """Convert errors raised while reading an evaluation into a UserError that names the folder."""
    try:
        yield
    except (ValueError, LookupError, ArithmeticError, RecursionError, MemoryError, pa.ArrowException) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"the evaluation {printable(folder, LONGEST_PATH)} cannot be read: {reason[0]}") from error


# Searches for budgets


@dataclass(frozen=True)
class SearchedImages:
    """The smallest budgets of images."""

    ids: Sequence[str]
    right_before: Flags  # the model is right without an attack, (S,)
    smallest: Floats  # (S,): 0 where the model is wrong anyway, infinite where none was found
    failed: int  # number of further images that could not be attacked


@dataclass(frozen=True)
class BudgetSearch(Tested):
    """A finished search for the smallest budgets of attacks on one model."""

    table: BudgetsTable

    @cached_property
    def images(self) -> SearchedImages:
        """The images that were attacked without an error. Raises UserError if a file is damaged, or has none."""
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
                columns = ["source_id", "right_before", "found", "smallest", "error"]
                table = file.read(columns=columns, use_threads=False)
            attacked = table.filter(table["error"].is_null())
            if not attacked.num_rows:
                raise UserError(f"{self.folder}: none of {rows:,} images was attacked without an error")
            before = attacked["right_before"].to_numpy()
            smallest = metrics.smallest_budgets(before, attacked["found"].to_numpy(), attacked["smallest"].to_numpy())
        return SearchedImages(attacked["source_id"].to_pylist(), before, smallest, rows - attacked.num_rows)


def open_folders(folders: Iterable[str]) -> tuple[list[Evaluation], list[BudgetSearch]]:
    """Open folders that ``evaluate`` or ``budgets`` wrote.

    Raises:
        UserError: If a folder has no valid evaluation or search.
        UnfinishedError: If one is incomplete.
    """
    evaluations: list[Evaluation] = []
    searches: list[BudgetSearch] = []
    for folder in folders:
        store = open_store(folder)
        if is_budgets(store):
            searches.append(_open_search(folder, store))
        else:
            evaluations.append(open_evaluation(folder))
    return evaluations, searches


def _open_search(folder: str, store: Store) -> BudgetSearch:
    with reading(folder):
        table = read_budgets_table(store)
        if store.size(BUDGETS_FILE) < 0:
            raise UnfinishedError(f"the search {store.root} is not finished; run the same budgets command again")
        path = store.path(BUDGETS_FILE)
        if not manifests.is_sealed_file(path):
            raise UserError(f"{store.root}/{BUDGETS_FILE} is damaged: run the same budgets command again")
        if manifests.read_facts(path).get(budgets.FACT_SETTINGS) != table.digest:
            raise UserError(
                f"{store.root}: {BUDGETS_FILE} does not belong to {budgets.SETTINGS_FILE}: one of the two was changed "
                "or copied; run budgets again into a new folder"
            )
    return BudgetSearch(printable(folder, LONGEST_PATH), table, store)
