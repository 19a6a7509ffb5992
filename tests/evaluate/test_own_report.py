"""Reports on a family of an installed package, with the package's report or the default one."""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.evaluate.report import families
from pipeline.evaluate.report.families import ENTRY_POINTS, report_of, reports
from pipeline.evaluate.report.figures import described
from pipeline.evaluate.results.folder import PREDICTIONS_FILE
from pipeline.evaluate.results.predictions import read_predictions
from pipeline.transforms.family import Family
from pipeline.transforms.registry import FAMILIES
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.own_family import FACTORIES, FAMILY_ALONE, OwnFamily, install, own_family
from tests.factories.own_waves import FAMILY
from tests.factories.reports import lines, measure, only, report_on, table, values

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


def by_wave(facts: Mapping[str, Any], metric: str) -> Mapping[str, float]:
    """Return the values of a metric in report.json by transform."""
    (results,) = facts["results"]
    return {row["transform"]: row["value"] for row in results["measures"] if row["metric"] == metric}


def test_the_report_of_a_package_shows_its_metric(evaluation: Path, tmp_path: Path) -> None:
    done = with_report(tmp_path / "packages").run("report", evaluation, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    worst = "accuracy under the worst wave"
    assert worst in done.stdout
    facts = json.loads((tmp_path / "out" / "report.json").read_text())
    right = shares(evaluation)
    assert set(right) == {"wave_rows", "wave_columns"}
    assert by_wave(facts, worst) == {"": min(right.values())}
    assert by_wave(facts, "accuracy") == right
    shown = (tmp_path / "out" / "report.html").read_text()
    for text in (worst, "Bar plot, waves, accuracy in percent", "Nobody, 2026 (waves)"):
        assert text in shown
    lines = list(csv.DictReader((tmp_path / "out" / "report.csv").open()))
    assert {line["family"] for line in lines} == {"waves", "models"}


def test_a_package_without_a_report_uses_the_default_report(own_family: OwnFamily, evaluation: Path) -> None:
    done = own_family.run("report", evaluation, "--json")
    assert done.returncode == 0, done.stderr
    facts, right = json.loads(done.stdout), shares(evaluation)
    assert facts["results"][0]["family"] == "own_waves"
    assert by_wave(facts, "accuracy") == right
    assert by_wave(facts, "mean accuracy") == {"": pytest.approx(np.mean(list(right.values())))}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("nowhere:REPORT", "cannot be loaded: ModuleNotFoundError"),
        ("own_waves:FAMILY", "is a Family: it must be a FamilyReport"),
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
    return found


def test_a_family_of_sequences_without_a_report_is_refused(registered: dict[str, Family]) -> None:
    registered["films"] = replace(FAMILY, name="films", sequences=True)
    with pytest.raises(
        UserError, match=r"'films' has no report.*entry point 'films' in the group 'robustshards.reports'"
    ):
        report_of("films")
    found = list(reports())
    assert {each.key for each in families.REPORTS} <= {*found}
    assert "films" not in found
    others = ["shifts", "anomalies", "clean", "budgets", "streams", "detection"]
    assert (found[0], found[-len(others) :]) == ("corruptions", others)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a-b", "a_b"), "two reports have the key 'a_b'"),
        *(
            ((name,), f"'{name}' has the invalid key '{name}': use lower case letters")
            for name in ("comparison", "natural_robustness", "Waves")
        ),
    ],
)
def test_keys_are_unique_and_not_reserved(registered: dict[str, Family], names: tuple[str, ...], message: str) -> None:
    registered.update({name: replace(FAMILY, name=name) for name in names})
    with pytest.raises(UserError, match=message):
        reports()


def test_the_default_report_shows_levels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of four images, one is wrong in wave_rows at level 1, two at level 2, and all in wave_columns at level 1."""
    layered = replace(FAMILY, name="layered", levels=(1, 2))
    monkeypatch.setattr(FAMILIES, "_families", {**FAMILIES, "layered": layered})
    logits = {
        ("wave_rows", 1): votes([0, 1, 2, 6]),
        ("wave_rows", 2): votes([0, 1, 6, 6]),
        ("wave_columns", 1): votes([6, 6, 6, 6]),
    }
    report = report_on(write_evaluation(tmp_path / "r", logits, (0, 1, 2, 3), family="layered"), resamples=500)
    assert values(only(report, "layered"), "accuracy") == {
        "wave_rows": 0.625, "wave_columns": 0,
        ("wave_rows", 1): 0.75, ("wave_rows", 2): 0.5, ("wave_columns", 1): 0,
    }  # fmt: skip
    mean = measure(only(report, "layered"), "mean accuracy")
    assert mean.value == pytest.approx(0.3125)
    assert mean.low < 0.3125 < mean.high
    shown = table(report, "accuracy by transform and level")
    assert [str(cell) for cell in shown.rows[1]][:4] == ["wave_columns", "made", "0.0 [0.0, 49.0]", "—"]
    assert shown.plot
    assert described(shown.plot, shown.plot.panels[0]) == (
        "Line plot, wave rows, accuracy in percent by level: made: 1 75.0, 2 50.0."
    )
    (headline,) = report.document().headlines["made"]
    assert (headline.metric, headline.number.figure) == ("mean accuracy", "31.2")
    line = {"family": "layered", "transform": "wave_rows", "level": "2", "metric": "accuracy", "value": "0.5"}
    assert any(line.items() <= each.items() for each in lines(report))
