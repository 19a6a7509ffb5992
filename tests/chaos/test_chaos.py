"""Tests of builds under a few faults. ``make chaos`` runs all scenarios with hundreds of faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.log import Fault, Log
from tests.chaos.report import BEGIN, DESCRIPTIONS, END, Run, write_page
from tests.chaos.scenarios import SCENARIOS, Scenario, shares
from tests.chaos.stage import Stage, stage
from tests.chaos.trial import Result, run_scenario
from tests.conftest import ROOT

pytestmark = pytest.mark.large

QUICK = (
    *("workers killed", "local workers killed", "machines lost", "permanent straggler", "permanent local straggler"),
    *("local, driver killed, files torn", "local, source files gone", "all at once"),
)
"""Scenarios that no other test covers. Other tests inject poison and full disks one at a time."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("chaos") / "work", True, Log()) as made:
        yield made


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.name in QUICK], ids=lambda each: each.name)
def test_data_sets_are_complete_and_identical_after_faults(prepared: Stage, scenario: Scenario) -> None:
    result = run_scenario(prepared, scenario, 2, seed=1)
    if result.skipped:
        pytest.skip(result.skipped)
    assert not result.problems
    assert sum(result.faults.values()) >= 2


def test_every_kind_of_fault_occurs_in_a_scenario_and_is_described() -> None:
    assert {kind for scenario in SCENARIOS for kind in scenario.kinds()} == set(DESCRIPTIONS)
    assert sum(shares(200).values()) >= 200
    assert min(shares(1).values()) == 1


def test_page_keeps_text_around_the_figures_and_names_failures(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold figures\n{END}\nafter\n")
    failing = Result("workers killed", {"worker": 3}, builds=1, attempts=2, problems=["build 1: 4 missing files: a, b"])
    run = Run(7, 3, 60.0, [failing], [Fault("worker", 1.5, "workers killed", "worker 12")], "Python 3")
    write_page(run, page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old figures" not in text
    assert "FAILED: build 1: 4 missing files: a, b" in text
    assert not run.passed()


def test_page_of_faults_has_markers() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    assert text.index(BEGIN) < text.index(END)
