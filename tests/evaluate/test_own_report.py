"""Reports on a family of an installed package, with the package's report or the default one."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.evaluate.report import families
from pipeline.evaluate.report.default import default_report
from pipeline.evaluate.report.families import ENTRY_POINTS, layouts, report_of
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.text import to_csv
from pipeline.evaluate.results.folder import PREDICTIONS_FILE
from pipeline.evaluate.results.predictions import read_predictions
from pipeline.transforms.family import Family
from pipeline.transforms.registry import FAMILIES
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.own_family import FACTORIES, FAMILY_ALONE, OwnFamily, install, own_family
from tests.factories.own_waves import FAMILY

__all__ = ["own_family"]

MODULES = {name: FACTORIES / f"{name}.py" for name in ("own_waves", "own_waves_report")}
REPORT = "own_waves_report:REPORT"
CLASSES = 7
"""Number of classes of ``tests.factories.small_models:tiny``."""


def with_report(folder: Path, report: str = REPORT) -> OwnFamily:
    """Return the package with a report."""
    install(folder, {**FAMILY_ALONE, ENTRY_POINTS: {"own-waves": report}}, MODULES)
    return OwnFamily(folder, folder)


@pytest.fixture(scope="module")
def evaluation(own_family: OwnFamily, small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the evaluation of an untrained model on three photographs and two waves."""
    folder = tmp_path_factory.mktemp("evaluated")
    data, out = folder / "data", folder / "evaluation"
    build = ("build", own_family.recipe, "--source", small_source, "--out", data, "--limit", 3, "--workers", 1)
    evaluate = ("evaluate", data, "--model", "tests.factories.small_models:tiny", "--out", out)
    for command in (build, (*evaluate, "--name", "untrained", "--device", "cpu", "--batch-size", 2)):
        done = own_family.run(*command)
        assert done.returncode == 0, done.stderr
    return out


def shares(evaluation: Path) -> Mapping[str, float]:
    """Return the accuracy by wave."""
    found = read_predictions(evaluation / PREDICTIONS_FILE, CLASSES)
    return {each.condition.transform: float(np.mean(each.top1[:, 0] == each.labels)) for each in found}


def test_the_report_of_a_package_shows_its_metric(evaluation: Path, tmp_path: Path) -> None:
    done = with_report(tmp_path / "packages").run("report", evaluation, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "accuracy under the worst wave" in done.stdout
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    right = shares(evaluation)
    assert set(right) == {"wave_rows", "wave_columns"}
    (summary,) = facts["waves"]
    assert summary["worst"]["value"] == min(right.values())
    assert {row["name"]: row["accuracy"]["value"] for row in summary["rows"]} == right
    assert facts["corruptions"] == []
    shown = (tmp_path / "out" / "report.html").read_text()
    for text in ("accuracy under the worst wave", "Bar plot, accuracy in percent, waves", "Nobody, 2026 (waves)"):
        assert text in shown
    lines = list(csv.DictReader((tmp_path / "out" / "report.csv").open()))
    assert {line["family"] for line in lines} == {"waves", "models"}


def test_a_package_without_a_report_uses_the_default_report(
    own_family: OwnFamily, evaluation: Path, tmp_path: Path
) -> None:
    done = own_family.run("report", evaluation, "--json")
    assert done.returncode == 0, done.stderr
    (summary,) = json.loads(done.stdout)["own_waves"]
    right = shares(evaluation)
    assert {row["name"]: row["accuracies"]["0"]["value"] for row in summary["rows"]} == right
    assert summary["mean_accuracy"]["value"] == pytest.approx(np.mean(list(right.values())))


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("nowhere:REPORT", "cannot be loaded: ModuleNotFoundError"),
        ("own_waves:FAMILY", "is a Family: it must be a ReportFamily"),
    ],
)
def test_an_invalid_report_is_named_before_the_evaluation(
    evaluation: Path, tmp_path: Path, report: str, words: str
) -> None:
    package = with_report(tmp_path, report)
    data = evaluation.parent / "data"
    for command in (
        ("report", evaluation),
        ("evaluate", data, "--model", "tests.factories.small_models:absent", "--out", tmp_path / "out"),
    ):
        done = package.run(*command, "--json")
        assert done.returncode == 2, done.stderr
        message = json.loads(done.stdout)["error"]
        assert words in message
        assert f"the report 'own-waves' ({report}) of the installed package 'own-waves'" in message
    assert not (tmp_path / "out" / PREDICTIONS_FILE).exists()


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Family]:
    """Return the registered families; a test may add to them."""
    found = dict(FAMILIES)
    monkeypatch.setattr(families, "FAMILIES", found)
    for module in ("pipeline.evaluate.report.scores", "pipeline.evaluate.results.folder"):
        monkeypatch.setattr(f"{module}.FAMILIES", found)
    return found


def test_a_family_of_sequences_without_a_report_is_refused(registered: dict[str, Family]) -> None:
    registered["films"] = replace(FAMILY, name="films", sequences=True)
    with pytest.raises(
        UserError, match=r"'films' has no report.*entry point 'films' in the group 'robustshards.reports'"
    ):
        report_of("films")
    known = [
        *("corruptions", "perturbations", "system_noise", "syn2nat", "c_bar", "low_pass", "adversarial", "shifts"),
        *("anomalies", "clean", "natural_robustness", "transfer", "budgets"),
    ]
    assert list(layouts()) == known


def test_two_reports_with_the_same_key_are_refused(registered: dict[str, Family]) -> None:
    registered["a-b"], registered["system_noise"] = (replace(FAMILY, name=name) for name in ("a-b", "system_noise"))
    with pytest.raises(UserError, match="two reports have the key 'system_noise'"):
        layouts()


def test_reserved_keys_are_refused(registered: dict[str, Family]) -> None:
    registered["warnings"] = replace(FAMILY, name="warnings")
    with pytest.raises(UserError, match="'warnings' has the invalid key 'warnings': use lower case letters"):
        layouts()


def test_the_default_report_shows_levels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of four images, one is wrong in wave_rows at level 1, two at level 2, and all in wave_columns at level 1."""
    layered = replace(FAMILY, name="layered", levels=(1, 2))
    monkeypatch.setattr(FAMILIES, "_families", {**FAMILIES, "layered": layered})
    logits = {
        ("wave_rows", 1): votes([0, 1, 2, 6]),
        ("wave_rows", 2): votes([0, 1, 6, 6]),
        ("wave_columns", 1): votes([6, 6, 6, 6]),
    }
    folder = write_evaluation(tmp_path / "r", logits, (0, 1, 2, 3), family="layered")
    summary = summarise([folder])
    (found,) = summary.families["layered"]
    rows = {row.name: ({level: each.value for level, each in row.accuracies.items()}, row) for row in found.rows}
    assert rows["wave_rows"][0] == {1: 0.75, 2: 0.5}
    assert rows["wave_rows"][1].mean_accuracy.value == 0.625
    assert rows["wave_columns"][0] == {1: 0.0}
    assert found.mean_accuracy.value == pytest.approx(0.3125)
    assert found.mean_accuracy.low < 0.3125 < found.mean_accuracy.high
    (one,) = [each for each in tables(summary) if each.title == "accuracy by transform and level"]
    assert [str(cell) for cell in one.rows[1]][:4] == ["wave_columns", "made", "0.0 ±0.0", "—"]
    lead = sections(summary)[0].headline("made")
    assert lead is not None
    assert (lead.figure, lead.number.figure) == ("mean accuracy", "31.2")
    assert "Line plot, accuracy in percent by level, wave rows: made 75.0 at 1, 50.0 at 2." in page(summary, "t")
    assert ",layered,wave_rows,2,accuracy,0.5," in to_csv(summary)
    assert default_report(layered).layout.key == "layered"
