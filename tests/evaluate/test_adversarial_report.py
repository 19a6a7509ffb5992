"""The report on adversarial images: AR, WCAR, robust accuracy, transfer, and accuracy against budget."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UnfinishedError, UserError
from pipeline.evaluate.report.figures import described
from pipeline.evaluate.report.text import to_markdown
from pipeline.evaluate.report.write import page
from tests.conftest import Run
from tests.factories import reports
from tests.factories.attacks import attack_table, right, write_attacked, write_budgets, write_clean
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, has, lines, measure, only, results_of, table, tables_of, value, values

report_on = partial(reports.report_on, resamples=100)

BOTH = {("fgsm", 1): (1, 2, 3, 4), ("pgd_linf", 1): (1, 2, 5)}
"""The example of eight images: the model gets 1 to 6 right before the attacks."""

TARGET = (1, 2, 3, 5, 6, 8)
SMALLEST = [budget / 255 for budget in (0, 0, 1, 2, 3, 5, 8)] + [float("inf")]
WHITE_BOX, TRANSFER = "made-none, attacks: white box", "made-none, attacks: transfer from s"
HOSTILE = "<script>alert(1)</script>"


def example(folder: Path, **options: Any) -> list[str]:
    """Write the example: attacks on the model s, which gets images 1 to 6 right, evaluated with s."""
    attack = attack_table(**options)
    outcomes = {key: images for key, images in BOTH.items() if key[0] in {each.name for each in attack.attacks}}
    return [write_attacked(folder / "white", "s", outcomes, attack), write_clean(folder / "clean", "s", range(1, 7))]


# White box


def test_the_example_of_eight_images(tmp_path: Path, robustshards: Run) -> None:
    folders = example(tmp_path)
    done = robustshards("report", *folders, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)["results"][0]
    assert (shown["family"], shown["data_set"], shown["white_box"]) == ("adversarial", WHITE_BOX, True)
    assert shown["worst_cases"] == {"WCAR": {"attacks": ["fgsm", "pgd_linf"], "missing": []}}
    report = report_on(*folders)
    found = only(report, "adversarial")
    assert found.counts == {"images": (8, 0), "right before the attacks": (6, 0), "failed": (0, 0)}
    assert values(found, "AR") == {"fgsm": pytest.approx(4 / 6), "pgd_linf": 0.5}
    assert values(found, "robust accuracy") == {"fgsm": 0.5, "pgd_linf": 0.375}
    worst = measure(found, "WCAR")
    assert worst.value == pytest.approx(2 / 6)
    assert worst.covers == ""
    assert 0 <= worst.low < 1 / 3 < worst.high <= 1
    assert (found.clean_accuracy, value(found, "clean accuracy")) == (0.75, 0.75)
    numbers = {(each["transform"], each["metric"]): float(each["value"]) for each in lines(report)}
    assert [numbers[key] for key in (("fgsm", "AR"), ("pgd_linf", "robust accuracy"), ("", "WCAR"))] == [
        *(pytest.approx(4 / 6), 0.375, pytest.approx(2 / 6))
    ]
    plot = table(report, "by attack and budget").plot
    assert plot
    assert described(plot, plot.panels[0]) == "Bar plot, L∞, AR in percent: fgsm: s 66.7; pgd linf: s 50.0."


def test_a_missing_attack_marks_wcar(tmp_path: Path) -> None:
    expected = ("fgsm", "pgd_linf", "autoattack_linf")
    report = report_on(*example(tmp_path, recipe="ares-white-box", expected=expected))
    found = measure(only(report, "adversarial"), "WCAR")
    assert found.covers == "2 of 3 attacks"
    assert found.value == pytest.approx(2 / 6)
    figures = table(report, "key figures", "made-none, ares-white-box: white box")
    assert cells(figures)["WCAR"][0].endswith("*")
    assert "* s: WCAR averaged over 2 of 3 attacks." in figures.note
    assert list(map(str, table(report, "attacks in WCAR").rows[0])) == [
        *("s", "WCAR", "fgsm, pgd_linf", "autoattack_linf")
    ]
    assert report.document().headlines["s"][0].part == "2 of 3 attacks"


def test_three_levels_are_small_middle_and_large(tmp_path: Path) -> None:
    budgets = {name: [0.5 / 255, 2 / 255, 8 / 255] for name in ("fgsm", "pgd_linf")} | {"pgd_l2": [0.5, 2, 8]}
    attack = attack_table(budgets=budgets, norm={"pgd_l2": "l2"}, recipe="robustart")
    outcomes = {
        ("fgsm", 1): (1, 2, 3, 4, 5), ("fgsm", 2): (1, 2, 3, 4), ("fgsm", 3): (1,),
        ("pgd_linf", 1): (1, 2, 3, 4, 6), ("pgd_linf", 2): (2, 3), ("pgd_linf", 3): (),
        ("pgd_l2", 1): (1, 2, 3), ("pgd_l2", 2): (3,), ("pgd_l2", 3): (1,),
    }  # fmt: skip
    folders = [write_attacked(tmp_path / "a", "s", outcomes, attack), write_clean(tmp_path / "c", "s", range(1, 7))]
    report = report_on(*folders)
    expected = {"WCAR small": 0.5, "WCAR middle": pytest.approx(1 / 6), "WCAR large": 0}
    assert {name: value(only(report, "adversarial"), name) for name in expected} == expected
    figures = cells(table(report, "key figures", "made-none, robustart: white box"))
    assert [name for name in figures if name.startswith("WCAR")] == list(expected)
    conditions = table(report, "by attack and budget")
    rows = [str(row[0]) for row in conditions.rows]
    assert (rows[:3], rows[-3:]) == (
        ["fgsm at 0.5/255", "fgsm at 2/255", "fgsm at 8/255"],
        ["pgd_l2 at 0.5", "pgd_l2 at 2", "pgd_l2 at 8"],
    )
    assert conditions.plot
    assert described(conditions.plot, conditions.plot.panels[0]).startswith(
        "Line plot, fgsm, AR in percent by budget: s: 0.5/255 "
    )


def test_two_levels_are_numbered(tmp_path: Path) -> None:
    attack = attack_table(budgets={"fgsm": [1 / 255, 4 / 255]})
    outcomes = {("fgsm", 1): (1, 2, 3), ("fgsm", 2): (1,)}
    folders = [write_attacked(tmp_path / "a", "s", outcomes, attack), write_clean(tmp_path / "c", "s", range(1, 7))]
    found = only(report_on(*folders), "adversarial")
    assert [value(found, name) for name in ("WCAR at level 1", "WCAR")] == pytest.approx([0.5, 1 / 6])


def test_models_that_were_attacked_themselves_share_a_section(tmp_path: Path) -> None:
    """Each has images of its own, which is no reason to warn."""
    report = report_on(
        *example(tmp_path / "s", recipe="two"),
        write_attacked(tmp_path / "t", "t", BOTH, attack_table("t", recipe="two")),
        write_clean(tmp_path / "tc", "t", range(1, 9)),
    )
    first = report.sections[0]
    assert (first.title, list(first.models)) == ("made-none, two: white box", ["s", "t"])
    assert report.warnings == []
    assert "WCAR" in {each.metric.name for each in report.rankings}
    assert "attack success rate" not in {each.title for each in tables_of(report)}


# Transfer


def test_swapping_white_box_and_transfer_changes_the_section_only(tmp_path: Path) -> None:
    clean = [write_clean(tmp_path / "sc", "s", range(1, 7)), write_clean(tmp_path / "tc", "t", range(1, 7))]
    white = write_attacked(tmp_path / "white", "s", BOTH, attack_table("s"))
    other = write_attacked(tmp_path / "other", "s", BOTH, attack_table("t"))
    one, two = (only(report_on(folder, *clean), "adversarial") for folder in (white, other))
    assert (one.data_set, two.data_set) == (WHITE_BOX, "made-none, attacks: transfer from t")
    assert (one.details["white_box"], two.details["white_box"]) == (True, False)
    assert [each for each in two.measures if each.metric != "attack success rate"] == one.measures


def test_transfer_matrix_of_two_models(tmp_path: Path) -> None:
    """After the attack on s, t is wrong on 2, 3, 6 and 8; of these, 8 does not count, since s gets it wrong."""
    attack = attack_table(budgets={"fgsm": [8 / 255]})
    report = report_on(
        write_attacked(tmp_path / "white", "s", {("fgsm", 1): (1, 2, 3)}, attack),
        write_attacked(tmp_path / "transfer", "t", {("fgsm", 1): (1, 4, 5, 7)}, attack),
        write_clean(tmp_path / "sc", "s", range(1, 7)),
        write_clean(tmp_path / "tc", "t", TARGET),
    )
    white, transfer = results_of(report, "adversarial")
    assert (white.data_set, transfer.data_set) == (WHITE_BOX, TRANSFER)
    assert value(transfer, "attack success rate", "fgsm") == pytest.approx(3 / 5)
    assert value(transfer, "AR", "fgsm") == pytest.approx(2 / 6)
    assert value(transfer, "accuracy after attack", "fgsm") == 0.5
    matrix = table(report, "attack success rate", "made-none, attacks: transfer matrix")
    assert [column.title for column in matrix.columns] == ["attack", "attacked model", "s", "t"]
    assert [str(cell).split()[0] for cell in matrix.rows[0]] == ["fgsm", "s", "50.0", "60.0"]
    assert matrix.plot
    assert described(matrix.plot, matrix.plot.panels[0]).endswith("by evaluated model: s: s 50.0, t 40.0.")
    assert "A stronger colour means a lower" in page(report.document("Title"))
    assert report.warnings == []


def test_the_attacked_model_is_recognised_under_another_name(tmp_path: Path) -> None:
    attack = attack_table()
    renamed = write_evaluation(
        tmp_path / "renamed", {("none", 0): right(range(1, 7))}, [0] * 8, family="none", model="renamed",
        digest=attack.model.digest,
    )  # fmt: skip
    target = write_attacked(tmp_path / "t", "t", BOTH, attack)
    found = only(report_on(target, renamed, write_clean(tmp_path / "tc", "t", TARGET)), "adversarial")
    assert found.details["attacked"] == "renamed"
    assert has(found, "attack success rate")


# Mistakes


def test_without_clean_images_the_report_says_what_to_add(tmp_path: Path) -> None:
    report = report_on(*example(tmp_path)[:1])
    found = only(report, "adversarial")
    assert values(found, "accuracy after attack")["fgsm"] == 0.5
    assert {each.metric for each in found.measures} == {"accuracy after attack"}
    assert list(found.counts) == ["images", "failed"]
    (warning,) = report.warnings
    assert "no AR, WCAR and robust accuracy" in warning
    assert "made-none" in warning
    assert "accuracy after attack" in page(report.document("Title"))


def test_without_the_attacked_model_there_is_no_success_rate(tmp_path: Path) -> None:
    target = write_attacked(tmp_path / "t", "t", BOTH, attack_table())
    report = report_on(target, write_clean(tmp_path / "tc", "t", TARGET))
    found = only(report, "adversarial")
    assert (has(found, "AR"), has(found, "attack success rate")) == (True, False)
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
    report = report_on(folder, write_clean(tmp_path / "c", "s", range(1, 7)))
    found = only(report, "adversarial")
    robust = {name: measure(found, "AR", name) for name in ("fgsm", "pgd_linf")}
    assert {name: each.value for name, each in robust.items()} == {"fgsm": pytest.approx(4 / 6), "pgd_linf": 0.5}
    assert measure(found, "accuracy after attack", "fgsm").images == 8
    assert measure(found, "accuracy after attack", "pgd_linf").images == 4
    assert (found.images, value(found, "WCAR")) == (4, 0.5)
    assert any("WCAR is over the 4 images" in warning for warning in report.warnings)


def test_data_sets_that_continue_each_other_are_shown_together(tmp_path: Path) -> None:
    one = attack_table(budgets={"fgsm": [4 / 255]}, recipe="r", expected=("fgsm", "pgd_linf"))
    two = attack_table(budgets={"pgd_linf": [4 / 255]}, recipe="r", expected=("fgsm", "pgd_linf"))
    report = report_on(
        write_attacked(tmp_path / "one", "s", {("fgsm", 1): BOTH["fgsm", 1]}, one, manifest="1" * 64),
        write_attacked(tmp_path / "two", "s", {("pgd_linf", 1): BOTH["pgd_linf", 1]}, two, manifest="2" * 64),
        write_clean(tmp_path / "clean", "s", range(1, 7)),
    )
    found = only(report, "adversarial")
    assert list(found.transforms) == ["fgsm", "pgd_linf"]
    assert value(found, "WCAR") == pytest.approx(2 / 6)
    assert measure(found, "WCAR").covers == ""


def test_the_same_attack_twice_is_shown_separately(tmp_path: Path) -> None:
    other = write_attacked(tmp_path / "other", "s", BOTH, attack_table(), manifest="9" * 64)
    report = report_on(*example(tmp_path), other)
    assert list(report.sections[0].models) == ["s", "s (2)"]
    assert any("shown separately" in warning for warning in report.warnings)


def test_a_model_that_is_wrong_everywhere_has_no_ar(tmp_path: Path) -> None:
    attacked = write_attacked(tmp_path / "a", "s", dict.fromkeys(BOTH, ()), attack_table())
    report = report_on(attacked, write_clean(tmp_path / "c", "s", ()))
    found = only(report, "adversarial")
    assert (value(found, "clean accuracy"), values(found, "robust accuracy")["fgsm"]) == (0, 0)
    assert not has(found, "WCAR")
    assert not has(found, "AR")
    assert any("gets none of 8 images right" in warning for warning in report.warnings)
    assert page(report.document("Title"))


def test_gradients_of_zero_and_another_input_are_warned_of(tmp_path: Path) -> None:
    attack = attack_table(zero_gradients=0.25)
    other = attack.model_copy(update={"model": attack.model.model_copy(update={"size": 32})})
    attacked = write_attacked(tmp_path / "a", "s", BOTH, other)
    warnings = report_on(attacked, write_clean(tmp_path / "c", "s", range(1, 7))).warnings
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
        report_on(folder)


def test_names_are_escaped(tmp_path: Path) -> None:
    attack = attack_table(HOSTILE, recipe=HOSTILE, clean=HOSTILE)
    report = report_on(
        write_attacked(tmp_path / "w", HOSTILE, BOTH, attack),
        write_attacked(tmp_path / "t", "t", BOTH, attack),
        write_clean(tmp_path / "wc", HOSTILE, range(1, 7)),
        write_clean(tmp_path / "tc", "t", TARGET),
        write_budgets(tmp_path / "b", HOSTILE, SMALLEST),
    )
    text = page(report.document("Title"))
    assert HOSTILE not in text
    assert text.count("&lt;script&gt;") > 10
    assert HOSTILE not in to_markdown(tables_of(report))


# Smallest budgets


def test_accuracy_against_budget(tmp_path: Path) -> None:
    report = report_on(
        write_budgets(tmp_path / "s", "s", SMALLEST),
        write_budgets(tmp_path / "t", "t", [2 * budget for budget in SMALLEST]),
    )
    one, other = results_of(report, "budgets")
    assert one.data_set == other.data_set == "made-none, autoattack_linf up to 16/255"
    accuracies = {"0.5/255": 0.75, "1/255": 0.625, "2/255": 0.5, "4/255": 0.375, "8/255": 0.125, "16/255": 0.125}
    assert values(one, "accuracy at the budget") == accuracies
    assert [value(one, name) for name in ("clean accuracy", "median budget")] == pytest.approx([0.75, 4])
    area = measure(one, "area under the curve")
    assert [area.value, value(other, area.metric)] == pytest.approx([35 / 8, 54 / 8])
    assert area.low < 35 / 8 < area.high
    assert [number for number, _ in one.counts.values()] == [8, 6, 0]
    line = {"model": "s", "transform": "4/255", "metric": "accuracy at the budget", "value": "0.375"}
    assert any(line.items() <= each.items() for each in lines(report))
    plot = table(report, "accuracy against budget").plot
    assert plot
    label = described(plot, plot.panels[0])
    assert "accuracy in percent by budget (L∞): s: " in label
    assert "4/255 37.5" in label
    text = json.dumps(report.facts(), allow_nan=False)  # raises ValueError for NaN and infinity
    assert "Infinity" not in text


def test_budgets_up_to_a_small_one_and_in_other_norms(tmp_path: Path) -> None:
    report = report_on(
        write_budgets(tmp_path / "s", "s", SMALLEST, largest=3 / 255),
        write_budgets(tmp_path / "t", "s", [0, 0.3, 3, float("inf")], attack="ddn_l2", norm="l2", largest=5.0),
        write_budgets(tmp_path / "u", "s", [float("inf")] * 3, attack="pgd_l1", norm="l1", largest=300.0),
    )
    found = results_of(report, "budgets")
    assert [list(each.transforms) for each in found] == [
        ["0.5/255", "1/255", "2/255", "3/255"], ["0.5", "1", "2", "4", "5"], ["100", "200", "300"],
    ]  # fmt: skip
    assert [has(each, "median budget") for each in found] == [True, True, False]
    median = measure(found[1], "median budget")
    assert (median.value, median.high) == (3, 5)
    assert len(report.sections) == 3


def test_images_with_an_error_are_not_counted(tmp_path: Path) -> None:
    folder = write_budgets(tmp_path / "s", "s", [0, 1 / 255, float("inf"), 1 / 255], errors={2: "no gradient"})
    found = only(report_on(folder), "budgets")
    assert [number for number, _ in found.counts.values()] == [3, 2, 1]
    assert value(found, "clean accuracy") == pytest.approx(2 / 3)


def test_budgets_beside_evaluations_of_the_same_model(tmp_path: Path) -> None:
    report = report_on(*example(tmp_path), write_budgets(tmp_path / "b", "s", SMALLEST))
    assert report.sections[-1].title == "made-none, autoattack_linf up to 16/255"
    assert report.warnings == []


def test_searches_that_cannot_be_combined_are_refused(tmp_path: Path) -> None:
    folder = write_budgets(tmp_path / "s", "s", SMALLEST)
    with pytest.raises(UserError, match="give one of them"):
        report_on(folder, folder)
    clean = {("none", 0): right(())}
    mistaken = write_evaluation(tmp_path / "m", clean, [0] * 8, family="none", model="s", digest="f" * 64)
    with pytest.raises(UserError, match="different models"):
        report_on(folder, mistaken)


def test_damaged_and_unfinished_searches_are_refused(tmp_path: Path) -> None:
    folder = Path(write_budgets(tmp_path / "s", "s", SMALLEST))
    settings = (folder / "budgets.toml").read_text()
    (folder / "budgets.toml").write_text(settings.replace("steps = 10", "steps = 11"))
    with pytest.raises(UserError, match="does not belong to"):
        report_on(str(folder))
    (folder / "budgets.toml").write_text(settings)
    content = (folder / "budgets.parquet").read_bytes()
    (folder / "budgets.parquet").write_bytes(content[:-1] + b"x")
    with pytest.raises(UserError, match="damaged"):
        report_on(str(folder))
    (folder / "budgets.parquet").unlink()
    with pytest.raises(UnfinishedError, match="run the same budgets command again"):
        report_on(str(folder))


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
    report, section = report_on(white, clean, published=True), "made-none, ares-white-box: white box"
    accuracies = table(report, "robust accuracy of published models", section)
    assert [column.title for column in accuracies.columns][:3] == ["transform", "s", "ResNet50 AT (published)"]
    assert cells(accuracies)["fgsm"][:2] == ["50.0 ±50.0", "44.5"]
    assert cells(accuracies)["autoattack_linf"][:2] == ["—", "34.1"]
    models = cells(table(report, "published models", section))
    assert (models["s"][0].split()[0], models["SwinL AT (published)"][0]) == ("75.0", "79.7")
    transfer = attack.model_copy(update={"model": attack.model.model_copy(update={"digest": "e" * 64})})
    other = write_evaluation(tmp_path / "t", logits, [0] * 4, family="adversarial", attack=transfer, **options)
    assert "adversarial" not in {each.family for each in report_on(other, clean, published=True).published}
