"""Settings of a report. Imports nothing heavy, since the help of the command needs it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import UserError
from pipeline.settings import (
    ARGUMENT,
    FLAG,
    REPORTING,
    InvalidSettingError,
    Kind,
    Settings,
    as_list,
    integer,
    location,
    setting,
    text,
)
from pipeline.text import shown

COMPARISON = "Comparison"  # section of the help


def _folders(value: Any) -> list[str]:
    return [os.fspath(getattr(each, "output", each)) for each in as_list(value)]


def _renaming(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {old: new for each in as_list(value) for old, new in _names(each).items()}
    if not all(isinstance(name, str) for pair in value.items() for name in pair):
        raise TypeError
    return dict(value)


def _names(value: Any) -> dict[str, str]:
    """Return the names in a pair OLD=NEW or a TOML file. Raise UserError for other texts."""
    given = text("").read(value)
    old, separator, new = given.partition("=")
    if separator:
        return {old: new}
    if not given.endswith(".toml"):
        raise InvalidSettingError("rename", f"{shown(given)}: use {_RENAME.allowed}")
    from pipeline.config import read_toml
    from pipeline.storage import SMALL_FILE, LocalStore, local_path

    file = local_path(given)
    try:
        content = LocalStore(str(file.parent)).read(file.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the names {shown(given)}: {error.strerror}; give a .toml file") from error
    names = read_toml(content, str(file))
    if not all(isinstance(name, str) for name in names.values()):
        raise UserError(f'{shown(given)} is not a list of names: write lines such as lite0 = "EfficientNet-Lite0"')
    return names


FOLDERS = Kind(_folders, "results of evaluate, or their folders or URLs", "FOLDER", many=True)

_RENAME = Kind(
    _renaming,
    "OLD=NEW, for example lite0=EfficientNet-Lite0, or a .toml file, in Python a mapping",
    "OLD=NEW|FILE",
    many=True,
)


@dataclass(frozen=True)
class ReportSettings(Settings):
    """A report.

    Attributes:
        evaluations: Folders that evaluate or budgets wrote, for one or more models and data sets.
        results: CSV file with the performance of detectors, with the columns corruption, severity, value and clean,
            and optionally model, data_set and measure (such as mask AP); repeat for several. Gives mPC and rPC.
        baseline: Evaluation of the baseline model; repeat for each data set. Default: AlexNet's published errors.
        clean: Evaluation on clean images to use for clean errors if a model has several; repeat for each model.
        real: Reassessed labels (ReaL) of the ImageNet validation images, real.json. Default: the file in the package
            timm.
        published: Add tables with published figures of reference models, such as ResNet-50, on the same data sets.
        window: Samples in each window of the error over time of a stream. 0 (default) chooses by the length of the
            stream.
        rename: Name to display for a model instead of the recorded one, or a TOML file of such lines; repeat for
            several.
        out: Folder for report.html, .md, .csv, .parquet and .json, tables in LaTeX and figures. Default: only print
            the tables.
        latex_intervals: Add confidence intervals to the tables in LaTeX.
        title: Title of the page.
    """

    evaluations: Sequence[str] = setting((), Kind(_folders, FOLDERS.allowed, "FOLDER...", many=True), "", ARGUMENT)
    results: Sequence[str] = setting((), Kind(_folders, "paths of CSV files", "FILE", many=True), COMPARISON)
    baseline: Sequence[str] = setting((), FOLDERS, COMPARISON)
    clean: Sequence[str] = setting((), FOLDERS, COMPARISON)
    real: str | None = setting(None, location("FILE"), COMPARISON)
    published: bool = setting(False, FLAG, COMPARISON)
    window: int = setting(0, integer(0), REPORTING)
    rename: Mapping[str, str] | None = setting(None, _RENAME, REPORTING)
    out: str | None = setting(None, location(), REPORTING)
    latex_intervals: bool = setting(False, FLAG, REPORTING)
    title: str = setting("Robustness report", text("TEXT"), REPORTING)
