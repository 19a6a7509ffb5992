"""What has been injected, when and into what."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One injected fault; ``at``: seconds since the run began."""

    kind: str
    at: float
    scenario: str
    target: str


class Log:
    """Faults in the order in which they were injected, by any thread."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self.faults: list[Fault] = []
        self.scenario = ""

    def add(self, kind: str, target: str) -> None:
        """Note a fault of the scenario that runs."""
        with self._lock:
            self.faults.append(Fault(kind, round(time.monotonic() - self._begun, 3), self.scenario, target))

    def kinds(self, scenario: str | None = None) -> Counter[str]:
        """Kind -> how many, of one scenario or of all."""
        return Counter(fault.kind for fault in list(self.faults) if scenario in (None, fault.scenario))

    def count(self) -> int:
        """How many in the scenario that runs."""
        return self.kinds(self.scenario).total()
