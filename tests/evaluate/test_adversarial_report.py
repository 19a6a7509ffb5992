"""The report on adversarial images: AR, WCAR, robust accuracy, transfer, and accuracy against budget."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate.report.adversarial import REPORT
from pipeline.evaluate.report.attack_summaries import AdversarialSummary
from pipeline.evaluate.report.budgets import BudgetSummary
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.tables import coverage
from pipeline.evaluate.report.text import to_markdown
from pipeline.evaluate.report.transfer import TransferSummary
from tests.conftest import Run
from tests.evaluate.test_tables import table
from tests.factories.attacks import attack_table, right, write_attacked, write_budgets, write_clean
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.summaries import HOSTILE

BOTH = {("fgsm", 1): (1, 2, 3, 4), ("pgd_linf", 1): (1, 2, 5)}
"""The example of eight images: the model gets 1 to 6 right before the attacks."""

TARGET = (1, 2, 3, 5, 6, 8)
SMALLEST = [budget / 255 for budget in (0, 0, 1, 2, 3, 5, 8)] + [float("inf")]
WHITE_BOX, TRANSFER = "made-none, attacks: white box", "made-none, attacks: transfer from s"


def summarised(*folders: str) -> list[AdversarialSummary]:
    """Return the summaries of adversarial images."""
    return list(summarise(folders, resamples=200).families["adversarial"])


def example(folder: Path, **options: Any) -> list[str]:
    """Write the example: attacks on the model s, which gets images 1 to 6 right, evaluated with s."""
    attack = attack_table(**options)
    outcomes = {key: images for key, images in BOTH.items() if key[0] in {each.name for each in attack.attacks}}
    return [
        write_attacked(folder / "white", "s", outcomes, attack),
        write_clean(folder / "clean", "s", range(1, 7)),
    ]


# White box


def test_the_example_of_eight_images(tmp_path: Path, robustshards: Run) -> None:
    done = robustshards("report", *example(tmp_path), "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (summary,) = json.loads(done.stdout)["adversarial"]
    assert (summary["data_set"], summary["images"], summary["right_before"]) == (WHITE_BOX, 8, 6)
    rows = {row["name"]: row for row in summary["rows"]}
    values = {
        name: [row[key]["1"]["value"] for key in ("robustness", "robust_accuracies")] for name, row in rows.items()
    }
    assert values == {"fgsm": [pytest.approx(0.6667, abs=1e-4), 0.5], "pgd_linf": [0.5, 0.375]}
    worst = summary["worst_cases"]["WCAR"]
    assert worst["robustness"]["value"] == pytest.approx(0.3333, abs=1e-4)
    assert 0 <= worst["robustness"]["low"] < 0.3333 < worst["robustness"]["high"] <= 1
    assert (worst["attacks"], worst["missing"]) == (["fgsm", "pgd_linf"], [])
    assert summary["clean_accuracy"] == 0.75
    lines = {
        (line["transform"], line["figure"]): float(line["value"])
        for line in csv.DictReader((tmp_path / "out" / "report.csv").open())
        if line["family"] == "adversarial"
    }
    assert lines["fgsm", "AR"] == pytest.approx(4 / 6)
    assert lines["pgd_linf", "robust accuracy"] == 0.375
    assert lines["", "WCAR"] == pytest.approx(2 / 6)
    text = (tmp_path / "out" / "report.html").read_text()
    assert "Bar plot, AR in percent, L∞" in text
    assert done.stderr == ""


def test_a_missing_attack_marks_wcar(tmp_path: Path) -> None:
    expected = ("fgsm", "pgd_linf", "autoattack_linf")
    folders = example(tmp_path, recipe="ares-white-box", expected=expected)
    (summary,) = summarised(*folders)
    assert summary.worst_cases["WCAR"].missing == ["autoattack_linf"]
    assert summary.worst_cases["WCAR"].robustness.value == pytest.approx(2 / 6)
    wcar = next(figure for figure in REPORT.layout.figures if figure.name == "WCAR")
    assert coverage(REPORT.layout, summary, wcar) == "2 of 3 attacks"
    report = summarise(folders, resamples=50)
    found = tables(report)
    section = "made-none, ares-white-box: white box"
    assert str(table(found, section, "key figures")["WCAR"][0]).endswith("*")
    assert "* s: WCAR over 2 of 3 attacks." in found[0].note
    (row,) = [list(map(str, each)) for each in found[1].rows]
    assert row == ["s", "WCAR", "fgsm, pgd_linf", "autoattack_linf"]
    assert sections(report)[0].headline("s").part == "2 of 3 attacks"  # type: ignore[union-attr]


def test_three_levels_are_small_middle_and_large(tmp_path: Path) -> None:
    budgets = {name: [0.5 / 255, 2 / 255, 8 / 255] for name in ("fgsm", "pgd_linf")} | {"pgd_l2": [0.5, 2, 8]}
    attack = attack_table(budgets=budgets, norm={"pgd_l2": "l2"}, recipe="robustart")
    outcomes = {
        ("fgsm", 1): (1, 2, 3, 4, 5), ("fgsm", 2): (1, 2, 3, 4), ("fgsm", 3): (1,),
        ("pgd_linf", 1): (1, 2, 3, 4, 6), ("pgd_linf", 2): (2, 3), ("pgd_linf", 3): (),
        ("pgd_l2", 1): (1, 2, 3), ("pgd_l2", 2): (3,), ("pgd_l2", 3): (1,),
    }  # fmt: skip
    folders = [write_attacked(tmp_path / "a", "s", outcomes, attack), write_clean(tmp_path / "c", "s", range(1, 7))]
    (summary,) = summarised(*folders)
    values = {name: worst.robustness.value for name, worst in summary.worst_cases.items()}
    assert values == {"WCAR small": 0.5, "WCAR middle": pytest.approx(1 / 6), "WCAR large": 0}
    report = summarise(folders, resamples=50)
    found = tables(report)
    figures = table(found, "made-none, robustart: white box", "key figures")
    assert [name for name in figures if name.startswith("WCAR")] == ["WCAR small", "WCAR middle", "WCAR large"]
    cells = [list(map(str, row)) for row in found[2].rows]
    assert [row[0] for row in cells[-3:]] == ["pgd_l2 at 0.5", "pgd_l2 at 2", "pgd_l2 at 8"]
    assert [row[0] for row in cells[:3]] == ["fgsm at 0.5/255", "fgsm at 2/255", "fgsm at 8/255"]
    assert "Line plot, AR in percent by level, fgsm" in page(report, "Title")


def test_two_levels_are_numbered(tmp_path: Path) -> None:
    attack = attack_table(budgets={"fgsm": [1 / 255, 4 / 255]})
    outcomes = {("fgsm", 1): (1, 2, 3), ("fgsm", 2): (1,)}
    folders = [write_attacked(tmp_path / "a", "s", outcomes, attack), write_clean(tmp_path / "c", "s", range(1, 7))]
    (summary,) = summarised(*folders)
    values = {name: worst.robustness.value for name, worst in summary.worst_cases.items()}
    assert values == {"WCAR at level 1": 0.5, "WCAR": pytest.approx(1 / 6)}


def test_models_that_were_attacked_themselves_share_a_section(tmp_path: Path) -> None:
    """Each has images of its own, which is no reason to warn."""
    folders = [
        *example(tmp_path / "s", recipe="two"),
        write_attacked(tmp_path / "t", "t", BOTH, attack_table("t", recipe="two")),
        write_clean(tmp_path / "tc", "t", range(1, 9)),
    ]
    report = summarise(folders, resamples=50)
    first = sections(report)[0]
    assert (first.title, list(first.models)) == ("made-none, two: white box", ["s", "t"])
    assert report.warnings == []
    assert report.comparison
    (ranking, _) = report.comparison.rankings
    assert (ranking.figure, ranking.ranks) == ("WCAR", {"s": 1, "t": 2})
    assert not report.families["transfer"]


# Transfer


def test_swapping_white_box_and_transfer_changes_the_section_only(tmp_path: Path) -> None:
    clean = [write_clean(tmp_path / "sc", "s", range(1, 7)), write_clean(tmp_path / "tc", "t", range(1, 7))]
    white = write_attacked(tmp_path / "white", "s", BOTH, attack_table("s"))
    other = write_attacked(tmp_path / "other", "s", BOTH, attack_table("t"))
    (one,), (two,) = summarised(white, *clean), summarised(other, *clean)
    assert (one.data_set, two.data_set) == (WHITE_BOX, "made-none, attacks: transfer from t")
    assert (one.white_box, two.white_box) == (True, False)
    assert one.worst_cases == two.worst_cases
    assert [replace(row, success_rates={}) for row in two.rows] == one.rows


def test_transfer_matrix_of_two_models(tmp_path: Path) -> None:
    """After the attack on s, t is wrong on 2, 3, 6 and 8; of these, 8 does not count, since s gets it wrong."""
    attack = attack_table(budgets={"fgsm": [8 / 255]})
    folders = [
        write_attacked(tmp_path / "white", "s", {("fgsm", 1): (1, 2, 3)}, attack),
        write_attacked(tmp_path / "transfer", "t", {("fgsm", 1): (1, 4, 5, 7)}, attack),
        write_clean(tmp_path / "sc", "s", range(1, 7)),
        write_clean(tmp_path / "tc", "t", TARGET),
    ]
    report = summarise(folders, resamples=200)
    white, transfer = report.families["adversarial"]
    assert (white.data_set, transfer.data_set) == (WHITE_BOX, TRANSFER)
    (row,) = transfer.rows
    assert row.success_rates[1].value == pytest.approx(3 / 5)
    assert row.robustness[1].value == pytest.approx(2 / 6)
    assert row.accuracies[1].value == 0.5
    (matrix,) = report.families["transfer"]
    assert isinstance(matrix, TransferSummary)
    rates = matrix.rates["fgsm at 8/255"]
    assert {name: round(each.value, 6) for name, each in rates.items()} == {"s": 0.5, "t": 0.6}
    found = {each.section: each for each in tables(report)}["made-none, attacks: transfer matrix"]
    assert [column.title for column in found.columns] == ["attack", "attacked model", "s", "t"]
    assert [str(cell).split()[0] for cell in found.rows[0][2:]] == ["50.0", "60.0"]
    text = page(report, "Title")
    assert (
        "Heat map, fgsm at 8/255, accuracy in percent by evaluated and attacked model: s from s 50.0, t from s 40.0"
        in text
    )
    assert "A stronger colour means a lower accuracy compared with the map's best pair" in text
    assert report.warnings == []


def test_the_attacked_model_is_recognised_under_another_name(tmp_path: Path) -> None:
    attack = attack_table()
    renamed = write_evaluation(
        tmp_path / "renamed", {("none", 0): right(range(1, 7))}, [0] * 8, family="none", model="renamed",
        digest=attack.model.digest,
    )  # fmt: skip
    target = write_attacked(tmp_path / "t", "t", BOTH, attack)
    (summary,) = summarised(target, renamed, write_clean(tmp_path / "tc", "t", TARGET))
    assert summary.attacked == "renamed"
    assert summary.rows[0].success_rates


# Mistakes


def test_without_clean_images_the_report_says_what_to_add(tmp_path: Path) -> None:
    report = summarise(example(tmp_path)[:1], resamples=50)
    (summary,) = report.families["adversarial"]
    assert summary.rows[0].accuracies[1].value == 0.5
    assert (summary.worst_cases, summary.clean_accuracy, summary.right_before) == ({}, None, None)
    (warning,) = report.warnings
    assert "no AR, WCAR and robust accuracy" in warning
    assert "made-none" in warning
    assert "accuracy after attack" in page(report, "Title")


def test_without_the_attacked_model_there_is_no_success_rate(tmp_path: Path) -> None:
    target = write_attacked(tmp_path / "t", "t", BOTH, attack_table())
    report = summarise([target, write_clean(tmp_path / "tc", "t", TARGET)], resamples=50)
    (summary,) = report.families["adversarial"]
    assert summary.rows[0].robustness
    assert not summary.rows[0].success_rates
    (warning,) = report.warnings
    assert "no attack success rate" in warning
    assert "'s'" in warning


def test_attacks_of_different_samples_use_common_images(tmp_path: Path) -> None:
    """AR is over the images of its attack, WCAR over images 1 to 4, which both have."""
    attack = attack_table()
    logits = {key: right(images) for key, images in BOTH.items()}
    folder = write_evaluation(
        tmp_path / "a", logits, [0] * 8, family="adversarial", model="s", digest=attack.model.digest, attack=attack,
        only={("pgd_linf", 1): [0, 1, 2, 3]},
    )  # fmt: skip
    report = summarise([folder, write_clean(tmp_path / "c", "s", range(1, 7))], resamples=50)
    (summary,) = report.families["adversarial"]
    assert [(row.images, row.robustness[1].value) for row in summary.rows] == [(8, pytest.approx(4 / 6)), (4, 0.5)]
    assert (summary.images, summary.worst_cases["WCAR"].robustness.value) == (4, 0.5)
    assert any("WCAR is over the 4 images" in warning for warning in report.warnings)


def test_data_sets_that_continue_each_other_are_shown_together(tmp_path: Path) -> None:
    one = attack_table(budgets={"fgsm": [4 / 255]}, recipe="r", expected=("fgsm", "pgd_linf"))
    two = attack_table(budgets={"pgd_linf": [4 / 255]}, recipe="r", expected=("fgsm", "pgd_linf"))
    folders = [
        write_attacked(tmp_path / "one", "s", {("fgsm", 1): BOTH["fgsm", 1]}, one, manifest="1" * 64),
        write_attacked(tmp_path / "two", "s", {("pgd_linf", 1): BOTH["pgd_linf", 1]}, two, manifest="2" * 64),
        write_clean(tmp_path / "clean", "s", range(1, 7)),
    ]
    (summary,) = summarised(*folders)
    assert [row.name for row in summary.rows] == ["fgsm", "pgd_linf"]
    assert summary.worst_cases["WCAR"].robustness.value == pytest.approx(2 / 6)
    assert summary.worst_cases["WCAR"].missing == []


def test_the_same_attack_twice_is_shown_separately(tmp_path: Path) -> None:
    folders = [*example(tmp_path), write_attacked(tmp_path / "other", "s", BOTH, attack_table(), manifest="9" * 64)]
    report = summarise(folders, resamples=50)
    assert len(report.families["adversarial"]) == 2
    assert list(sections(report)[0].models) == ["s", "s (2)"]
    assert any("shown separately" in warning for warning in report.warnings)


def test_a_model_that_is_wrong_everywhere_has_no_ar(tmp_path: Path) -> None:
    folders = [
        write_attacked(tmp_path / "a", "s", dict.fromkeys(BOTH, ()), attack_table()),
        write_clean(tmp_path / "c", "s", ()),
    ]
    (summary,) = summarised(*folders)
    assert (summary.worst_cases, summary.clean_accuracy) == ({}, 0)
    assert summary.rows[0].robust_accuracies[1].value == 0
    assert not summary.rows[0].robustness
    report = summarise(folders, resamples=50)
    assert any("gets none of 8 images right" in warning for warning in report.warnings)
    assert page(report, "Title")


def test_gradients_of_zero_and_another_input_are_warned_of(tmp_path: Path) -> None:
    attack = attack_table(zero_gradients=0.25)
    other = attack.model_copy(update={"model": attack.model.model_copy(update={"size": 32})})
    folders = [write_attacked(tmp_path / "a", "s", BOTH, other), write_clean(tmp_path / "c", "s", range(1, 7))]
    warnings = summarise(folders, resamples=50).warnings
    assert any("25.0% of the attacked images had a loss without gradient" in each for each in warnings)
    assert any("size 0 instead of 32" in each for each in warnings)


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        (None, r"no table \[attack\]"),
        (attack_table(budgets={"fgsm": [1 / 255]}), "pgd_linf-1 is not one of the attacks"),
    ],
)
def test_evaluations_without_their_attacks_are_refused(tmp_path: Path, attack: Any, reason: str) -> None:
    logits = {key: right(images) for key, images in BOTH.items()}
    folder = write_evaluation(tmp_path / "a", logits, [0] * 8, family="adversarial", attack=attack)
    with pytest.raises(UserError, match=reason):
        summarise([folder])


def test_names_are_escaped(tmp_path: Path) -> None:
    attack = attack_table(HOSTILE, recipe=HOSTILE, clean=HOSTILE)
    folders = [
        write_attacked(tmp_path / "w", HOSTILE, BOTH, attack),
        write_attacked(tmp_path / "t", "t", BOTH, attack),
        write_clean(tmp_path / "wc", HOSTILE, range(1, 7)),
        write_clean(tmp_path / "tc", "t", TARGET),
        write_budgets(tmp_path / "b", HOSTILE, SMALLEST),
    ]
    report = summarise(folders, resamples=50)
    text = page(report, "Title")
    assert HOSTILE not in text
    assert text.count("&lt;script&gt;") > 10
    assert HOSTILE not in to_markdown(tables(report))


# Smallest budgets


def test_accuracy_against_budget(tmp_path: Path, robustshards: Run) -> None:
    folders = [
        write_budgets(tmp_path / "s", "s", SMALLEST),
        write_budgets(tmp_path / "t", "t", [2 * budget for budget in SMALLEST]),
    ]
    done = robustshards("report", *folders, "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    one, other = json.loads(done.stdout)["budgets"]
    assert one["data_set"] == other["data_set"] == "made-none, autoattack_linf up to 16/255"
    accuracies = {row["name"]: row["accuracy"]["value"] for row in one["rows"]}
    assert accuracies == {
        "0.5/255": 0.75, "1/255": 0.625, "2/255": 0.5, "4/255": 0.375, "8/255": 0.125, "16/255": 0.125,
    }  # fmt: skip
    assert one["accuracy"]["value"] == 0.75
    assert one["median"]["value"] == pytest.approx(4)
    assert (one["area"]["value"], other["area"]["value"]) == (pytest.approx(35 / 8), pytest.approx(54 / 8))
    assert one["area"]["low"] < 35 / 8 < one["area"]["high"]
    assert (one["images"], one["right_before"], one["failed"]) == (8, 6, 0)
    lines = {
        (line["model"], line["transform"], line["figure"]): float(line["value"])
        for line in csv.DictReader((tmp_path / "out" / "report.csv").open())
        if line["family"] == "budgets"
    }
    assert lines["s", "4/255", "accuracy at the budget"] == 0.375
    text = (tmp_path / "out" / "report.html").read_text()
    assert "Line plot, accuracy in percent by budget (L∞)" in text
    assert "s, budget 4/255: 37.5" in text
    assert "NaN" not in done.stdout
    assert "Infinity" not in done.stdout


def test_budgets_up_to_a_small_one_and_in_other_norms(tmp_path: Path) -> None:
    folders = [
        write_budgets(tmp_path / "s", "s", SMALLEST, largest=3 / 255),
        write_budgets(tmp_path / "t", "s", [0, 0.3, 3, float("inf")], attack="ddn_l2", norm="l2", largest=5.0),
        write_budgets(tmp_path / "u", "s", [float("inf")] * 3, attack="pgd_l1", norm="l1", largest=300.0),
    ]
    found: list[BudgetSummary] = list(summarise(folders, resamples=50).families["budgets"])
    assert [[row.name for row in each.rows] for each in found] == [
        ["0.5/255", "1/255", "2/255", "3/255"], ["0.5", "1", "2", "4", "5"], ["100", "200", "300"],
    ]  # fmt: skip
    assert [each.median is None for each in found] == [False, False, True]
    assert found[1].median
    assert found[1].median.value == 3
    assert found[1].median.high == 5
    assert len(sections(summarise(folders, resamples=50))) == 3


def test_images_with_an_error_are_not_counted(tmp_path: Path) -> None:
    folder = write_budgets(tmp_path / "s", "s", [0, 1 / 255, float("inf"), 1 / 255], errors={2: "no gradient"})
    (summary,) = summarise([folder], resamples=50).families["budgets"]
    assert (summary.images, summary.failed, summary.right_before) == (3, 1, 2)
    assert summary.accuracy.value == pytest.approx(2 / 3)


def test_budgets_beside_evaluations_of_the_same_model(tmp_path: Path) -> None:
    report = summarise([*example(tmp_path), write_budgets(tmp_path / "b", "s", SMALLEST)], resamples=50)
    assert [each.title for each in sections(report)][-1] == "made-none, autoattack_linf up to 16/255"
    assert report.warnings == []
    assert page(report, "Title")


def test_searches_that_cannot_be_combined_are_refused(tmp_path: Path) -> None:
    folder = write_budgets(tmp_path / "s", "s", SMALLEST)
    with pytest.raises(UserError, match="give one of them"):
        summarise([folder, folder], resamples=10)
    mistaken = write_evaluation(
        tmp_path / "m", {("none", 0): right(())}, [0] * 8, family="none", model="s", digest="f" * 64
    )
    with pytest.raises(UserError, match="different models"):
        summarise([folder, mistaken], resamples=10)


def test_damaged_and_unfinished_searches_are_refused(tmp_path: Path) -> None:
    folder = Path(write_budgets(tmp_path / "s", "s", SMALLEST))
    settings = (folder / "budgets.toml").read_text()
    (folder / "budgets.toml").write_text(settings.replace("steps = 10", "steps = 11"))
    with pytest.raises(UserError, match="does not belong to"):
        summarise([str(folder)])
    (folder / "budgets.toml").write_text(settings)
    content = (folder / "budgets.parquet").read_bytes()
    (folder / "budgets.parquet").write_bytes(content[:-1] + b"x")
    with pytest.raises(UserError, match="damaged"):
        summarise([str(folder)])
    (folder / "budgets.parquet").unlink()
    with pytest.raises(UnfinishedError, match="run the same budgets command again"):
        summarise([str(folder)])


# Published figures


def test_published_figures_of_attacks_on_imagenet(tmp_path: Path) -> None:
    """They are beside models that were attacked themselves, on validation images of ImageNet."""
    attack = attack_table(recipe="ares-white-box")
    names = [f"ILSVRC2012_val_{number + 1:08}" for number in range(4)]
    logits = {key: votes([0, 0, 1, 1], 1000) for key in BOTH}
    options: Any = {"names": names, "profile": "imagenet", "model": "s", "digest": attack.model.digest}
    white = write_evaluation(tmp_path / "w", logits, [0] * 4, family="adversarial", attack=attack, **options)
    clean = write_evaluation(
        tmp_path / "c", {("none", 0): votes([0, 0, 0, 1], 1000)}, [0] * 4, family="none", **options
    )
    found = {
        (each.section, each.title): each for each in tables(summarise([white, clean], resamples=50, published=True))
    }
    section = "made-none, ares-white-box: white box"
    accuracies = found[section, "robust accuracy of published models"]
    assert [column.title for column in accuracies.columns][:3] == ["transform", "s", "ResNet50 AT (published)"]
    rows = {str(row[0]): list(map(str, row[1:3])) for row in accuracies.rows}
    assert rows["fgsm"] == ["50.0 ±50.0", "44.5"]
    assert rows["autoattack_linf"] == ["—", "34.1"]
    models = {str(row[0]): str(row[1]) for row in found[section, "published models"].rows}
    assert (models["s"], models["SwinL AT (published)"]) == ("75.0", "79.7")
    transfer = attack.model_copy(update={"model": attack.model.model_copy(update={"digest": "e" * 64})})
    other = write_evaluation(tmp_path / "t", logits, [0] * 4, family="adversarial", attack=transfer, **options)
    sets = {each.family for each in summarise([other, clean], resamples=50, published=True).published}
    assert "adversarial" not in sets
