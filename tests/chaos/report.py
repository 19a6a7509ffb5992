"""The report of a run: facts for machines, tables on a page for people."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.injectors import BEFOREHAND, INJECTORS
from tests.chaos.log import Fault
from tests.chaos.proxy import DISTURBANCES
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.stage import MACHINES
from tests.chaos.trial import Result

BEGIN, END = "<!-- figures of the last `make chaos` -->", "<!-- end of figures -->"
"""Between them a page holds the figures; what stands around them is written by hand."""

_TITLES = (
    "scenario",
    "engine",
    "source to output",
    "faults",
    "builds",
    "runs",
    "failed on the way",
    "seconds",
    "result",
)

WORDS: Mapping[str, str] = {
    **{kind: injector.words for kind, injector in INJECTORS.items()},
    **{kind: disturbance.words for kind, disturbance in DISTURBANCES.items()},
    **BEFOREHAND,
}
"""Kind of fault -> what it is."""


@dataclass(frozen=True)
class Run:
    """What was asked for and what came of it."""

    seed: int
    asked_for: int
    seconds: float
    results: Sequence[Result]
    faults: Sequence[Fault]

    def sound(self) -> bool:
        """Whether every data set was whole and equal in the end."""
        return not any(result.problems for result in self.results)

    def summary(self) -> str:
        """One line."""
        builds, attempts = (sum(getattr(result, name) for result in self.results) for name in ("builds", "attempts"))
        wrong = sum(bool(result.problems) for result in self.results)
        return (
            f"seed {self.seed}: {len(self.faults)} faults of {len(self.kinds())} kinds in {len(self.results)} "
            f"scenarios, {builds} builds in {attempts} runs of the command, {self.seconds / 60:.1f} minutes: "
            + (f"WRONG in {wrong} of them" if wrong else "every data set whole and equal")
        )

    def kinds(self) -> Counter[str]:
        """Kind -> how many."""
        return Counter(fault.kind for fault in self.faults)

    def place(self) -> str:
        """What it ran on."""
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("ray", "s3fs", "moto"))
        workers = f"{MACHINES} machines of Ray or {MACHINES} local workers"
        return f"Python {platform.python_version()}, {versions}, {os.cpu_count()} CPUs, {workers}"


def write_facts(run: Run, path: Path) -> None:
    """Everything, as JSON."""
    facts = {"sound": run.sound(), "place": run.place(), "kinds": run.kinds(), **asdict(run)}
    path.write_text(json.dumps(facts, indent=1) + "\n")


def write_page(run: Run, page: Path) -> None:
    """The figures, in their place on a page. Raises as :func:`around_figures`."""
    before, after = around_figures(page)
    page.write_text("\n".join([before, *_figures(run), after]))


def around_figures(page: Path) -> tuple[str, str]:
    """What stands before and after the figures of a page. Raises OSError, ValueError if it has no place for them."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for figures: {BEGIN} ... {END}")
    return before + begin, end + after


def _figures(run: Run) -> Iterator[str]:
    yield f"\n{run.summary()[0].upper()}{run.summary()[1:]}. {run.place()}.\n"
    places = {scenario.name: (scenario.engine, f"{scenario.source} to {scenario.output}") for scenario in SCENARIOS}
    yield from _table(
        _TITLES,
        (
            (
                result.name,
                *places[result.name],
                ", ".join(f"{count} {kind}" for kind, count in result.faults.items()) or "none",
                result.builds,
                result.attempts,
                result.failed,
                f"{result.seconds:.0f}",
                result.verdict(),
            )
            for result in run.results
        ),
    )
    yield "\n*builds*: data sets made from nothing under these faults; *runs*: how often the command was started for"
    yield "them; *failed on the way*: samples recorded as failed while their image was gone or deadly, made later.\n"
    yield from _table(
        ["fault", "what it is", "injected"], ((kind, WORDS[kind], count) for kind, count in run.kinds().most_common())
    )


def _table(titles: Sequence[str], rows: Iterator[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |"
