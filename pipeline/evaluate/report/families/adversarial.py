"""The report on adversarial images: AR, robust accuracy, attack success rates, WCAR, and the transfer matrix."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeline.evaluate import metrics
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families import attacks
from pipeline.evaluate.report.families.attacks import NORMS, Columns, attack_of, is_white_box, read_before
from pipeline.evaluate.report.join import common_images, image_sets, join_columns
from pipeline.evaluate.report.load import LOSSY, Evaluation, Flags
from pipeline.evaluate.report.measures import (
    FamilyReport,
    Measure,
    Metric,
    Pivot,
    Results,
    Section,
    TransformNames,
    complement,
)
from pipeline.evaluate.report.real_labels import are_validation_images
from pipeline.evaluate.report.subject import means_of
from pipeline.evaluate.report.views import (
    COUNT,
    INTERVAL,
    LOSSY_CLEAN,
    NOTHING,
    WIDTH,
    Axis,
    Cell,
    Column,
    Number,
    Panel,
    Plot,
    Point,
    Table,
)
from pipeline.recipes.attacks import AttackEntry, budget_text
from pipeline.text import counted, printable
from pipeline.transforms.adversarial import FAMILY, MAX_BUDGETS
from pipeline.transforms.family import Condition

UNNAMED = "attacks"  # name of attacks that belong to no recipe
PUBLISHED_RECIPES = ("robustart", "ares-white-box")
"""Attack recipes with published figures of models that were attacked themselves."""

AR = Metric("AR", 1, of_clean=True)
ROBUST_ACCURACY = Metric("robust accuracy", 1, of_clean=True)
AFTER_ATTACK = Metric("accuracy after attack", 1)
SUCCESS_RATE = Metric("attack success rate", -1, of_clean=True)
CLEAN_ACCURACY = Metric("clean accuracy", 1, of_clean=True)

WCAR = "WCAR"  # worst-case adversarial robustness: at the largest budgets, if the levels have no names
MAGNITUDES = (f"{WCAR} small", f"{WCAR} middle", f"{WCAR} large")
"""WCAR at each of three levels, as RobustART names them."""


def worst_case_names(levels: int) -> Sequence[str]:
    """Return the name of WCAR at each level."""
    if levels == len(MAGNITUDES):
        return MAGNITUDES
    return (*(f"{WCAR} at level {level}" for level in range(1, levels)), WCAR)


WORST_CASES = [Metric(name, 1, of_clean=True) for name in (*MAGNITUDES, *worst_case_names(MAX_BUDGETS))]
"""WCAR at every level that a data set may have."""


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on adversarial images, together with those that continue it.

    Evaluations that are part of the results of an earlier one have none of their own.
    """
    group = attacks.shown_together(evaluation, context)
    if group[0] is not evaluation:
        return
    for each in group:
        attacks.warn_of_attack(each, context)
    attack, white_box = attack_of(evaluation), is_white_box(evaluation)
    columns = attacks.read_attacks(group)
    entries = {entry.name: entry for each in group for entry in attack_of(each).attacks}
    expected = list(dict.fromkeys(name for each in group for name in attack_of(each).expected))
    common = common_images(image_sets(columns))
    attacks.warn_of_samples(columns, len(common.ids), evaluation.folder, context)
    before = read_before(evaluation, common, context) if common.ids else None
    worst = _attacks_in(columns, entries, expected) if before and before.right.any() else {}
    measures = list(_worst_cases(evaluation, columns, before.right, worst, context)) if before and worst else []
    if before:
        measures += means_of([CLEAN_ACCURACY], before.right[before.known][:, None], context.resamples)
    attacked = context.name_of_attacked(attack.model)
    title = section_title(attack.clean.name, attack.recipe, "white box" if white_box else f"transfer from {attacked}")
    levels = {name: sorted(key.level for key in columns if key.transform == name) for name in entries}
    imagenet = are_validation_images(evaluation, common.ids)
    names: dict[str, TransformNames] = {}
    for name in dict.fromkeys(key.transform for key in columns):
        norm, budgets = entries[name].norm, entries[name].budgets
        texts = {level: f"{name} at {budget_text(norm, budgets[level - 1])}" for level in levels[name]}
        names[name] = TransformNames(NORMS[norm], name in expected, levels=texts)
    results = context.results(
        REPORT,
        evaluation,
        common,
        data_set=title,
        measures=[*measures, *_of_attacks(evaluation, columns, levels, context)],
        counts={
            "images": (len(common.ids), 0),
            **({"right before the attacks": (int(before.right.sum()), 0)} if before else {}),
        },
        transforms=names,
        clean_images=before.encoded if before else "",
        clean_accuracy=float(before.right[before.known].mean()) if before else math.nan,
        published=attack.recipe if white_box and imagenet and attack.recipe in PUBLISHED_RECIPES else "",
        details={
            "clean_data_set": attack.clean.name,
            "recipe": attack.recipe,
            "attacked": attacked,
            "white_box": white_box,
            "worst_cases": {name: {"attacks": each.attacks, "missing": each.missing} for name, each in worst.items()},
        },
    )
    failed = sum(each.table.data_set.failed for each in group)
    counts = {**results.counts, "failed": (failed, 0)}
    alone = not white_box and len(group) == 1  # each attacked model has images of its own
    yield replace(results.titled(title), counts=counts, manifest_sha256=results.manifest_sha256 if alone else "")


def section_title(clean: str, recipe: str, what: str) -> str:
    """Return the title of a section on the attacks of one recipe on one data set, in which models are compared."""
    return f"{printable(clean)}, {printable(recipe or UNNAMED)}: {what}"


# Measures


def _of_attacks(
    evaluation: Evaluation, columns: Columns, levels: Mapping[str, Sequence[int]], context: Context
) -> Iterator[Measure]:
    """Yield the measures of each attack and budget, over its own images. Attacks of one budget have no level."""

    def rates(metric: Metric, conditions: Sequence[Condition], values: Flags) -> Iterator[Measure]:
        for condition, each in zip(
            conditions, means_of([metric] * len(conditions), values, context.resamples), strict=True
        ):
            level = condition.level if len(levels[condition.transform]) > 1 else None
            yield replace(each, transform=condition.transform, level=level, draws=None)

    for images in image_sets(columns):
        conditions = [condition for condition, column in columns.items() if column.images is images]
        after = np.stack([columns[condition].values for condition in conditions], axis=1)
        yield from rates(AFTER_ATTACK, conditions, after)
        before = read_before(evaluation, images, context)
        if before is None:
            continue
        yield from rates(ROBUST_ACCURACY, conditions, (before.right[:, None] & after)[before.known])
        if before.right.any():
            yield from rates(AR, conditions, metrics.robust_by_image(before.right, after))
        if before.both is not None and before.both.any():
            yield from rates(SUCCESS_RATE, conditions, ~metrics.robust_by_image(before.both, after))


class WorstCase(NamedTuple):
    """The attacks at a level of budgets that WCAR is over, and those of the recipe that it lacks."""

    level: int
    attacks: list[str]
    missing: list[str]


def _attacks_in(columns: Columns, entries: Mapping[str, AttackEntry], expected: Sequence[str]) -> dict[str, WorstCase]:
    """Return what WCAR of each name is over: the attacks of the recipe, or all if there are none of them."""
    counted_ = {name for name in entries if name in expected} or set(entries)
    names = worst_case_names(max(len(entry.budgets) for entry in entries.values()))
    found: dict[str, WorstCase] = {}
    for level in sorted({condition.level for condition in columns}):
        if tried := [key.transform for key in columns if key.level == level and key.transform in counted_]:
            found[names[level - 1]] = WorstCase(level, tried, [each for each in expected if each not in tried])
    return found


def _worst_cases(
    evaluation: Evaluation, columns: Columns, right: Flags, worst: Mapping[str, WorstCase], context: Context
) -> Iterator[Measure]:
    """Yield WCAR at each level of budgets, over the images that all attacks have."""
    scores = join_columns(evaluation, columns)
    robust = metrics.robust_by_image(right, scores.values)
    for name, (level, tried, missing) in worst.items():
        among = [scores.keys.index(Condition(attack, level)) for attack in tried]
        covers = f"{len(tried)} of {counted(len(tried) + len(missing), 'attack')}" if missing else ""
        survived = np.asarray(robust[:, among].all(axis=1, keepdims=True))
        yield from (replace(each, covers=covers) for each in means_of([Metric(name)], survived, context.resamples))


# Tables


def _worst_case_table(section: Section) -> Iterator[Table]:
    """Yield the table of the attacks that WCAR is over: one row per model, or several if they depend on the level."""
    rows: list[Sequence[Cell]] = []
    for model, results in section.models.items():
        names: dict[tuple[str, str], list[str]] = {}
        for name, worst in results.details["worst_cases"].items():
            names.setdefault((", ".join(worst["attacks"]), ", ".join(worst["missing"]) or NOTHING), []).append(name)
        rows += ([model, ", ".join(figures), *tried] for tried, figures in names.items())
    columns = [Column(title, number=False) for title in ("model", "figures", "attacks", "missing")]
    note = (
        "WCAR counts the images that are classified correctly after all of these attacks. With the missing attacks, it "
        "may be lower."
    )
    if rows:
        yield Table(section.title, "attacks in WCAR", note, columns, rows)


def transfer_tables(found: Iterable[Results]) -> Iterator[Table]:
    """Yield the matrix of attacks that were transferred to at least one other model, one for each set of images.

    Rows are attacks and attacked models, columns evaluated models. The rate of the attacked model itself is 1 - AR.
    """
    matrices: dict[str, dict[tuple[str, str], dict[str, Number]]] = {}
    encoders: dict[str, set[str]] = {}
    transferred: set[str] = set()
    for results in found:
        facts, model = results.details, printable(results.model)
        title = section_title(facts["clean_data_set"], facts["recipe"], "transfer matrix")
        lossy = results.clean_images.endswith(LOSSY)
        transferred |= set() if facts["white_box"] else {title}
        for each in results.measures:
            rate = complement(each, SUCCESS_RATE.name) if facts["white_box"] else each
            if each.transform and each.metric == (AR if facts["white_box"] else SUCCESS_RATE).name:
                row = results.condition(each.transform, each.level), facts["attacked"]
                cell = Number(rate.value, rate.low, rate.high, short=True, lossy=lossy)
                matrices.setdefault(title, {}).setdefault(row, {})[model] = cell
                encoders.setdefault(title, set()).update({f"{model}: {results.clean_images}"} if lossy else ())
    for title, matrix in matrices.items():
        if title in transferred:
            yield _transfer_table(title, matrix, encoders[title])


def _transfer_table(title: str, matrix: Mapping[tuple[str, str], Mapping[str, Number]], lossy: set[str]) -> Table:
    """Return the matrix of one set of images, with a heat map for each attack."""
    targets = list(dict.fromkeys(target for row in matrix.values() for target in row))
    missing, rows, panels = Number(math.nan), list[Sequence[Cell]](), list[Panel]()
    for attack in dict.fromkeys(attack for attack, _ in matrix):
        of_attack = {attacked: row for (name, attacked), row in matrix.items() if name == attack}
        cells = {attacked: [row.get(target, missing) for target in targets] for attacked, row in of_attack.items()}
        rows += ([attack, attacked, *row] for attacked, row in cells.items())
        points = [
            Point(attacked, target, 1 - each.value)
            for attacked, row in cells.items()
            for target, each in zip(targets, row, strict=True)
        ]
        x, y = Axis("evaluated model", COUNT), Axis("accuracy of images that both get right")
        panels.append(Panel(attack, points, x, y))
    note = (
        "Attack success rate in percent: of the images that the attacked and the evaluated model both get right, those "
        f"that the evaluated one gets wrong after the attack; {WIDTH}. Columns: evaluated models. The maps show the "
        "accuracy on these images, 100 minus the rate."
    )
    if lossy:
        note += f" {LOSSY_CLEAN} depends on clean images that were compressed again: {'; '.join(sorted(lossy))}."
    columns = [Column("attack", number=False), Column("attacked model", number=False), *map(Column, targets)]
    return Table(title, "attack success rate", note, columns, rows, Plot("heat map", panels))


REPORT = FamilyReport(
    family=FAMILY.name,
    key="adversarial",
    measure=measure,
    metrics=(*WORST_CASES, CLEAN_ACCURACY, AR, ROBUST_ACCURACY, AFTER_ATTACK, SUCCESS_RATE),
    leads=[each.name for each in WORST_CASES],
    note=f"Percent, {INTERVAL}. Higher is better. WCAR: images that are right before the attacks and after every one "
    "of them, divided by those that are right before.",
    transform="attack",
    tables=(
        Pivot(
            "by attack and budget",
            [AR.name, ROBUST_ACCURACY.name, AFTER_ATTACK.name, SUCCESS_RATE.name],
            f"Percent; {WIDTH}. Budgets are norms of the perturbation of an image, for pixel values 0 to 1. Higher is "
            "better, except for the attack success rate.",
            rows="condition, model",
            columns="metric",
            plot="small lines",
            axis="budget",
        ),
    ),
    more=_worst_case_table,
    joint=transfer_tables,
    glossary={
        "AR, WCAR": "Adversarial robustness: of the images that a model gets right, the fraction that it still gets "
        "right after an attack. Worst-case adversarial robustness: after every attack of a set. Small, middle and "
        "large are the three magnitudes of budgets of RobustART.",
        "Robust accuracy": "The fraction of all images that are right before and after an attack.",
        "White box, transfer": "White box: the evaluated model is the one that was attacked. Transfer: another model "
        "was attacked. Attack success rate: of the images that both models get right, the fraction that the evaluated "
        "one gets wrong after the attack.",
    },
    sources=("Tang et al., arXiv 2109.05211 (RobustART: AR, WCAR)", "Liu et al., arXiv 2302.14301 (ARES-Bench)"),
)
