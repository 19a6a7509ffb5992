"""Builds under a few faults of each kind; ``make chaos`` does the same with hundreds, and more scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.__main__ import main
from tests.chaos.log import Log
from tests.chaos.report import BEGIN, END, WORDS, Run, write_page
from tests.chaos.scenarios import SCENARIOS, Scenario, shares
from tests.chaos.stage import Stage, stage
from tests.chaos.trial import Result, carry_out
from tests.conftest import ROOT

QUICK = ("local, driver killed, files torn", "local, source files gone", "all at once")
"""What no other test does: those of interruptions, poison, disks and executors do the rest one at a time."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("chaos") / "work", True, Log()) as made:
        yield made


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.name in QUICK], ids=lambda each: each.name)
def test_data_sets_are_whole_and_equal_after_faults(prepared: Stage, scenario: Scenario) -> None:
    result = carry_out(prepared, scenario, 2, seed=1)
    if result.skipped:
        pytest.skip(result.skipped)
    assert not result.problems
    assert sum(result.faults.values()) >= 2


def test_every_kind_of_fault_occurs_in_a_scenario_and_is_described() -> None:
    assert {kind for scenario in SCENARIOS for kind in scenario.kinds()} == set(WORDS)
    assert sum(shares(200).values()) >= 200
    assert min(shares(1).values()) == 1


def test_the_page_keeps_what_is_written_by_hand_and_tells_what_went_wrong(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nfigures of yesterday\n{END}\nafter\n")
    wrong = Result("workers killed", {"worker": 3}, builds=1, attempts=2, problems=["build 1: 4 lost: a, b"])
    run = Run(7, 3, 60.0, [wrong], [])
    write_page(run, page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "yesterday" not in text
    assert "WRONG: build 1: 4 lost: a, b" in text
    assert not run.sound()


def test_a_page_without_a_place_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("all by hand\n")
    with pytest.raises(ValueError, match="no place for figures"):
        write_page(Run(1, 1, 1.0, [], []), page)
    assert page.read_text() == "all by hand\n"


def test_a_page_that_is_not_there_is_told_before_the_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["chaos", "--report", str(tmp_path / "none.md")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "No such file" in capsys.readouterr().err


def test_the_page_of_the_docs_has_a_place() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert text.index(BEGIN) < text.index(END)
