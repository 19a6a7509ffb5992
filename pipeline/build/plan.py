"""Recipe + source listing -> shard tasks. Pure: no clock, no host, no randomness."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from pipeline.datasets.paths import part_file, shard_file, shard_name
from pipeline.errors import UnfinishedError, UserError
from pipeline.recipes.schema import Recipe
from pipeline.sources.base import Source, SourceImage
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class ShardTask:
    """One shard: a block of source images x one condition.

    ``digest`` covers all that decides its bytes; ``listing`` only the images, see :func:`listing_digest`.
    """

    condition: Condition
    block: int
    digest: str
    listing: str = ""

    @property
    def name(self) -> str:
        """``<transform>-<level>-<block>``, the stem of the tar and of the manifest part."""
        return shard_name(self.condition, self.block)

    @property
    def shard(self) -> str:
        """Where the tar goes in the data set."""
        return shard_file(self.condition, self.block)

    @property
    def part(self) -> str:
        """Where the manifest part goes in the data set."""
        return part_file(self.condition, self.block)


@dataclass(frozen=True)
class WorkItem:
    """Consecutive source images that share shards, and the tasks that they are needed for."""

    index: int
    images: tuple[SourceImage, ...]
    tasks: tuple[ShardTask, ...]

    def split(self, pieces: int) -> Iterator[WorkItem]:
        """Yield up to ``pieces`` work items with the same images, to which the tasks are dealt out in turns.

        Each piece gets tasks of every family of transforms, and prepares the images for itself.
        """
        for first in range(min(pieces, len(self.tasks))):
            yield replace(self, tasks=self.tasks[first::pieces])


@dataclass(frozen=True)
class Missing:
    """What is missing of a data set: samples by condition, shards, and the blocks that they belong to."""

    samples: Counter[Condition]
    shards: int
    blocks: int

    def by_transform(self) -> Counter[str]:
        """Return the missing samples of each transform."""
        todo: Counter[str] = Counter()
        for condition, count in self.samples.items():
            todo[condition.transform] += count
        return todo


@dataclass(frozen=True)
class Plan:
    """What a build will make. Its size in memory does not depend on the number of images.

    ``listing`` is the digest of the source listing; ``ignored`` counts files passed over, by suffix.
    """

    recipe: Recipe
    images: int
    classes: int
    listing: str
    ignored: Counter[str]

    @property
    def blocks(self) -> int:
        """Number of blocks of source images."""
        return -(-self.images // self.recipe.shards.size)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return self.blocks * len(self.recipe.conditions())

    @property
    def samples(self) -> int:
        """Number of samples."""
        return self.images * len(self.recipe.conditions())

    @property
    def digest(self) -> str:
        """Covers everything that decides the bytes of the finished data set."""
        return _digest(_identity(self.recipe), [str(condition) for condition in self.recipe.conditions()], self.listing)

    def parts(self) -> Iterator[list[str]]:
        """Yield the manifest parts of each condition, in the order of the merged manifest: transform, level, block."""
        for condition in self.recipe.conditions():
            yield [part_file(condition, block) for block in range(self.blocks)]


def make_plan(recipe: Recipe, source: Source) -> Plan:
    """List the source once, and return the plan. Raises UserError if it is empty or lists an id twice."""
    state, images, classes = hashlib.sha256(), 0, set[str]()
    for image in _limited(recipe, source):
        state.update(_image_digest(image))
        images += 1
        classes.add(image.class_name)
    if not images:
        ignored = ", ".join(f"{count} {suffix}" for suffix, count in sorted(source.ignored.items()))
        raise UserError(
            f"no images found in {source.location}" + (f" (passed over: {ignored})" if ignored else "") + "; name the "
            "folder that holds them, or their layout with --source-kind"
        )
    return Plan(recipe, images, len(classes - {""}), state.hexdigest(), source.ignored.copy())


def make_blocks(plan: Plan, source: Source) -> Iterator[WorkItem]:
    """List the source again, and yield each block of the plan with all its tasks.

    Raises UnfinishedError if the listing has changed since the plan was made.
    """
    recipe = plan.recipe
    identity, conditions, versions = _identity(recipe), recipe.conditions(), _versions(recipe)
    listing = _limited(recipe, source)
    state = hashlib.sha256()
    for index in range(plan.blocks):
        images = tuple(islice(listing, recipe.shards.size))
        content = hashlib.sha256()
        for digest in map(_image_digest, images):
            content.update(digest)
            state.update(digest)
        block = content.hexdigest()
        digests = (
            _digest(identity, condition.transform, condition.level, versions[condition.transform], block)
            for condition in conditions
        )
        tasks = (
            ShardTask(condition, index, digest, block) for condition, digest in zip(conditions, digests, strict=True)
        )
        yield WorkItem(index, images, tuple(tasks))
    if state.hexdigest() != plan.listing or next(listing, None) is not None:
        raise UnfinishedError(f"{source.location} has changed while it was being read; run the same command again")


def listing_digest(images: Iterable[SourceImage]) -> str:
    """Return the digest of a listing of images: ids, labels, class names, places, sizes and boxes, in this order."""
    state = hashlib.sha256()
    for image in images:
        state.update(_image_digest(image))
    return state.hexdigest()


def count_missing(blocks: Iterator[WorkItem]) -> Missing:
    """Return what the tasks of the blocks add up to."""
    samples: Counter[Condition] = Counter()
    shards = number = 0
    for block in blocks:
        for task in block.tasks:
            samples[task.condition] += len(block.images)
        shards += len(block.tasks)
        number += 1
    return Missing(samples, shards, number)


def _limited(recipe: Recipe, source: Source) -> Iterator[SourceImage]:
    return islice(iter(source), min(recipe.source.limit, sys.maxsize) or None)


def _identity(recipe: Recipe) -> str:
    """Return what decides the bytes of a shard in a recipe, apart from the shard's own condition."""
    content = recipe.model_dump(mode="json", exclude={"name", "title", "source", "software", "decoders"})
    for selection in ("only", "levels"):
        del content["transforms"][selection]
    return json.dumps(content, sort_keys=True)


def _versions(recipe: Recipe) -> dict[str, int]:
    return {condition.transform: recipe.family.version(condition.transform) for condition in recipe.conditions()}


def _image_digest(image: SourceImage) -> bytes:
    return _digest(image.id, image.label, image.class_name, image.origin, image.size, str(image.box)).encode()


def _digest(*fields: str | int | Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
