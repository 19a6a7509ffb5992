"""Settings of a report. Imports nothing heavy, since the help of the command needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.settings import ARGUMENT, FLAG, REPORTING, REQUIRED, Kind, Settings, as_list, location, setting, text

COMPARISON = "Comparison"
"""Section of the help."""


def _folders(value: Any) -> list[str]:
    return [os.fspath(getattr(each, "output", each)) for each in as_list(value)]


def _names(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, Mapping) else [each.partition("=")[::2] for each in value if "=" in each]
    if len(pairs) < len(value) or not all(isinstance(name, str) for pair in pairs for name in pair):
        raise ValueError
    return dict(pairs)


FOLDERS = Kind(_folders, "results of evaluate, or their folders or URLs", "FOLDER", many=True)

_RENAME = Kind(_names, "OLD=NEW, for example lite0=EfficientNet-Lite0, in Python a mapping", "OLD=NEW", many=True)


@dataclass(frozen=True)
class ReportSettings(Settings):
    """A report.

    Attributes:
        evaluations: Folders that evaluate or budgets wrote, for one or more models and data sets.
        baseline: Evaluation of the baseline model; repeat for each data set. Default: AlexNet's published errors.
        clean: Evaluation on clean images to use for clean errors if a model has several; repeat for each model.
        real: Reassessed labels (ReaL) of the ImageNet validation images, real.json. Default: the file in the package
            timm.
        published: Add tables with published figures of reference models, such as ResNet-50, on the same data sets.
        rename: Name to display for a model instead of the recorded one; repeat for several.
        out: Folder for report.html, report.md, report.csv and report.json. Default: only print the tables.
        title: Title of the page.
    """

    evaluations: Sequence[str] = setting(
        REQUIRED, Kind(_folders, FOLDERS.allowed, "FOLDER...", many=True), "", ARGUMENT
    )
    baseline: Sequence[str] = setting((), FOLDERS, COMPARISON)
    clean: Sequence[str] = setting((), FOLDERS, COMPARISON)
    real: str | None = setting(None, location("FILE"), COMPARISON)
    published: bool = setting(False, FLAG, COMPARISON)
    rename: Mapping[str, str] | None = setting(None, _RENAME, REPORTING)
    out: str | None = setting(None, location(), REPORTING)
    title: str = setting("Robustness report", text("TEXT"), REPORTING)
