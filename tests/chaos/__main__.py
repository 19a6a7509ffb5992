"""``make chaos``: builds under injected faults, and a report of what became of them."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.chaos.log import Log
from tests.chaos.report import Run, around_figures, write_facts, write_page
from tests.chaos.scenarios import SCENARIOS, shares
from tests.chaos.stage import stage
from tests.chaos.trial import Result, carry_out

WORK, FACTS = Path("build/chaos"), Path("build/chaos.json")


def main() -> int:
    """Carry the scenarios out; 0 where all data sets were whole and equal, 1 otherwise."""
    arguments = _arguments()
    shutil.rmtree(WORK, ignore_errors=True)
    begun, log, results = time.monotonic(), Log(), list[Result]()
    chosen = [scenario for scenario in SCENARIOS if arguments.only in scenario.name]
    parts = shares(arguments.faults)
    with stage(WORK.resolve(), arguments.short, log) as prepared:
        for scenario in chosen:
            result = carry_out(prepared, scenario, parts[scenario.name], arguments.seed)
            results.append(result)
            print(result.line(), flush=True)
    run = Run(arguments.seed, arguments.faults, time.monotonic() - begun, results, log.faults)
    write_facts(run, FACTS)
    if arguments.report:
        write_page(run, arguments.report)
    print(run.summary())
    return 0 if run.sound() else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="decides what is hit when, as far as a seed can")
    parser.add_argument("--faults", type=int, default=200, help="how many faults to inject, at least")
    parser.add_argument("--only", default="", help="only scenarios whose names hold this text")
    parser.add_argument("--short", action="store_true", help="fewer and smaller images")
    parser.add_argument("--report", type=_page, help="a page to write the figures into, as docs/reliability.md")
    return parser.parse_args()


def _page(text: str) -> Path:
    """A page with a place for the figures: it is looked for before the faults, not only after them."""
    try:
        around_figures(Path(text))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


if __name__ == "__main__":
    sys.exit(main())
