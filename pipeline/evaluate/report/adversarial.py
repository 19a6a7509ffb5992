"""The report on adversarial images: figures, tables and plots of the attacks on one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.attack_summaries import (
    MAGNITUDES,
    AdversarialSummary,
    AttackRow,
    summarise_attacks,
    worst_case_names,
)
from pipeline.evaluate.report.attacks import attack_text
from pipeline.evaluate.report.family import Column, Figure, LevelFigure, Models, ReportFamily, ReportLayout, Table
from pipeline.evaluate.report.formats import COUNT, NOTHING, Cell, Number
from pipeline.evaluate.report.plots import Curves, Plot, PlotKind, words
from pipeline.evaluate.report.tables import bars, lossy_note, marked_names, rows_by_name
from pipeline.evaluate.report.tested import LOSSY
from pipeline.text import counted
from pipeline.transforms.adversarial import FAMILY, MAX_BUDGETS

RATES: Mapping[str, Callable[[AttackRow], Mapping[int, Estimate]]] = {
    "AR": lambda row: row.robustness,
    "robust accuracy": lambda row: row.robust_accuracies,
    "accuracy after attack": lambda row: row.accuracies,
    "attack success rate": lambda row: row.success_rates,
}
"""Metrics of an attack at each level, in the order of columns."""

OF_CLEAN = RATES.keys() - {"accuracy after attack"}
"""Metrics that depend on which images are right before the attacks."""


def _of_one_level(name: str) -> Figure:
    """Return a metric of attacks that have one level."""

    def value(row: AttackRow) -> Estimate | None:
        return next(iter(RATES[name](row).values()), None) if len(row.budgets) == 1 else None

    return Figure(name, value, of_clean=name in OF_CLEAN)


def _of_levels(name: str) -> LevelFigure:
    """Return a metric of attacks that have several levels."""
    return LevelFigure(name, lambda row: RATES[name](row) if len(row.budgets) > 1 else {}, of_clean=name in OF_CLEAN)


def _worst_case(name: str) -> Figure:
    """Return WCAR at one level."""

    def value(summary: AdversarialSummary) -> Estimate | None:
        return summary.worst_cases[name].robustness if name in summary.worst_cases else None

    def covers(summary: AdversarialSummary) -> str:
        worst = summary.worst_cases.get(name)
        if worst is None or not worst.missing:
            return ""
        return f"{len(worst.attacks)} of {counted(len(worst.attacks) + len(worst.missing), 'attack')}"

    return Figure(name, value, higher_is_better=True, covers=covers, of_clean=True)


WORST_CASES = [_worst_case(name) for name in (*MAGNITUDES, *worst_case_names(MAX_BUDGETS))]
"""WCAR at every level that a data set may have."""


# Tables


def _tables(
    layout: ReportLayout[AdversarialSummary], section: str, models: Models[AdversarialSummary]
) -> Iterator[Table]:
    yield _worst_case_table(section, models)
    yield _attack_table(layout, section, models)


def _worst_case_table(section: str, models: Models[AdversarialSummary]) -> Table:
    """Return the table of the attacks that WCAR is over: one row per model, or several if they depend on the level."""
    rows: list[Sequence[Cell]] = []
    for model, summary in models.items():
        names: dict[tuple[str, str], list[str]] = {}
        for name, worst in summary.worst_cases.items():
            names.setdefault((", ".join(worst.attacks), ", ".join(worst.missing) or NOTHING), []).append(name)
        rows += ([model, ", ".join(of_attacks), *attacks] for attacks, of_attacks in names.items())
    columns = [Column(title, number=False) for title in ("model", "figures", "attacks", "missing")]
    note = (
        "WCAR counts the images that are classified correctly after all of these attacks. With the missing attacks, it "
        "may be lower."
    )
    return Table(section, "attacks in WCAR", note, columns, rows)


def _attack_table(layout: ReportLayout[AdversarialSummary], section: str, models: Models[AdversarialSummary]) -> Table:
    """Return the table by attack, budget and model, with a plot of AR."""
    by_model = rows_by_name(layout, models)
    every = [row for rows in by_model.values() for row in rows.values()]
    shown = {name: rates for name, rates in RATES.items() if any(rates(row) for row in every)}
    rows: list[Sequence[Cell]] = []
    for name, marked in marked_names(layout, models).items():
        for level in sorted({level for each in by_model.values() if name in each for level in each[name].budgets}):
            for model, of_model in by_model.items():
                row = of_model.get(name)
                if row and level in row.budgets:
                    lossy = models[model].clean_images.endswith(LOSSY)
                    cells = (
                        Number(rates(row).get(level), short=True, lossy=lossy and name in OF_CLEAN)
                        for name, rates in shown.items()
                    )
                    rows.append([attack_text(marked, row.norm, row.budgets[level]), model, *cells])
    columns = [Column("attack", number=False), Column("model", number=False), *map(Column, shown)]
    note = (
        "Percent; ± is half the width of the 95 % confidence interval. Budgets are norms of the perturbation of an "
        "image, for pixel values 0 to 1. Higher is better, except for the attack success rate."
    )
    note = f"{note} {lossy_note(layout, models)}".rstrip()
    return Table(section, "by attack and budget", note, columns, rows, _plot(layout, models))


def _plot(layout: ReportLayout[AdversarialSummary], models: Models[AdversarialSummary]) -> Plot | None:
    """Return the plot of AR by level, or of AR by attack if there is one level; None if AR is unknown."""
    curves: dict[str, dict[str, Mapping[int, Estimate]]] = {}
    for model, rows in rows_by_name(layout, models).items():
        for row in rows.values():
            if row.robustness:
                curves.setdefault(words(row.name), {})[model] = row.robustness
    if not curves:
        return None
    levels = {level for of_attack in curves.values() for curve in of_attack.values() for level in curve}
    if len(levels) > 1:
        return Plot(PlotKind.SMALL_LINES, Curves(curves, "level", sorted(levels), "AR"))
    return bars(layout, models, _of_one_level("AR"), "AR")


REPORT = ReportFamily(
    FAMILY.name,
    summarise_attacks,
    ReportLayout[AdversarialSummary](
        key="adversarial",
        figures=(
            *WORST_CASES,
            Figure("clean accuracy", lambda summary: summary.clean_accuracy, of_clean=True),
        ),
        leads=WORST_CASES,
        note="Percent, with the 95 % confidence interval over images in brackets. Higher is better. WCAR: images that "
        "are right before the attacks and after every one of them, divided by those that are right before.",
        counts=(
            Figure("images", lambda summary: summary.images, COUNT),
            Figure("right before the attacks", lambda summary: summary.right_before, COUNT),
            Figure("failed", lambda summary: summary.failed, COUNT),
        ),
        tables=_tables,
        rows=lambda summary: summary.rows,
        row_figures=[_of_one_level(name) for name in RATES],
        row_level_figures=[_of_levels(name) for name in RATES],
        clean_accuracy=lambda summary: summary.clean_accuracy,
        clean_images=lambda summary: summary.clean_images,
        glossary=(
            (
                "AR, WCAR",
                "Adversarial robustness: of the images that a model gets right, the fraction that it still gets right "
                "after an attack. Worst-case adversarial robustness: after every attack of a set. Small, middle and "
                "large are the three magnitudes of budgets of RobustART.",
            ),
            ("Robust accuracy", "The fraction of all images that are right before and after an attack."),
            (
                "White box, transfer",
                "White box: the evaluated model is the one that was attacked. Transfer: another model was attacked. "
                "Attack success rate: of the images that both models get right, the fraction that the evaluated "
                "one gets wrong after the attack.",
            ),
        ),
        sources=(
            "Tang et al., arXiv 2109.05211 (RobustART: AR, WCAR)",
            "Liu et al., arXiv 2302.14301 (ARES-Bench)",
        ),
    ),
)
