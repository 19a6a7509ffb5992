"""Time of ``import robustshards`` in a new process, and of the first use of its functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from statistics import median

PROGRAM = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"

STATEMENTS: Mapping[str, str] = {
    "import robustshards": "import robustshards",
    "and corrupt": "import robustshards; robustshards.corrupt",
    "and build": "import robustshards; robustshards.build",
    "and open": "import robustshards; robustshards.open",
}
"""Timed statements. Names of the package are imported on first use."""


def measure(rounds: int = 7) -> dict[str, float]:
    """Return the median seconds of each statement over ``rounds`` processes."""
    return {name: median(_seconds(statement) for _ in range(rounds)) for name, statement in STATEMENTS.items()}


def table(seconds: Mapping[str, float]) -> str:
    """Return the measurements as a table."""
    lines = ["### Import", "", "| in a new process | s |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {name} | {spent:.2f} |" for name, spent in seconds.items())])


def _seconds(statement: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
