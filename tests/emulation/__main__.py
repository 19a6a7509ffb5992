"""``make emulate``: compute the committed digests on emulated CPUs, and report the differences."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.emulation.cpus import CPUS, Cpu
from tests.emulation.downloads import DownloadError, Downloads, check_machine
from tests.emulation.outcomes import Outcome, exit_code, missing
from tests.emulation.page import page, summary
from tests.emulation.processes import Job, command, environment, run
from tests.emulation.records import Record, end_last_line, read_record, record_path
from tests.golden.digests import Digest, committed

FOLDER = Path("build/emulation")
"""Folder of downloads, compiled kernels and finished digests."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and compare the digests.

    Returns:
        0: all are equal; 1: some differ; 2: something cannot be downloaded; 3: some were not computed.
    """
    options = _options(arguments)
    downloads = Downloads(options.folder.resolve())
    try:
        check_machine()
        lines = list(downloads.missing())
        print("\n".join(["to download:", *lines] if lines else ["nothing to download"]), flush=True)
        if options.dry_run:
            return 0
        downloads.fetch()
    except DownloadError as error:
        print(error, file=sys.stderr)
        return 2
    end_on_sigterm()
    expected = committed()
    outcomes = emulate(options.cpus, expected, downloads, options.processes, options.minutes * 60)
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
    for folder in ("results", "logs"):
        (downloads.folder / folder).mkdir(parents=True, exist_ok=True)
    paths = {cpu.name: record_path(downloads.folder / "results", cpu, downloads.versions()) for cpu in cpus}
    jobs = []
    for cpu in cpus:
        if names := missing(expected, read_record(paths[cpu.name]).digests):  # errors are computed again
            end_last_line(paths[cpu.name])
            jobs.append(_job(cpu, names, paths[cpu.name], downloads))
            print(f"{cpu.name}: {len(names)} of {len(expected)} digests to compute", flush=True)
    unfinished = run(jobs, processes, seconds)
    if any(
        record_path(path.parent, cpu, downloads.versions()) != path
        for cpu, path in zip(cpus, paths.values(), strict=True)
    ):
        return [Outcome(cpu, Record(), expected, "the sources changed during the run") for cpu in cpus]
    return [Outcome(cpu, read_record(paths[cpu.name]), expected, unfinished.get(cpu.name, "")) for cpu in cpus]


def _job(cpu: Cpu, names: Sequence[str], output: Path, downloads: Downloads) -> Job:
    return Job(
        name=cpu.name,
        command=command(cpu, downloads),
        environment=environment(cpu, downloads),
        content=json.dumps(names),
        output=output,
        log=downloads.folder / "logs" / f"{cpu.name}.txt",
        after=cpu.compiled_by,
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.emulation", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="Only list what would be downloaded.")
    parser.add_argument("--cpus", type=_cpus, default=CPUS, help="Names of CPUs, separated by commas. Default: all.")
    parser.add_argument("--processes", type=int, default=2, help="Number of CPUs to emulate at a time. Default: 2.")
    parser.add_argument("--minutes", type=float, default=30, help="Time limit without downloads. Default: 30.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"Folder to work in. Default: {FOLDER}.")
    parser.add_argument("--page", type=Path, help="Page to write, for example docs/emulation.md. Default: none.")
    return parser.parse_args(arguments)


def _cpus(text: str) -> list[Cpu]:
    """Return the CPUs of names, in the order of CPUS."""
    names = text.split(",")
    if unknown := set(names) - {cpu.name for cpu in CPUS}:
        known = ", ".join(cpu.name for cpu in CPUS)
        raise argparse.ArgumentTypeError(f"unknown CPU {', '.join(sorted(unknown))}: use names of {known}")
    return [cpu for cpu in CPUS if cpu.name in names]


if __name__ == "__main__":
    sys.exit(main())
