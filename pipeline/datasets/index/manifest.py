"""The manifest of a data set of other tools, with which verify, preview, export and evaluate can read it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from pipeline.datasets.index.detected import DetectedLayout, Entry, expected_folders, family_of, source_id
from pipeline.datasets.index.folders import EXPORT_FILE, TAR, files_with, find_folders, find_tars
from pipeline.datasets.index.labelling import ByName, ByTask
from pipeline.datasets.index.result import IndexResult
from pipeline.datasets.indexed import indexed_sample
from pipeline.datasets.paths import INDEX_FILE, MANIFEST_FILE, RECIPE_FILE, ROOTS_FILE, file_digest
from pipeline.datasets.roots import COLUMNS, roots_of_tables
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.errors import UserError
from pipeline.sources.base import COMPRESSIONS, identifier, refuse_duplicates
from pipeline.sources.files import is_system_folder
from pipeline.storage import SMALL_FILE, LocalStore, Store, is_url, open_store, trusted_locations
from pipeline.tasks.schema import LoadedTask
from pipeline.transforms.family import Condition
from pipeline.transforms.registry import FAMILIES

PART_ROWS = 1000
"""Number of rows that are read and written together."""

COMPRESSED_TARS = (".tgz", *(TAR + compression for compression in COMPRESSIONS))
"""Suffixes of compressed tars, whose members cannot be read one by one."""

ARRAY_LEVELS = (1, 2, 3, 4, 5)
"""Severities stacked in each array of CIFAR-10-C, in order."""


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
    _check_arguments(location, classes, task)
    data = _absolute(location)
    _refuse_inside(data, out)
    layout = _detect(data, task, classes, levels)
    store = open_store(out)
    conditions = sorted(layout.conditions, key=_published_order)
    if len(conditions) > MAX_ROW_GROUPS:
        raise UserError(
            f"{location} has {len(conditions):,} combinations of transform and level, more than the {MAX_ROW_GROUPS:,} "
            "of a manifest: index parts of it"
        )
    with store.exclusive():
        _refuse_other_content(store)
        parts, counts = _write_parts(layout, conditions, store, threads, progress)
        merged = store.scratch()
        result = IndexResult(
            name=name or (task.data_set if task else layout.root.name),
            layout=layout,
            family=_one_family(counts, location),
            conditions=tuple(conditions),
            samples=manifests.merge(parts.values(), {}, merged).rows,
            failed=sum(count for (status, _), count in counts.items() if status == manifests.FAILED),
        )
        roots = roots_of_tables(manifests.read_tables(merged, COLUMNS), result.name)
        store.remove(MANIFEST_FILE)
        store.publish_bytes(roots.to_json().encode(), ROOTS_FILE)
        store.publish_bytes(tomli_w.dumps(_table(result, out, merged)).encode(), INDEX_FILE)
        store.publish(merged, MANIFEST_FILE)
        trusted_locations.remember(out, "data", str(layout.root))
    return result


def _check_arguments(location: str, classes: Sequence[str], task: LoadedTask | None) -> None:
    """Raise UserError for a URL, for classes that cannot be stored in the index, and for duplicates."""
    if is_url(location):
        raise UserError(f"{location} is a URL: copy the data set to a local folder first, because every sample is read")
    if task and classes:
        raise UserError(f"--classes and --task {task.task.name} both number the classes: give one of them")
    for text in classes:
        identifier(text)
    for text, count in Counter(classes).items():
        if count > 1:
            raise UserError(f"--classes lists {text!r} {count} times: each name is one label; remove the duplicates")


def _write_parts(
    layout: DetectedLayout, conditions: Sequence[Condition], store: Store, threads: int, progress: Callable[[str], None]
) -> tuple[dict[Condition, list[Path]], Counter[tuple[str, str]]]:
    """Write the rows of each condition, and return the files and the numbers of rows by status and family."""
    files, digests = LocalStore(str(layout.root)), dict[str, str]()
    parts, counts = dict[Condition, list[Path]](), Counter[tuple[str, str]]()
    with ThreadPoolExecutor(threads) as pool:
        for condition in conditions:
            progress(str(condition))
            parts[condition] = []
            for rows in _rows(layout, condition, files, digests, pool):
                parts[condition].append(store.scratch())
                manifests.write_part(rows, {}, parts[condition][-1])
                counts.update((row.status, family_of(row.transform, row.frames or 1)) for row in rows)
    return parts, counts


def _table(result: IndexResult, out: str, manifest: Path) -> dict[str, Any]:
    """Return the content of index.toml."""
    labelled, root = result.layout.labelled, result.layout.root
    described = {"labels": labelled.space, "task": labelled.task}
    target = None if is_url(out) else _absolute(out)
    inside = target is not None and root.is_relative_to(target)  # then both can move
    return {
        "name": result.name,
        "family": result.family,
        "layout": result.layout.name,
        "location": root.relative_to(target).as_posix() if inside and target else str(root),
        "manifest": file_digest(manifest),
        **{name: table.model_dump(mode="json", exclude_none=True) for name, table in described.items() if table},
    }


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
    if LocalStore(str(path)).size("") < 0:
        raise UserError(f"{path} does not exist: give the folder or the tar with the data set")
    if (path / RECIPE_FILE).is_file():
        raise UserError(f"{path} needs no index: it has a {RECIPE_FILE}, and other commands read it as it is")
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
    families = FAMILIES.values()
    known = [name for each in families for name in (*each.names, *each.recognition.published_names)]
    return (
        known.index(condition.transform) if condition.transform in known else len(known),
        condition.transform,
        condition.level,
    )


def _rows(
    layout: DetectedLayout, condition: Condition, files: Store, digests: dict[str, str], pool: ThreadPoolExecutor
) -> Iterator[list[Row]]:
    """Yield the rows of a condition in lists of PART_ROWS. ``digests`` caches the sha256 of tars and arrays."""
    found = layout.conditions[condition]()
    entries = [replace(entry, id=source_id(entry.id, condition.transform)) for entry in found]
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
    *frames, height, width, _ = entry.shape or (None, None, None)
    row = Row(
        key=f"{entry.id}-{condition}",
        shard=entry.shard,
        shard_sha256=shard_sha256 or "",
        offset=entry.offset,
        size=entry.size,
        source_id=entry.id,
        origin=entry.origin,
        label=entry.label,
        class_name=entry.class_name,
        transform=condition.transform,
        level=condition.level,
        frames=frames[0] if frames else 1,
        height=height,
        width=width,
        encoder=entry.encoder,
    )
    if not entry.size <= MAX_PAYLOAD_BYTES:
        return row._replace(error=f"{entry.origin}: has {entry.size} bytes; the maximum is {MAX_PAYLOAD_BYTES}")
    files.path(entry.shard)  # raises UserError for links to outside of the folder, pipes and devices
    try:
        data = files.read(entry.shard, entry.offset, entry.size)
        sample = indexed_sample(row, data)
        pixels = sample.pixels()
    except (OSError, ValueError) as error:
        return row._replace(error=f"{entry.origin}: {error}")
    height, width = pixels.shape[-3:-1]
    return row._replace(
        shard_sha256=shard_sha256 or hashlib.sha256(data).hexdigest(),
        frames=len(pixels) if pixels.ndim == 4 else 1,
        height=height,
        width=width,
        profile=next((name for name, side in PROFILE_SIDES.items() if height == width == side), ""),
        payload_sha256=payload_digest(sample.members.values()),
        pixel_sha256=pixel_digest(pixels),
        status=manifests.OK,
    )
