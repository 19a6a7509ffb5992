"""The report of a run: facts for machines, a page for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.log import Fault
from tests.chaos.trial import Result


@dataclass(frozen=True)
class Run:
    seed: int
    asked_for: int
    seconds: float
    results: Sequence[Result]
    faults: Sequence[Fault]

    def sound(self) -> bool:
        return not any(result.problems for result in self.results)

    def summary(self) -> str:
        return f"{len(self.faults)} faults"


def write_facts(run, path): ...
def write_page(run, path): ...
