"""The comparison of the task of ObjectNet with the mappings of its download."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UserError
from pipeline.tasks import library
from pipeline.tasks.lists import IMAGENET
from pipeline.tasks.objectnet import DISPLAY_NAMES, IMAGENET_LABELS, LABEL_LINES, LINE_OF_OUTPUT, read_mappings
from tests.factories.natural_sets import OBJECTNET_FOLDERS, display_name, write_mappings

Content = dict[str, Any]


def change(folder: Path, name: str, changed: Callable[[Content], Any]) -> None:
    """Replace the content of a file of JSON."""
    path = folder / name
    path.write_text(json.dumps(changed(json.loads(path.read_text()))))


def check(folder: Path) -> None:
    library.chosen("objectnet", None, str(folder))


def test_mappings_give_the_classes_of_each_folder(tmp_path: Path) -> None:
    found = read_mappings(str(write_mappings(tmp_path)))
    assert len(found) == 113
    assert {IMAGENET[output] for output in found["alarm_clock"]} == {"n02708093", "n03196217"}
    assert not found.keys() - set(OBJECTNET_FOLDERS)
    check(tmp_path)


def test_the_order_of_folders_and_display_names_does_not_matter(tmp_path: Path) -> None:
    write_mappings(tmp_path)
    for name in (DISPLAY_NAMES, IMAGENET_LABELS, LINE_OF_OUTPUT):
        change(tmp_path, name, lambda content: dict(reversed(content.items())))
    check(tmp_path)


ALARM_CLOCK, BANANA, BAND_AID, BENCH = map(display_name, ("alarm_clock", "banana", "band_aid", "bench"))


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        (
            IMAGENET_LABELS,
            lambda old: {**old, BANANA: old[BAND_AID]},
            "'banana' has n02786058 of ImageNet, but n07753592",
        ),
        (
            IMAGENET_LABELS,
            lambda old: {**old, ALARM_CLOCK: old[ALARM_CLOCK][:9]},
            "'alarm_clock' has n02708093 of ImageNet, but n02708093, n03196217",
        ),
        (IMAGENET_LABELS, lambda old: {n: v for n, v in old.items() if n != BENCH}, "'bench' has no class of ImageNet"),
        (
            DISPLAY_NAMES,
            lambda old: {**old, "other_000": BENCH},
            "'other_000' has n03891251 of .* no class in the task",
        ),
        (DISPLAY_NAMES, lambda old: {**old, "bench": 7}, "the value of 'bench' must be text"),
        (DISPLAY_NAMES, lambda old: [old], "is not a JSON object"),
        (IMAGENET_LABELS, lambda old: {**old, BENCH: "park bench"}, "'park bench' is not the label of one line"),
        (LINE_OF_OUTPUT, lambda old: {**old, "1000": 3}, "'1000' must be an output from 0 to 999"),
        (LINE_OF_OUTPUT, lambda old: {**old, "٣": 3}, "must be an output from 0 to 999"),
        (LINE_OF_OUTPUT, lambda old: {**old, "7": 1000}, "'7' must be an output .* one of the 1000 lines"),
        (LINE_OF_OUTPUT, lambda old: {**old, "7": "3"}, "'7' must be an output"),
        (LINE_OF_OUTPUT, lambda old: {**old, "7": True}, "'7' must be an output"),
        (LINE_OF_OUTPUT, lambda old: {**old, "7": -1}, "'7' must be an output"),
    ],
)
def test_other_mappings_are_refused(tmp_path: Path, name: str, changed: Callable[[Content], Any], message: str) -> None:
    change(write_mappings(tmp_path), name, changed)
    with pytest.raises(UserError, match=message):
        check(tmp_path)


@pytest.mark.parametrize("name", [DISPLAY_NAMES, IMAGENET_LABELS, LABEL_LINES, LINE_OF_OUTPUT])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory; give the folder mappings"),
        (b"\xff", "is not UTF-8 text"),
        (b"{", "is not valid JSON|is not the label of one line|lines of"),
        (b"[" * 10**6, "is not valid JSON|is not the label of one line|lines of"),
        (b" " * (2**22 + 1), "larger than 4194304 bytes"),
    ],
)
def test_damaged_mappings_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    write_mappings(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        check(tmp_path)


def test_a_label_of_two_classes_is_ambiguous(tmp_path: Path) -> None:
    write_mappings(tmp_path)
    lines = (tmp_path / LABEL_LINES).read_text().splitlines()
    line = lines.index(f"Label {IMAGENET.index('n07753592')}")
    lines[line - 1] = lines[line]
    (tmp_path / LABEL_LINES).write_text("\n".join(lines))
    with pytest.raises(UserError, match="'Label 954' is not the label of one line of imagenet_to_label_2012_v2"):
        check(tmp_path)
