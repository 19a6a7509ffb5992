"""``make chaos``: inject faults into builds, and report whether the data sets are still complete and identical."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.chaos.log import Log
from tests.chaos.report import Run, environment, split_page, write_facts, write_page
from tests.chaos.scenarios import SCENARIOS, shares
from tests.chaos.stage import STORES, stage
from tests.chaos.trial import Result, run_scenario

WORK, FACTS = Path("build/chaos"), Path("build/chaos.json")


def main() -> int:
    """Run the scenarios. Return 0 if all data sets are complete and identical, 1 otherwise."""
    arguments = _arguments()
    shutil.rmtree(WORK, ignore_errors=True)
    start, log, results = time.monotonic(), Log(), list[Result]()
    selected = [scenario for scenario in SCENARIOS if arguments.only in scenario.name]
    if not selected:
        sys.exit(f"no name of a scenario contains {arguments.only!r}: {', '.join(each.name for each in SCENARIOS)}")
    counts = shares(arguments.faults)
    with stage(WORK.resolve(), arguments.short, log, arguments.store) as prepared:
        for scenario in selected:
            result = run_scenario(prepared, scenario, counts[scenario.name], arguments.seed)
            results.append(result)
            print(result.line(), flush=True)
    run = Run(arguments.seed, arguments.faults, time.monotonic() - start, results, log.faults, environment())
    write_facts(run, FACTS)
    if arguments.report:
        write_page(run, arguments.report)
    print(run.summary())
    return 0 if run.passed() else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="Seed of the faults.")
    parser.add_argument("--faults", type=int, default=200, help="Minimum number of faults to inject.")
    parser.add_argument("--only", default="", help="Run only scenarios whose names contain this text.")
    parser.add_argument("--short", action="store_true", help="Use fewer images.")
    parser.add_argument("--store", choices=STORES, default="moto", help="S3 server to use.")
    parser.add_argument("--report", type=_page, help="Page to write the figures into, for example docs/faults.md.")
    return parser.parse_args()


def _page(text: str) -> Path:
    """Check before the run that the page has markers for the figures."""
    try:
        split_page(Path(text))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


if __name__ == "__main__":
    sys.exit(main())
