"""The report of a run: facts as JSON, and tables on a page."""

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
"""Markers of a page. The text between them is generated; the text around them is written by hand."""

_TITLES = (
    *("scenario", "engine", "source to output", "faults", "builds", "runs"),
    *("temporarily failed", "seconds", "result"),
)

DESCRIPTIONS: Mapping[str, str] = {
    **{kind: injector.description for kind, injector in INJECTORS.items()},
    **{kind: disturbance.description for kind, disturbance in DISTURBANCES.items()},
    **BEFOREHAND,
}
"""Description of each kind of fault."""


@dataclass(frozen=True)
class Run:
    """A run of the scenarios and its results.

    ``place`` describes software and hardware, see :func:`environment`.
    """

    seed: int
    asked_for: int
    seconds: float
    results: Sequence[Result]
    faults: Sequence[Fault]
    place: str = ""

    def passed(self) -> bool:
        """Return whether all data sets were complete and identical."""
        return not any(result.problems for result in self.results)

    def summary(self) -> str:
        """Return a summary in one line."""
        builds, attempts = (sum(getattr(result, name) for result in self.results) for name in ("builds", "attempts"))
        failed = sum(bool(result.problems) for result in self.results)
        return (
            f"seed {self.seed}: {len(self.faults)} faults of {len(self.kinds())} kinds in {len(self.results)} "
            f"scenarios, {builds} builds in {attempts} runs of the command, {self.seconds / 60:.1f} minutes: "
            + (f"{failed} scenarios FAILED" if failed else "all data sets complete and identical")
        )

    def kinds(self) -> Counter[str]:
        """Return the number of faults of each kind."""
        return Counter(fault.kind for fault in self.faults)


def environment() -> str:
    """Return the versions of the software, and the number of CPUs and workers."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("ray", "s3fs", "moto"))
    workers = f"{MACHINES} Ray nodes or {MACHINES} local workers"
    return f"Python {platform.python_version()}, {versions}, {os.cpu_count()} CPUs, {workers}"


def write_facts(run: Run, path: Path) -> None:
    """Write all facts of a run as JSON."""
    facts = {"sound": run.passed(), "kinds": run.kinds(), **asdict(run)}
    path.write_text(json.dumps(facts, indent=1) + "\n")


def write_page(run: Run, page: Path) -> None:
    """Write the figures between the markers of a page. Raises like :func:`split_page`."""
    before, after = split_page(page)
    page.write_text("\n".join([before, *_figures(run), after]))


def split_page(page: Path) -> tuple[str, str]:
    """Return the text before and after the figures of a page, with the markers.

    Raises:
        OSError: The page cannot be read.
        ValueError: The page has no markers.
    """
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no markers for the figures: add the lines {BEGIN} and {END}")
    return before + begin, end + after


def _figures(run: Run) -> Iterator[str]:
    yield f"\n{run.summary()[0].upper()}{run.summary()[1:]}. {run.place}.\n"
    scenarios = {scenario.name: (scenario.engine, f"{scenario.source} to {scenario.output}") for scenario in SCENARIOS}
    yield from _table(
        _TITLES,
        (
            (
                result.name,
                *scenarios[result.name],
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
    yield "\n*builds*: data sets that were built under these faults; *runs*: starts of the command for these builds;"
    yield "*temporarily failed*: samples that failed while their image was missing or poisoned, and were made later.\n"
    yield from _table(
        ["fault", "description", "injected"],
        ((kind, DESCRIPTIONS[kind], count) for kind, count in run.kinds().most_common()),
    )


def _table(titles: Sequence[str], rows: Iterator[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |"
