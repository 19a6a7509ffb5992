"""How long ``import robustshards`` takes in a fresh process, and the functions of the public face after it."""

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
"""Name -> what is timed; a name of the package is imported when it is first used."""


def measure(rounds: int = 7) -> dict[str, float]:
    """Return name -> seconds, the median of some processes."""
    return {name: median(_seconds(statement) for _ in range(rounds)) for name, statement in STATEMENTS.items()}


def table(seconds: Mapping[str, float]) -> str:
    """Return the measurements as a table."""
    lines = ["### Import", "", "| in a fresh process | s |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {name} | {spent:.2f} |" for name, spent in seconds.items())])


def _seconds(statement: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
