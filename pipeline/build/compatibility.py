"""Whether a folder may be built into: it holds nothing, or the same data set, or a part of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import manifests
from pipeline.build.plan import Plan, WorkItem, listing_digest
from pipeline.datasets.cards import CARD_FILE, CROISSANT_FILE
from pipeline.datasets.opening import read_recipe
from pipeline.datasets.paths import (
    FACT_FAILED,
    FACT_IMAGES,
    FACT_LISTING,
    FACT_SHARD_SIZE,
    FACT_TASK,
    INDEX_FILE,
    MANIFEST_FILE,
    PARTS,
    RECIPE_FILE,
    RUNS,
    SHARDS,
    facts_of_parts,
    part_file,
    shard_file,
    shard_of_part,
)
from pipeline.errors import UserError
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import source_digest
from pipeline.sources.base import Source
from pipeline.storage import LocalStore, Store, is_url, local_path
from pipeline.transforms.family import Condition

FILES, FOLDERS = (RECIPE_FILE, MANIFEST_FILE, CARD_FILE, CROISSANT_FILE), (SHARDS, PARTS, RUNS)
"""What a build writes into its output."""

_LOCAL = frozenset({"file", "local"})
"""Protocols of fsspec that name a path of this machine."""

_SAME = {"s3a": "s3", "gcs": "gs"}
"""Protocols with two names."""

_NAMED = re.compile(r"(?P<transform>.+)-(?P<level>\d{1,3})-(?P<block>\d{6,12})")
"""The stem of a shard and of its part."""

_NUMBER = re.compile("[0-9]{1,18}")

_SHOWN, _DIGITS = 3, 12
"""Names that a message gives as examples, and digits of a digest."""

_COMPARED = 8
"""Photographs whose content is compared with that of an earlier build."""

Item = TypeVar("Item")


def check_places(source: str, output: str) -> None:
    """Raises UserError where the output is in the source, or the source in what a build writes; links are followed.

    What is written would be listed by the next run, as a class of its own.
    """
    if _inside(output, source):
        raise UserError(
            f"the output {output} is in the source {source}: the next run would take it for photographs; "
            "choose a folder outside the source"
        )
    for name in FOLDERS:
        if _inside(source, f"{output.rstrip('/')}/{name}"):
            raise UserError(
                f"the source {source} is in {name}/ of the output {output}, where the build writes; "
                "choose another output folder"
            )


def check_claim(store: Store, recipe: Recipe) -> None:
    """Check that what is there, if anything, is the same data set or a part of it. Raises UserError."""
    _check_kinds(store, recipe)
    if store.size(RECIPE_FILE) < 0:
        taken = [name for name in (*FILES, INDEX_FILE) if store.size(name) >= 0]
        taken += [f"{name}/" for name in FOLDERS if _holds_any(store, name)]
        if taken:
            raise UserError(
                f"{store.root} holds {', '.join(taken)} but no {RECIPE_FILE}, so it is no data set of a build: "
                "choose an empty folder"
            )
    else:
        faults = _conflicts(read_recipe(store), recipe)
        if faults:
            raise UserError(
                f"{store.root} holds another data set ({'; '.join(faults)}): choose another folder, "
                "or build with the same settings and libraries"
            )


@dataclass(frozen=True)
class Recorded:
    """What a manifest part says of its block: the part's name, the number of images, and their listing's digest."""

    part: str
    images: int
    listing: str

    def begins(self, block: WorkItem) -> bool:
        """Whether the images of a block begin with those that were built."""
        if len(block.images) == self.images:  # its tasks know the digest
            return block.tasks[0].listing == self.listing
        return listing_digest(block.images[: self.images]) == self.listing


@dataclass(frozen=True)
class There:
    """What the output holds of a plan: digests of the tasks that are done; the blocks that must not be other ones.

    ``compared``: blocks of which a photograph is read again, each with a part that tells its digest.
    """

    done: frozenset[str] = frozenset()
    blocks: Mapping[int, Recorded] = field(default_factory=dict)
    compared: Mapping[int, str] = field(default_factory=dict)


def look(store: Store, plan: Plan, retry_failed: bool = False) -> There:
    """Find the tasks whose shard is there and whole; with ``retry_failed``, and without failures.

    Shards and parts are listed once, and only parts that are there are opened: object stores answer slowly. Of a
    finished data set without failures, the photographs are those that it was built from, and maybe more.
    Raises UserError for shards and parts that the plan does not have.
    """
    sizes = store.listing(SHARDS, ".tar")
    conditions = frozenset(plan.recipe.conditions())
    foreign = [name for name in sizes if not _planned(name, conditions, plan.blocks)]
    done, blocks, parts, failed = set[str](), dict[int, Recorded](), dict[int, str](), 0
    for part, facts in facts_of_parts(store, PARTS):
        if not _planned(part, conditions, plan.blocks):
            foreign.append(part)
        elif _whole(facts, FACT_SHARD_SIZE, FACT_FAILED) and FACT_TASK in facts:
            failures = int(facts[FACT_FAILED])
            failed += failures
            if _whole(facts, FACT_IMAGES) and FACT_LISTING in facts:
                blocks[_block_of(part)] = Recorded(part, int(facts[FACT_IMAGES]), facts[FACT_LISTING])
            if sizes.get(shard_of_part(part)) == int(facts[FACT_SHARD_SIZE]) and not (retry_failed and failures):
                done.add(facts[FACT_TASK])
                parts[_block_of(part)] = part
    if foreign:
        _refuse_foreign(store, plan, foreign)
    kept = not failed and not retry_failed and store.size(MANIFEST_FILE) >= 0
    return There(frozenset(done), blocks if kept else {}, _some(parts))


def checked(blocks: Iterable[WorkItem], there: There, store: Store, source: Source) -> Iterator[WorkItem]:
    """Give the blocks as they are.

    Raises UserError at one that does not begin with the images that were built, or of which a photograph that is read
    again has other content: names and sizes can be alike, as they are in every array of CIFAR.
    """
    each = -(-_COMPARED // max(len(there.compared), 1))
    for block in blocks:
        part = there.compared.get(block.index)
        if part and any(task.digest in there.done for task in block.tasks):
            _compare_content(store, part, block, source, each)
        recorded = there.blocks.get(block.index)
        if recorded and not recorded.begins(block):
            raise UserError(
                f"{store.root} is finished, and was built from other photographs: "
                f"{_difference(store, recorded, block)}. Choose another folder; if the source was mended on purpose, "
                "--retry-failed makes what has changed"
            )
        yield block


def _compare_content(store: Store, part: str, block: WorkItem, source: Source, count: int) -> None:
    """Read some photographs of a block again. Raises UserError where one is not that of the manifest part."""
    try:
        rows = {row.source_id: row for row in manifests.read_rows(store.path(part)) if row.status == manifests.OK}
    except (OSError, ValueError):
        return
    for image in _spread([image for image in block.images if image.id in rows], count):
        try:
            found = source_digest(source.read(image))
        except OSError:  # the build will say so, if it needs it
            continue
        if found != rows[image.id].source_sha256:
            raise UserError(
                f"{store.root} was built from other photographs: {image.origin} of {source.location} has sha256 "
                f"{found[:_DIGITS]}..., and was built from {(rows[image.id].source_sha256 or '')[:_DIGITS]}...; "
                "choose another folder"
            )


def _some(parts: Mapping[int, str]) -> dict[int, str]:
    """A few of the blocks, from the first to the last."""
    return {block: parts[block] for block in _spread(sorted(parts), _COMPARED)}


def _spread(items: Sequence[Item], count: int) -> list[Item]:
    """Up to ``count`` items at even distances, the first and the last among them."""
    places = {round(place * (len(items) - 1) / max(count - 1, 1)) for place in range(min(count, len(items)))}
    return [items[place] for place in sorted(places)]


def _block_of(part: str) -> int:
    return int(part.removesuffix(".parquet").rpartition("-")[2])


def _difference(store: Store, recorded: Recorded, block: WorkItem) -> str:
    """The first image of a block that is another than the one which was built."""
    where = f"block {block.index:06d}"
    try:
        rows = list(manifests.read_rows(store.path(recorded.part)))
    except (OSError, ValueError):
        return where
    for row, image in zip_longest(rows, block.images[: recorded.images]):
        if row is None or image is None:
            return f"{where} has {len(rows):,} images, now {min(len(block.images), recorded.images):,} of them"
        if (row.source_id, row.label, row.class_name, row.origin) != (
            image.id, image.label, image.class_name, image.origin,
        ):  # fmt: skip
            return (
                f"{where} has {row.origin} of class {row.class_name or 'none'} ({row.label}), the source "
                f"{image.origin} of class {image.class_name or 'none'} ({image.label})"
            )
    return f"{where}: the files from {rows[0].origin} on have other sizes" if rows else where


def _refuse_foreign(store: Store, plan: Plan, names: Sequence[str]) -> NoReturn:
    """Raises UserError for shards and parts that the plan does not have: they would stay among the new ones."""
    some = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    raise UserError(
        f"{store.root} holds {len(names):,} shards and manifest parts that this build does not make ({some}): it was "
        f"built from other photographs than the {plan.images:,} of this source. Choose another folder, or remove "
        "those files"
    )


def _whole(facts: Mapping[str, str], *names: str) -> bool:
    """Whether these facts are there, and are whole numbers."""
    return all(_NUMBER.fullmatch(facts.get(name, "")) for name in names)


def _planned(name: str, conditions: frozenset[Condition], blocks: int) -> bool:
    """Whether a file in the folders of shards and parts is one that the plan has."""
    found = _NAMED.fullmatch(name.rpartition("/")[2].rpartition(".")[0])
    if not found:
        return False
    condition, block = Condition(found["transform"], int(found["level"])), int(found["block"])
    return (
        condition in conditions
        and block < blocks
        and name in (shard_file(condition, block), part_file(condition, block))
    )


def _check_kinds(store: Store, recipe: Recipe) -> None:
    """Raises UserError where a name that a build writes is a folder instead of a file, or leads out by a link."""
    if not isinstance(store, LocalStore):
        return
    for name in FILES:
        if store.path(name).is_dir():
            raise UserError(f"{store.root}/{name} is a folder, and a build writes a file there: remove it")
    below = {
        f"{SHARDS}/{condition.transform}{level}"
        for condition in recipe.conditions()
        for level in ("", f"/{condition.level}")
    }
    for name in (*FOLDERS, *sorted(below)):
        path = store.path(name)
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(f"{store.root}/{name} is no folder, and a build writes into one there: remove it")


def _holds_any(store: Store, folder: str) -> bool:
    """Whether there is anything in a folder, if there is one."""
    try:
        return bool(store.entries(folder))
    except UserError:
        return False


def _inside(location: str, folder: str) -> bool:
    """Whether a location is a folder or below it, as far as that is known: all links are followed."""
    if _is_local(location) and _is_local(folder):
        return _inside_path(_path(location), _path(folder))
    if _is_local(location) or _is_local(folder):
        return False
    here, there = _url_parts(location), _url_parts(folder)
    return here[: len(there)] == there


def _inside_path(path: Path, folder: Path) -> bool:
    path, place = _resolved(path), _resolved(folder)
    if place == path or place in path.parents:
        return True
    try:
        wanted = place.stat()
        linked = (
            [Path(each.path) for each in os.scandir(place) if each.is_symlink() and each.is_dir()]
            if place.is_dir()
            else []
        )
    except OSError:
        return False
    if place.is_dir() and any(_same(each, wanted) for each in (path, *path.parents)):  # mounted twice, say
        return True
    return any(target == path or target in path.parents for target in map(_resolved, linked))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error


def _same(path: Path, other: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), other)
    except OSError:
        return False


def _is_local(location: str) -> bool:
    return not is_url(location) or urlsplit(location).scheme in _LOCAL


def _path(location: str) -> Path:
    return Path(location.partition("://")[2]) if is_url(location) else local_path(location)


def _url_parts(url: str) -> list[str]:
    """Protocol, host and the names of the path."""
    protocol, _, rest = url.partition("://")
    return [_SAME.get(protocol.lower(), protocol.lower()), *(part for part in rest.split("/") if part)]


def _conflicts(there: Recipe, wanted: Recipe) -> list[str]:
    """Where two canonical recipes differ. More transforms, levels or images than there are is no conflict."""
    old, new = _flat(there), _flat(wanted)
    new_decoders = {f"decoders.{name}" for name in wanted.decoders.keys() - there.decoders.keys()}
    grown = {
        "transforms.only": set(there.transforms.only) <= set(wanted.transforms.only),
        "transforms.levels": set(there.transforms.levels) <= set(wanted.transforms.levels),
        "source.limit": not wanted.source.limit or 0 < there.source.limit <= wanted.source.limit,
    }
    return [
        f"{name}: {old.get(name)} there, {new.get(name)} asked for"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name) and not grown.get(name, name in new_decoders)
    ]


def _flat(recipe: Recipe) -> dict[str, Any]:
    content = recipe.model_dump(mode="json", exclude={"title"})
    return {
        f"{table}.{key}" if isinstance(fields, dict) else table: value
        for table, fields in content.items()
        for key, value in (fields if isinstance(fields, dict) else {"": fields}).items()
    }
