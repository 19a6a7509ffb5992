"""A log of the injected faults."""

import threading
import time
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """An injected fault. ``at``: seconds since the start of the run."""

    kind: str
    at: float
    scenario: str
    target: str


class Log:
    """The injected faults, in order. Thread-safe."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self.faults: list[Fault] = []
        self.scenario = ""

    def add(self, kind: str, target: str) -> None:
        """Record a fault of the current scenario."""
        with self._lock:
            self.faults.append(Fault(kind, round(time.monotonic() - self._start, 3), self.scenario, target))

    def kinds(self, scenario: str | None = None) -> Counter[str]:
        """Return the number of faults of each kind, of one scenario or of all."""
        return Counter(fault.kind for fault in list(self.faults) if scenario in (None, fault.scenario))

    def count(self) -> int:
        """Return the number of faults in the current scenario."""
        return self.kinds(self.scenario).total()
