"""``make emulate``: compute the committed digests on emulated CPUs, and report the differences."""

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.emulation.cpus import CPUS, Cpu
from tests.emulation.downloads import DownloadError, Downloads
from tests.emulation.page import page, summary
from tests.emulation.processes import job_of, run
from tests.emulation.results import Outcome, exit_code, file_of
from tests.golden.digests import Digest, committed

FOLDER = Path("build/emulation")
"""Folder of downloads, compiled kernels and finished digests."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and compare the digests.

    Returns:
        0: all are equal; 1: some differ; 2: something cannot be downloaded; 3: some were not computed.
    """
    options = _options(arguments)
    downloads, expected = Downloads(options.folder.resolve()), committed()
    print("\n".join(["to download:", *downloads.missing()]), flush=True)
    if options.dry_run:
        return 0
    try:
        downloads.fetch()
    except DownloadError as error:
        print(error, file=sys.stderr)
        return 2
    end_on_sigterm()
    chosen = [cpu for cpu in CPUS if cpu.name in options.cpus]
    outcomes = emulate(chosen, expected, downloads, options.processes, options.minutes * 60)
    print("\n".join(summary(outcomes)))
    if options.page:
        options.page.write_text(page(outcomes, expected))
    return exit_code(outcomes)


def end_on_sigterm() -> None:
    """End this process with an exception on SIGTERM, so that child processes are killed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def emulate(
    cpus: Sequence[Cpu], expected: Mapping[str, Digest], downloads: Downloads, processes: int, seconds: float
) -> list[Outcome]:
    """Compute what is missing on each CPU.

    Args:
        cpus: The CPUs.
        expected: The committed digests, by name.
        downloads: Emulators and libraries.
        processes: Number of processes at a time.
        seconds: Time limit.

    Returns:
        The digests of each CPU, those of earlier runs included.
    """

    def files() -> list[Path]:
        return [file_of(downloads.folder / "results", cpu, downloads.versions()) for cpu in cpus]

    for folder in ("results", "logs"):
        (downloads.folder / folder).mkdir(parents=True, exist_ok=True)
    before, jobs = files(), []
    for cpu, file in zip(cpus, before, strict=True):
        if names := Outcome(cpu, expected).read(file).to_do:
            jobs.append(job_of(cpu, downloads, json.dumps(names), file))
            print(f"{cpu.name}: {len(names)} of {len(expected)} digests to compute", flush=True)
    reasons = run(jobs, processes, seconds)
    if files() != before:
        return [Outcome(cpu, expected, reason="the sources changed during the run") for cpu in cpus]
    named = ((cpu, file, reasons.get(cpu.name, "")) for cpu, file in zip(cpus, before, strict=True))
    return [Outcome(cpu, expected, reason=reason).read(file) for cpu, file, reason in named]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser, names = (
        argparse.ArgumentParser(prog="python -m tests.emulation", description=__doc__),
        [c.name for c in CPUS],
    )
    parser.add_argument("--dry-run", action="store_true", help="Only list what would be downloaded.")
    parser.add_argument("--cpus", nargs="+", choices=names, default=names, help="CPUs. Default: all.")
    parser.add_argument("--processes", type=int, default=2, help="Number of CPUs to emulate at a time. Default: 2.")
    parser.add_argument("--minutes", type=float, default=30, help="Time limit without downloads. Default: 30.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"Folder to work in. Default: {FOLDER}.")
    parser.add_argument("--page", type=Path, help="Page to write, for example docs/emulation.md. Default: none.")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
