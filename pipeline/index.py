"""A manifest for a data set that others built, so that verify, preview, export and the evaluator work on it too."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import tomli_w

import manifests
import perturbations
from corruptions.catalogue import PROFILE_SIDES
from manifests import Row
from pipeline.dataset import INDEX_FILE, MANIFEST_FILE, MAX_PAYLOAD_BYTES, PIXELS, RECIPE_FILE, found_payload
from pipeline.errors import UserError
from pipeline.families import FAMILIES, Step
from pipeline.samples import payload_digest, pixel_digest
from pipeline.sources.base import UNLABELLED, identifier, refuse_duplicates, suffix
from pipeline.sources.tars import TarIndex
from pipeline.storage import LocalStore, Store, open_store
from pipeline.system_noise import PAIRS

PART_ROWS = 1000
"""Rows of one step that are looked at and written together."""

ENCODER_OF_SUFFIX: Mapping[str, str] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".png": "png",
    ".npy": "npy",
    ".mp4": "mp4",
}

LABELS_FILE = "labels.npy"

ARRAY_LEVELS = (1, 2, 3, 4, 5)
"""What an array of CIFAR-10-C holds one after another."""

CLEAN = Step("none", 0)

PLACES = (
    "<corruption>/<severity>/<class>/<file>, <corruption>_<severity>/<class>/<file>, "
    "<perturbation>/<class>/<file>.mp4, <decoder>_<resize>/<class>/<file>, none/<class>/<file>, <class>/<file>"
)
"""Where files are looked for, below any other folders."""


@dataclass(frozen=True)
class Entry:
    """One sample of somebody else's data set: what it is called, and the range of bytes where it lies.

    ``shape`` is that of bare pixels, (H, W, 3) or (T, H, W, 3); empty for files.
    """

    id: str
    origin: str
    label: int
    class_name: str
    shard: str
    offset: int
    size: int
    encoder: str
    shape: tuple[int, ...] = ()


Listing = Callable[[Sequence[str]], Iterable[Entry]]
"""Class names -> the samples of one step; each step is listed by itself, since it may have 50,000."""


@dataclass(frozen=True)
class Layout:
    """What was found: how it is laid out, below which folder, its steps, and its classes in the order of labels."""

    name: str
    root: Path
    steps: Mapping[Step, Listing]
    classes: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    """What an index came to."""

    name: str
    layout: str
    family: str
    steps: tuple[Step, ...]
    samples: int
    failed: int

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {**vars(self), "steps": list(map(str, self.steps))}


def index(
    location: str,
    out: str,
    name: str | None = None,
    classes: Sequence[str] = (),
    levels: Sequence[int] = ARRAY_LEVELS,
    threads: int = 1,
    told: Callable[[str], None] = lambda step: None,
) -> Outcome:
    """Write a manifest of the data set at ``location`` to ``out``; what it names stays where it is.

    Every sample is read and decoded once; damaged ones become failed rows. ``classes`` names the classes in the order
    of their labels (default: all class folders, sorted), ``levels`` are those that arrays hold one after another;
    ``told`` hears of each step. Raises UserError where nothing is found or what is found does not fit together.
    """
    if "://" in location:
        raise UserError(f"{location} is a URL: copy the data set here first, since each of its samples is read")
    layout = _look(Path(location).resolve(), classes, levels)
    store, files = open_store(out), LocalStore(str(layout.root))
    steps = sorted(layout.steps, key=_published_order)
    with store.exclusive():
        if store.size(RECIPE_FILE) >= 0:
            raise UserError(f"{out} holds a data set that was built here; choose another folder")
        store.remove(MANIFEST_FILE)
        parts: dict[Step, list[Path]] = {step: [] for step in steps}
        failed, families, digests = 0, set[str](), dict[str, str]()
        with ThreadPoolExecutor(threads) as pool:
            for step in steps:
                told(str(step))
                for rows in _rows(layout, step, files, digests, pool):
                    parts[step].append(store.scratch())
                    manifests.write_part(rows, {}, parts[step][-1])
                    failed += sum(row.status == manifests.FAILED for row in rows)
                    families |= {_family(row) for row in rows}
        if len(families) != 1:
            raise UserError(f"{location} mixes {', '.join(sorted(families))}: index each by itself")
        outcome = Outcome(name or layout.root.name, layout.name, families.pop(), tuple(steps), 0, failed)
        table = {
            "name": outcome.name,
            "family": outcome.family,
            "layout": layout.name,
            "location": str(layout.root),
        }
        store.publish_bytes(tomli_w.dumps(table).encode(), INDEX_FILE)
        merged = store.scratch()
        outcome = replace(outcome, samples=manifests.merge(parts.values(), {}, merged).rows)
        store.publish(merged, MANIFEST_FILE)
    return outcome


def _look(path: Path, classes: Sequence[str], levels: Sequence[int]) -> Layout:
    """What lies at a location. Raises UserError."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give the folder or the tar that holds the data set")
    if path.is_file() or any(path.glob("*.tar")):
        layout = _tars(path, classes)
    elif any(path.glob("*.npy")):
        layout = _arrays(path, classes, levels)
    else:
        layout = _folders(path, classes)
    if not layout.steps:
        raise UserError(f"{path} holds no images; they are looked for as {PLACES}; or as <corruption>.npy, or in tars")
    return layout


def _step(folders: Sequence[str], path: str) -> Step:
    """The step that the folders above a class folder name. Raises UserError."""
    if not folders:
        return CLEAN
    last = folders[-1]
    if last.isdigit() and len(folders) > 1:
        return Step(folders[-2], int(last))
    if last == CLEAN.transform or last in PAIRS:
        return Step(last, 0)
    if last in perturbations.names("all"):
        return Step(last, 1)
    name, _, level = last.rpartition("_")
    if name and level.isdigit():
        return Step(name, int(level))
    raise UserError(f"{path} says nothing of a transform and its level; looked for: {PLACES}")


def _published_order(step: Step) -> tuple[int, str, int]:
    """Known transforms as they were published, then others by name; levels rising."""
    known = [name for family in FAMILIES.values() for name in family.names]
    return (known.index(step.transform) if step.transform in known else len(known), step.transform, step.level)


def _folders(root: Path, classes: Sequence[str]) -> Layout:
    """Files in class folders. Empty class folders count for the labels."""
    found: dict[Step, list[Path]] = {}
    for folder, below, names in os.walk(root):
        below[:] = [each for each in below if not each.startswith(".")]
        place = Path(folder).relative_to(root)
        if below and any(suffix(each) in ENCODER_OF_SUFFIX for each in names):
            raise UserError(f"{folder} holds images beside folders; looked for: {PLACES}")
        if not below and place.parts:
            found.setdefault(_step(place.parts[:-1], folder), []).append(Path(folder))
    named = sorted({folder.name for folders in found.values() for folder in folders})

    def listing(folders: list[Path], labels: Sequence[str]) -> Iterator[Entry]:
        positions = {name: label for label, name in enumerate(labels)}
        for folder in sorted(folders, key=lambda each: each.name):
            below = folder.relative_to(root).as_posix()
            for entry in LocalStore(str(root)).entries(below):
                if suffix(entry.name) in ENCODER_OF_SUFFIX:
                    path = f"{below}/{entry.name}"
                    yield _file_entry(path, path, 0, entry.size, positions)

    return Layout("folders", root, {step: partial(listing, each) for step, each in found.items()}, classes or named)


def _tars(path: Path, classes: Sequence[str]) -> Layout:
    """Files in class folders inside of tars."""
    found: dict[Step, list[tuple[str, str, int, int]]] = {}
    root, tars = (path, sorted(path.glob("*.tar"))) if path.is_dir() else (path.parent, [path])
    named = set()
    for tar in tars:
        for name, member in TarIndex(LocalStore(str(root)), tar.name).members().items():
            parts = PurePosixPath(name).parts
            if suffix(name) in ENCODER_OF_SUFFIX and len(parts) > 1:
                step = _step(parts[:-2], f"{tar}: {name}")
                found.setdefault(step, []).append((PurePosixPath(name).as_posix(), tar.name, *member))
                named.add(parts[-2])

    def listing(members: list[tuple[str, str, int, int]], labels: Sequence[str]) -> Iterator[Entry]:
        positions = {name: label for label, name in enumerate(labels)}
        for name, tar, offset, size in sorted(members, key=lambda each: PurePosixPath(each[0]).parts[-2:]):
            yield _file_entry(name, tar, offset, size, positions)

    steps = {step: partial(listing, each) for step, each in found.items()}
    return Layout("tars", root, steps, classes or sorted(named))


def _file_entry(path: str, shard: str, offset: int, size: int, labels: Mapping[str, int]) -> Entry:
    *_, class_name, name = PurePosixPath(path).parts
    if class_name not in labels:
        raise UserError(f"{path}: the class {class_name!r} is not among the {len(labels)} that were named")
    encoder, id_ = ENCODER_OF_SUFFIX[suffix(name)], identifier(f"{class_name}/{name}")
    return Entry(id_, path, labels[class_name], class_name, shard, offset, size, encoder)


def _arrays(root: Path, classes: Sequence[str], levels: Sequence[int]) -> Layout:
    """``<corruption>.npy`` (N, H, W, 3), all levels one after another, or ``<perturbation>.npy`` (N, T, H, W, 3)."""
    steps: dict[Step, Listing] = {}
    labels = _array(root / LABELS_FILE) if (root / LABELS_FILE).is_file() else None
    for path in sorted(root.glob("*.npy")):
        if path.name == LABELS_FILE:
            continue
        array = _array(path)
        sequences = array.ndim == 5
        if array.dtype != np.uint8 or array.ndim not in (4, 5) or array.shape[-1] != 3 or not array.flags.c_contiguous:
            raise UserError(f"{path} holds {array.dtype} {array.shape}, not uint8 (N, H, W, 3) or (N, T, H, W, 3)")
        here = [_step((path.stem,), str(path))] if sequences else [Step(path.stem, level) for level in levels]
        count, rest = divmod(len(array), len(here))
        if rest or not count:
            raise UserError(f"{path} holds {len(array)} images, not the same number for each level of {list(levels)}")
        if labels is not None and len(labels) not in (count, len(array)):
            raise UserError(f"{root / LABELS_FILE} holds {len(labels)} labels, {path.name} has {len(array)} images")
        for place, step in enumerate(here):
            steps[step] = partial(_array_rows, path.name, array, labels, place * count, count)
    return Layout("arrays", root, steps, classes)


def _array(path: Path) -> np.memmap[Any, Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} is no readable array: {error}") from error


def _array_rows(
    shard: str, array: np.memmap[Any, Any], labels: Any, first: int, count: int, classes: Sequence[str]
) -> Iterator[Entry]:
    size = array[0].nbytes
    for row in range(count):
        place = first + row
        label = UNLABELLED if labels is None else int(labels[place % len(labels)])
        known = classes[label] if 0 <= label < len(classes) else str(label)
        name = "" if label == UNLABELLED else known
        offset = array.offset + place * size
        yield Entry(f"image_{row:06d}", f"{shard}#{place}", label, name, shard, offset, size, PIXELS, array.shape[1:])


def _rows(
    layout: Layout, step: Step, files: Store, digests: dict[str, str], pool: ThreadPoolExecutor
) -> Iterator[list[Row]]:
    """The rows of a step, some at a time. ``digests``: those of the tars and arrays that were read so far."""
    entries = list(layout.steps[step](layout.classes))
    refuse_duplicates(f"{step} has the files", ((entry.id, entry.origin) for entry in entries))
    listed = iter(entries)
    while some := list(islice(listed, PART_ROWS)):
        # What begins at 0 is a file of its own, whose digest is that of its payload.
        for shard in {entry.shard for entry in some if entry.offset} - digests.keys():
            with files.open(shard) as file:
                digests[shard] = hashlib.file_digest(file, "sha256").hexdigest()
        yield list(pool.map(lambda entry: _examined(entry, step, files, digests.get(entry.shard)), some))


def _examined(entry: Entry, step: Step, files: Store, shard_sha256: str | None) -> Row:
    """The row of one sample, read and decoded."""
    row = _blank_row(entry, step, shard_sha256 or "")
    if not entry.size <= MAX_PAYLOAD_BYTES:
        return row._replace(error=f"{entry.origin}: {entry.size} bytes are more than the {MAX_PAYLOAD_BYTES} allowed")
    try:
        data = files.read(entry.shard, entry.offset, entry.size)
        sample = found_payload(row, data)
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


def _blank_row(entry: Entry, step: Step, shard_sha256: str) -> Row:
    *frames, height, width, _ = entry.shape or (None, None, None)
    return Row(
        key=f"{entry.id}-{step}",
        shard=entry.shard,
        shard_sha256=shard_sha256,
        offset=entry.offset,
        size=entry.size,
        source_id=entry.id,
        source_sha256=None,
        origin=entry.origin,
        label=entry.label,
        class_name=entry.class_name,
        transform=step.transform,
        version=0,
        level=step.level,
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


def _family(row: Row) -> str:
    """The family of transforms that a row belongs to."""
    if row.transform == CLEAN.transform:
        return "none"
    if row.transform in PAIRS:
        return "system-noise"
    return "perturbations" if (row.frames or 1) > 1 else "corruptions"
