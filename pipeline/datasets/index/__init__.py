"""Indexes: manifests of data sets of other tools, so that verify, preview, export and evaluate can read them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

import manifests
from corruptions.catalogue import PROFILE_SIDES
from manifests import Row
from manifests.limits import MAX_ROW_GROUPS
from pipeline.config import read_toml
from pipeline.datasets.base import MAX_PAYLOAD_BYTES
from pipeline.datasets.index.arrays import ARRAY, find_arrays
from pipeline.datasets.index.detected import DetectedLayout, Entry, expected_folders, family_of
from pipeline.datasets.index.folders import EXPORT_FILE, TAR, files_with, find_folders, find_tars
from pipeline.datasets.index.labelling import EXAMPLES, ByName, ByTask
from pipeline.datasets.indexed import indexed_sample
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE, RECIPE_FILE, file_digest
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.errors import UserError
from pipeline.sources.base import COMPRESSIONS, identifier, refuse_duplicates
from pipeline.sources.files import is_system_folder, warnings_of_unread
from pipeline.storage import SMALL_FILE, LocalStore, Store, is_url, open_store, trusted_locations
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.schema import LoadedTask, Task
from pipeline.text import counted
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

PART_ROWS = 1000
"""Number of rows that are read and written together."""

COMPRESSED_TARS = (".tgz", *(TAR + compression for compression in COMPRESSIONS))
"""Suffixes of compressed tars, whose members cannot be read one by one."""

ARRAY_LEVELS = (1, 2, 3, 4, 5)
"""Severities stacked in each array of CIFAR-10-C, in order."""


@dataclass(frozen=True)
class IndexResult:
    """The result of indexing.

    Attributes:
        name: Name of the data set.
        layout: Name of the detected layout.
        family: Name of the family of its transforms.
        conditions: Its transforms and levels.
        samples: Number of samples, including failed ones.
        failed: Number of samples that could not be read.
        passed_over: Number of files that are not samples.
        labels: What the labels count. None if unknown, or if a task says it.
        task: The task. None if there is none.
        left_out: Folders that the task does not name, and the number of images in each.
        missing: Folders that the task names and that have no images.
        warnings: What to know about the files that are not samples.
    """

    name: str
    layout: str
    family: str
    conditions: tuple[Condition, ...]
    samples: int
    failed: int
    passed_over: int
    labels: LabelSpace | None
    task: Task | None
    left_out: Mapping[str, int]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Return the result for JSON output."""
        counts = ("name", "layout", "family", "samples", "failed", "passed_over")
        return {
            **{name: getattr(self, name) for name in counts},
            "steps": list(map(str, self.conditions)),
            "labels": self.labels
            and {**self.labels.model_dump(mode="json", exclude_none=True), "description": str(self.labels)},
            "task": self.task and self._task_facts(self.task),
            "warnings": list(self.warnings),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        damaged = f"; {counted(self.failed, 'sample')} damaged" if self.failed else ""
        skipped = f"; skipped {counted(self.passed_over, 'other file')}" if self.passed_over else ""
        yield (
            f"indexed {self.name} (layout: {self.layout}): {counted(self.samples, 'sample')}, "
            f"{counted(len(self.conditions), 'combination')} of transform and level{damaged}{skipped}"
        )
        yield from (f"warning: {text}" for text in self.warnings)
        if self.labels:
            yield f"labels: {self.labels}"
        if self.task:
            yield from self._task_lines(self.task)

    def _task_facts(self, task: Task) -> dict[str, Any]:
        return {
            "name": task.name,
            "role": task.role,
            "labels": task.labels,
            "left_out_folders": len(self.left_out),
            "left_out_images": sum(self.left_out.values()),
            "missing_folders": list(self.missing),
            "complete_images": task.images or None,
        }

    def _task_lines(self, task: Task) -> Iterator[str]:
        kind = "group" if task.groups else "class"
        yield f"task: {task.name}, {counted(task.labels, kind, f'{kind}s' if task.groups else 'classes')}, {task.role}"
        if self.left_out:
            folders, images = len(self.left_out), sum(self.left_out.values())
            yield f"left out: {counted(folders, 'folder')} of other classes ({counted(images, 'image')})"
        if self.missing:
            examples = ", ".join(self.missing[:EXAMPLES]) + (" ..." if len(self.missing) > EXAMPLES else "")
            yield f"missing: {counted(len(self.missing), 'class folder')} of the task: {examples}"
        if task.images and self.samples != task.images:
            yield f"images: {self.samples:,}; the complete data set has {task.images:,}"


def index(
    location: str,
    out: str,
    name: str | None = None,
    classes: Sequence[str] = (),
    levels: Sequence[int] = ARRAY_LEVELS,
    threads: int = 1,
    progress: Callable[[str], None] = lambda condition: None,
    task: LoadedTask | None = None,
) -> IndexResult:
    """Write a manifest of the data set at ``location`` to ``out``. The data is not copied or changed.

    Every sample is read and decoded once; damaged samples become failed rows.

    Args:
        location: Local folder or tar.
        out: Folder or URL for the manifest: outside of the data, or the folder of the data itself.
        name: Name of the data set. Default: the name of the folder, or of the task.
        classes: Class names in label order. Default: labels follow from the names of the class folders.
        levels: Levels stacked in each array, in order. Arrays of transforms without levels have one.
        threads: Number of samples read concurrently.
        progress: Function called with the name of each condition before it is read.
        task: Task of the images, which chooses and labels class folders instead of ``classes``.

    Returns:
        The result, with counts.

    Raises:
        UserError: No data set was found, its parts do not match, or ``out`` contains something else.
    """
    if is_url(location):
        raise UserError(f"{location} is a URL: copy the data set to a local folder first, because every sample is read")
    if task and classes:
        raise UserError(f"--classes and --task {task.task.name} both number the classes: give one of them")
    _check_names(name, classes)
    data = _absolute(location)
    _refuse_inside(data, out)
    layout = _detect(data, task, classes, levels)
    store, files = open_store(out), LocalStore(str(layout.root))
    conditions = sorted(layout.conditions, key=_published_order)
    if len(conditions) > MAX_ROW_GROUPS:
        raise UserError(
            f"{location} has {len(conditions):,} combinations of transform and level, more than the {MAX_ROW_GROUPS:,} "
            "of a manifest: index parts of it"
        )
    with store.exclusive():
        _refuse_other_content(store)
        parts: dict[Condition, list[Path]] = {condition: [] for condition in conditions}
        failed, families, digests = 0, Counter[tuple[str, str]](), dict[str, str]()
        with ThreadPoolExecutor(threads) as pool:
            for condition in conditions:
                progress(str(condition))
                for rows in _rows(layout, condition, files, digests, pool):
                    parts[condition].append(store.scratch())
                    manifests.write_part(rows, {}, parts[condition][-1])
                    failed += sum(row.status == manifests.FAILED for row in rows)
                    families.update((row.status, family_of(row.transform, row.frames or 1)) for row in rows)
        merged = store.scratch()
        result = IndexResult(
            name=name or (task.data_set if task else layout.root.name),
            layout=layout.name,
            family=_one_family(families, location),
            conditions=tuple(conditions),
            samples=manifests.merge(parts.values(), {}, merged).rows,
            failed=failed,
            passed_over=layout.ignored.total(),
            labels=layout.labels,
            task=task.task if task else None,
            left_out=layout.left_out,
            missing=layout.missing,
            warnings=warnings_of_unread(layout.ignored),
        )
        store.remove(MANIFEST_FILE)
        store.publish_bytes(tomli_w.dumps(_table(result, layout, out, merged)).encode(), INDEX_FILE)
        store.publish(merged, MANIFEST_FILE)
        trusted_locations.remember(out, "data", str(layout.root))
    return result


def _table(result: IndexResult, layout: DetectedLayout, out: str, manifest: Path) -> dict[str, Any]:
    """Return the content of index.toml."""
    described = {"labels": result.labels, "task": result.task}
    return {
        "name": result.name,
        "family": result.family,
        "layout": result.layout,
        "location": _recorded_location(layout.root, out),
        "manifest": file_digest(manifest),
        **{name: table.model_dump(mode="json", exclude_none=True) for name, table in described.items() if table},
    }


def _check_names(name: str | None, classes: Sequence[str]) -> None:
    """Raise UserError for names that cannot be stored in the index, and for duplicate classes."""
    for text in (*([name] if name else []), *classes):
        identifier(text)
    for text, count in Counter(classes).items():
        if count > 1:
            raise UserError(f"--classes lists {text!r} {count} times: each name is one label; remove the duplicates")


def _absolute(location: str) -> Path:
    try:
        return Path(trusted_locations.absolute(location))
    except (OSError, RuntimeError) as error:
        raise UserError(f"cannot read {location}: {error}") from error


def _refuse_inside(data: Path, out: str) -> None:
    """Raise UserError for an output folder inside the data, because it would be indexed as a class folder next time."""
    if not is_url(out):
        target = _absolute(out)
        if target != data and target.is_relative_to(data):
            raise UserError(
                f"{out} is inside the data {data}, and would be indexed as a part of it: choose a folder outside, or "
                f"{data} itself"
            )


def _refuse_other_content(store: Store) -> None:
    """Raise UserError for a folder that contains something other than an index."""
    if store.size(RECIPE_FILE) >= 0:
        raise UserError(f"{store.root} contains a data set that robustshards built: choose another folder")
    if store.size(MANIFEST_FILE) >= 0 and store.size(INDEX_FILE) < 0:
        raise UserError(
            f"{store.root} contains a {MANIFEST_FILE} without an {INDEX_FILE}, so it is not an index: choose another "
            "folder"
        )


def _recorded_location(root: Path, out: str) -> str:
    """Return the location to record: relative to the index if the data is inside its folder, since both can move."""
    target = None if is_url(out) else _absolute(out)
    return root.relative_to(target).as_posix() if target and root.is_relative_to(target) else str(root)


def _one_family(families: Counter[tuple[str, str]], location: str) -> str:
    """Return the family of all readable samples, or of all if none is readable. Raise UserError for several."""
    sound = {family for status, family in families if status == manifests.OK}
    found = sound or {family for _, family in families}
    if len(found) != 1:
        kinds = ", ".join(sorted(found))
        raise UserError(f"{location} contains several families of transforms, {kinds}: index each separately")
    return found.pop()


def _detect(path: Path, task: LoadedTask | None, classes: Sequence[str], levels: Sequence[int]) -> DetectedLayout:
    """Return the layout detected at a location. Raise UserError if there is none."""
    if not path.exists():
        raise UserError(f"{path} does not exist: give the folder or the tar with the data set")
    _refuse_compressed(path)
    unlabelled = _unlabelled_of_export(path) if path.is_dir() else []
    labelling = ByTask(task) if task else ByName(classes, unlabelled)
    if not path.is_dir():
        layout = find_tars(path, labelling)
    else:
        kinds = {kind: files_with(path, kind) for kind in (TAR, ARRAY)}
        _refuse_mixture(path, kinds)
        if kinds[TAR]:
            layout = find_tars(path, labelling)
        elif kinds[ARRAY] and task:
            raise UserError(
                f"{path} contains arrays such as {kinds[ARRAY][0]!r}, but the task {task.task.name} labels images by "
                "their class folders: index arrays without --task"
            )
        elif kinds[ARRAY]:
            layout = find_arrays(path, classes, levels)
        else:
            layout = find_folders(path, labelling)
    if not layout.conditions:
        raise UserError(
            f"{path} contains no images; supported folders: {expected_folders()}; also supported: tars, and "
            "<corruption>.npy"
        )
    return layout


def _refuse_compressed(path: Path) -> None:
    """Raise UserError for a compressed tar, unless it lies beside folders, to which it may have been unpacked."""
    entries = LocalStore(str(path)).entries("") if path.is_dir() else []
    names = [] if any(entry.is_folder for entry in entries) else [entry.name for entry in entries]
    for name in names if path.is_dir() else [path.name]:
        if name.lower().endswith(COMPRESSED_TARS):
            raise UserError(f"{path / name if names else path} is compressed: unpack it, or repack it as .tar")


def _unlabelled_of_export(path: Path) -> list[str]:
    """Return the class folders of unlabelled images in an export, or an empty list if this is not an export.

    Raises:
        UserError: The export was interrupted, so it is incomplete; or it consists of frames, which would be indexed as
            single images.
    """
    store = LocalStore(str(path))
    if store.size(EXPORT_FILE) < 0:
        return []
    record = read_toml(store.read(EXPORT_FILE, limit=SMALL_FILE), f"{path}/{EXPORT_FILE}")
    if record.get("state") == "unfinished":
        raise UserError(f"{path} contains an unfinished export: run the same export command again first")
    if record.get("layout") == "frames":
        raise UserError(
            f"{path} contains an export of frames, which cannot be read as sequences: export as mp4 or cifar-npy"
        )
    unlabelled = record.get("unlabelled", [])
    return [str(name) for name in unlabelled] if isinstance(unlabelled, list) else []


def _refuse_mixture(path: Path, kinds: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError if tars, arrays and folders are in one folder, because only one kind would be indexed."""
    entries = LocalStore(str(path)).entries("")
    folders = [entry.name for entry in entries if entry.is_folder and not is_system_folder(entry.name)]
    found = [names[0] for names in (*kinds.values(), folders) if names]
    if any(kinds.values()) and len(found) > 1:
        raise UserError(
            f"{path} contains both {found[0]!r} and {found[1]!r}: index tars, arrays and folders separately, from "
            "separate folders"
        )


def _published_order(condition: Condition) -> tuple[int, str, int]:
    """Return a sort key: known transforms in published order, then others by name, each by level."""
    known = [name for family in FAMILIES.values() for name in family.names]
    return (
        known.index(condition.transform) if condition.transform in known else len(known),
        condition.transform,
        condition.level,
    )


def _rows(
    layout: DetectedLayout, condition: Condition, files: Store, digests: dict[str, str], pool: ThreadPoolExecutor
) -> Iterator[list[Row]]:
    """Yield the rows of a condition in lists of PART_ROWS. ``digests`` caches the sha256 of tars and arrays."""
    entries = list(layout.conditions[condition]())
    refuse_duplicates(f"{condition} has the files", ((entry.id, entry.origin) for entry in entries))
    listed = iter(entries)
    while batch := list(islice(listed, PART_ROWS)):
        # A sample at offset 0 is a file of its own, whose digest is that of its payload.
        for shard in {entry.shard for entry in batch if entry.offset} - digests.keys():
            with files.open(shard) as file:
                digests[shard] = hashlib.file_digest(file, "sha256").hexdigest()
        yield list(pool.map(lambda entry: _indexed_row(entry, condition, files, digests.get(entry.shard)), batch))


def _indexed_row(entry: Entry, condition: Condition, files: Store, shard_sha256: str | None) -> Row:
    """Read and decode one sample, and return its row."""
    row = _blank_row(entry, condition, shard_sha256 or "")
    if not entry.size <= MAX_PAYLOAD_BYTES:
        return row._replace(error=f"{entry.origin}: has {entry.size} bytes; the maximum is {MAX_PAYLOAD_BYTES}")
    files.path(entry.shard)  # raises UserError for links to outside of the folder, pipes and devices
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
