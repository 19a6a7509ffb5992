"""Evaluations on adversarial images: which are shown together, what is right before and after each attack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import ConditionImages, Images, ImageValues, top1_errors
from pipeline.evaluate.report.load import Evaluation, Flags
from pipeline.evaluate.results.folder import EVALUATION_FILE
from pipeline.recipes.attacks import MAX_ZERO_GRADIENTS, AttackTable, Norm
from pipeline.text import counted, printable
from pipeline.transforms.family import Condition

NORMS: Mapping[Norm, str] = {"linf": "L∞", "l2": "L2", "l1": "L1"}  # name of each norm in reports

Columns = Mapping[Condition, ImageValues]
"""Whether each image is right after the attack, by attack and level of its budget."""


def attack_of(evaluation: Evaluation) -> AttackTable:
    """Return how the images of an evaluation were attacked. Raise UserError if the evaluation does not say."""
    if evaluation.table.attack is None:
        raise UserError(
            f"{evaluation.folder}: its images are adversarial, but {EVALUATION_FILE} has no table [attack]: evaluate a "
            "data set that robustshards attack wrote"
        )
    return evaluation.table.attack


def is_white_box(evaluation: Evaluation) -> bool:
    """Return whether the evaluated model is the one that was attacked: same weights and same code."""
    attacked, evaluated = attack_of(evaluation).model, evaluation.table.model
    return (attacked.digest, attacked.code) == (evaluated.digest, evaluated.code)


def shown_together(evaluation: Evaluation, context: Context) -> list[Evaluation]:
    """Return the evaluations whose attacks are shown together, in the order of the report, with ``evaluation``.

    These evaluate one model on attacks of one recipe on one model and one set of clean images, each attack once.
    """
    subject = _subject(evaluation)
    alike = [each for each in context.evaluations if each.table.attack and _subject(each) == subject]
    groups: list[list[Evaluation]] = []
    for each in alike:
        fitting = [group for group in groups if not any(_conflict(each, other) for other in group)]
        if fitting:
            fitting[0].append(each)
        else:
            groups.append([each])
    if len(groups) > 1:
        folders = " and ".join(", ".join(each.folder for each in group) for group in groups)
        context.warn(
            f"{folders} have the same attacks, or other budgets, on the same model: they are shown separately, and the "
            "WCAR of each is over its own attacks"
        )
    return next(group for group in groups if any(each is evaluation for each in group))


def _subject(evaluation: Evaluation) -> tuple[object, ...]:
    """Return what evaluations have in common that can be shown together."""
    attack = attack_of(evaluation)
    attacked = attack.model.digest, attack.model.code
    return evaluation.table.model.name, attacked, attack.recipe, attack.clean.manifest_sha256


def _conflict(one: Evaluation, other: Evaluation) -> bool:
    """Return whether two evaluations have an attack in common, or different budgets of one norm."""
    pairs = ((first, second) for first in attack_of(one).attacks for second in attack_of(other).attacks)
    return any(
        first.name == second.name or (first.norm == second.norm and first.budgets != second.budgets)
        for first, second in pairs
    )


def read_attacks(evaluations: Sequence[Evaluation]) -> dict[Condition, ImageValues]:
    """Return by condition whether each image is right after the attack.

    Raises:
        UserError: If an image has no label, an attack or level is unknown, or the predictions are damaged.
    """
    columns: dict[Condition, ImageValues] = {}
    for evaluation in evaluations:
        images = ConditionImages(evaluation)
        levels = {attack.name: len(attack.budgets) for attack in attack_of(evaluation).attacks}
        for predicted in evaluation.predictions():
            condition = predicted.condition
            if not 1 <= condition.level <= levels.get(condition.transform, 0):
                raise evaluation.damaged_error(f"{condition} is not one of the attacks in {EVALUATION_FILE}")
            columns[condition] = ImageValues(images(predicted), ~top1_errors(evaluation, predicted))
    return columns


# Right before and after the attacks


@dataclass(frozen=True)
class Before:
    """What is right before the attacks, by image, (S,)."""

    known: Flags  # the evaluated model saw its clean version
    right: Flags  # and is right on it
    both: Flags | None  # the attacked model is right on it as well; None for a white box, or if it is unknown
    encoded: str  # how the clean images are stored


def read_before(evaluation: Evaluation, images: Images, context: Context) -> Before | None:
    """Return what is right before the attacks; None if the model was not evaluated on the clean images.

    Raises:
        UserError: If several evaluations on clean images fit, or labels differ.
    """
    clean = context.clean_error(evaluation, images)
    attack = attack_of(evaluation)
    if clean is None:
        context.warn(
            f"{evaluation.folder}: no AR, WCAR and robust accuracy, because no evaluation of {evaluation.model!r} on "
            f"the clean images, {printable(attack.clean.name)}, is given: add it"
        )
        return None
    every = np.arange(len(images.ids))
    known, right = (np.isin(every, rows) for rows in (clean.rows, clean.rows[~clean.errors]))
    if not right.any():
        context.warn(
            f"{evaluation.folder}: no AR and WCAR, because {evaluation.model!r} gets none of {len(right):,} images "
            "right before the attacks: check its labels and its input settings"
        )
    if is_white_box(evaluation):
        return Before(known, right, None, clean.encoded)
    source = context.clean_error_of_attacked(attack.model, evaluation, images)
    if source is None:
        context.warn(
            f"{evaluation.folder}: no attack success rate, because no evaluation of the attacked model, "
            f"{printable(attack.model.name)!r}, on the clean images, {printable(attack.clean.name)}, is given: add it"
        )
    both = right & np.isin(every, source.rows[~source.errors]) if source else None
    return Before(known, right, both, clean.encoded)


# Warnings


def warn_of_attack(evaluation: Evaluation, context: Context) -> None:
    """Warn of attacks that are weak: without gradients, or on a model that gets another input now."""
    attack, now = attack_of(evaluation), evaluation.table.input
    differ = [
        f"{field} {getattr(now, field)} instead of {getattr(attack.model, field)}"
        for field in ("size", "mean", "std")  # of the input, through which an attack takes gradients
        if getattr(now, field) != getattr(attack.model, field)
    ]
    if differ and is_white_box(evaluation):
        context.warn(
            f"{evaluation.folder}: the attacked model is evaluated with another input than it was attacked with: "
            f"{', '.join(differ)}; attacks are weaker then"
        )
    share = attack.zero_gradients or 0.0
    if share > MAX_ZERO_GRADIENTS:
        context.warn(
            f"{evaluation.folder}: {share:.1%} of the attacked images had a loss without gradient, so attacks that "
            "follow the gradient are weak on them: the model seems more robust than it is"
        )


def warn_of_samples(columns: Columns, common: int, folder: str, context: Context) -> None:
    """Warn if attacks have different images, so that WCAR is over part of them."""
    if len({column.images.ids for column in columns.values()}) > 1:
        counts = dict.fromkeys(f"{each} {len(column.images.ids):,}" for each, column in columns.items())
        context.warn(
            f"{folder}: the attacks have different images, so WCAR is over the {counted(common, 'image')} that all of "
            f"them have: {', '.join(counts)}"
        )
