"""The share of time in which a GPU computes."""

import subprocess
from statistics import mean
from threading import Event, Thread
from time import perf_counter

EVERY_S = 0.2
"""Seconds between two questions to nvidia-smi."""


class Utilisation(Thread):
    """The share of time in which a kernel ran, as nvidia-smi reports it for the last moments."""

    def __init__(self, measured: bool) -> None:
        super().__init__(daemon=True)
        self._measured, self._ended, self._samples = measured, Event(), list[tuple[float, float]]()

    def __enter__(self) -> "Utilisation":
        if self._measured:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def run(self) -> None:
        """Ask until the end of the block."""
        query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._ended.wait(EVERY_S):
            done = subprocess.run(query, capture_output=True, text=True, check=True)
            self._samples.append((perf_counter(), float(done.stdout.splitlines()[0]) / 100))

    def share(self, first: float, last: float) -> float | None:
        """Return the mean over a period; None if it was not measured."""
        samples = [share for time, share in self._samples if first <= time <= last]
        return mean(samples) if samples else None
