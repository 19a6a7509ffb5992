"""The export layouts: the paths that each writes, and how."""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import manifests
from manifests import Row
from pipeline.datasets.export.names import class_labels, file_stem, safe_name
from pipeline.datasets.export.state import Export, pixels_of
from pipeline.datasets.paths import condition_folder
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.images.encoders import Jpeg, Mp4, Npy, Png, encode_members, npy_header
from pipeline.images.files import Own, format_of
from pipeline.transforms.family import Condition

PARQUET_GROUP = 100
"""Number of images in a Parquet row group. Readers hold one row group in memory."""

JPEG_SUFFIX = ".JPEG"
"""Suffix of JPEG files in ImageNet and ImageNet-C."""

LABELS = "labels.npy"

PARQUET_FOLDER = "data"

FolderOf = Callable[[Condition], str]


@dataclass(frozen=True)
class ExportLayout:
    """An export layout.

    Attributes:
        paths: Function that returns the files and folders to be written. It raises UserError for unsuitable data sets.
        write: Function that writes them.
        class_folders: Whether the layout has one folder per class.
    """

    paths: Callable[[Export], list[str]]
    write: Callable[[Export], None]
    class_folders: bool = False


def _transform(condition: Condition) -> str:
    return safe_name(condition.transform, f"the transform {condition.transform!r}")


def _by_severity(condition: Condition) -> str:
    """Return the folder as in ImageNet-C: ``fog/3``, or ``none`` without a level."""
    _transform(condition)
    return condition_folder(condition)


def _with_level(condition: Condition, unnamed: int) -> str:
    """Return the transform and its level, ``fog_3``, or only the transform for levels up to ``unnamed``."""
    return f"{_transform(condition)}_{condition.level}" if condition.level > unnamed else _transform(condition)


_by_config, _by_difficulty = partial(_with_level, unnamed=0), partial(_with_level, unnamed=1)
"""Functions that return the folder as in TensorFlow Datasets, and as in ImageNet-P."""


def _class_paths(running: Export, folder_of: FolderOf, sequences: bool) -> list[str]:
    """Return the folders of all conditions, for layouts with class folders."""
    if not sequences:
        _refuse_sequences(running, "use mp4 or frames")
    elif not running.data_set.family.sequences:
        raise UserError(f"{running.data_set.name} contains single images: use imagefolder")
    running.warnings += running.folders.warnings
    return [folder_of(condition) for condition in running.survey.conditions]


def _in_class_folders(
    running: Export, folder_of: FolderOf, files: Callable[[Export, Sample], Iterable[tuple[str, bytes]]]
) -> None:
    """Write ``<condition>/<class>/<name>``. Every condition gets all class folders, even empty ones."""
    target = running.target
    names = target.write_classes(running.folders.names)
    for condition, rows in running.conditions():
        folder = folder_of(condition)
        target.start_folder()
        for name in names:
            target.make_folder(f"{folder}/{name}")
        target.refuse_other_folders(folder, names)
        for sample in running.read(rows):
            path = f"{folder}/{running.folders.of(sample.row)}/{file_stem(sample.row)}"
            target.reserve_name(path, sample.row.source_id)
            for ending, data in files(running, sample):
                target.write(f"{path}{ending}", data)


def _image_file(running: Export, sample: Sample) -> Iterator[tuple[str, bytes]]:
    suffix, data = _image(sample)
    yield (JPEG_SUFFIX if suffix == Jpeg.suffix else suffix), data


def _image(sample: Sample) -> tuple[str, bytes]:
    """Return suffix and content of an image file: the payload, or a PNG with the same pixels if that is an array."""
    if isinstance(sample.encoder, Npy):
        return Png.suffix, Png().encode(pixels_of(sample))
    return sample.suffix, sample.payload()


def _mp4_file(running: Export, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """Yield the MP4 file: the payload if it is one, else encoded with the published settings."""
    grain = running.data_set.family.grain(sample.row.transform)
    as_is = isinstance(sample.encoder, Mp4)
    yield Mp4.suffix, sample.payload() if as_is else Mp4().encode(pixels_of(sample), grain)


def _frame_files(running: Export, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """Yield ``/000.jpg``, ``/001.jpg`` and so on. Sequences stored in one file become PNG frames."""
    whole = sample.encoder.whole_sequence
    members = encode_members(Png(), pixels_of(sample)) if whole else sample.members
    for suffix, data in members.items():
        yield f"/{suffix[1:]}", data


def _conditions_of_arrays(running: Export) -> dict[str, list[Condition]]:
    """Return array name -> conditions stacked in the array, in order."""
    name_of = _by_difficulty if running.data_set.family.sequences else _transform
    conditions: dict[str, list[Condition]] = {}
    for condition in running.survey.conditions:
        conditions.setdefault(f"{name_of(condition)}.npy", []).append(condition)
    return conditions


def _array_paths(running: Export) -> list[str]:
    """Return the array files. Raise UserError if samples failed, or if image sizes or labels of arrays would differ."""
    arrays, labels = _conditions_of_arrays(running), dict[str, list[list[int]]]()
    for name, conditions in arrays.items():
        labels[name] = [[_ok_label(row) for row in running.rows(condition)] for condition in conditions]
        first = labels.setdefault("", labels[name])
        if not running.data_set.family.sequences and labels.pop(name) != first:
            raise UserError(
                f"{next(iter(arrays))} and {name} would have different labels or numbers of images, but {LABELS} "
                "applies to all arrays: use imagefolder or parquet"
            )
    if len(shapes := sorted(running.survey.shapes)) != 1:
        sizes = f"{len(shapes)} sizes ({shapes[0]}, {shapes[1]} ...)"
        raise UserError(f"the images have {sizes}, but all images of an array must have one size: use imagefolder")
    if running.data_set.family.sequences:
        return list(arrays)
    levels = [condition.level for condition in next(iter(arrays.values()))]
    if levels != [0] and levels != list(range(1, len(levels) + 1)):
        severities = ", ".join(map(str, levels))
        running.warnings.append(f"each array contains the severities {severities}, but most readers assume 1, 2, 3 ...")
    return [*arrays, LABELS]


def _ok_label(row: Row) -> int:
    if row.status != manifests.OK:
        raise UserError(f"{row.key} failed ({row.error}), but arrays cannot have missing images: use imagefolder")
    return row.label


def _arrays(running: Export) -> None:
    """Write ``<corruption>.npy`` with all severities stacked and ``labels.npy``, or ``<perturbation>.npy``."""
    arrays = _conditions_of_arrays(running)
    for name, conditions in arrays.items():
        count = sum(running.survey.conditions[condition] for condition in conditions)
        if _has_pixels(
            running.target.path(name), (row for condition in conditions for row in running.rows(condition)), count
        ):
            running.target.there += 1
            running.samples += count
        else:
            _write_array(running, name, conditions, count)
    if not running.data_set.family.sequences:
        labels = [row.label for condition in next(iter(arrays.values())) for row in running.rows(condition)]
        running.target.write(LABELS, _labels(labels, running.data_set.family.array_labels))


def _has_pixels(path: Path, rows: Iterator[Row], count: int) -> bool:
    """Return whether an array file has the pixels of all rows, by the digests in the manifest."""
    if not path.is_file():
        return False
    first = next(rows)
    frames = () if (first.frames or 1) == 1 else (first.frames or 0,)
    shape = (*frames, first.height or 0, first.width or 0, 3)
    header = npy_header((count, *shape))
    if path.stat().st_size != len(header) + count * prod(shape):
        return False
    with open(path, "rb") as file:
        if file.read(len(header)) != header:
            return False
        return all(
            hashlib.sha256(file.read(prod(shape))).hexdigest() == row.pixel_sha256 for row in chain([first], rows)
        )


def _write_array(running: Export, name: str, conditions: Iterable[Condition], count: int) -> None:
    """Write one array, sample by sample. A memory-mapped file would crash the process if the disk is full."""
    shape: tuple[int, ...] = ()
    with running.target.aside() as (file, aside):
        for sample in running.read(row for condition in conditions for row in running.rows(condition)):
            pixels = pixels_of(sample)
            if not shape:
                shape = pixels.shape
                file.write(npy_header((count, *shape)))
            if pixels.shape != shape:
                raise UserError(f"{sample.row.key} has the shape {pixels.shape}, others have {shape}: use imagefolder")
            file.write(np.ascontiguousarray(pixels).data)
    running.target.publish(aside, running.target.path(name))


def _labels(labels: list[int], published: type[np.integer[Any]]) -> bytes:
    """Return the labels as a .npy file of the published type, or of int64 if this type cannot hold a label."""
    buffer, limits = io.BytesIO(), np.iinfo(published)
    fits = all(limits.min <= label <= limits.max for label in labels)
    np.save(buffer, np.array(labels, published if fits else np.int64), allow_pickle=False)
    return buffer.getvalue()


def _parquet_paths(running: Export) -> list[str]:
    _refuse_sequences(running, "Hugging Face reads its shards directly, as WebDataset")
    for condition in running.survey.conditions:
        _transform(condition)
    return [PARQUET_FOLDER]


def _parquet(running: Export) -> None:
    """Write ``data/<condition>-<number>.parquet`` for Hugging Face: images, labels and class names."""
    schema, target = _parquet_schema(running), running.target
    for chunk in running.data_set.chunks():
        name = f"{PARQUET_FOLDER}/{chunk.name}.parquet"
        target.reserve_name(name, chunk.name)
        facts = {"manifest": running.manifest_digest, "rows": f"{chunk.first}+{chunk.count}"}
        path = target.path(name)
        features = {name.decode(): value.decode() for name, value in schema.metadata.items()}
        expected = {**facts, **features}.items()
        if manifests.is_sealed_file(path) and manifests.read_facts(path).items() >= expected:
            target.there += 1
            running.samples += chunk.samples
            running.passed_over += chunk.count - chunk.samples
            continue
        with target.aside() as (file, aside), pq.ParquetWriter(file, schema) as writer:
            samples = running.read(running.data_set.rows_of(chunk))
            while group := [_parquet_row(sample) for sample in islice(samples, PARQUET_GROUP)]:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
            writer.add_key_value_metadata(manifests.with_blank_seal(facts))
        manifests.seal_file(aside)
        target.publish(aside, path)


def _parquet_schema(running: Export) -> pa.Schema:
    """Return the columns, with the features that Hugging Face reads from the metadata."""
    classes = running.survey.classes
    label = {"names": class_labels(classes), "_type": "ClassLabel"}
    features = {
        "image": {"_type": "Image"},
        "label": {"dtype": "int64", "_type": "Value"} if classes.unlabelled else label,
        **{name: {"dtype": "string", "_type": "Value"} for name in ("key", "transform")},
        "level": {"dtype": "int64", "_type": "Value"},
    }
    return pa.schema(
        [
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("label", pa.int64()),
            ("key", pa.string()),
            ("transform", pa.string()),
            ("level", pa.int64()),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )


def _parquet_row(sample: Sample) -> dict[str, Any]:
    row, (suffix, data) = sample.row, _image(sample)
    image = {"bytes": data, "path": f"{row.source_id.rpartition('/')[2]}{suffix}"}
    return {"image": image, "label": row.label, "key": row.key, "transform": row.transform, "level": row.level}


def _mirror_paths(running: Export) -> list[str]:
    _refuse_sequences(running, "use mp4 or frames")
    return [_by_severity(condition) for condition in running.survey.conditions]


def _mirror(running: Export) -> None:
    """Write ``<condition>/<path of the source image>``. Only a payload of another format changes the suffix."""
    for condition, rows in running.conditions():
        folder = _by_severity(condition)
        running.target.start_folder()
        for sample in running.read(rows):
            row, (suffix, data) = sample.row, _image(sample)
            if isinstance(sample.encoder, Own):
                name = sample.encoder.file_name(row.origin)
            else:
                stem, ending = os.path.splitext(row.origin)
                name = row.origin if ending and format_of(ending) == format_of(suffix) else f"{stem}{suffix}"
            what = f"the path of the source image {row.origin!r}"
            name = "/".join(safe_name(part, what) for part in name.split("/"))
            running.target.reserve_name(name, row.source_id)
            running.target.write(f"{folder}/{name}", data)


def _imagenet_s_paths(running: Export) -> list[str]:
    _refuse_sequences(running, "this layout stores one array per image; use mp4 or frames")
    folders = [_by_severity(condition) for condition in running.survey.conditions]
    return [*folders, *(f"{folder}.txt" for folder in folders)]


def _imagenet_s_folder(running: Export) -> None:
    """Write ``<pair>/<class>/<name>.npy``, and ``<pair>.txt`` with lines ``<class>/<name>.npy <label>``."""
    for condition, rows in running.conditions():
        folder, index = _by_severity(condition), []
        running.target.start_folder()
        for sample in running.read(rows):
            parts = sample.row.source_id.split("/")
            what = f"the name of the sample {sample.row.source_id!r}"
            name = "/".join(safe_name(part, what) for part in parts) + Npy.suffix
            running.target.reserve_name(name, sample.row.source_id)
            as_is = isinstance(sample.encoder, Npy)
            running.target.write(f"{folder}/{name}", sample.payload() if as_is else Npy().encode(pixels_of(sample)))
            index.append(f"{name} {sample.row.label}\n")
        running.target.write(f"{folder}.txt", "".join(index).encode())


def _refuse_sequences(running: Export, instead: str) -> None:
    if running.data_set.family.sequences:
        raise UserError(f"{running.data_set.name} contains sequences: {instead}")


def _class_layout(
    folder_of: FolderOf, files: Callable[[Export, Sample], Iterable[tuple[str, bytes]]], sequences: bool = False
) -> ExportLayout:
    return ExportLayout(
        partial(_class_paths, folder_of=folder_of, sequences=sequences),
        partial(_in_class_folders, folder_of=folder_of, files=files),
        class_folders=True,
    )


LAYOUTS: Mapping[str, ExportLayout] = {
    "imagefolder": _class_layout(_by_severity, _image_file),
    "imagefolder-tfds": _class_layout(_by_config, _image_file),
    "cifar-npy": ExportLayout(_array_paths, _arrays),
    "mp4": _class_layout(_by_difficulty, _mp4_file, sequences=True),
    "frames": _class_layout(_by_difficulty, _frame_files, sequences=True),
    "parquet": ExportLayout(_parquet_paths, _parquet),
    "mirror": ExportLayout(_mirror_paths, _mirror),
    "imagenet-s-folder": ExportLayout(_imagenet_s_paths, _imagenet_s_folder),
}
"""Layout name -> layout."""
