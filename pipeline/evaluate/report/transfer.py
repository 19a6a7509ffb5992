"""The transfer matrix: how often attacks on each model succeed on the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.attack_summaries import AdversarialSummary, section_title
from pipeline.evaluate.report.attacks import attack_text
from pipeline.evaluate.report.estimates import complement
from pipeline.evaluate.report.family import Column, Models, ReportLayout, Table
from pipeline.evaluate.report.formats import Cell, Number
from pipeline.evaluate.report.plots import Grids, Plot, PlotKind
from pipeline.evaluate.report.tables import lossy_note
from pipeline.evaluate.report.tested import LOSSY
from pipeline.text import printable

Rates = Mapping[str, Mapping[str, Estimate]]
"""Attack success rate by attack with its budget, and by evaluated model."""


@dataclass(frozen=True)
class TransferSummary:
    """The success of the attacks on one model.

    Attributes:
        model: Name of the attacked model.
        data_set: Title of the section.
        rates: Attack success rates. Those of the attacked model itself are 1 - AR.
        clean_images: How the clean images are stored that the models are right on before the attacks.
        manifest_sha256: Empty, since there are several data sets.
        source_ids_sha256: Empty, since there are several data sets.
    """

    model: str
    data_set: str
    rates: Rates
    clean_images: str
    manifest_sha256: str = ""
    source_ids_sha256: str = ""


def summarise_transfer(summaries: Iterable[Any]) -> list[TransferSummary]:
    """Return the success of the attacks on each model, for attacks that were transferred to at least one other.

    Args:
        summaries: Summaries of a report; those of other families are ignored.
    """
    rates: dict[tuple[str, str], dict[str, dict[str, Estimate]]] = {}
    transferred: set[str] = set()
    encoders: dict[tuple[str, str], dict[str, None]] = {}
    for each in summaries:
        if not isinstance(each, AdversarialSummary):
            continue
        title = section_title(each.clean_data_set, each.recipe, "transfer matrix")
        of_model = rates.setdefault((title, each.attacked), {})
        encoders.setdefault((title, each.attacked), {})[each.clean_images] = None
        for attack, rate in _rates(each):
            of_model.setdefault(attack, {})[printable(each.model)] = rate
            if not each.white_box:
                transferred.add(title)
    return [
        TransferSummary(model, title, of_model, ", ".join(sorted(filter(None, encoders[title, model]), key=_is_lossy)))
        for (title, model), of_model in rates.items()
        if title in transferred and of_model
    ]


def _is_lossy(encoder: str) -> bool:
    return encoder.endswith(LOSSY)


def _rates(summary: AdversarialSummary) -> Iterator[tuple[str, Estimate]]:
    """Yield the attack success rate of each attack, with its budget."""
    for row in summary.rows:
        for level, budget in row.budgets.items():
            attack = attack_text(row.name, row.norm, budget)
            if summary.white_box and level in row.robustness:
                yield attack, complement(row.robustness[level])
            elif level in row.success_rates:
                yield attack, row.success_rates[level]


def _tables(layout: ReportLayout[TransferSummary], section: str, models: Models[TransferSummary]) -> Iterator[Table]:
    """Yield the matrix: attacks and attacked models as rows, evaluated models as columns."""
    every = [rates for summary in models.values() for rates in summary.rates.values()]
    targets = list(dict.fromkeys(target for rates in every for target in rates))
    attacks = list(dict.fromkeys(attack for summary in models.values() for attack in summary.rates))
    rows: list[Sequence[Cell]] = []
    grids: dict[str, dict[tuple[str, str], Estimate]] = {}
    for attack in attacks:
        for model, summary in models.items():
            if rates := summary.rates.get(attack):
                rows.append(
                    [
                        attack,
                        model,
                        *(
                            Number(rates.get(target), short=True, lossy=_is_lossy(summary.clean_images))
                            for target in targets
                        ),
                    ]
                )
                grids.setdefault(attack, {}).update(
                    {(target, model): complement(rates[target]) for target in targets if target in rates}
                )
    note = (
        "Attack success rate in percent: of the images that the attacked and the evaluated model both get right, those "
        "that the evaluated one gets wrong after the attack; ± is half the width of the 95 % confidence interval. "
        "Columns: evaluated models. The maps show the accuracy on these images, 100 minus the rate."
    )
    note = f"{note} {lossy_note(layout, models)}".rstrip()
    columns = [Column("attack", number=False), Column("attacked model", number=False), *map(Column, targets)]
    plot = Plot(PlotKind.HEAT_MAPS, Grids(grids, ("evaluated", "attacked model"), of_models=False, joint=" from "))
    yield Table(section, "attack success rate", note, columns, rows, plot)


LAYOUT = ReportLayout[TransferSummary](
    key="transfer",
    figures=(),
    leads=(),
    note="",
    counts=(),
    tables=_tables,
    clean_images=lambda summary: summary.clean_images,
)
