"""``robustshards select``: tables of accuracies, evaluations, the paper's tables, files, and invalid input."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import corruptions
from pipeline.errors import UserError
from pipeline.evaluate.report.text import to_markdown, to_text
from pipeline.evaluate.selection.accuracies import Accuracies, Kind, add_evaluations, read_trained
from pipeline.evaluate.selection.analysis import SelectionSettings, analyse
from pipeline.evaluate.selection.document import document, prediction_tables, terminal_tables
from pipeline.tasks import library
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.selections import BLOCKS, MODELS, NAMES, write_csv
from tests.pipeline.test_hostile_options import refused, run

HOSTILE = "<script>alert(1)</script>"
NATURAL = ("ImageNet-A", "ImageNet-R", "ImageNet-V2", "ObjectNet", "ImageNet-Sketch")
BY_SIZE = """
n=2, k=3         | 0.667 0.635 0.691 0.695 0.651 0.668
n=3, k=2         | 0.680 0.653 0.733 0.732 0.674 0.694
n=6, k=1         | 0.701 0.678 0.751 0.757 0.695 0.716
n=4, k=3         | 0.707 0.682 0.757 0.763 0.701 0.722
n=6, k=2         | 0.721 0.697 0.777 0.789 0.717 0.740
n=6, k=3         | 0.729 0.707 0.785 0.796 0.725 0.748
ImageNet-C       | 0.642 0.565 0.857 0.807 0.641 0.702
ImageNet-P       | 0.561 0.437 0.920 0.823 0.511 0.650
ImageNet-Syn2Nat | 0.726 0.691 0.794 0.814 0.713 0.748
"""
"""Published correlations (table 2): the natural sets and their mean, which the paper prints as 0.720 for n=4, k=3."""

BY_SPREAD = """
0.0 | 0.721 0.697 0.777 0.789 0.717 0.740
0.6 | 0.709 0.698 0.777 0.798 0.708 0.738
0.8 | 0.711 0.694 0.782 0.781 0.708 0.735
1.0 | 0.712 0.682 0.771 0.786 0.715 0.733
1.2 | 0.710 0.689 0.767 0.777 0.703 0.729
1.4 | 0.695 0.676 0.749 0.761 0.699 0.716
1.5 | 0.691 0.662 0.750 0.744 0.688 0.707
1.8 | 0.685 0.659 0.710 0.713 0.675 0.688
2.2 | 0.685 0.658 0.687 0.698 0.673 0.680
"""
"""Published correlations by spread (table 3)."""

FILES = ("selection.csv", "selection.html", "selection.json", "selection.md")


MEASURED = ("--candidates", "candidates.csv", "--natural", "natural.csv")
TRAINED = ("--trained", "trained.csv", "--threshold", "0.8")


def select(*arguments: object) -> Result:
    return run("select", *arguments)


def facts(*arguments: object) -> dict[str, Any]:
    result = select(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# The paper's tables


@pytest.mark.parametrize("published", [BY_SIZE, BY_SPREAD])
def test_tables_have_the_layout_and_the_means_of_the_paper(published: str) -> None:
    columns = {
        title.strip(): cells.split() for title, _, cells in (x.partition("|") for x in published.split("\n")[1:-1])
    }
    predictions = [
        {
            "title": title,
            "benchmarks": 1000,
            "correlations": dict(zip(NATURAL, map(float, cells), strict=False)),
            "p_values": dict.fromkeys(NATURAL, 0.0),
        }
        for title, cells in columns.items()
    ]
    correlations, p_values = prediction_tables("correlation", "", predictions)
    assert [column.title for column in correlations.columns] == ["natural set", *columns]
    rows = [[str(cell) for cell in row] for row in correlations.rows]
    assert [row[0] for row in rows] == [*NATURAL, "mean", "benchmarks"]
    assert [[row[at] for row in rows[:-1]] for at in range(1, len(columns) + 1)] == list(columns.values())
    assert "| mean |" in to_markdown([correlations])
    assert [[str(cell) for cell in row[:2]] for row in p_values.rows] == [[name, "< 0.0001"] for name in NATURAL]


# From tables of accuracies


def test_blocks_become_categories_and_blurs_predict_the_blurred_set(folder: Path) -> None:
    found = facts(*TRAINED, *MEASURED, "--benchmark", f"blurs={','.join(BLOCKS['blurs'])}")
    assert list(found["categories"]["members"].values()) == list(map(list, BLOCKS.values()))
    assert found["categories"]["robustness"]["same"] > 0.9 > found["categories"]["robustness"]["different"]
    titles = {each["title"]: each for each in found["by_size"]}
    assert list(titles) == ["n=3, k=1", "n=2, k=3", "n=3, k=2", "n=3, k=3", "blurs", "least overlap (n=3, k=3)"]
    assert titles["blurs"]["correlations"]["blurred"] > 0.99
    assert titles["blurs"]["p_values"]["blurred"] < 1e-6
    assert titles["n=3, k=3"]["correlations"]["any"] > 0.98 > titles["n=2, k=3"]["correlations"]["any"]
    assert titles["n=3, k=3"]["benchmarks"] == 4 * 1 * 10
    assert next(each["title"] for each in found["by_spread"]) == "0.0"
    assert found["models"] == [f"model{number}" for number in range(MODELS)]


def test_overlaps_are_shown_without_models(folder: Path) -> None:
    result = select(*TRAINED)
    assert result.exit_code == 0
    assert "GaussianBlur         ████████  " in result.stdout
    assert "overlap scores" in result.stdout
    assert "least overlap (n=3, k=3)" in result.stdout
    assert "predictiveness" not in result.stdout


def test_predictiveness_needs_no_overlaps(folder: Path) -> None:
    found = facts(*MEASURED)
    assert found["overlaps"] is found["categories"] is None
    assert [(each["title"], each["benchmarks"]) for each in found["by_size"]] == [("6 random", 924), ("12 random", 1)]
    assert found["by_spread"] == []


def test_categories_can_be_given(folder: Path) -> None:
    (folder / "categories.json").write_text(json.dumps(BLOCKS))
    found = facts(*MEASURED, "--categories", "categories.json", "--sizes", "2x2, 3x1", "--count", 20)
    assert found["categories"]["members"] == {name: list(members) for name, members in BLOCKS.items()}
    assert [(each["title"], each["benchmarks"]) for each in found["by_size"]] == [("n=2, k=2", 20), ("n=3, k=1", 20)]


def test_scores_of_other_benchmarks_are_compared(folder: Path) -> None:
    models = [f"model{number}" for number in range(MODELS)]
    write_csv(folder / "scores.csv", {"ImageNet-P": [-number for number in range(MODELS)]}, models)
    titles = [each["title"] for each in facts(*MEASURED, "--scores", "scores.csv")["by_size"]]
    assert titles == ["6 random", "12 random", "ImageNet-P"]


def test_json_files_are_read_as_csv_files(folder: Path) -> None:
    for name in ("candidates", "natural", "trained"):
        with (folder / f"{name}.csv").open() as file:
            rows = {row.pop("model"): {key: float(value) for key, value in row.items()} for row in csv.DictReader(file)}
        (folder / f"{name}.json").write_text(json.dumps(rows))
    as_json = [each.replace(".csv", ".json") for each in (*TRAINED, *MEASURED)]
    assert facts(*as_json) == facts(*TRAINED, *MEASURED)


def test_the_column_of_names_may_have_no_title(folder: Path) -> None:
    titled = facts(*TRAINED, *MEASURED)
    for name in ("candidates", "natural", "trained"):
        path = folder / f"{name}.csv"
        path.write_text(path.read_text().removeprefix("model"))
    assert facts(*TRAINED, *MEASURED) == titled


def test_order_of_the_rows_of_trained_models_does_not_matter(folder: Path) -> None:
    names, table = read_trained("trained.csv")
    first, *rows = (folder / "trained.csv").read_text().splitlines()
    (folder / "trained.csv").write_text("\n".join([first, *reversed(rows)]))
    turned_names, turned = read_trained("trained.csv")
    assert names == turned_names == NAMES
    np.testing.assert_array_equal(table, turned)


def test_syn2nat_is_included_where_its_corruptions_are(folder: Path) -> None:
    names, models = corruptions.names("candidates"), ["a", "b", "c", "d"]
    values = np.random.default_rng(0).random((len(names), 4)) / 2
    columns = {"clean": [0.7] * 4, **dict(zip(names, values.tolist(), strict=True))}
    write_csv(folder / "all.csv", columns, models)
    write_csv(folder / "natural.csv", {"n": [0.1, 0.2, 0.4, 0.3]}, models)
    found = facts("--candidates", "all.csv", "--natural", "natural.csv", "--count", 5)
    assert [each["title"] for each in found["by_size"]] == ["6 random", "12 random", "18 random", "ImageNet-Syn2Nat"]
    assert found["benchmarks"][0]["corruptions"] == list(corruptions.names("syn2nat"))


# Files


def test_files_depend_on_the_seed_only(folder: Path) -> None:
    for out, seed in (("first", 1), ("second", 1), ("other", 2)):
        assert select(*TRAINED, *MEASURED, "--seed", seed, "--count", 30, "--out", out).exit_code == 0
    first, second, other = (
        {name: (folder / out / name).read_bytes() for name in FILES} for out in ("first", "second", "other")
    )
    assert first == second
    assert all(first[name] != other[name] for name in FILES)


def test_every_file_has_the_values(folder: Path) -> None:
    result = select(*TRAINED, *MEASURED, "--out", "out", "--title", "My choice")
    assert result.exit_code == 0
    assert result.stdout.endswith("wrote selection.html, selection.md, selection.csv and selection.json to out\n")
    assert sorted(path.name for path in (folder / "out").iterdir() if path.name != ".lock") == list(FILES)
    found = json.loads((folder / "out" / "selection.json").read_text())
    html, markdown = ((folder / "out" / f"selection.{kind}").read_text() for kind in ("html", "md"))
    assert markdown.startswith("# My choice\n")
    for text in (html, markdown):
        assert all(f"{each['correlations']['any']:.3f}" in text for each in found["by_size"])
    assert "https://" not in html.replace("arxiv", "")
    assert html.count("fill: var(--heat)") == len(NAMES) ** 2
    with (folder / "out" / "selection.csv").open() as file:
        rows = {(row["table"], row["row"], row["column"]): float(row["value"]) for row in csv.DictReader(file)}
    assert rows["overlap", "Blur", "GaussianBlur"] == found["overlaps"]["scores"][0][1]
    assert rows["category", "Blur", "1"] == 1
    assert rows["p-value by size", "any", "n=3, k=1"] == found["by_size"][0]["p_values"]["any"]
    assert rows["correlation by size", "mean", "n=3, k=1"] == pytest.approx(
        np.mean(list(found["by_size"][0]["correlations"].values()))
    )
    assert select(*TRAINED, "--out", "out").exit_code == 0


def test_a_file_that_is_no_selection_is_not_replaced(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "selection.csv").write_text("mine")
    refused(select(*TRAINED, "--out", "out"), "selection.csv", "not replaced")
    assert (folder / "out" / "selection.csv").read_text() == "mine"


def test_names_are_escaped_on_the_page_and_in_csv(folder: Path) -> None:
    for name in ("trained.csv", "candidates.csv"):
        text = (folder / name).read_text()
        (folder / name).write_text(
            text.replace("GaussianBlur", HOSTILE).replace("MedianBlur", "=1+1").replace("Blur", "\x1b[2JBlur")
        )
    result = select(*TRAINED, *MEASURED, "--out", "out")
    assert (result.exit_code, "\x1b[2J" in result.output) == (0, False)
    html = (folder / "out" / "selection.html").read_text()
    assert HOSTILE not in html
    assert "&lt;script&gt;" in html
    lines = (folder / "out" / "selection.csv").read_text()
    assert ["\noverlap,'=1+1," in lines, "\\x1b[2JBlur" in lines, "\x1b" in lines] == [True, True, False]


def test_warnings_and_shades_of_a_terminal(folder: Path) -> None:
    facts = analyse(SelectionSettings(threshold=0.8), read_trained("trained.csv"), warnings=["be\x1bware"])
    assert document(facts, "").warnings == ["be ware"]
    scores = [[1.2, 0.9, 0.8, 0.5, 0.39], *[[0.1] * 5] * 4]
    facts |= {"overlaps": {"names": list("abcde"), "scores": scores}, "categories": None}
    assert "\na           ██████▒▒░░\n" in to_text(terminal_tables(document(facts, "")))


# From evaluations


def test_evaluations_give_the_same_accuracies(tmp_path: Path) -> None:
    transforms = ("Blur", "Flip", "Rotate", "Affines")
    right = {"clean": (9, 8, 9, 8), "Blur": (5, 6, 2, 3), "Flip": (1, 4, 3, 7), "Rotate": (8, 7, 6, 4)}
    right |= {"Affines": (3, 3, 8, 1), "natural": (2, 4, 1, 3), "fog": (2, 4, 1, 2)}
    task = library.load("imagenet-sketch").task
    folders = []
    for model in range(4):
        logits = {name: votes([0] * counts[model] + [1] * (10 - counts[model]), 1000) for name, counts in right.items()}
        about: dict[str, Any] = {"labels": [0] * 10, "model": f"m{model}", "digest": str(model) * 64}
        folders += [
            write_evaluation(tmp_path / f"{model}{number}", values, family=family, **about, **more)
            for number, (values, family, more) in enumerate(
                (
                    ({("none", 0): logits["clean"]}, "none", {}),
                    ({(name, 1): logits[name] for name in transforms}, "syn2nat", {}),
                    ({("none", 0): logits["natural"]}, "none", {"task": task}),
                    ({("fog", 3): logits["fog"]}, "corruptions", {}),
                )
            )
        ]
    share = {name: np.array(counts) / 10 for name, counts in right.items()}
    models = [f"m{model}" for model in range(4)]
    given: list[object] = []
    for name, columns in (
        ("candidates", {name: share[name] for name in ("clean", *transforms)}),
        ("natural", {"natural": share["natural"]}),
        ("scores", {"made-corruptions": share["clean"] - share["fog"]}),
    ):
        given += [f"--{name}", write_csv(tmp_path / f"{name}.csv", columns, models)]
    options = ("--benchmark", "mine=Blur,Rotate", "--sizes", "1x2")
    expected, found = facts(*given, *options), facts(*folders, *options)
    assert [each["title"] for each in found["by_size"]] == ["2 random", "made-corruptions", "mine"]
    for one, other in zip(found["by_size"], expected["by_size"], strict=True):
        assert list(one["correlations"].values()) == pytest.approx(list(other["correlations"].values()))
        assert list(one["correlations"]) == ["imagenet-sketch"]
    assert found["warnings"] == []


def test_ambiguous_clean_images_are_refused(tmp_path: Path) -> None:
    clean = {("none", 0): votes([0, 0, 1])}
    folders = [
        write_evaluation(tmp_path / name, clean, [0, 0, 0], family="none", data_set=name, manifest=name * 64)
        for name in "ab"
    ]
    refused(select(*folders), "several evaluations", "clean")


def test_of_two_clean_evaluations_that_of_the_candidates_photographs_is_used(tmp_path: Path) -> None:
    folders = [
        write_evaluation(tmp_path / family, logits, [0, 0, 0], family, digests=digests, manifest=manifest * 64)
        for family, logits, digests, manifest in (
            ("syn2nat", {("Blur", 1): votes([0, 1, 1])}, (1, 2, 3), "a"),
            ("none", {("none", 0): votes([0, 0, 0])}, (7, 8, 9), "b"),
        )
    ]
    ours = {("none", 0): votes([0, 0, 1])}
    folders.append(write_evaluation(tmp_path / "k", ours, [0, 0, 0], "none", digests=(1, 2, 3), data_set="ours"))
    accuracies = Accuracies()
    accuracies.add(Kind.CLEAN, "made", "clean", 0.5)
    with pytest.raises(UserError, match=r"two values for 'clean', 0\.5 and 0\.666"):
        add_evaluations(folders, accuracies, pytest.fail)
