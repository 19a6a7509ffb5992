"""Time of a small build by the command line, with child processes and with Ray."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.report import markdown_line

ROUNDS = 3


@dataclass(frozen=True)
class ExecutorSpeed:
    """Seconds of ``build --limit 2 --only fog``, medians of the rounds."""

    local: float
    ray: float


def measure(photographs: Path, scratch: Path) -> ExecutorSpeed:
    """Build with both engines in turns, so that load on the machine affects both."""
    _seconds(photographs, scratch / "executor", "local")  # compiles the kernels if they are not cached
    rounds = [[_seconds(photographs, scratch / "executor", each) for each in ("local", "ray")] for _ in range(ROUNDS)]
    local, ray = map(statistics.median, zip(*rounds, strict=True))
    return ExecutorSpeed(local, ray)


def _seconds(photographs: Path, output: Path, executor: str) -> float:
    """Return the seconds of one command."""
    shutil.rmtree(output, ignore_errors=True)
    command = [str(Path(sys.executable).parent / "robustshards"), "build", "imagenet-c", "--source", str(photographs)]
    command += ["--out", str(output), "--limit", "2", "--only", "fog", "--executor", executor]
    start = perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return perf_counter() - start


def table(speed: ExecutorSpeed) -> str:
    """Return both times and their ratio as a Markdown table."""
    rows = (
        ("child processes (`--executor local`)", f"{speed.local:.1f}"),
        ("Ray (`--executor ray`)", f"{speed.ray:.1f}"),
        ("local / Ray", f"**{speed.local / speed.ray:.2f}**"),
    )
    head = markdown_line(("`build --limit 2 --only fog`, 10 outputs, including start and stop", "seconds"))
    return "\n".join([head, "|---|---:|", *map(markdown_line, rows)])
