"""Finished evaluations on adversarial images, and searches for smallest budgets, with given outcomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import manifests
from pipeline.evaluate.results.budgets import (
    BUDGETS_FILE,
    BUDGETS_SCHEMA,
    FACT_SETTINGS,
    SETTINGS_FILE,
    BudgetsTable,
    SearchTable,
)
from pipeline.evaluate.results.folder import DataSetTable, InputTable, ModelTable, RunTable
from pipeline.recipes.attacks import AttackedModel, AttackEntry, AttackTable, CleanTable
from tests.factories.evaluations import votes, write_evaluation

CLASSES = 4
STATISTICS: Any = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
CLEAN_MANIFEST = "c" * 64

Outcomes = Mapping[tuple[str, int], Sequence[int]]
"""(attack, level) -> the images that are right, from 1."""


def digest_of(model: str) -> str:
    """Return the digest of an invented model."""
    return (model.encode().hex() * 64)[:64]


def attack_table(
    attacked: str = "s",
    budgets: Mapping[str, Sequence[float]] | None = None,
    *,
    recipe: str = "",
    expected: Sequence[str] = (),
    norm: Mapping[str, str] | None = None,
    clean: str = "made-none",
    **described: Any,
) -> AttackTable:
    """Return the table of attacks on a model.

    Args:
        attacked: Name of the attacked model.
        budgets: Attack -> budgets. Default: fgsm and pgd_linf at 4/255.
        recipe: Name of the attack recipe.
        expected: Attacks of the recipe. Default: those with budgets.
        norm: Attack -> norm, where it is not L-inf.
        clean: Name of the attacked data set.
        described: Further fields.
    """
    budgets = budgets or {"fgsm": [4 / 255], "pgd_linf": [4 / 255]}
    entries = [
        AttackEntry(name=name, norm=(norm or {}).get(name, "linf"), budgets=tuple(each))
        for name, each in budgets.items()
    ]
    return AttackTable(
        recipe=recipe,
        expected=tuple(expected or budgets),
        batch=8,
        device="cpu",
        model=AttackedModel(name=attacked, spec="made:made", digest=digest_of(attacked), **STATISTICS),
        clean=CleanTable(name=clean, manifest_sha256=CLEAN_MANIFEST),
        attacks=tuple(entries),
        **described,
    )


def right(images: Sequence[int], count: int = 8) -> np.ndarray:
    """Return logits of a model that gets these images right, from 1; the label of each image is 0."""
    return votes([0 if image in images else 1 for image in range(1, count + 1)], CLASSES)


def write_clean(folder: Path, model: str, images: Sequence[int], count: int = 8, **options: Any) -> str:
    """Write the evaluation of a model on clean images, of which it gets these right."""
    logits = {("none", 0): right(images, count)}
    return write_evaluation(folder, logits, [0] * count, family="none", model=model, digest=digest_of(model), **options)


def write_attacked(
    folder: Path, model: str, outcomes: Outcomes, attack: AttackTable, count: int = 8, **options: Any
) -> str:
    """Write the evaluation of a model on attacked images, of which it gets these right after each attack."""
    logits = {condition: right(images, count) for condition, images in outcomes.items()}
    options = {
        "data_set": attack.recipe or "attacks",
        "manifest": digest_of(attack.model.name + attack.recipe),
    } | options
    return write_evaluation(
        folder,
        logits,
        [0] * count,
        family="adversarial",
        model=model,
        digest=digest_of(model),
        attack=attack,
        **options,
    )


def write_budgets(
    folder: Path,
    model: str,
    smallest: Sequence[float],
    *,
    attack: str = "autoattack_linf",
    norm: str = "linf",
    largest: float = 16 / 255,
    errors: Mapping[int, str] | None = None,
) -> str:
    """Write a search that found these smallest budgets: 0 for wrong images, infinite where none was found."""
    table = BudgetsTable(
        search=SearchTable(attack=attack, norm=norm, largest=largest, steps=10),
        model=ModelTable(name=model, spec="made:made", digest=digest_of(model), classes=CLASSES),
        input=InputTable(**STATISTICS),
        run=RunTable(device="cpu", batch=8),
        data_set=DataSetTable(
            name="made-none", family="none", profile="tiny", manifest_sha256=CLEAN_MANIFEST, samples=len(smallest),
            failed=0,
        ),
        clean=CleanTable(name="made-none", manifest_sha256=CLEAN_MANIFEST),
        device="cpu",
    )  # fmt: skip
    folder.mkdir(parents=True)
    (folder / SETTINGS_FILE).write_text(table.to_toml())
    rows = [
        {
            "key": f"image{index}", "source_id": f"image{index}", "label": 0, "right_before": value > 0,
            "found": 0 < value < np.inf, "smallest": value, "largest_survived": 0.0,
            "error": (errors or {}).get(index),
        }
        for index, value in enumerate(map(float, smallest))
    ]  # fmt: skip
    path = folder / BUDGETS_FILE
    with pq.ParquetWriter(path, BUDGETS_SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, BUDGETS_SCHEMA))
        writer.add_key_value_metadata(manifests.with_blank_seal({FACT_SETTINGS: table.digest}))
    manifests.seal_file(path)
    return str(folder)
