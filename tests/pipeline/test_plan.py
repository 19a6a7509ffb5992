from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import recipes
from pipeline.build import pieces_of_a_block, split
from pipeline.errors import UnfinishedError, UserError
from pipeline.plan import Block, make_blocks, make_plan
from pipeline.sources import SourceImage, open_source

IMAGENET_C = recipes.load("imagenet-c")


class MadeSource:
    """A listing of any length that is never held in memory."""

    location = "made"

    def __init__(self, images: int) -> None:
        self.images = images
        self.ignored: Counter[str] = Counter()

    def __iter__(self) -> Iterator[SourceImage]:
        for index in range(self.images):
            name = f"n{index // 50:08d}"
            yield SourceImage(f"{name}/image{index}", index // 50, name, f"{name}/image{index}.JPEG", 100_000)

    def read(self, image: SourceImage) -> bytes:
        raise NotImplementedError


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 70))
@settings(max_examples=40, deadline=None)
def test_every_image_stands_once_in_every_step(images: int, size: int, limit: int) -> None:
    recipe = IMAGENET_C.changed(shards={"size": size}, source={"limit": limit}, transforms={"only": ["fog"]})
    source = MadeSource(images)
    plan = make_plan(recipe, source)
    blocks = list(make_blocks(plan, source))
    expected = [image.id for image in source][: limit or None]
    assert [image.id for block in blocks for image in block.images] == expected
    assert (plan.images, plan.blocks, plan.shards) == (len(expected), len(blocks), len(blocks) * 5)
    by_step = [[block.tasks[place].part for block in blocks] for place in range(len(recipe.steps()))]
    assert list(plan.parts()) == by_step


def test_digests_change_with_what_decides_the_bytes_and_nothing_else() -> None:
    def first(recipe: recipes.Recipe, source: MadeSource) -> str:
        return next(make_blocks(make_plan(recipe, source), source)).tasks[0].digest

    fog = IMAGENET_C.changed(transforms={"only": ["fog"]}, shards={"size": 10})
    digest = first(fog, MadeSource(30))
    for change in (
        {"seed": 1},
        {"encoder": {"quality": 84}},
        {"shards": {"size": 11}},
        {"transforms": {"levels": [2]}},
    ):
        assert first(fog.changed(**change), MadeSource(30)) != digest
    same = fog.changed(transforms={"only": ["fog", "contrast"], "levels": [1]}, source={"limit": 20}, name="other")
    assert first(same, MadeSource(31)) == digest


@given(st.integers(1, 200), st.integers(1, 100))
def test_work_is_shared_evenly_or_finely(blocks: int, workers: int) -> None:
    pieces = pieces_of_a_block(blocks, workers)
    units = blocks * pieces
    assert units % workers == 0 or units >= 4 * workers
    assert pieces == 1 or blocks * (pieces - 1) < 4 * workers


@given(st.integers(1, 40), st.integers(1, 60))
def test_split_deals_out_every_task_once(tasks: int, pieces: int) -> None:
    source = MadeSource(3)
    plan = make_plan(IMAGENET_C, source)
    (block,) = make_blocks(plan, source)
    block = Block(block.index, block.images, block.tasks[:tasks])
    parts = list(split(block, pieces))
    assert len(parts) == min(tasks, pieces)
    assert sorted(task.name for part in parts for task in part.tasks) == sorted(task.name for task in block.tasks)
    assert max(len(part.tasks) for part in parts) - min(len(part.tasks) for part in parts) <= 1
    assert all(part.images == block.images for part in parts)


def test_memory_does_not_grow_with_the_number_of_images() -> None:
    """Planning and walking the blocks of 50,000 images x 95 outputs holds no more than those of 5,000."""
    recipe = IMAGENET_C.changed(transforms={"only": ["all"]})

    def peak(images: int) -> int:
        source = MadeSource(images)
        tracemalloc.start()
        try:
            plan = make_plan(recipe, source)
            assert plan.samples == images * 95
            for _ in make_blocks(plan, source):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1000)
    assert peak(50_000) < 1.3 * peak(5000)


def test_an_empty_source_is_refused_and_says_what_it_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("no image")
    with pytest.raises(UserError, match=r"no images found in .* \(passed over: 1 \.txt\)"):
        make_plan(IMAGENET_C, open_source("imagefolder", str(tmp_path)))


def test_a_listing_that_changes_underway_is_noticed() -> None:
    source = MadeSource(30)
    plan = make_plan(IMAGENET_C, source)
    for images in (29, 31):
        source.images = images
        with pytest.raises(UnfinishedError, match="has changed"):
            list(make_blocks(plan, source))
