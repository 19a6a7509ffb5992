import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.builder.estimate import estimate
from pipeline.builder.plan import WorkItem, divided, division, make_blocks, make_plan
from pipeline.errors import UnfinishedError, UserError
from pipeline.images.encoders import Jpeg
from pipeline.recipes import library
from pipeline.recipes import schema as recipes
from pipeline.sources.base import SourceImage
from pipeline.sources.kinds import open_source

IMAGENET_C = library.load("imagenet-c")


class GeneratedSource:
    """A source whose listing is generated, so that its length does not affect memory use."""

    location = "generated"
    labels = None

    def __init__(self, images: int) -> None:
        self.images = images
        self.ignored: Counter[str] = Counter()

    def __iter__(self) -> Iterator[SourceImage]:
        for index in range(self.images):
            # names of equal length, so that all images need the same memory
            label, name = 1000 + index // 50, f"n{index // 50:08d}"
            yield SourceImage(f"{name}/image{index:08d}", label, name, f"{name}/image{index:08d}.JPEG", 100_000)

    def read(self, image: SourceImage) -> bytes:
        raise NotImplementedError


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 70))
@settings(max_examples=40)
def test_every_condition_has_every_image_once(images: int, size: int, limit: int) -> None:
    recipe = IMAGENET_C.changed(shards={"size": size}, source={"limit": limit}, transforms={"only": ["fog"]})
    source = GeneratedSource(images)
    plan = make_plan(recipe, source)
    blocks = list(make_blocks(plan, source))
    expected = [image.id for image in source][: limit or None]
    assert [image.id for block in blocks for image in block.images] == expected
    assert all(block.images for block in blocks)
    assert (plan.images, plan.blocks, plan.shards) == (len(expected), len(blocks), len(blocks) * 5)
    by_condition = [[block.tasks[index].part for block in blocks] for index in range(len(recipe.conditions()))]
    assert list(plan.parts()) == by_condition


def test_digests_of_shards_do_not_change_with_new_fields_of_recipes() -> None:
    """Otherwise shards of earlier versions would be made again."""
    source = GeneratedSource(3)
    contrast = IMAGENET_C.changed(transforms={"only": ["contrast"], "levels": [1]})
    (block,) = make_blocks(make_plan(contrast, source), source)
    assert block.tasks[0].digest == "84d014b4e47f3ac2e8c88f6f5759935ce61585a219deee0552179d777d94d5ad"


def test_digests_change_only_with_settings_that_decide_the_bytes() -> None:
    def first(recipe: recipes.Recipe, source: GeneratedSource) -> str:
        return next(make_blocks(make_plan(recipe, source), source)).tasks[0].digest

    fog = IMAGENET_C.changed(transforms={"only": ["fog"]}, shards={"size": 10})
    digest = first(fog, GeneratedSource(30))
    for change in (
        {"seed": 1},
        {"encoder": {"quality": 84}},
        {"shards": {"size": 11}},
        {"transforms": {"levels": [2]}},
    ):
        assert first(fog.changed(**change), GeneratedSource(30)) != digest
    same = fog.changed(transforms={"only": ["fog", "contrast"], "levels": [1]}, source={"limit": 20}, name="other")
    assert first(same, GeneratedSource(31)) == digest


@pytest.mark.parametrize(
    ("blocks", "workers", "tasks", "equal", "shared", "chosen"),
    [
        (1, 1, 75, True, 4, (1, 1)),
        (1, 2, 75, True, 4, (0, 2)),
        (3, 2, 75, True, 4, (2, 2)),  # a whole block for each worker, then half of the third one
        (3, 2, 75, False, 4, (0, 2)),
        (50, 2, 75, True, 4, (50, 1)),
        (50, 16, 75, True, 3, (48, 8)),
        (50, 32, 75, True, 4, (32, 5)),
        (50, 32, 75, False, 4, (0, 3)),
        (50, 49, 75, True, 4, (49, 38)),
        (50, 49, 75, False, 4, (0, 5)),
        (50, 50, 75, True, 4, (50, 1)),
        (50, 50, 75, False, 4, (0, 5)),  # from 50 workers on, one is expected to be slow
        (50, 100, 75, False, 3, (0, 5)),
        (50, 256, 75, False, 4, (0, 15)),
        (50, 1000, 75, False, 4, (0, 39)),
        (300, 256, 75, False, 3, (0, 5)),
        (1282, 1000, 75, False, 3, (0, 3)),
        (200, 256, 10, False, 0, (0, 10)),
        (1, 256, 75, False, 4, (0, 75)),
        (1, 8, 1, True, 4, (0, 1)),
    ],
)
def test_the_division_minimises_the_estimated_build_time(
    blocks: int, workers: int, tasks: int, equal: bool, shared: int, chosen: tuple[int, int]
) -> None:
    assert division(blocks, workers, tasks, equal, shared) == chosen


def test_whole_blocks_precede_the_pieces_of_the_others() -> None:
    source = GeneratedSource(9)
    plan = make_plan(IMAGENET_C.changed(shards={"size": 2}), source)
    items = list(divided(make_blocks(plan, source), 3, 2, WorkItem.split))
    assert [(item.index, len(item.tasks)) for item in items] == [
        *((0, 75), (1, 75), (2, 75)),
        *((3, 38), (3, 37), (4, 38), (4, 37)),
    ]


@given(st.integers(1, 40), st.integers(1, 60))
def test_split_assigns_every_task_once(tasks: int, pieces: int) -> None:
    source = GeneratedSource(3)
    plan = make_plan(IMAGENET_C, source)
    (block,) = make_blocks(plan, source)
    block = WorkItem(block.index, block.images, block.tasks[:tasks])
    parts = list(block.split(pieces))
    assert len(parts) == min(tasks, pieces)
    assert sorted(task.name for part in parts for task in part.tasks) == sorted(task.name for task in block.tasks)
    assert max(len(part.tasks) for part in parts) - min(len(part.tasks) for part in parts) <= 1
    assert all(part.images == block.images for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "transforms", "outputs"),
    [
        ("imagenet-c", {"only": ["all"]}, 95),
        ("imagenet-p", {"only": ["all"], "levels": [1, 2, 3]}, 20),
        ("imagenet-s", {"only": ["full"]}, 33),
    ],
)
def test_memory_does_not_grow_with_the_number_of_images(name: str, transforms: dict[str, Any], outputs: int) -> None:
    """Planning and iterating over blocks of 1,000 images needs no more memory than for two blocks."""
    recipe = library.load(name).changed(transforms=transforms)

    def peak(images: int) -> int:
        source = GeneratedSource(images)
        tracemalloc.start()
        try:
            plan = make_plan(recipe, source)
            assert plan.samples == images * outputs
            for _ in make_blocks(plan, source):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1000)
    assert peak(10_000) < 1.3 * peak(2000)


def test_a_huge_limit_has_no_effect() -> None:
    assert make_plan(IMAGENET_C.changed(source={"limit": 10**30}), GeneratedSource(3)).images == 3


class DamagedSource(GeneratedSource):
    """A source where most images cannot be read and raise different exceptions."""

    def read(self, image: SourceImage) -> bytes:
        if image.id.endswith("1"):
            return Jpeg().encode(np.full((256, 256, 3), 128, np.uint8))
        raise (KeyError, MemoryError, RecursionError)[int(image.id[-1]) % 3](image.id)


def test_estimate_skips_unreadable_images() -> None:
    recipe = IMAGENET_C.changed(transforms={"only": ["contrast"], "levels": [1]})
    source = DamagedSource(10)
    measured = estimate(make_plan(recipe, source), source, 10**30)
    assert measured.measured == 1
    assert measured.output_bytes == 10 * measured.sizes.bytes["contrast-1"] > 0
    source.images = 1
    with pytest.raises(UserError, match="any of the 1 images tried from generated"):
        estimate(make_plan(recipe, source), source, 3)


def test_an_empty_source_is_refused_with_the_ignored_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("no image")
    with pytest.raises(UserError, match=r"no images found in .* \(ignored files: 1 \.txt\).*--source-kind"):
        make_plan(IMAGENET_C, open_source("imagefolder", str(tmp_path)))


def test_a_listing_that_changes_after_planning_is_refused() -> None:
    source = GeneratedSource(30)
    plan = make_plan(IMAGENET_C, source)
    for images in (29, 31):
        source.images = images
        with pytest.raises(UnfinishedError, match="run the same command again"):
            list(make_blocks(plan, source))
