"""The page with the results of ``make emulate``."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.emulation.results import Outcome
from tests.golden.digests import Digest

HEAD = """# Emulated CPUs

A data set has the same bytes on every CPU ([why](cpu-independence.md)). `make emulate` checks this without such
machines: it computes the committed digests (`tests/golden/digests.json`) under QEMU on ARM CPUs and on older x86-64
CPUs, compares them, and writes this page. It needs Debian 12 on x86-64, but not root. `python -m tests.emulation
--dry-run` lists what it would download. After a run that was stopped, the same command continues.

Builds compile kernels for ARM without SVE. `neoverse-v1-sve` checks the kernels with SVE too. Kernels of `haswell` and
`nehalem` are compiled by the rows that are not emulated.

| name | CPU | kernels compiled for | digests | equal | different | not computed | CPU minutes |
|---|---|---|---:|---:|---:|---:|---:|
"""


def page(outcomes: Sequence[Outcome], committed: Mapping[str, Digest]) -> str:
    """Return the page in Markdown."""
    return HEAD + "\n".join([*map(_row, outcomes), "", *_notes(outcomes, committed), ""])


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each CPU, each difference, and each CPU that did not finish."""
    for outcome in outcomes:
        yield f"{outcome.cpu.name}: {outcome.equal} of {len(outcome.committed)} digests are equal"
        yield from (f"  different: {line}" for line in outcome.different)
        if missing := outcome.missing:
            yield f"  not computed: {len(missing)}, the first is {missing[0]} ({outcome.reason})"


def _row(outcome: Outcome) -> str:
    counts = len(outcome.committed), outcome.equal, len(outcome.different), len(outcome.missing)
    cells = (outcome.cpu.name, outcome.cpu.title, outcome.kernels, *counts, f"{outcome.seconds / 60:.1f}")
    return f"| {' | '.join(map(str, cells))} |"


def _notes(outcomes: Sequence[Outcome], committed: Mapping[str, Digest]) -> Iterator[str]:
    yield f"Digests: {_counts(committed)}.\n"
    names_by_versions: dict[str, list[str]] = {}
    for outcome in outcomes:
        if versions := ", ".join(f"{name} {version}" for name, version in outcome.versions.items()):
            names_by_versions.setdefault(versions, []).append(outcome.cpu.name)
    yield from (f"Libraries on {', '.join(names)}: {versions}.\n" for versions, names in names_by_versions.items())
    for outcome in outcomes:
        if outcome.different:
            yield "\n".join([f"Different on {outcome.cpu.name}:\n", *(f"- {line}" for line in outcome.different), ""])
        if outcome.missing:
            yield f"Not computed on {outcome.cpu.name} ({outcome.reason}): {_counts(outcome.missing)}.\n"


def _counts(names: Iterable[str]) -> str:
    """Return the number of digests of each part: ``380 corruptions, 48 decoders``."""
    parts = Counter(name.partition("/")[0] for name in names)
    return ", ".join(f"{count} {part}" for part, count in parts.items())
