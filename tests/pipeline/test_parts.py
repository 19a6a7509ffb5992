"""Parts of data sets from the recipe to the report: options, tasks, accuracy on held-out classes and styles."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustshards as rs
from manifests import Row
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.sources.cifar_subclasses import FINE_CLASSES
from tests.factories.parts import write_cifar_100, write_icon_array, write_icon_folders
from tests.factories.reports import cells, measure, only, report_on, table, value

pytestmark = pytest.mark.usefixtures("workers_here")

PARTS = ("seen", "held_out")


class Subclasses(torch.nn.Module):
    """A classifier that knows the coarse class of all fine classes but the first of each, read off the grey level."""

    def __init__(self) -> None:
        super().__init__()
        label = {fine: coarse for coarse, numbers in enumerate(FINE_CLASSES.values()) for fine in numbers[1:]}
        self.register_buffer("label", torch.tensor([label.get(fine, 7) for fine in range(100)]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        level = (images.mean((1, 2, 3)) * 255).round().long()
        return torch.nn.functional.one_hot(self.label[level], 20).float()


class Styles(torch.nn.Module):
    """A classifier that reads the class off the red channel, but takes every odd one of Microsoft for class 0."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        red, green, _ = (images.mean((2, 3)) * 255).round().long().unbind(1)
        wrong = (green >= 20) & (red % 2 == 1)
        return torch.nn.functional.one_hot(torch.where(wrong, 0, red), 50).float()


def built(source: Path, out: Path, kind: str, **part: Any) -> Path:
    recipe = "cifar-100-c-clean"
    result = rs.build(recipe, source, out, source_kind=kind, fields={"source": part}, executor="local", workers=1)
    assert result.complete
    assert result.failed == 0
    return out


def evaluated(model: torch.nn.Module, data: Path) -> str:
    out = data.parent / f"{data.name}-results"
    rs.evaluate(model, data, out, name="made", mean=(0, 0, 0), std=(1, 1, 1), batch_size=64)
    return str(out)


def rows(data: Path) -> list[Row]:
    return list(open_data_set(str(data)).rows())


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a made-up CIFAR-100, ``source``, and both parts of it with one held-out class."""
    root = tmp_path_factory.mktemp("cifar")
    write_cifar_100(root / "source", test=1, train=0)
    for part in PARTS:
        built(root / "source", root / part, "cifar-100-subclass", hold_out=1, part=part)
    return root


@pytest.fixture(scope="module")
def cifar_results(cifar: Path) -> list[str]:
    """Return the evaluations on both parts."""
    return [evaluated(Subclasses(), cifar / part) for part in PARTS]


@pytest.fixture(scope="module")
def icons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both parts of a made-up Icons-50 with one held-out style."""
    root = tmp_path_factory.mktemp("icons")
    write_icon_folders(root / "source")
    for part in PARTS:
        built(root / "source", root / part, "icons-50", part=part, protocol="style:microsoft")
    return root


def test_the_gap_between_seen_and_held_out_classes_is_reported(cifar_results: list[str]) -> None:
    report = report_on(*cifar_results, published=True, resamples=50)
    held_out = only(report, "shifts")
    assert (held_out.data_set, held_out.images) == ("cifar-100-subclass-1-held-out", 20)
    figures = ("accuracy", "clean accuracy", "drop (percentage points)")
    assert [value(held_out, name) for name in figures] == [0.05, 1, 0.95]
    by_kind = {
        kind: [name for name, each in held_out.transforms.items() if each.group == kind]
        for kind in ("class", "fine class")
    }
    assert set(by_kind["class"]) == {f"class {name}" for name in FINE_CLASSES}
    assert len(by_kind["fine class"]) == 20
    assert [value(held_out, name, "class insects") for name in figures] == [1, 1, 0]
    assert [value(held_out, name, "class trees") for name in figures] == [0, 1, 1]
    assert measure(held_out, "accuracy", "class insects").images == 1
    assert [each.metric for each in held_out.measures if each.transform == "fine class fine_14"] == ["accuracy"]
    assert value(held_out, "accuracy", "fine class fine_14") == 1

    by_class = table(report, "accuracy by class")
    assert [column.title for column in by_class.columns] == ["class", *figures]
    assert [text.split()[0] for text in cells(by_class)["trees"]] == ["0.0", "100.0", "100.0"]
    by_fine_class = table(report, "accuracy by fine class")
    assert [column.title for column in by_fine_class.columns] == ["fine class", "made"]
    (published,) = report.published
    assert (published.model, published.metric, published.value) == ("40-2 Wide ResNet (published)", "accuracy", 0.409)
    assert published.section == "cifar-100-subclass-1-held-out"


@pytest.mark.slow
def test_both_forms_of_icons_give_the_same_manifest(icons: Path, tmp_path: Path) -> None:
    source = write_icon_array(tmp_path / "source")
    array = built(source, tmp_path / "array", "icons-50", part="held_out", protocol="style:microsoft")
    found = [
        [(row.key, row.label, row.class_name, row.pixel_sha256) for row in rows(data)]
        for data in (icons / "held_out", array)
    ]
    assert len(found[0]) == 100
    assert found[0] == found[1]


def test_the_gap_between_styles_is_reported(icons: Path) -> None:
    held_out = only(report_on(*(evaluated(Styles(), icons / part) for part in PARTS), resamples=50), "shifts")
    assert held_out.data_set == "icons-50-style-microsoft-held-out"
    figures = ("accuracy", "clean accuracy", "drop (percentage points)")
    assert [value(held_out, name) for name in figures] == [0.5, 1, 0.5]
    assert [value(held_out, name, "class icon007") for name in figures] == [0, 1, 1]
    assert [value(held_out, name, "class icon008") for name in figures] == [1, 1, 0]
    assert value(held_out, "accuracy", "style microsoft") == 0.5
    assert [each.metric for each in held_out.measures if each.transform == "style microsoft"] == ["accuracy"]


def test_a_failed_row_has_the_reason_of_an_unusable_name(tmp_path: Path) -> None:
    source = write_icon_folders(tmp_path / "f", 2)
    (source / "icon000" / "apple_1_duck.png").rename(source / "icon000" / "loose.png")
    part = {"source": {"protocol": "subclass", "part": "seen"}}
    result = rs.build(
        "cifar-100-c-clean", source, tmp_path / "out", source_kind="icons-50", fields=part, executor="local", workers=1
    )
    assert result.failed == 1
    (row,) = [row for row in rows(tmp_path / "out") if row.status == "failed"]
    assert row.source_id == "class_00/loose"
    assert "icon000/loose.png: the name of the file is not <style>_<rendition>_<subtype>" in (row.error or "")
    assert result.facts()["warnings"] == ["2 classes of icons instead of 50"]
    assert "warning: 2 classes of icons instead of 50" in list(result.summary("out"))


def test_corrupted_images_of_held_out_classes_have_coarse_labels(cifar: Path, tmp_path: Path) -> None:
    part, kind = {"source": {"hold_out": 2, "part": "held_out"}}, "cifar-100-subclass"
    options: dict[str, Any] = {"only": "fog", "severities": 1, "executor": "local", "workers": 1}
    rs.build("cifar-100-c", cifar / "source", tmp_path / "c", source_kind=kind, fields=part, **options)
    assert sorted({row.label for row in rows(tmp_path / "c")}) == [*range(20)]
    assert len(rows(tmp_path / "c")) == 40


# Options


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"kind": "cifar-100-subclass", "hold_out": 4}, "source.hold_out: invalid value 4: must be less than or equal"),
        ({"kind": "cifar-100-subclass", "hold_out": 0}, "source.hold_out: invalid value 0"),
        ({"kind": "cifar-100-subclass", "part": "both"}, "source.part: invalid value 'both': must be 'seen' or"),
        (
            {"kind": "cifar-100-subclass", "protocol": "subclass"},
            "protocol is not an option of .*; it is one of: icons",
        ),
        ({"hold_out": 1}, "hold_out is not an option of the source kind 'auto'; it is one of: cifar-100-subclass"),
        ({"kind": "icons-50", "protocol": "colour"}, "unknown protocol 'colour'; allowed: style:NAME, subclass, rend"),
        ({"kind": "icons-50", "protocol": "style:"}, "unknown protocol 'style:'"),
        ({"kind": "icons-50", "split": "train"}, "split is not an option of the source kind 'icons-50'"),
    ],
)
def test_invalid_options_name_the_field(source: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        library.load("cifar-100-c-clean").changed(source=source)


def test_another_part_does_not_continue_a_data_set(cifar: Path) -> None:
    with pytest.raises(UserError, match=r"source.part is seen, but held_out was requested"):
        built(cifar / "source", cifar / "seen", "cifar-100-subclass", hold_out=1, part="held_out")


def test_recipes_without_a_part_are_written_as_before() -> None:
    text = library.load("imagenet-c").to_toml()
    assert not {"hold_out", "protocol", "matching", "part =", "split"} & {*text.split()}
    assert '[source]\nkind = "auto"\nlimit = 0\nclasses = []\n' in text


def test_pixels_of_parts_are_those_of_the_whole(cifar: Path) -> None:
    for sample in rs.open(cifar / "held_out").samples():
        fine = int(sample.row.source_id.partition("/")[0].removeprefix("fine_"))
        assert np.array_equal(sample.pixels(), np.full((32, 32, 3), fine))
