"""Invalid input of ``robustshards select``: files, tables, options and categories."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UserError
from pipeline.evaluate.selection.accuracies import MAX_NAMES, read_trained
from pipeline.evaluate.selection.analysis import SelectionSettings, analyse
from tests.evaluate.test_select import MEASURED, TRAINED, select
from tests.pipeline.test_hostile_options import refused

HEAD = b"model,clean,Blur\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00", ["UTF-16 text", "UTF-8"]),
        (b"\xe4", ["not UTF-8 text"]),
        (b"", ["'model'"]),
        (b"name,clean\na,1\n", ["'name'", "'model'"]),
        (HEAD, ["no values"]),
        (b"model\na\nb\n", ["no values"]),
        (b'model,clean\n"a,0.5\n', ["not valid CSV"]),
        (HEAD + b"a,0.7\n", ["2 cells instead of 3"]),
        (HEAD + b"a,1,1\na,1,1\n", ["'a'", "same or no name"]),
        (b"model,clean,clean\na,1,1\n", ["'clean'", "same or no name"]),
        (b"model,clean,\na,1,1\n", ["''", "same or no name"]),
        (HEAD + b"a,0.7,\n", ["'a', column 'Blur'", "no value"]),
        (HEAD + b"a,0.7,nan\n", ["'nan'", "finite number"]),
        (HEAD + b"a,0.7,1e999\n", ["finite number"]),
        (HEAD + b"a,0.7,x\x1b[2J\n", ["finite number"]),
        (HEAD + b"a,70,50\n", ["70.0", "not percent"]),
        (HEAD + b"a,0.7,-0.1\n", ["-0.1", "0..1"]),
        (b"model,c\n" + b"".join(b"m%d,1\n" % n for n in range(MAX_NAMES + 1)), ["1001 rows", "1000"]),
        (b"#" * (5 << 20), ["4194304 bytes"]),
        (b"[" * 100_000, ["nested too deeply"]),
        (b"{", ["not valid JSON"]),
        (b"[1]", ["object of objects"]),
        (b'{"a": 1}', ["object of objects"]),
        (b"{}", ["no values"]),
        (b'{"a": {}}', ["no values"]),
        (b'{"a": {"clean": NaN}}', ["NaN"]),
        (b'{"a": {"clean": true}}', ["'True'", "finite number"]),
        (b'{"a": {"clean": [1]}}', ["finite number"]),
        (b'{"a": {"clean": 1' + b"0" * 400 + b"}}", ["finite number"]),
        (b'{"a": {"clean": 1, "clean": 1}}', ["'clean'", "twice"]),
        (b'{"a": {"clean": 1}, "b": {"Blur": 1}}', ["'a', column 'Blur'", "no value"]),
    ],
)
def test_invalid_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "t.json" if content[:1] in b"[{" and content else "t.csv"
    Path(name).write_bytes(content)
    refused(select("--candidates", name), name, *words)


def test_two_models_are_too_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(HEAD + b"a,0.7,0.5\nb,0.8,0.6\n")
    refused(select("--candidates", "t.csv", "--natural", "t.csv"), "at least 3 models", "'a' and 'b'")


def changed(column: str, value: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    """Return a function that replaces the cells of a column of a table by others of their row."""

    def change(text: str) -> str:
        head, *rows = [line.split(",") for line in text.splitlines()]
        at = head.index(column)
        return "\n".join(",".join([*row[:at], *value(row), *row[at + 1 :]]) for row in (head, *rows))

    return change


def without(column: str) -> Callable[[str], str]:
    return changed(column, lambda row: [])


def short(text: str) -> str:
    return "\n".join(text.splitlines()[:-1])


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("candidates.csv", without("clean"), ["no accuracies on clean images", "'clean'"]),
        ("candidates.csv", without("Flip"), ["lacks 'Flip'", "categories"]),
        ("candidates.csv", short, ["'model11'", "no value for", "clean images"]),
        ("natural.csv", short, ["'model11'", "natural images"]),
        (
            "candidates.csv",
            changed("Blur", lambda row: [row[1] if row[0] != "model" else "Blur"]),
            ["mine", "same score"],
        ),
        ("trained.csv", without("Flip"), ["no column 'Flip'"]),
        ("trained.csv", without("clean"), ["no column 'clean'"]),
        ("trained.csv", lambda text: "model,clean,a\nclean,0.7,0.2\na,0.7,0.5\n", ["1 corruption: give 3 to 200"]),
        ("trained.csv", lambda text: text.replace("\nFlip,", "\nFlop,"), ["no column 'Flop'|no row 'Flip'"]),
        ("trained.csv", short, ["no row 'Transpose'"]),
    ],
)
def test_missing_and_constant_values_are_refused(
    folder: Path, file: str, change: Callable[[str], str], words: list[str]
) -> None:
    (folder / file).write_text(change((folder / file).read_text()))
    result = select(*TRAINED, *MEASURED, "--benchmark", "mine=Blur")
    refused(result)
    assert all(re.search(word, result.stderr) for word in words), result.stderr


def test_contradicting_files_and_too_few_models_are_refused(folder: Path) -> None:
    text = (folder / "candidates.csv").read_text()
    (folder / "again.csv").write_text(text.replace("model0,0.", "model0,0.1"))
    refused(select(*MEASURED, "--candidates", "again.csv"), "'model0'", "two values for 'clean'")
    for name in ("candidates.csv", "natural.csv"):
        (folder / name).write_text("\n".join((folder / name).read_text().splitlines()[:3]))
    refused(select(*MEASURED), "'model0' and 'model1'", "at least 3")


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
