"""Fourier heat maps: recipes, plans, builds, and the way from photographs to the picture."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import robustshards as rs
from corruptions.fourier import Frequency, frequency, levels
from pipeline.builder.estimate import estimate, with_size_warning
from pipeline.builder.plan import make_plan
from pipeline.errors import UserError
from pipeline.evaluate.report.figures import described
from pipeline.recipes import library
from pipeline.recipes.levels import shown_levels
from pipeline.sources.kinds import open_source
from tests.conftest import Run
from tests.factories.data_sets import rows_of
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import measure, only, report_on, table, value

pytestmark = pytest.mark.usefixtures("workers_here")


# Recipes


def test_a_map_stands_for_its_levels() -> None:
    recipe = library.load("fourier")
    assert (len(recipe.conditions()), recipe.norm, recipe.encoder.name) == (1985, 15.7, "png")
    small = library.load("fourier-32")
    assert (len(small.conditions()), small.norm) == (481, 4.0)
    coarse = recipe.changed(transforms={"map": 31, "step": 2})
    assert coarse.transforms.levels == levels(31, 2)
    assert library.parse(recipe.to_toml(), "copy") == recipe
    own = library.parse('extends = "fourier"\nname = "own"\n[transforms]\nmap = 1\nnorm = 3', "own")
    assert (own.transforms.levels, own.norm) == ((256, 257, 767, 768, 769), 3.0)
    assert shown_levels(recipe.transforms.levels) == "256-287, 737-799 ... 16097-16159 (1,985 levels)"
    clean = library.load("fourier-clean").canonical({}, {}, {})
    assert clean.transforms == library.load("imagenet-c-clean").canonical({}, {}, {}).transforms


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"map": 112}, r"transforms.levels: 368 is frequency \(0, 112\), but images of 224 x 224 pixels"),
        ({"levels": [112 * 512 + 256]}, r"57600 is frequency \(112, 0\)"),
        ({"levels": [1024]}, "transforms.levels: 1024 is not a level 512 p"),
        ({"levels": [5]}, "transforms.levels: 5 is unknown; allowed: 256-131071"),
        ({"step": 2}, "transforms.map: use an integer for map, and for step if it is given, not None and 2"),
        ({"map": 31, "step": 0}, "transforms.map: a map needs frequencies of 0..255 and a step of at least 1"),
        ({"map": 1, "levels": [256]}, "transforms.map stands for levels: give only one of them"),
        ({"norm": 0}, "transforms.norm: .*greater than 0"),
        ({"family": "corruptions", "only": ["fog"], "map": 3}, "transforms.map: corruptions has no maps"),
    ],
)
def test_recipes_that_cannot_be_made_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        library.load("fourier").changed(transforms=changes)


def test_a_norm_and_one_size_are_required() -> None:
    with pytest.raises(UserError, match=r"transforms.norm: fourier needs it, for example 15\.7"):
        library.load("imagenet-c").changed(transforms={"family": "fourier", "only": ["fourier_noise"], "map": 1})
    with pytest.raises(UserError, match="fourier needs images of one size"):
        library.load("fourier").changed(prepare={"steps": [["shorter_side", 256]]})


# Builds


def test_many_conditions_are_estimated_from_some(small_source: Path, robustshards: Run) -> None:
    source = open_source("imagefolder", str(small_source))
    plan = make_plan(library.load("fourier-32"), source)
    assert len(plan.recipe.some_conditions(100)) == 100
    found = estimate(plan, source, 1)
    assert (len(found.sizes.samples), set(found.sizes.samples.values())) == (481, {1})
    assert found.output_bytes == pytest.approx(481 * 6 * (3000 + 4096), rel=0.5)
    full = robustshards("plan", "fourier", "--source", small_source, "--measure", 2)
    assert "output images   11,910 (1985 per image)" in full.stdout
    assert len(full.stdout.splitlines()) < 15
    size = re.search("size +(about .+?) *\n", full.stdout)
    assert size
    assert f"1,985 conditions of 6 images are 11,910 images, {size[1]}: " in full.stderr.replace("\n", " ")
    assert "robustshards render makes the same images when they are read" in full.stderr.replace("\n", " ")


def test_a_build_with_more_images_than_a_manifest_may_have_is_refused_before_its_work(small_source: Path) -> None:
    plan = make_plan(library.load("fourier"), open_source("imagefolder", str(small_source)))
    message = (
        "1,985 conditions of 50,000 images are 99,250,000 images, and a built data set has at most 16,777,216: use"
    )
    with pytest.raises(UserError, match=message):
        with_size_warning(replace(plan, images=50_000), lambda: 0)


def test_builds_record_signs_and_can_be_verified(small_source: Path, tmp_path: Path, robustshards: Run) -> None:
    fields = {"transforms": {"map": 2}}
    built, again = (rs.build("fourier-32", small_source, tmp_path / "data", limit=3, fields=fields) for _ in range(2))
    assert built.complete
    assert (built.done.samples.total(), again.shards_before) == (39, 13)
    rows = rows_of(tmp_path / "data")
    assert [row.level for row in rows[::3]] == [*range(256, 259), *range(766, 771), *range(1278, 1283)]
    data, clean = rs.open(tmp_path / "data"), tmp_path / "clean"
    rs.build("fourier-32-clean", small_source, clean, limit=3)
    originals = {row.source_id: rs.open(clean).pick(row).pixels() for row in rows_of(clean)}
    for row in rows:
        draws = data.draws(row._asdict())
        assert draws is not None
        expected = rs.fourier_noise(originals[row.source_id], *frequency(row.level), 4.0, draws["signs"])
        np.testing.assert_array_equal(data.pick(row).pixels(), expected)
    facts = json.loads(robustshards("verify", tmp_path / "data", "--deep", "--samples", 5, "--json").stdout)
    assert (facts["faults"], facts["regenerated"], facts["deep_faults"]) == ([], 5, [])
    robustshards.succeed("export", tmp_path / "data", "--to", "imagefolder", "--out", tmp_path / "files")
    levels = ("--severities", "256-258,766-770,1278-1282")
    done = robustshards("index", tmp_path / "files", "--out", tmp_path / "index", *levels, "--json")
    assert (json.loads(done.stdout)["family"], json.loads(done.stdout)["samples"]) == ("fourier", 39)


def test_previews_show_some_of_many_levels(small_source: Path, tmp_path: Path, robustshards: Run) -> None:
    rs.render("fourier-32", small_source, tmp_path / "data", fields={"transforms": {"map": 7}}, limit=2)
    done = robustshards("preview", tmp_path / "data", "--out", tmp_path / "page.html", "--images", 1, "--json")
    assert json.loads(done.stdout)["pictures"] == 100
    assert {f"image0 {level}" in (tmp_path / "page.html").read_text() for level in (256, levels(7)[-1])} == {True}


# From grey images to the map


class WrongAt(nn.Module):
    """A model that answers 0, but 1 where the largest coefficient of an image is at a frequency."""

    def __init__(self, p: int, q: int) -> None:
        super().__init__()
        self.p, self.q = p, q
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, 2) for images 0..1."""
        coefficients = torch.fft.fft2(images[:, 0] - images[:, 0].mean(dim=(1, 2), keepdim=True)).abs()
        side = images.shape[-1]
        found = coefficients.flatten(1).argmax(dim=1)
        places = [self.p % side * side + self.q % side, -self.p % side * side + -self.q % side]
        wrong = sum((found == place).float() for place in places)
        return torch.stack([1 - wrong, wrong], dim=1)


@pytest.mark.slow
def test_a_model_that_fails_at_one_frequency_has_two_cells(tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / "grey" / name).mkdir(parents=True)
        (tmp_path / "grey" / name / ".keep").touch()
    for index in range(2):
        Image.fromarray(np.full((32, 32, 3), 128 + index, np.uint8)).save(tmp_path / f"grey/0/{index}.png")
    rs.render("fourier-32", tmp_path / "grey", tmp_path / "data", fields={"transforms": {"map": 6}})
    evaluation = rs.evaluate(
        WrongAt(5, 3), tmp_path / "data", tmp_path / "results", mean=(0, 0, 0), std=(1, 1, 1), batch_size=50
    )
    report = rs.report(evaluation, out=tmp_path / "report")
    (name,) = (path.stem for path in (tmp_path / "report" / "figures").glob("*heat-map*.csv"))
    lines = list(csv.DictReader((tmp_path / "report" / "figures" / f"{name}.csv").open()))
    assert [(each["p"], each["q"]) for each in lines if float(each["error"]) != 0] == [("5", "3")]
    assert (len(lines), {each["images"] for each in lines}) == (85, {"2"})
    assert (tmp_path / "report" / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert evaluation.figures()["mean error of the map"] == pytest.approx(2 / 169)
    by_radius = report.table("error by radius", by="level").to_pylist()
    ring = sum(round(np.hypot(p, q)) == 6 for p in range(-6, 7) for q in range(-6, 7))
    assert [each["value"] for each in by_radius if each["level"] == 6] == pytest.approx([2 / ring])
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count("<tr>") < 60


# The report


def evaluation(folder: Path, wrong: set[Frequency], images: int = 4, largest: int = 10, **options: Any) -> str:
    """Write an evaluation whose first half of the images is misclassified at some frequencies."""
    half = np.arange(images) < images / 2
    logits = {
        ("fourier_noise", level): votes((half & (frequency(level) in wrong)).astype(int), 2)
        for level in levels(largest)
    }
    return write_evaluation(folder, logits, [0] * images, family="fourier", model=folder.name, **options)


def test_means_count_the_cells_of_the_picture(tmp_path: Path) -> None:
    folders = [evaluation(tmp_path / "a", {Frequency(0, 0), Frequency(9, 2)}), evaluation(tmp_path / "b", set())]
    report = report_on(*folders)
    found = report.results[0]
    assert value(found, "mean error of the map") == pytest.approx(0.5 * 3 / 441)
    inside = sum(round(np.hypot(p, q)) <= 8 for p in range(-10, 11) for q in range(-10, 11))
    assert value(found, "mean error at radius 0 to 8") == pytest.approx(0.5 / inside)
    ring = sum(round(np.hypot(p, q)) == 9 for p in range(-10, 11) for q in range(-10, 11))
    assert value(found, "error by radius", level=9) == pytest.approx(0.5 * 2 / ring)
    first = measure(found, "error by radius", level=0)
    assert (first.value, first.low, first.high) == (0.5, 0.0, 1.0)
    assert value(found, "error", level=Frequency(9, 2).level) == 0.5
    maps = table(report, "heat map of errors")
    assert maps.plot is not None
    assert [panel.title for panel in maps.plot.panels] == ["a", "b"]
    cells = {(int(each.name), each.x): each.y for each in maps.plot.panels[0].points}
    assert {at for at, error in cells.items() if error} == {(0, 0), (9, 2), (-9, -2)}
    assert len(cells) == 441
    assert len(maps.rows) == 2
    assert described(maps.plot, maps.plot.panels[0]).endswith("from 0.0 at p -10, q -10 to 50.0 at p 9, q 2.")
    assert len(table(report, "error by radius").rows) == 15


def test_maps_of_other_frequencies_are_in_other_sections(tmp_path: Path) -> None:
    report = report_on(evaluation(tmp_path / "a", set()), evaluation(tmp_path / "b", set(), largest=2))
    assert [each.section for each in report.results] == [
        "made-fourier, 221 frequencies up to 10", "made-fourier, 13 frequencies up to 2"
    ]  # fmt: skip


def test_the_clean_error_is_beside_the_map(tmp_path: Path) -> None:
    clean = {("none", 0): votes(np.array([1, 0, 0, 0]), 2)}
    made = write_evaluation(tmp_path / "clean", clean, [0] * 4, family="none", model="a")
    found = only(report_on(evaluation(tmp_path / "a", set()), made), "fourier")
    assert (value(found, "clean error"), found.clean_accuracy) == (0.25, 0.75)
