"""The layouts: what each is for, where it has its files, and how they are written."""

from __future__ import annotations

import hashlib
import io
import json
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
from pipeline.datasets.export.run import Export, pixels_of
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.images.encoders import Jpeg, Mp4, Npy, Png, encode_members, npy_header
from pipeline.transforms.family import Condition

PARQUET_GROUP = 100
"""Images in a row group: what a reader holds for one of them."""

JPEG_SUFFIX = ".JPEG"
"""As ImageNet and ImageNet-C spell it."""

LABELS = "labels.npy"

PARQUET_FOLDER = "data"

FolderOf = Callable[[Condition], str]


@dataclass(frozen=True)
class ExportLayout:
    """A layout. ``places`` names its files and folders, and refuses data sets that do not fit; ``write`` fills them."""

    places: Callable[[Export], list[str]]
    write: Callable[[Export], None]
    class_folders: bool = False


def _transform(condition: Condition) -> str:
    return safe_name(condition.transform, f"the transform {condition.transform!r}")


def _by_severity(condition: Condition) -> str:
    """As ImageNet-C is distributed: ``fog/3``; without levels ``none``."""
    return f"{_transform(condition)}/{condition.level}" if condition.level else _transform(condition)


def _by_config(condition: Condition) -> str:
    """As TensorFlow Datasets names its configurations: ``fog_3``."""
    return f"{_transform(condition)}_{condition.level}" if condition.level else _transform(condition)


def _by_difficulty(condition: Condition) -> str:
    """As ImageNet-P is distributed: ``gaussian_noise``, and ``gaussian_noise_2`` for larger noise."""
    return f"{_transform(condition)}_{condition.level}" if condition.level > 1 else _transform(condition)


def _class_places(under_way: Export, folder_of: FolderOf, sequences: bool) -> list[str]:
    """Return the folders of the conditions, for layouts with class folders."""
    if sequences:
        _refuse_images(under_way)
    else:
        _refuse_sequences(under_way, "use mp4 or frames")
    under_way.warnings += under_way.folders.warnings
    return [folder_of(condition) for condition in under_way.survey.conditions]


def _in_class_folders(
    under_way: Export, folder_of: FolderOf, files: Callable[[Export, Sample], Iterable[tuple[str, bytes]]]
) -> None:
    """Write ``<condition>/<class>/<name>...``, the class folders of all conditions alike, whatever is in them."""
    target = under_way.target
    names = target.state_classes(under_way.folders.names)
    for condition, rows in under_way.conditions():
        folder = folder_of(condition)
        target.begin_folder()
        for name in names:
            target.make_folder(f"{folder}/{name}")
        target.refuse_other_folders(folder, names)
        for sample in under_way.read(rows):
            place = f"{folder}/{under_way.folders.of(sample.row)}/{file_stem(sample.row)}"
            target.claim(place, sample.row.source_id)
            for ending, data in files(under_way, sample):
                target.write(f"{place}{ending}", data)


def _image_file(under_way: Export, sample: Sample) -> Iterator[tuple[str, bytes]]:
    suffix, data = _image(sample)
    yield (JPEG_SUFFIX if suffix == Jpeg.suffix else suffix), data


def _image(sample: Sample) -> tuple[str, bytes]:
    """Suffix and bytes of an image file: the payload as it is, or, of an array, a PNG of the same pixels."""
    if isinstance(sample.encoder, Npy):
        return Png.suffix, Png().encode(pixels_of(sample))
    return sample.encoder.suffix, sample.payload()


def _mp4_file(under_way: Export, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """With the published settings, unless the data set has MP4s of its own."""
    grain = under_way.data_set.family.grain(sample.row.transform)
    as_is = isinstance(sample.encoder, Mp4)
    yield Mp4.suffix, sample.payload() if as_is else Mp4().encode(pixels_of(sample), grain)


def _frame_files(under_way: Export, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """``/000.jpg``, ``/001.jpg`` ...; sequences that are stored whole become PNG frames."""
    whole = sample.encoder.whole_sequence
    members = encode_members(Png(), pixels_of(sample)) if whole else sample.members
    for suffix, data in members.items():
        yield f"/{suffix[1:]}", data


def _arrays_held(under_way: Export) -> dict[str, list[Condition]]:
    """Return array -> the conditions that are stacked in it, in order."""
    name_of = _by_difficulty if under_way.data_set.family.sequences else _transform
    conditions: dict[str, list[Condition]] = {}
    for condition in under_way.survey.conditions:
        conditions.setdefault(f"{name_of(condition)}.npy", []).append(condition)
    return conditions


def _array_places(under_way: Export) -> list[str]:
    """Return the arrays. Raises UserError if samples are missing or differ in size, or if arrays differ in labels."""
    arrays, labels = _arrays_held(under_way), dict[str, list[list[int]]]()
    for name, conditions in arrays.items():
        labels[name] = [[_label_of_sound(row) for row in under_way.rows(condition)] for condition in conditions]
        first = labels.setdefault("", labels[name])
        if not under_way.data_set.family.sequences and labels.pop(name) != first:
            raise UserError(
                f"{next(iter(arrays))} and {name} would hold other labels, or other numbers of images, and {LABELS} is "
                "one for all arrays: use imagefolder or parquet"
            )
    if len(shapes := sorted(under_way.survey.shapes)) != 1:
        raise UserError(f"the images have {len(shapes)} sizes ({shapes[0]}, {shapes[1]} ...): an array needs one")
    if under_way.data_set.family.sequences:
        return list(arrays)
    levels = [condition.level for condition in next(iter(arrays.values()))]
    if levels != [0] and levels != list(range(1, len(levels) + 1)):
        held = ", ".join(map(str, levels))
        under_way.warnings.append(f"each array holds the severities {held}; most readers count them from 1")
    return [*arrays, LABELS]


def _label_of_sound(row: Row) -> int:
    if row.status != manifests.OK:
        raise UserError(f"{row.key} failed ({row.error}): arrays have no place for missing images")
    return row.label


def _arrays(under_way: Export) -> None:
    """``<corruption>.npy``, all severities one after another, and ``labels.npy``; or ``<perturbation>.npy``."""
    arrays = _arrays_held(under_way)
    for name, conditions in arrays.items():
        count = sum(under_way.survey.conditions[condition] for condition in conditions)
        if _holds(
            under_way.target.path(name), (row for condition in conditions for row in under_way.rows(condition)), count
        ):
            under_way.target.there += 1
            under_way.samples += count
        else:
            _write_array(under_way, name, conditions, count)
    if not under_way.data_set.family.sequences:
        labels = [row.label for condition in next(iter(arrays.values())) for row in under_way.rows(condition)]
        under_way.target.write(LABELS, _labels(labels))


def _holds(path: Path, rows: Iterator[Row], count: int) -> bool:
    """Whether an array has the pixels of all rows, by the digests in the manifest."""
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


def _write_array(under_way: Export, name: str, conditions: Iterable[Condition], count: int) -> None:
    """One array, written sample by sample aside: a mapped file would end the process where the disk is full."""
    shape: tuple[int, ...] = ()
    with under_way.target.aside() as (file, aside):
        for sample in under_way.read(row for condition in conditions for row in under_way.rows(condition)):
            pixels = pixels_of(sample)
            if not shape:
                shape = pixels.shape
                file.write(npy_header((count, *shape)))
            if pixels.shape != shape:
                raise UserError(f"{sample.row.key} is {pixels.shape}, others are {shape}: an array needs one")
            file.write(np.ascontiguousarray(pixels).data)
    under_way.target.publish(aside, under_way.target.path(name))


def _labels(labels: list[int]) -> bytes:
    """Return a .npy of uint8, or of int64 where labels do not fit."""
    buffer = io.BytesIO()
    fits = all(0 <= label < 256 for label in labels)
    np.save(buffer, np.array(labels, np.uint8 if fits else np.int64), allow_pickle=False)
    return buffer.getvalue()


def _parquet_places(under_way: Export) -> list[str]:
    _refuse_sequences(under_way, "Hugging Face reads their shards as WebDataset")
    for condition in under_way.survey.conditions:
        _transform(condition)
    return [PARQUET_FOLDER]


def _parquet(under_way: Export) -> None:
    """Write ``data/<condition>-<number>.parquet`` as Hugging Face reads it: image, label, class names."""
    schema, target = _parquet_schema(under_way), under_way.target
    for chunk in under_way.data_set.chunks():
        name = f"{PARQUET_FOLDER}/{chunk.name}.parquet"
        target.claim(name, chunk.name)
        facts = {"manifest": under_way.manifest_digest, "rows": f"{chunk.first}+{chunk.count}"}
        path = target.path(name)
        if manifests.is_sealed_file(path) and manifests.read_facts(path).items() >= {**facts, **_text(schema)}.items():
            target.there += 1
            under_way.samples += chunk.samples
            under_way.pass_over(chunk.count - chunk.samples)
            continue
        with target.aside() as (file, aside), pq.ParquetWriter(file, schema) as writer:
            samples = under_way.read(under_way.data_set.rows_of(chunk))
            while group := [_parquet_row(sample) for sample in islice(samples, PARQUET_GROUP)]:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
            writer.add_key_value_metadata(manifests.with_blank_seal(facts))
        manifests.seal_file(aside)
        target.publish(aside, path)


def _text(schema: pa.Schema) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in schema.metadata.items()}


def _parquet_schema(under_way: Export) -> pa.Schema:
    """Return the columns, and the features that Hugging Face takes from their metadata."""
    classes = under_way.survey.classes
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


def _imagenet_s_places(under_way: Export) -> list[str]:
    _refuse_sequences(under_way, "this layout has one array per image")
    folders = [_by_severity(condition) for condition in under_way.survey.conditions]
    return [*folders, *(f"{folder}.txt" for folder in folders)]


def _imagenet_s_folder(under_way: Export) -> None:
    """``<pair>/<class>/<name>.npy`` and, for each pair, ``<pair>.txt`` with lines ``<class>/<name>.npy <label>``."""
    for condition, rows in under_way.conditions():
        folder, index = _by_severity(condition), []
        under_way.target.begin_folder()
        for sample in under_way.read(rows):
            parts = sample.row.source_id.split("/")
            what = f"the name of the sample {sample.row.source_id!r}"
            name = "/".join(safe_name(part, what) for part in parts) + Npy.suffix
            under_way.target.claim(name, sample.row.source_id)
            as_is = isinstance(sample.encoder, Npy)
            under_way.target.write(f"{folder}/{name}", sample.payload() if as_is else Npy().encode(pixels_of(sample)))
            index.append(f"{name} {sample.row.label}\n")
        under_way.target.write(f"{folder}.txt", "".join(index).encode())


def _refuse_sequences(under_way: Export, instead: str) -> None:
    if under_way.data_set.family.sequences:
        raise UserError(f"{under_way.data_set.name} holds sequences: {instead}")


def _refuse_images(under_way: Export) -> None:
    if not under_way.data_set.family.sequences:
        raise UserError(f"{under_way.data_set.name} holds single images: use imagefolder")


def _class_layout(
    folder_of: FolderOf, files: Callable[[Export, Sample], Iterable[tuple[str, bytes]]], sequences: bool = False
) -> ExportLayout:
    return ExportLayout(
        partial(_class_places, folder_of=folder_of, sequences=sequences),
        partial(_in_class_folders, folder_of=folder_of, files=files),
        class_folders=True,
    )


LAYOUTS: Mapping[str, ExportLayout] = {
    "imagefolder": _class_layout(_by_severity, _image_file),
    "imagefolder-tfds": _class_layout(_by_config, _image_file),
    "cifar-npy": ExportLayout(_array_places, _arrays),
    "mp4": _class_layout(_by_difficulty, _mp4_file, sequences=True),
    "frames": _class_layout(_by_difficulty, _frame_files, sequences=True),
    "parquet": ExportLayout(_parquet_places, _parquet),
    "imagenet-s-folder": ExportLayout(_imagenet_s_places, _imagenet_s_folder),
}
"""Layout -> what it is."""
