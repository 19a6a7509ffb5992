"""Time of new processes: of ``import robustshards`` and the first use of its functions, and of a small build."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.report import section, table

IMPORTS, ROUNDS = 7, 3

PROGRAM = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"

STATEMENTS: Mapping[str, str] = {
    "import robustshards": "import robustshards",
    "and corrupt": "import robustshards; robustshards.corrupt",
    "and build": "import robustshards; robustshards.build",
    "and open": "import robustshards; robustshards.open",
}
"""Timed statements. Names of the package are imported on first use."""


def imports() -> str:
    """Return the section of the median seconds of each statement."""
    rows = (
        (name, f"{median(_import(statement) for _ in range(IMPORTS)):.2f}") for name, statement in STATEMENTS.items()
    )
    return section("### Import", table(("in a new process", "s"), rows))


def _import(statement: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def engines(photographs: Path, scratch: Path) -> str:
    """Return the section of builds with both engines in turns, so that load on the machine affects both."""
    _build(photographs, scratch / "executor", "local")  # compiles the kernels if they are not cached
    rounds = [[_build(photographs, scratch / "executor", each) for each in ("local", "ray")] for _ in range(ROUNDS)]
    local, ray = map(median, zip(*rounds, strict=True))
    rows = (
        ("child processes (`--executor local`)", f"{local:.1f}"),
        ("Ray (`--executor ray`)", f"{ray:.1f}"),
        ("local / Ray", f"**{local / ray:.2f}**"),
    )
    head = ("`build --limit 2 --only fog`, 10 outputs, including start and stop", "seconds")
    return section("### The two engines on a small build", table(head, rows))


def _build(photographs: Path, output: Path, executor: str) -> float:
    """Return the seconds of one command."""
    shutil.rmtree(output, ignore_errors=True)
    command = [str(Path(sys.executable).parent / "robustshards"), "build", "imagenet-c", "--source", str(photographs)]
    command += ["--out", str(output), "--limit", "2", "--only", "fog", "--executor", executor]
    start = perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return perf_counter() - start
