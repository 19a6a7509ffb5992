"""A manifest for a data set that others built, so that verify, preview, export and the evaluator work on it too."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

import manifests
from corruptions.catalogue import PROFILE_SIDES
from manifests import Row
from pipeline.config import read_toml
from pipeline.datasets.base import MAX_PAYLOAD_BYTES
from pipeline.datasets.index.arrays import ARRAY, find_arrays
from pipeline.datasets.index.folders import EXPORT_FILE, TAR, files_with, find_folders, find_tars
from pipeline.datasets.index.found import Entry, FoundLayout, family_of, looked_for
from pipeline.datasets.indexed import indexed_sample
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE, RECIPE_FILE, file_digest
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.errors import UserError
from pipeline.sources.base import identifier, is_system_folder, refuse_duplicates
from pipeline.storage import SMALL_FILE, LocalStore, Store, is_url, open_store, places
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

PART_ROWS = 1000
"""Rows of one condition that are read and written together."""

ARRAY_LEVELS = (1, 2, 3, 4, 5)
"""Severities stacked in each array of CIFAR-10-C, in order."""


@dataclass(frozen=True)
class IndexResult:
    """What an index came to. ``passed_over`` counts files that are no samples."""

    name: str
    layout: str
    family: str
    conditions: tuple[Condition, ...]
    samples: int
    failed: int
    passed_over: int

    def facts(self) -> dict[str, Any]:
        """For machines."""
        told = {name: value for name, value in vars(self).items() if name != "conditions"}
        return {**told, "steps": list(map(str, self.conditions))}


def index(
    location: str,
    out: str,
    name: str | None = None,
    classes: Sequence[str] = (),
    levels: Sequence[int] = ARRAY_LEVELS,
    threads: int = 1,
    told: Callable[[str], None] = lambda condition: None,
) -> IndexResult:
    """Write a manifest of the data set at ``location`` to ``out``; what it names stays where it is.

    Every sample is read and decoded once; damaged ones become failed rows.

    Args:
        location: A folder or a tar of this machine.
        out: Folder or URL for the manifest: outside of the data, or the very folder that holds them.
        name: What to call the data set; default: the folder's name.
        classes: Names of the classes in the order of their labels; default: all class folders, sorted.
        levels: Levels stacked in each array, in order; arrays of transforms without levels have one.
        threads: Samples that are read at the same time.
        told: Called with the name of each condition before it is read.

    Raises:
        UserError: Nothing is found, what is found does not fit together, or ``out`` holds something else.
    """
    if is_url(location):
        raise UserError(f"{location} is a URL: copy the data set here first, since each of its samples is read")
    _check_names(name, classes)
    place = _absolute(location)
    _refuse_below(place, out)
    layout = _look(place, classes, levels)
    store, files = open_store(out), LocalStore(str(layout.root))
    conditions = sorted(layout.conditions, key=_published_order)
    with store.exclusive():
        _refuse_others(store)
        parts: dict[Condition, list[Path]] = {condition: [] for condition in conditions}
        failed, families, digests = 0, Counter[tuple[str, str]](), dict[str, str]()
        with ThreadPoolExecutor(threads) as pool:
            for condition in conditions:
                told(str(condition))
                for rows in _rows(layout, condition, files, digests, pool):
                    parts[condition].append(store.scratch())
                    manifests.write_part(rows, {}, parts[condition][-1])
                    failed += sum(row.status == manifests.FAILED for row in rows)
                    families.update((row.status, family_of(row.transform, row.frames or 1)) for row in rows)
        family = _one_family(families, location)
        outcome = IndexResult(
            name or layout.root.name, layout.name, family, tuple(conditions), 0, failed, layout.passed_over
        )
        table = {"name": outcome.name, "family": family, "layout": layout.name, "location": _told(layout.root, out)}
        merged = store.scratch()
        outcome = replace(outcome, samples=manifests.merge(parts.values(), {}, merged).rows)
        table["manifest"] = file_digest(merged)
        store.remove(MANIFEST_FILE)
        store.publish_bytes(tomli_w.dumps(table).encode(), INDEX_FILE)
        store.publish(merged, MANIFEST_FILE)
        places.remember(out, "data", str(layout.root))
    return outcome


def _check_names(name: str | None, classes: Sequence[str]) -> None:
    """Raise UserError for names that no settings file or manifest can hold, and for classes that are named twice."""
    for text in (*([name] if name else []), *classes):
        identifier(text)
    for text, count in Counter(classes).items():
        if count > 1:
            raise UserError(f"--classes names {text!r} {count} times: each name is one label; remove the others")


def _absolute(location: str) -> Path:
    try:
        return Path(places.absolute(location))
    except (OSError, RuntimeError) as error:
        raise UserError(f"{location} cannot be used: {error}") from error


def _refuse_below(place: Path, out: str) -> None:
    """Raise UserError for an index that the next one would take for a class folder of the data."""
    if not is_url(out):
        target = _absolute(out)
        if target != place and target.is_relative_to(place):
            raise UserError(
                f"{out} lies below the data {place}, and would be listed as a part of them: choose a folder outside, "
                f"or {place} itself"
            )


def _refuse_others(store: Store) -> None:
    """Raise UserError for a folder that holds something else than an index."""
    if store.size(RECIPE_FILE) >= 0:
        raise UserError(f"{store.root} holds a data set that was built here; choose another folder")
    if store.size(MANIFEST_FILE) >= 0 and store.size(INDEX_FILE) < 0:
        raise UserError(
            f"{store.root} holds a {MANIFEST_FILE} that no index made (there is no {INDEX_FILE}): choose another folder"
        )


def _told(root: Path, out: str) -> str:
    """Return where the data are, as the index tells it: relative where it can move with them."""
    target = None if is_url(out) else _absolute(out)
    return root.relative_to(target).as_posix() if target and root.is_relative_to(target) else str(root)


def _one_family(families: Counter[tuple[str, str]], location: str) -> str:
    """Return the family of all samples: of those that could be read, if any could. Raises UserError for several."""
    sound = {family for status, family in families if status == manifests.OK}
    found = sound or {family for _, family in families}
    if len(found) != 1:
        raise UserError(f"{location} mixes {', '.join(sorted(found))}: index each by itself")
    return found.pop()


def _look(path: Path, classes: Sequence[str], levels: Sequence[int]) -> FoundLayout:
    """Return what is found at a location. Raises UserError."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give the folder or the tar that holds the data set")
    if not path.is_dir():
        layout = find_tars(path, classes)
    else:
        unlabelled = _unlabelled_of_export(path)
        kinds = {kind: files_with(path, kind) for kind in (TAR, ARRAY)}
        _refuse_mixture(path, kinds)
        if kinds[TAR]:
            layout = find_tars(path, classes)
        elif kinds[ARRAY]:
            layout = find_arrays(path, classes, levels)
        else:
            layout = find_folders(path, classes, unlabelled)
    if not layout.conditions:
        raise UserError(
            f"{path} holds no images; they are looked for as {looked_for()}; or as <corruption>.npy, or in tars"
        )
    return layout


def _unlabelled_of_export(path: Path) -> list[str]:
    """Return the folders of an export that hold images without a label; none of what is no export.

    Raises UserError for an export that was interrupted, of which a part would be taken for all, and for one of frames:
    each would be taken for an image, and a class for a severity.
    """
    store = LocalStore(str(path))
    if store.size(EXPORT_FILE) < 0:
        return []
    told = read_toml(store.read(EXPORT_FILE, limit=SMALL_FILE), f"{path}/{EXPORT_FILE}")
    if told.get("state") == "unfinished":
        raise UserError(f"{path} holds an unfinished export: run the same export command again first")
    if told.get("layout") == "frames":
        raise UserError(
            f"{path} holds an export of frames, which are not put together again: export as mp4 or cifar-npy"
        )
    unlabelled = told.get("unlabelled", [])
    return [str(name) for name in unlabelled] if isinstance(unlabelled, list) else []


def _refuse_mixture(path: Path, kinds: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError for tars, arrays and folders side by side: one of them would be left out."""
    entries = LocalStore(str(path)).entries("")
    folders = [entry.name for entry in entries if entry.is_folder and not is_system_folder(entry.name)]
    found = [names[0] for names in (*kinds.values(), folders) if names]
    if any(kinds.values()) and len(found) > 1:
        raise UserError(f"{path} holds {found[0]!r} beside {found[1]!r}: index tars, arrays and folders each by itself")


def _published_order(condition: Condition) -> tuple[int, str, int]:
    """Known transforms as they were published, then others by name; levels rising."""
    known = [name for family in FAMILIES.values() for name in family.names]
    return (
        known.index(condition.transform) if condition.transform in known else len(known),
        condition.transform,
        condition.level,
    )


def _rows(
    layout: FoundLayout, condition: Condition, files: Store, digests: dict[str, str], pool: ThreadPoolExecutor
) -> Iterator[list[Row]]:
    """Yield the rows of a condition in lists of PART_ROWS. ``digests``: those of tars and arrays read so far."""
    entries = list(layout.conditions[condition](layout.classes))
    refuse_duplicates(f"{condition} has the files", ((entry.id, entry.origin) for entry in entries))
    listed = iter(entries)
    while some := list(islice(listed, PART_ROWS)):
        # What begins at 0 is a file of its own, whose digest is that of its payload.
        for shard in {entry.shard for entry in some if entry.offset} - digests.keys():
            with files.open(shard) as file:
                digests[shard] = hashlib.file_digest(file, "sha256").hexdigest()
        yield list(pool.map(lambda entry: _examined(entry, condition, files, digests.get(entry.shard)), some))


def _examined(entry: Entry, condition: Condition, files: Store, shard_sha256: str | None) -> Row:
    """Return the row of one sample after reading and decoding it."""
    row = _blank_row(entry, condition, shard_sha256 or "")
    if not entry.size <= MAX_PAYLOAD_BYTES:
        return row._replace(error=f"{entry.origin}: {entry.size} bytes are more than the {MAX_PAYLOAD_BYTES} allowed")
    files.path(entry.shard)  # refuses links that lead out, pipes and devices
    try:
        data = files.read(entry.shard, entry.offset, entry.size)
        sample = indexed_sample(row, data)
        pixels = sample.pixels()
    except (OSError, ValueError) as error:
        return row._replace(error=f"{entry.origin}: {error}")
    frames, (height, width) = len(pixels) if pixels.ndim == 4 else 1, pixels.shape[-3:-1]
    return row._replace(
        shard_sha256=shard_sha256 or hashlib.sha256(data).hexdigest(),
        frames=frames,
        height=height,
        width=width,
        profile=next((name for name, side in PROFILE_SIDES.items() if height == width == side), ""),
        payload_sha256=payload_digest(sample.members.values()),
        pixel_sha256=pixel_digest(pixels),
        status=manifests.OK,
    )


def _blank_row(entry: Entry, condition: Condition, shard_sha256: str) -> Row:
    *frames, height, width, _ = entry.shape or (None, None, None)
    return Row(
        key=f"{entry.id}-{condition}",
        shard=entry.shard,
        shard_sha256=shard_sha256,
        offset=entry.offset,
        size=entry.size,
        source_id=entry.id,
        source_sha256=None,
        origin=entry.origin,
        label=entry.label,
        class_name=entry.class_name,
        transform=condition.transform,
        version=0,
        level=condition.level,
        profile="",
        decoder="",
        resize="",
        frames=frames[0] if frames else 1,
        height=height,
        width=width,
        encoder=entry.encoder,
        payload_sha256=None,
        pixel_sha256=None,
        status=manifests.FAILED,
        error=None,
    )
