"""From a finished data set to layouts that other tools read: streamed from the shards, resumed by running again."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import manifests
from manifests import Row
from pipeline.dataset import DataSet, UnsoundShardError, open_data_set
from pipeline.encoders import Jpeg, Mp4, Npy, Png, encode_members
from pipeline.errors import UserError
from pipeline.samples import Sample
from pipeline.storage import LocalStore

PARQUET_GROUP = 100
"""Images in a row group: what a reader holds for one of them."""

JPEG_SUFFIX = ".JPEG"
"""As ImageNet and ImageNet-C spell it."""


@dataclass
class Export:
    """An export under way: from where, to where, and what it has come to."""

    data_set: DataSet
    target: LocalStore
    written: int = 0
    there: int = 0
    passed_over: int = 0
    classes: tuple[str, ...] = ()
    _made: set[Path] = field(default_factory=set)

    def steps(self) -> Iterator[tuple[str, int, Iterator[Row]]]:
        """Transform, level and rows of each step, in the manifest's order."""
        for (transform, level), rows in groupby(self.data_set.rows(), key=lambda row: (row.transform, row.level)):
            yield transform, level, rows

    def samples(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """The samples of rows in their order; failed ones are passed over. Raises UserError for unsound shards."""
        for shard, group in groupby(rows, key=lambda row: row.shard):
            some = list(group)
            self.passed_over += sum(row.status != manifests.OK for row in some)
            try:
                for finding in self.data_set.read(shard, some):
                    if finding.faults or not finding.sample.intact:
                        key = finding.sample.row.key
                        raise UserError(f"{key} in {shard} is not what was built: run robustshards verify")
                    yield finding.sample
            except FileNotFoundError:
                raise UserError(f"{shard} is missing: run robustshards verify") from None
            except UnsoundShardError as error:
                raise UserError(f"{error}: run robustshards verify") from error

    def write(self, name: str, data: bytes) -> None:
        """A file, unless it is there with this content."""
        path = self.path(name)
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            self.there += 1
            return
        aside = Path(f"{path}.partial")
        aside.write_bytes(data)
        self.publish(aside, path)

    def publish(self, aside: Path, path: Path) -> None:
        """Give a finished file its name."""
        os.replace(aside, path)
        self.written += 1

    def path(self, name: str) -> Path:
        """Where a file goes; its folder is made. Raises UserError where that would lead out."""
        path = self.target.path(name)
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        return path


def export(data_set: str, layout: str, out: str, classes: Iterable[str] = ()) -> Export:
    """Write a finished data set in another layout to a folder.

    Files appear whole or not at all; those that are there with the right content are left as they are. ``classes``
    names class folders that are made even if they stay empty.
    Raises UserError for an unknown layout, an unfinished or unfit data set, and a shard that is not what was built.
    """
    if layout not in LAYOUTS:
        raise UserError(f"no layout is called {layout!r}; allowed: {', '.join(LAYOUTS)}")
    under_way = Export(open_data_set(data_set), LocalStore(out), classes=tuple(classes))
    try:
        LAYOUTS[layout](under_way)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; run the same command again") from error
    return under_way


def _by_severity(transform: str, level: int) -> str:
    """As ImageNet-C is distributed: ``fog/3``; without levels ``none``."""
    return f"{transform}/{level}" if level else transform


def _by_config(transform: str, level: int) -> str:
    """As TensorFlow Datasets names its configurations: ``fog_3``."""
    return f"{transform}_{level}" if level else transform


def _by_difficulty(transform: str, level: int) -> str:
    """As ImageNet-P is distributed: ``gaussian_noise``, and ``gaussian_noise_2`` for larger noise."""
    return f"{transform}_{level}" if level > 1 else transform


def _class_folder(row: Row) -> str:
    return row.class_name or "unlabelled"


def _stem(row: Row) -> str:
    return row.source_id.rpartition("/")[2]


def _imagefolder(under_way: Export, folder_of: Callable[[str, int], str]) -> None:
    """``<step>/<class>/<name>.JPEG``, the class folders of all steps alike, whatever is in them."""
    _refuse_sequences(under_way, "use mp4 or frames")
    names = {_class_folder(row) for row in under_way.data_set.rows()} | set(under_way.classes)
    for transform, level, rows in under_way.steps():
        folder = folder_of(transform, level)
        for name in sorted(names):
            under_way.path(f"{folder}/{name}/x")
        for sample in under_way.samples(rows):
            suffix = JPEG_SUFFIX if isinstance(sample.encoder, Jpeg) else sample.encoder.suffix
            under_way.write(f"{folder}/{_class_folder(sample.row)}/{_stem(sample.row)}{suffix}", sample.payload())


def _cifar_npy(under_way: Export) -> None:
    """``<corruption>.npy``, all severities one after another, and ``labels.npy``; or ``<perturbation>.npy``."""
    sequences = under_way.data_set.family.sequences

    def array_name(step: tuple[str, int, Iterator[Row]]) -> str:
        transform, level, _ = step
        return _by_difficulty(transform, level) if sequences else transform

    counts: dict[str, int] = {}
    shapes: set[tuple[int, ...]] = set()
    for transform, level, rows in under_way.steps():
        name = array_name((transform, level, rows))
        for row in rows:
            if row.status != manifests.OK:
                raise UserError(f"{row.key} failed ({row.error}): arrays have no place for missing images")
            counts[name] = counts.get(name, 0) + 1
            shapes.add((row.height or 0, row.width or 0))
    if len(shapes) != 1:
        raise UserError(f"the images have sizes {sorted(shapes)}: an array needs one")
    for name, steps in groupby(under_way.steps(), key=array_name):
        if under_way.path(f"{name}.npy").is_file():
            under_way.there += 1
            for _, _, rows in steps:
                for _ in rows:
                    pass
            continue
        _write_array(under_way, name, counts[name], (rows for _, _, rows in steps))
    if not sequences:
        first = next(iter(counts))
        labels = [row.label for row in under_way.data_set.rows({"transform": [first]})]
        under_way.write("labels.npy", _labels(labels))


def _write_array(under_way: Export, name: str, count: int, steps: Iterator[Iterator[Row]]) -> None:
    """One array, filled sample by sample in a file aside."""
    path = under_way.path(f"{name}.npy")
    aside, array, place = Path(f"{path}.partial"), None, 0
    for rows in steps:
        for sample in under_way.samples(rows):
            pixels = sample.pixels()
            if array is None:
                array = np.lib.format.open_memmap(aside, mode="w+", dtype=np.uint8, shape=(count, *pixels.shape))
            if pixels.shape != array.shape[1:]:
                raise UserError(f"{sample.row.key} is {pixels.shape}, others are {array.shape[1:]}: an array needs one")
            array[place] = pixels
            place += 1
    if array is not None:
        array.flush()
        under_way.publish(aside, path)


def _labels(labels: list[int]) -> bytes:
    """A .npy of uint8, or of int64 where labels do not fit."""
    buffer = io.BytesIO()
    fits = all(0 <= label < 256 for label in labels)
    np.save(buffer, np.array(labels, np.uint8 if fits else np.int64), allow_pickle=False)
    return buffer.getvalue()


def _mp4(under_way: Export) -> None:
    """``<perturbation>/<class>/<name>.mp4``, with the published settings unless the data set has MP4s of its own."""
    _refuse_images(under_way)
    encoder, grain = Mp4(), under_way.data_set.family.grain
    for transform, level, rows in under_way.steps():
        for sample in under_way.samples(rows):
            name = f"{_by_difficulty(transform, level)}/{_class_folder(sample.row)}/{_stem(sample.row)}.mp4"
            as_is = isinstance(sample.encoder, Mp4)
            data = sample.payload() if as_is else encoder.encode(sample.pixels(), grain(transform))
            under_way.write(name, data)


def _frames(under_way: Export) -> None:
    """``<perturbation>/<class>/<name>/000.jpg``, 001.jpg ...; sequences that are stored whole become PNG frames."""
    _refuse_images(under_way)
    for transform, level, rows in under_way.steps():
        for sample in under_way.samples(rows):
            folder = f"{_by_difficulty(transform, level)}/{_class_folder(sample.row)}/{_stem(sample.row)}"
            whole = sample.encoder.whole_sequence
            members = encode_members(Png(), sample.pixels()) if whole else sample.members
            for suffix, data in members.items():
                under_way.write(f"{folder}/{suffix[1:]}", data)


def _parquet(under_way: Export) -> None:
    """``data/<step>-<shard>.parquet`` as Hugging Face reads them: image, label with class names, and what it is."""
    _refuse_sequences(under_way, "Hugging Face reads their shards as WebDataset")
    names = {row.label: row.class_name for row in under_way.data_set.rows()}
    labelled = min(names, default=-1) >= 0
    label = {"names": [names.get(index, str(index)) for index in range(max(names) + 1)], "_type": "ClassLabel"}
    features = {
        "image": {"_type": "Image"},
        "label": label if labelled else {"dtype": "int64", "_type": "Value"},
        **{name: {"dtype": "string", "_type": "Value"} for name in ("key", "transform")},
        "level": {"dtype": "int64", "_type": "Value"},
    }
    schema = pa.schema(
        [
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("label", pa.int64()),
            ("key", pa.string()),
            ("transform", pa.string()),
            ("level", pa.int64()),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    for shard, rows in groupby(under_way.data_set.rows(), key=lambda row: row.shard):
        path = under_way.path(f"data/{Path(shard).stem}.parquet")
        if path.is_file():
            under_way.there += 1
            continue
        aside = Path(f"{path}.partial")
        with pq.ParquetWriter(aside, schema) as writer:
            samples = under_way.samples(rows)
            while group := [_parquet_row(sample) for sample in islice(samples, PARQUET_GROUP)]:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
        under_way.publish(aside, path)


def _parquet_row(sample: Sample) -> dict[str, Any]:
    row = sample.row
    image = {"bytes": sample.payload(), "path": f"{_stem(row)}{sample.encoder.suffix}"}
    return {"image": image, "label": row.label, "key": row.key, "transform": row.transform, "level": row.level}


def _imagenet_s_folder(under_way: Export) -> None:
    """``<pair>/<class>/<name>.npy`` and, for each pair, ``<pair>.txt`` with lines ``<class>/<name>.npy <label>``."""
    _refuse_sequences(under_way, "this layout has one array per image")
    for transform, level, rows in under_way.steps():
        folder, index = _by_severity(transform, level), []
        for sample in under_way.samples(rows):
            name = f"{sample.row.source_id}.npy"
            as_is = isinstance(sample.encoder, Npy)
            under_way.write(f"{folder}/{name}", sample.payload() if as_is else Npy().encode(sample.pixels()))
            index.append(f"{name} {sample.row.label}\n")
        under_way.write(f"{folder}.txt", "".join(index).encode())


def _refuse_sequences(under_way: Export, instead: str) -> None:
    if under_way.data_set.family.sequences:
        raise UserError(f"{under_way.data_set.name} holds sequences: {instead}")


def _refuse_images(under_way: Export) -> None:
    if not under_way.data_set.family.sequences:
        raise UserError(f"{under_way.data_set.name} holds single images: use imagefolder")


LAYOUTS: Mapping[str, Callable[[Export], None]] = {
    "imagefolder": lambda under_way: _imagefolder(under_way, _by_severity),
    "imagefolder-tfds": lambda under_way: _imagefolder(under_way, _by_config),
    "cifar-npy": _cifar_npy,
    "mp4": _mp4,
    "frames": _frames,
    "parquet": _parquet,
    "imagenet-s-folder": _imagenet_s_folder,
}
"""Layout -> what writes it."""
