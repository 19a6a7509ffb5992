"""The summaries of evaluations on adversarial images: AR, robust accuracy, attack success rates, WCAR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.attacks import (
    NORMS,
    Before,
    Flags,
    attack_of,
    is_white_box,
    read_attacks,
    read_before,
    shown_together,
    warn_of_other_input,
    warn_of_samples,
    warn_of_zero_gradients,
)
from pipeline.evaluate.report.context import ReportContext
from pipeline.evaluate.report.estimates import column_mean, complement
from pipeline.evaluate.report.scores import Evaluation, Images, ScoreColumn, join_columns
from pipeline.evaluate.report.validation import has_imagenet_labels, validation_rows
from pipeline.recipes.attacks import AttackEntry, Norm
from pipeline.text import printable
from pipeline.transforms.family import Condition

ByCondition = Mapping[Condition, Estimate]
ByLevel = Mapping[int, Estimate]

UNNAMED = "attacks"
"""Name of attacks that belong to no recipe."""

WCAR = "WCAR"
"""Worst-case adversarial robustness: at the largest budgets, if the levels have no names."""

MAGNITUDES = (f"{WCAR} small", f"{WCAR} middle", f"{WCAR} large")
"""WCAR at each of three levels, as RobustART names them."""


def worst_case_names(levels: int) -> Sequence[str]:
    """Return the name of WCAR at each level."""
    return (
        MAGNITUDES if levels == len(MAGNITUDES) else (*(f"{WCAR} at level {level}" for level in range(1, levels)), WCAR)
    )


@dataclass(frozen=True)
class AttackRow:
    """The results under one attack.

    Attributes:
        name: Name of the attack.
        norm: Norm of its budgets.
        group: Norm in words, the title of plots.
        benchmark: Whether the attack recipe has it.
        budgets: Budget by level, for pixel values 0..1.
        images: Number of images.
        accuracies: Fraction of all images that are right after the attack, by level.
        robustness: AR by level. Empty without an evaluation of the clean images, as the next two.
        robust_accuracies: Robust accuracy by level.
        success_rates: Attack success rate by level. Empty for a white box.
    """

    name: str
    norm: Norm
    group: str
    benchmark: bool
    budgets: Mapping[int, float]
    images: int
    accuracies: ByLevel
    robustness: ByLevel
    robust_accuracies: ByLevel
    success_rates: ByLevel


@dataclass(frozen=True)
class WorstCase:
    """The WCAR at one level.

    Attributes:
        robustness: WCAR.
        attacks: Names of the attacks that are counted.
        missing: Names of the other attacks of the recipe.
    """

    robustness: Estimate
    attacks: Sequence[str]
    missing: Sequence[str]


@dataclass(frozen=True)
class AdversarialSummary:
    """The robustness of one model against the attacks on itself, or on another model.

    Attributes:
        model: Name of the model.
        data_set: Title of the section: clean images, attack recipe, and white box or the attacked model.
        clean_data_set: Name of the data set that was attacked.
        recipe: Name of the attack recipe; empty for attacks that were named one by one.
        attacked: Name of the attacked model.
        white_box: Whether the attacked model is this one.
        images: Number of images that all attacks have in common.
        right_before: Number of these that are right on the clean images; None if those were not evaluated.
        failed: Number of failed samples.
        rows: Results by attack.
        worst_cases: WCAR of each level, by the names of ``worst_case_names``.
        clean_accuracy: Accuracy on the clean images.
        clean_images: How the clean images are stored; empty if they were not evaluated.
        imagenet: Whether the images are validation images of ImageNet, with its labels.
        manifest_sha256: Digest of the data set's manifest. Empty for a white box, since each model has its own images.
        source_ids_sha256: Digest of the sorted source ids of the images.
    """

    model: str
    data_set: str
    clean_data_set: str
    recipe: str
    attacked: str
    white_box: bool
    images: int
    right_before: int | None
    failed: int
    rows: Sequence[AttackRow]
    worst_cases: Mapping[str, WorstCase]
    clean_accuracy: float | None
    imagenet: bool = False
    clean_images: str = ""
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


@dataclass
class _Results:
    """The figures of each condition."""

    accuracies: dict[Condition, Estimate] = field(default_factory=dict)
    robustness: dict[Condition, Estimate] = field(default_factory=dict)
    robust_accuracies: dict[Condition, Estimate] = field(default_factory=dict)
    success_rates: dict[Condition, Estimate] = field(default_factory=dict)


def summarise_attacks(evaluation: Evaluation, context: ReportContext) -> list[AdversarialSummary]:
    """Return the summary of an evaluation on adversarial images, together with those that continue it.

    Evaluations that are part of the summary of an earlier one have none of their own.
    """
    group = shown_together(evaluation, context)
    if group[0] is not evaluation:
        return []
    for each in group:
        warn_of_other_input(each, context)
        warn_of_zero_gradients(each, context)
    attack, white_box = attack_of(evaluation), is_white_box(evaluation)
    columns = read_attacks(group)
    results = _results(evaluation, columns, context)
    entries = {entry.name: entry for each in group for entry in attack_of(each).attacks}
    expected = list(dict.fromkeys(name for each in group for name in attack_of(each).expected))
    common = _common(columns)
    warn_of_samples(columns, len(common.ids), evaluation.folder, context)
    before = read_before(evaluation, common, context) if common.ids else None
    about = context.about(evaluation, common)
    attacked = context.name_of_attacked(evaluation)
    return [
        AdversarialSummary(
            model=about.model,
            data_set=section_title(
                attack.clean.name, attack.recipe, "white box" if white_box else f"transfer from {attacked}"
            ),
            clean_data_set=attack.clean.name,
            recipe=attack.recipe,
            attacked=attacked,
            white_box=white_box,
            images=len(common.ids),
            right_before=int(before.right.sum()) if before else None,
            failed=sum(each.table.data_set.failed for each in group),
            rows=_rows(entries, expected, columns, results),
            worst_cases=_worst_cases(evaluation, columns, before, entries, expected, context),
            clean_accuracy=float(before.right[before.known].mean()) if before else None,
            clean_images=before.encoded if before else "",
            imagenet=has_imagenet_labels(evaluation) and validation_rows(common.ids) is not None,
            manifest_sha256="" if white_box or len(group) > 1 else about.manifest_sha256,
            source_ids_sha256=about.source_ids_sha256,
        )
    ]


def section_title(clean: str, recipe: str, what: str) -> str:
    """Return the title of a section on the attacks of one recipe on one data set, in which models are compared."""
    return f"{printable(clean)}, {printable(recipe or UNNAMED)}: {what}"


def _common(columns: Mapping[Condition, ScoreColumn]) -> Images:
    """Return the images that all conditions have."""
    first, *others = {id(column.images): column.images for column in columns.values()}.values()
    rows = [row for row, id_ in enumerate(first.ids) if all(id_ in other.row_by_id for other in others)]
    return first.take(np.array(rows, np.int64))


# By attack


def _results(evaluation: Evaluation, columns: Mapping[Condition, ScoreColumn], context: ReportContext) -> _Results:
    """Return the figures of each condition, over its own images."""
    results = _Results()
    for images in {id(column.images): column.images for column in columns.values()}.values():
        conditions = [condition for condition, column in columns.items() if column.images is images]
        after = np.stack([columns[condition].values.astype(bool) for condition in conditions], axis=1)
        results.accuracies |= _means(conditions, after, context)
        if before := read_before(evaluation, images, context):
            right = (before.right[:, None] & after)[before.known]
            results.robust_accuracies |= _means(conditions, right, context)
            results.robustness |= _robustness(conditions, before.right, after, context)
            if before.both is not None:
                survived = _robustness(conditions, before.both, after, context)
                results.success_rates |= {each: complement(value) for each, value in survived.items()}
    return results


def _robustness(conditions: Sequence[Condition], right: Flags, after: Flags, context: ReportContext) -> ByCondition:
    """Return AR by condition; empty if no image is right before the attacks."""
    return _means(conditions, metrics.robust_by_image(right, after), context) if right.any() else {}


def _means(conditions: Sequence[Condition], values: Flags, context: ReportContext) -> dict[Condition, Estimate]:
    bootstrap = context.bootstrap(values)
    return {condition: column_mean(bootstrap, column) for column, condition in enumerate(conditions)}


def _rows(
    entries: Mapping[str, AttackEntry],
    expected: Sequence[str],
    columns: Mapping[Condition, ScoreColumn],
    results: _Results,
) -> list[AttackRow]:
    levels: dict[str, list[int]] = {}
    for condition in columns:
        levels.setdefault(condition.transform, []).append(condition.level)
    return [
        AttackRow(
            name,
            entries[name].norm,
            NORMS[entries[name].norm],
            name in expected,
            {level: entries[name].budgets[level - 1] for level in of_attack},
            min(len(columns[Condition(name, level)].images.ids) for level in of_attack),
            *(
                {level: figures[Condition(name, level)] for level in of_attack if Condition(name, level) in figures}
                for figures in (
                    results.accuracies,
                    results.robustness,
                    results.robust_accuracies,
                    results.success_rates,
                )
            ),
        )
        for name, of_attack in levels.items()
    ]


# Worst case


def _worst_cases(
    evaluation: Evaluation,
    columns: Mapping[Condition, ScoreColumn],
    before: Before | None,
    entries: Mapping[str, AttackEntry],
    expected: Sequence[str],
    context: ReportContext,
) -> dict[str, WorstCase]:
    """Return the WCAR of each level by its name, over the attacks of the recipe, or over all if it has none of them."""
    if before is None or not before.right.any():
        return {}
    scores = join_columns(evaluation, columns)
    robust = metrics.robust_by_image(before.right, scores.values.astype(bool))
    counted = {name for name in entries if name in expected} or set(entries)
    names = worst_case_names(max(len(entry.budgets) for entry in entries.values()))
    attacks: dict[int, list[str]] = {}
    for condition in scores.keys:
        if condition.transform in counted:
            attacks.setdefault(condition.level, []).append(condition.transform)
    worst = {
        level: robust[:, [scores.keys.index(Condition(name, level)) for name in of_level]].all(axis=1)
        for level, of_level in sorted(attacks.items())
    }
    bootstrap = context.bootstrap(np.stack(list(worst.values()), axis=1))
    return {
        names[level - 1]: WorstCase(
            column_mean(bootstrap, column),
            attacks[level],
            [each for each in expected if each not in attacks[level]],
        )
        for column, level in enumerate(worst)
    }
