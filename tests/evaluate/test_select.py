"""``robustshards select``: tables of accuracies, evaluations, the paper's tables, files, and invalid input."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import Result

from pipeline.errors import UserError
from pipeline.evaluate.report.text import to_markdown
from pipeline.evaluate.selection.accuracies import Accuracies, Kind, read_trained
from pipeline.evaluate.selection.analysis import analyse
from pipeline.evaluate.selection.evaluations import add_evaluations
from pipeline.evaluate.selection.files import MAX_NAMES
from pipeline.evaluate.selection.heat_map import TerminalHeatMap
from pipeline.evaluate.selection.page import page
from pipeline.evaluate.selection.records import Overlaps, Prediction, SelectionSettings
from pipeline.evaluate.selection.tables import prediction_tables
from pipeline.tasks import library
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.selections import BLOCKS, MODELS, NAMES, write_accuracies, write_csv
from tests.factories.summaries import HOSTILE
from tests.pipeline.test_hostile_options import refused, run

NATURAL = ("ImageNet-A", "ImageNet-R", "ImageNet-V2", "ObjectNet", "ImageNet-Sketch")
BY_SIZE = {
    "n=2, k=3": "0.667 0.635 0.691 0.695 0.651 0.668",
    "n=3, k=2": "0.680 0.653 0.733 0.732 0.674 0.694",
    "n=6, k=1": "0.701 0.678 0.751 0.757 0.695 0.716",
    "n=4, k=3": "0.707 0.682 0.757 0.763 0.701 0.720",
    "n=6, k=2": "0.721 0.697 0.777 0.789 0.717 0.740",
    "n=6, k=3": "0.729 0.707 0.785 0.796 0.725 0.748",
    "ImageNet-C": "0.642 0.565 0.857 0.807 0.641 0.702",
    "ImageNet-P": "0.561 0.437 0.920 0.823 0.511 0.650",
    "ImageNet-Syn2Nat": "0.726 0.691 0.794 0.814 0.713 0.748",
}
"""Published correlations (table 2): the natural sets and their mean."""

OTHER_MEAN = {"n=4, k=3": "0.722"}
"""Mean of a published column whose printed mean, 0.720, is not that of its rows."""

BY_SPREAD = {
    "0.0": "0.721 0.697 0.777 0.789 0.717 0.740",
    "0.6": "0.709 0.698 0.777 0.798 0.708 0.738",
    "0.8": "0.711 0.694 0.782 0.781 0.708 0.735",
    "1.0": "0.712 0.682 0.771 0.786 0.715 0.733",
    "1.2": "0.710 0.689 0.767 0.777 0.703 0.729",
    "1.4": "0.695 0.676 0.749 0.761 0.699 0.716",
    "1.5": "0.691 0.662 0.750 0.744 0.688 0.707",
    "1.8": "0.685 0.659 0.710 0.713 0.675 0.688",
    "2.2": "0.685 0.658 0.687 0.698 0.673 0.680",
}
"""Published correlations by spread (table 3)."""

FILES = ("selection.csv", "selection.html", "selection.json", "selection.md")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with tables of accuracies, which is the current one."""
    write_accuracies(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
def test_tables_have_the_layout_and_the_means_of_the_paper(published: dict[str, str]) -> None:
    predictions = [
        Prediction(title, 1000, dict(zip(NATURAL, map(float, cells.split()), strict=False)), dict.fromkeys(NATURAL, 0))
        for title, cells in published.items()
    ]
    correlations, p_values = prediction_tables("correlation", "", predictions)
    assert [column.title for column in correlations.columns] == ["natural set", *published]
    rows = [[str(cell) for cell in row] for row in correlations.rows]
    assert [row[0] for row in rows] == [*NATURAL, "mean", "benchmarks"]
    for column, (title, cells) in enumerate(published.items(), 1):
        *values, mean = cells.split()
        assert [row[column] for row in rows[:-1]] == [*values, OTHER_MEAN.get(title, mean)]
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
    assert "GaussianBlur        ████████  " in result.stdout
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


def test_order_of_the_rows_of_trained_models_does_not_matter(folder: Path) -> None:
    first, *rows = (folder / "trained.csv").read_text().splitlines()
    (folder / "turned.csv").write_text("\n".join([first, *reversed(rows)]))
    names, table = read_trained("trained.csv")
    turned_names, turned = read_trained("turned.csv")
    assert names == turned_names == NAMES
    np.testing.assert_array_equal(table, turned)


def test_syn2nat_is_included_where_its_corruptions_are(folder: Path) -> None:
    import corruptions

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
    assert html.count('<rect class="heat-fill"') == len(NAMES) ** 2
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


@pytest.mark.parametrize(("width", "line"), [(30, "a ██████▒▒░░"), (12, "a ██████▒▒░░"), (11, "a ███▒░")])
def test_heat_map_of_a_terminal_fits(width: int, line: str) -> None:
    scores = np.array([[1.2, 0.9, 0.8, 0.5, 0.39], *[[0.1] * 5] * 4])
    console = Console(width=width)
    with console.capture() as capture:
        console.print(TerminalHeatMap(Overlaps(list("abcde"), scores)))
    assert line in capture.get().splitlines()


# From evaluations


def test_evaluations_give_the_same_accuracies(tmp_path: Path) -> None:
    labels = [0] * 10
    transforms = ("Blur", "Flip", "Rotate", "Affines")
    folders, rows = [], {}
    right = {"clean": (9, 8, 9, 8), "Blur": (5, 6, 2, 3), "Flip": (1, 4, 3, 7), "Rotate": (8, 7, 6, 4)}
    right |= {"Affines": (3, 3, 8, 1), "natural": (2, 4, 1, 3), "fog": (2, 4, 1, 2)}
    task = library.load("imagenet-sketch").task
    for model in range(4):
        counts = {name: values[model] for name, values in right.items()}
        logits = {name: votes([0] * count + [1] * (10 - count), 1000) for name, count in counts.items()}
        about: dict[str, Any] = {"labels": labels, "model": f"m{model}", "digest": str(model) * 64}
        folders += [
            write_evaluation(tmp_path / f"{model}c", {("none", 0): logits["clean"]}, family="none", **about),
            write_evaluation(
                tmp_path / f"{model}s", {(name, 1): logits[name] for name in transforms}, family="syn2nat", **about
            ),
            write_evaluation(
                tmp_path / f"{model}n", {("none", 0): logits["natural"]}, family="none", task=task, **about
            ),
            write_evaluation(tmp_path / f"{model}f", {("fog", 3): logits["fog"]}, family="corruptions", **about),
        ]
        rows[f"m{model}"] = {name: count / 10 for name, count in counts.items()}
    tables = {
        "candidates": ("clean", *transforms),
        "natural": ("natural",),
    }
    for name, columns in tables.items():
        table = {row: {column: values[column] for column in columns} for row, values in rows.items()}
        (tmp_path / f"{name}.json").write_text(json.dumps(table))
    (tmp_path / "scores.json").write_text(
        json.dumps({row: {"made-corruptions": values["clean"] - values["fog"]} for row, values in rows.items()})
    )
    options = ("--benchmark", "mine=Blur,Rotate", "--sizes", "1x2")
    given = [item for name in ("candidates", "natural", "scores") for item in (f"--{name}", tmp_path / f"{name}.json")]
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


# Invalid input

HEAD = "model,clean,Blur\n"
ROWS = "a,0.7,0.5\nb,0.7,0.4\nc,0.7,0.2\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"\xff\xfe\x00", ["not text", "UTF-8"]),
        ("t.csv", b"", ["'model'"]),
        ("t.csv", b"name,clean\na,1\n", ["'name'", "'model'"]),
        ("t.csv", HEAD.encode(), ["no values"]),
        ("t.csv", b"model\na\nb\n", ["no values"]),
        ("t.csv", b'model,clean\n"a,0.5\n', ["not valid CSV"]),
        ("t.csv", (HEAD + "a,0.7\n").encode(), ["2 cells instead of 3"]),
        ("t.csv", (HEAD + ROWS + "a,1,1\n").encode(), ["'a'", "same or no name"]),
        ("t.csv", b"model,clean,clean\na,1,1\n", ["'clean'", "same or no name"]),
        ("t.csv", (HEAD + "a,0.7,\n").encode(), ["'a', column 'Blur'", "no value"]),
        ("t.csv", (HEAD + "a,0.7,nan\n").encode(), ["'nan'", "finite number"]),
        ("t.csv", (HEAD + "a,0.7,1e999\n").encode(), ["finite number"]),
        ("t.csv", (HEAD + "a,0.7,x\x1b[2J\n").encode(), ["finite number"]),
        ("t.csv", (HEAD + "a,70,50\n").encode(), ["70.0", "not percent"]),
        ("t.csv", (HEAD + "a,0.7,-0.1\n").encode(), ["-0.1", "0..1"]),
        ("t.csv", b"model," + b",".join(b"c%d" % n for n in range(MAX_NAMES + 1)) + b"\n", ["no values"]),
        ("t.csv", b"model,c\n" + b"".join(b"m%d,1\n" % n for n in range(MAX_NAMES + 1)), ["1001 rows", "1000"]),
        ("t.csv", b"#" * (5 << 20), ["4194304 bytes"]),
        ("t.json", b"[" * 100_000, ["nested too deeply"]),
        ("t.json", b"{", ["not valid JSON"]),
        ("t.json", b"[1]", ["object of objects"]),
        ("t.json", b'{"a": 1}', ["object of objects"]),
        ("t.json", b"{}", ["no values"]),
        ("t.json", b'{"a": {}}', ["no values"]),
        ("t.json", b'{"a": {"clean": NaN}}', ["NaN"]),
        ("t.json", b'{"a": {"clean": true}}', ["'True'", "finite number"]),
        ("t.json", b'{"a": {"clean": [1]}}', ["finite number"]),
        ("t.json", b'{"a": {"clean": 1' + b"0" * 400 + b"}}", ["finite number"]),
        ("t.json", b'{"a": {"clean": 1, "clean": 1}}', ["'clean'", "twice"]),
        ("t.json", b'{"a": {"clean": 1}, "b": {"Blur": 1}}', ["'a', column 'Blur'", "no value"]),
    ],
)
def test_invalid_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    refused(select("--candidates", name), name, *words)


def without(column: str) -> Callable[[str], str]:
    """Return a function that removes a column of a table."""

    def change(text: str) -> str:
        lines = [line.split(",") for line in text.splitlines()]
        at = lines[0].index(column)
        return "\n".join(",".join(line[:at] + line[at + 1 :]) for line in lines)

    return change


def constant(column: str) -> Callable[[str], str]:
    """Return a function that makes the values of a column equal to those of clean images."""

    def change(text: str) -> str:
        lines = [line.split(",") for line in text.splitlines()]
        at = lines[0].index(column)
        return "\n".join(
            ",".join([*line[:at], line[1], *line[at + 1 :]]) if line[0] != "model" else ",".join(line) for line in lines
        )

    return change


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("candidates.csv", without("clean"), ["no accuracies on clean images", "'clean'"]),
        ("candidates.csv", without("Flip"), ["lacks 'Flip'", "categories"]),
        (
            "candidates.csv",
            lambda text: "\n".join(text.splitlines()[:-1]),
            ["'model11'", "no value for", "clean images"],
        ),
        ("natural.csv", lambda text: "\n".join(text.splitlines()[:-1]), ["'model11'", "natural images"]),
        ("candidates.csv", constant("Blur"), ["mine", "same score"]),
        ("trained.csv", without("Flip"), ["no column 'Flip'"]),
        ("trained.csv", without("clean"), ["no column 'clean'"]),
        ("trained.csv", lambda text: "model,clean,a\nclean,0.7,0.2\na,0.7,0.5\n", ["1 corruption: give 3 to 200"]),
        ("trained.csv", lambda text: text.replace("\nFlip,", "\nFlop,"), ["no column 'Flop'|no row 'Flip'"]),
        ("trained.csv", lambda text: "\n".join(text.splitlines()[:-1]), ["no row 'Transpose'"]),
    ],
)
def test_missing_and_constant_values_are_refused(
    folder: Path, file: str, change: Callable[[str], str], words: list[str]
) -> None:
    (folder / file).write_text(change((folder / file).read_text()))
    result = select(*TRAINED, *MEASURED, "--benchmark", "mine=Blur")
    refused(result)
    assert all(re.search(word, result.stderr) for word in words), result.stderr


def test_too_few_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.csv").write_text("model,clean,Blur\na,0.7,0.5\nb,0.7,0.4\n")
    Path("n.csv").write_text("model,A\na,0.2\nb,0.1\n")
    refused(select("--candidates", "c.csv", "--natural", "n.csv"), "'a' and 'b'", "at least 3")


def test_contradicting_files_are_refused(folder: Path) -> None:
    text = (folder / "candidates.csv").read_text()
    (folder / "again.csv").write_text(text.replace("model0,0.", "model0,0.1"))
    refused(select(*MEASURED, "--candidates", "again.csv"), "'model0'", "two values for 'clean'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["nothing to analyse", "--trained"]),
        (["--candidates", "none.csv"], ["none.csv", "does not exist"]),
        (["--candidates", "."], ["not a file"]),
        (MEASURED[:2], ["no accuracies on natural images"]),
        (MEASURED[2:], ["no accuracies on clean images"]),
        ([*MEASURED, "--benchmark", "x=Blur,Fog"], ["'Fog'"]),
        ([*MEASURED, "--benchmark", "Blur"], ["invalid benchmark 'Blur'"]),
        ([*MEASURED, "--benchmark", "x=Blur,Blur"], ["different corruptions"]),
        ([*MEASURED, "--sizes", "6"], ["invalid --sizes '6'"]),
        ([*MEASURED, "--sizes", "2x3"], ["2x3 is impossible", "12"]),
        ([*MEASURED, "--sizes", "0x3"], ["0x3 is impossible"]),
        ([*TRAINED, "--threshold", "1"], ["no number of categories", "--categories"]),
        ([*TRAINED, "--categories", "natural.csv"], ["natural.csv", "JSON"]),
    ],
)
def test_invalid_options_are_refused(folder: Path, arguments: list[str], words: list[str]) -> None:
    refused(select(*arguments), *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], ["no categories"]),
        ({}, ["no categories"]),
        ({"a": []}, ["no categories"]),
        ({"a": [1]}, ["no categories"]),
        ({"a": ["Blur"], "b": ["Blur"]}, ["'Blur' twice"]),
        ({"a": ["Fog"]}, ["'Fog'"]),
        ({"a": [f"c{number}" for number in range(MAX_NAMES + 1)]}, ["at most 1000"]),
    ],
)
def test_invalid_categories_are_refused(folder: Path, content: Any, words: list[str]) -> None:
    (folder / "categories.json").write_text(json.dumps(content))
    refused(select(*MEASURED, "--categories", "categories.json"), *words)


def test_undefined_overlaps_name_the_corruption(folder: Path) -> None:
    names, table = read_trained("trained.csv")
    table[3] = table[0]
    with pytest.raises(UserError, match=r"2 MedianBlur.*corruption 2 does not change"):
        analyse(SelectionSettings(), (names, table))


def test_the_page_shows_warnings(folder: Path) -> None:
    selection = analyse(SelectionSettings(threshold=0.8), read_trained("trained.csv"))
    text = page(replace(selection, warnings=[f"beware of {HOSTILE}"]), "title")
    assert "beware of &lt;script&gt;" in text
    assert "Overlap score" in text
