"""The plan of a build: shard tasks, made from a recipe and a source listing. It does not depend on time or machine."""

import hashlib
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from os.path import splitext
from typing import Any

from pipeline.datasets.paths import part_file, shard_file, shard_name
from pipeline.errors import UnfinishedError, UserError
from pipeline.execution.scheduler import STRAGGLER_FACTOR
from pipeline.images.files import Own
from pipeline.recipes.schema import Recipe
from pipeline.software import device_name
from pipeline.sources.base import UNLABELLED, Source, SourceImage, notices_of
from pipeline.sources.files import listed_suffixes, warnings_of_unread
from pipeline.tasks.labels import LabelSpace
from pipeline.text import counted
from pipeline.transforms.family import Condition

NOT_IN_BYTES = {"name", "title", "source", "software", "decoders", "resizers", "labels", "attack", "bank"}
"""Fields of a recipe that the digest of a shard omits: labels are in the digest of the listing, and attack and bank in
``more_identity``."""

SHARED_COST, SHARED_COST_OF_SEQUENCES = 3, 0
"""Estimated time to read, decode and prepare an image, as a multiple of the time of one output (docs/benchmark.md).
The second value is for recipes that make sequences."""

SLOW, SLOWDOWN = 0.02, 3
"""Fraction of the workers of a cluster that are assumed to be slow, rounded down to whole workers, and how many times
as long these take."""


@dataclass(frozen=True)
class ShardTask:
    """The task to make one shard: one condition for one block of source images.

    Attributes:
        condition: Transform and level.
        block: Number of the block.
        digest: Digest of everything that decides the bytes of the shard.
        listing: Digest of the images of the block only, see :func:`listing_digest`.
    """

    condition: Condition
    block: int
    digest: str
    listing: str = ""

    @property
    def name(self) -> str:
        """Return ``<transform>-<level>-<block>``, the stem of the tar and of the manifest part."""
        return shard_name(self.condition, self.block)

    @property
    def shard(self) -> str:
        """Return the path of the tar in the data set."""
        return shard_file(self.condition, self.block)

    @property
    def part(self) -> str:
        """Return the path of the manifest part in the data set."""
        return part_file(self.condition, self.block)


@dataclass(frozen=True)
class WorkItem:
    """A block of consecutive source images, and the shard tasks that use them."""

    index: int
    images: tuple[SourceImage, ...]
    tasks: tuple[ShardTask, ...]

    def split(self, pieces: int) -> "Iterator[WorkItem]":
        """Split the tasks among at most ``pieces`` work items with the same images, each of which prepares them again.

        Tasks are assigned in turns, so that each piece has transforms of every kind.
        """
        for first in range(min(pieces, len(self.tasks))):
            yield replace(self, tasks=self.tasks[first::pieces])


@dataclass(frozen=True)
class Missing:
    """Numbers of missing samples by condition, of missing shards, and of blocks with missing shards."""

    samples: Counter[Condition]
    shards: int
    blocks: int

    def by_transform(self) -> Counter[str]:
        """Return the number of missing samples by transform."""
        todo: Counter[str] = Counter()
        for condition, count in self.samples.items():
            todo[condition.transform] += count
        return todo


@dataclass(frozen=True)
class Plan:
    """The plan of a build. Its size in memory does not depend on the number of images.

    Attributes:
        recipe: What to build, with the labels of the source.
        images: Number of source images.
        classes: Number of classes.
        listing: Digest of the source listing.
        ignored: Suffix -> number of ignored files in the source.
        warnings: What to know about the source before the work.
    """

    recipe: Recipe
    images: int
    classes: int
    listing: str
    ignored: Counter[str]
    warnings: tuple[str, ...] = ()

    @property
    def blocks(self) -> int:
        """Return the number of blocks of source images."""
        return -(-self.images // self.recipe.shards.size)

    @property
    def unit(self) -> str:
        """What a block under one condition becomes: a shard, or a group of files."""
        return "group" if self.recipe.is_mirror else "shard"

    @property
    def shards(self) -> int:
        """Return the number of shards."""
        return self.blocks * len(self.recipe.conditions())

    @property
    def samples(self) -> int:
        """Return the number of samples."""
        return self.images * len(self.recipe.conditions())

    @property
    def labels(self) -> str:
        """What to know about the labels; empty if they are all classes of ImageNet, or unknown."""
        return space.notice if (space := self._label_space) else ""

    def label_facts(self) -> dict[str, Any] | None:
        """Return what the labels count as JSON values; None if unknown."""
        space = self._label_space
        return {**space.model_dump(mode="json", exclude_none=True), "description": str(space)} if space else None

    @property
    def _label_space(self) -> LabelSpace | None:
        """What the labels of the chosen images count; the recipe describes all images of the source."""
        return self.recipe.labels.among(self.classes) if self.recipe.labels else None

    def facts(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "recipe": self.recipe.name,
            "images": self.images,
            "labels": self.label_facts(),
            "warnings": list(self.warnings),
            "samples": self.samples,
        }

    def notes(self) -> Iterator[str]:
        """Yield what to know about labels and source, as lines of text."""
        if self.labels:
            yield f"labels: {self.labels}"
        yield from (f"warning: {text}" for text in self.warnings)

    @property
    def digest(self) -> str:
        """Return the digest of everything that decides the bytes of the finished data set."""
        conditions = self.recipe.conditions()
        more = [each for condition in conditions for each in self.recipe.more_identity(condition)]
        return _digest(_identity(self.recipe), list(map(str, conditions)), self.listing, *more)

    def parts(self) -> Iterator[list[str]]:
        """Yield the manifest parts of each condition, in the order of the merged manifest."""
        for condition in self.recipe.conditions():
            yield [part_file(condition, block) for block in range(self.blocks)]


def make_plan(recipe: Recipe, source: Source) -> Plan:
    """List the source once and return the plan.

    Raises:
        UserError: The source contains no images, or two images have the same id.
    """
    state, images, unlabelled, classes = hashlib.sha256(), 0, 0, set[str]()
    renamed = recipe.is_mirror and isinstance(recipe.encoder, Own) and recipe.encoder.content == "png"
    names = dict[str, str]()
    for image in _limited(recipe, source):
        if renamed and (first := names.setdefault(splitext(image.origin)[0], image.origin)) != image.origin:
            raise UserError(
                f"{source.location} has {first} and {image.origin}, which would become the same PNG file: use "
                "--encoder png-bytes, which keeps their names"
            )
        state.update(_image_digest(image))
        images += 1
        unlabelled += image.label == UNLABELLED
        classes.add(image.class_name)
    if not images:
        ignored = listed_suffixes(source.ignored)
        raise UserError(
            f"no images found in {source.location}" + (f" (ignored files: {ignored})" if ignored else "") + ": give "
            "the folder that contains them, or their layout with --source-kind"
        )
    recipe = recipe.model_copy(update={"labels": source.labels})
    warnings = notices_of(source) + warnings_of_unread(source.ignored)
    if unlabelled and not (recipe.family.sequences or recipe.is_mirror):  # sequences count changes of the prediction
        warnings += (
            f"labels are missing for {unlabelled:,} of {counted(images, 'image')}, so no error rate can be computed on "
            "this data set: use a source with labels, for example one folder per class",
        )
    if recipe.family.on_device:
        device = device_name(recipe.device)
        warnings += (f"{device} computes the pixels of {recipe.name}: their bytes depend on the device",)
    return Plan(recipe, images, len(classes - {""}), state.hexdigest(), source.ignored.copy(), warnings)


def make_blocks(plan: Plan, source: Source) -> Iterator[WorkItem]:
    """List the source again and yield the blocks of the plan in order, each with all of its tasks.

    Raises:
        UnfinishedError: The listing has changed since the plan was made.
    """
    recipe = plan.recipe
    identity, conditions = _identity(recipe), recipe.conditions()
    versions = {condition.transform: recipe.family.version(condition.transform) for condition in conditions}
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
            _digest(
                *(identity, condition.transform, condition.level, versions[condition.transform], block),
                *recipe.more_identity(condition),
            )
            for condition in conditions
        )
        tasks = (
            ShardTask(condition, index, digest, block) for condition, digest in zip(conditions, digests, strict=True)
        )
        yield WorkItem(index, images, tuple(tasks))
    if state.hexdigest() != plan.listing or next(listing, None) is not None:
        raise UnfinishedError(f"{source.location} changed while it was being read; run the same command again")


def listing_digest(images: Iterable[SourceImage]) -> str:
    """Return the digest of a listing: id, label, class name, origin, size and box of each image, in order."""
    state = hashlib.sha256()
    for image in images:
        state.update(_image_digest(image))
    return state.hexdigest()


def missing_blocks(blocks: Iterator[WorkItem], done: Set[tuple[int, str]]) -> Iterator[WorkItem]:
    """Yield the blocks with their missing tasks, given block and digest of the finished ones; skip finished blocks."""
    for block in blocks:
        tasks = tuple(task for task in block.tasks if (task.block, task.digest) not in done)
        if tasks:
            yield replace(block, tasks=tasks)


def division(blocks: int, workers: int, tasks: int, equal: bool, shared: int = SHARED_COST) -> tuple[int, int]:
    """Return how many blocks to keep whole, and the number of pieces of each further one, for the shortest build time.

    More pieces keep more workers busy until the end, but each piece decodes the images of its block again. If all
    workers are equally fast, whole blocks come first, the same number for each worker, unless dividing all blocks is
    faster. If not, a few are slow: each does less, and its first piece delays the end until the scheduler has noticed
    and another worker has made the piece.

    Args:
        blocks: Number of blocks.
        workers: Number of workers.
        tasks: Number of tasks per block.
        equal: Whether the workers are equally fast, as those of one machine are.
        shared: Time to decode the images of a block, as a multiple of the time of one task.
    """
    slow = 0 if equal else int(SLOW * workers)
    capacity = workers - slow * (1 - 1 / SLOWDOWN)

    def estimated(choice: tuple[int, int]) -> tuple[float, int]:
        whole, pieces = choice
        rounds: float = math.ceil((blocks - whole) * pieces / capacity)
        if slow:
            rounds = max(rounds, STRAGGLER_FACTOR + 1)
        time = whole // workers * (shared + tasks) + rounds * (shared + -(-tasks // pieces))
        return time, (-pieces if slow else 0)  # of equal estimates, that with the shorter last pieces

    most = blocks // workers * workers if equal else 0
    return min(((whole, pieces) for whole in (most, 0) for pieces in range(1, tasks + 1)), key=estimated)


def divided(
    blocks: Iterable[WorkItem], whole: int, pieces: int, split: Callable[[WorkItem, int], Iterator[WorkItem]]
) -> Iterator[WorkItem]:
    """Yield the first ``whole`` blocks, then the pieces of the others."""
    for number, block in enumerate(blocks):
        yield from split(block, 1 if number < whole else pieces)


def count_missing(blocks: Iterator[WorkItem]) -> Missing:
    """Return the numbers of samples, shards and blocks in these blocks."""
    samples: Counter[Condition] = Counter()
    shards = block_count = 0
    for block in blocks:
        for task in block.tasks:
            samples[task.condition] += len(block.images)
        shards += len(block.tasks)
        block_count += 1
    return Missing(samples, shards, block_count)


def _limited(recipe: Recipe, source: Source) -> Iterator[SourceImage]:
    return islice(iter(source), min(recipe.source.limit, sys.maxsize) or None)


def _identity(recipe: Recipe) -> str:
    """Return the settings of a recipe that decide the bytes of every shard, as JSON."""
    content = recipe.model_dump(mode="json", exclude=NOT_IN_BYTES, exclude_none=True)
    for selection in ("only", "levels"):
        del content["transforms"][selection]
    return json.dumps(content, sort_keys=True)


def _image_digest(image: SourceImage) -> bytes:
    return _digest(image.id, image.label, image.class_name, image.origin, image.size, str(image.box)).encode()


def _digest(*fields: str | int | Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()
