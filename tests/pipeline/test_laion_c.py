"""LAION-C as a data set: its bank, its folders, and its superclasses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.builder import bank as bank_builder
from pipeline.builder.bank import bank_conflicts, with_bank
from pipeline.datasets.index.manifest import index
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.evaluate.predict.classifier import Groups, ranked
from pipeline.images.encoders import Jpeg
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render import bank as banks
from pipeline.render.renderer import Renderer
from pipeline.storage import open_store
from pipeline.tasks.library import load
from pipeline.transforms.family import Condition
from tests.conftest import write_small_source

DOG, CAT, KING_SNAKE = range(151, 269), 281, 56


def recipe_of(only: str = "mosaic", **bank: object) -> Recipe:
    return library.load("laion-c").changed(transforms={"only": [only]}, bank=bank)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four photographs, one of which is damaged."""
    folder = write_small_source(tmp_path_factory.mktemp("photographs") / "source", images=4)
    (sorted(folder.rglob("*.*"))[-1]).write_bytes(b"no photograph")
    return folder


@pytest.fixture(scope="module")
def golden(references: Path) -> dict[str, np.ndarray]:
    with np.load(references / "laion_c.npz") as archive:
        return dict(archive)


def test_payloads_equal_the_published_ones(golden: dict[str, np.ndarray]) -> None:
    encoder = library.load("laion-c").encoder
    for key in [key for key in golden if key.startswith("jpeg/")]:
        assert encoder.encode(golden[key.removeprefix("jpeg/")]) == golden[key].tobytes()
    assert str(Jpeg()) == "jpeg quality=85 optimize=true"


@pytest.mark.parametrize(("severity", "tile"), [(2, 6), (3, 8), (5, 28)])
def test_mosaics_are_made_of_the_view_that_was_published(
    golden: dict[str, np.ndarray], severity: int, tile: int
) -> None:
    bank = {str(tile): golden[f"bank/{tile}"]}
    digest = banks.digest_of(bank)
    banks.remember_bank(digest, bank)
    renderer = Renderer(recipe_of(sha256=digest))
    prepared = renderer.prepare(renderer.decode(golden["source/0"].tobytes()))
    made = renderer.transform(prepared, "a", Condition("mosaic", severity))
    assert np.array_equal(made, golden[f"mosaic/{severity}/0"])


def test_the_bank_skips_and_counts_damaged_photographs(source: Path, tmp_path: Path) -> None:
    recipe = with_bank(recipe_of(), str(source))
    assert recipe.bank
    assert (recipe.bank.tiles, recipe.bank.damaged) == (3, 1)
    store = open_store(str(tmp_path))
    banks.publish_bank(store, recipe)
    made = banks.bank_of(recipe)
    banks._OPEN.clear()
    banks.load_bank(store, recipe)
    assert all(np.array_equal(tiles, made[side]) for side, tiles in banks.bank_of(recipe).items())
    banks._OPEN.clear()
    Path(tmp_path / "bank" / "8.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(UserError, match="cannot read the tiles"):
        banks.load_bank(store, recipe)
    np.save(tmp_path / "bank" / "8.npy", np.zeros((3, 8, 8, 3), np.uint8))
    with pytest.raises(UserError, match="were changed: their sha256 differs from"):
        banks.load_bank(store, recipe)


def test_another_bank_is_a_conflict(source: Path) -> None:
    one, two = (with_bank(recipe_of(limit=limit), str(source)) for limit in (1, 2))
    without = with_bank(recipe_of("glitched"), "nowhere")
    assert bank_conflicts(one, one) == bank_conflicts(without, without) == []
    assert bank_conflicts(without, one) == [], "tiles are added to a data set that needed none"
    (conflict,) = bank_conflicts(one, two)
    assert conflict.endswith("of 2 photographs")
    assert "of 1 photograph, not " in conflict


def test_a_resumed_build_keeps_the_bank_of_the_same_photographs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    first = with_bank(recipe_of(), str(source), store=store)
    store.publish_bytes(first.to_toml().encode(), "recipe.toml")
    banks.publish_bank(store, first)
    banks._OPEN.clear()
    monkeypatch.setattr(bank_builder, "_entries", lambda *_: pytest.fail("tiles were made anew"))
    assert with_bank(recipe_of(), str(source), store=store) == first
    assert banks.bank_of(first).keys() == {"4", "6", "8", "16", "28"}
    with pytest.raises(pytest.fail.Exception):
        with_bank(recipe_of(limit=2), str(source), store=store)
    (tmp_path / "bank" / "8.npy").unlink()
    with pytest.raises(pytest.fail.Exception):
        with_bank(recipe_of(), str(source), store=store)


def test_other_distortions_do_not_depend_on_the_bank(source: Path) -> None:
    recipe = with_bank(recipe_of(), str(source)).changed(transforms={"only": ["mosaic", "glitched"]})
    assert recipe.more_identity(Condition("mosaic", 1)) == (recipe.bank and recipe.bank.sha256,)
    assert recipe.more_identity(Condition("glitched", 1)) == ()


def test_a_bank_without_photographs_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "n01440764"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(b"no photograph")
    with pytest.raises(UserError, match=r"none of 1 image of .* can be decoded.*--set bank.source=PATH"):
        with_bank(recipe_of(source=str(tmp_path / "source")), "elsewhere")


def test_the_mean_of_a_superclass_decides_not_the_sum() -> None:
    task = load("laion-c").task
    names = [line.partition(":")[0] for line in (Path(load.__code__.co_filename).parent / "data/laion_c.txt").open()]
    logits = torch.full((1, 1000), -10.0)
    logits[0, list(DOG)], logits[0, CAT], logits[0, KING_SNAKE] = 1.0, 4.0, 9.0
    sums = [float(logits.softmax(1)[0, list(group)].sum()) for group in task.groups]
    means = [float(logits.softmax(1)[0, list(group)].mean()) for group in task.groups]
    assert (names[int(np.argmax(sums))], names[int(np.argmax(means))]) == ("dog", "cat")
    cat = names.index("cat")
    for normalised, given in ((False, logits), (True, logits.softmax(1))):
        top5, rank, *_ = ranked(given, torch.tensor([cat]), Groups(task, torch.device("cpu")), normalised=normalised)
        assert (int(top5[0, 0]), int(rank)) == (cat, 1)
    top5, _, _, _, free, *_ = ranked(logits, torch.tensor([CAT]), Groups(task.of_outputs(), torch.device("cpu")))
    assert (int(top5[0, 0]), int(free)) == (KING_SNAKE, cat)


def test_published_folders_are_indexed(tmp_path: Path) -> None:
    for name, option in (("mosaic", "mosaic"), ("stickers", "sticker")):
        for superclass in ("fish", "dog"):
            folder = tmp_path / "laion" / name / "intensity_level_4" / superclass
            folder.mkdir(parents=True)
            Image.new("RGB", (224, 224), "red").save(folder / f"n0_{superclass}_{option}_4.JPEG")
    found = index(str(tmp_path / "laion"), str(tmp_path / "index"))
    assert found.family == "laion-c"
    assert found.layout.labelled.task == load("laion-c").task
    rows = list(open_data_set(str(tmp_path / "index")).rows())
    assert {(row.transform, row.level, row.class_name, row.label) for row in rows} == {
        (name, 4, superclass, label)
        for name in ("mosaic", "stickers")
        for superclass, label in (("fish", 1), ("dog", 15))
    }
    assert len({row.source_id for row in rows}) == 2, "the id of an image is the same under all conditions"
