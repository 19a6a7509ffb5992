"""What evaluations and searches for budgets have in common: a folder, settings, and the model that was tested."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pipeline.evaluate.results.budgets import BudgetsTable
from pipeline.evaluate.results.folder import FILES, EvaluationTable
from pipeline.images.encoders import ENCODERS
from pipeline.storage import Store
from pipeline.text import printable

LOSSLESS, LOSSY = "(lossless)", "(lossy)"
"""Ends of descriptions of encoders."""

Table_co = TypeVar("Table_co", bound=EvaluationTable | BudgetsTable, covariant=True)


@dataclass(frozen=True)
class Tested(Generic[Table_co]):
    """The folder of a finished test of one model.

    Attributes:
        folder: Folder or URL as the user gave it, printable.
        table: The settings.
        store: Store that holds the files.
    """

    folder: str
    table: Table_co
    store: Store

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
