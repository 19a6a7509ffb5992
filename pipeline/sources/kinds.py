"""Where clean images come from: one file per layout, one row per kind here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline.errors import UserError
from pipeline.sources.base import Source
from pipeline.sources.cifar import Cifar, Cifar100, Cifar100Coarse
from pipeline.sources.downsampled_imagenet import DOWNSAMPLED_FILES, DownsampledImageNet
from pipeline.sources.hf_parquet import HuggingFaceParquet
from pipeline.sources.ilsvrc2012 import LABEL_FILES, FlatValidation, ValidationTar
from pipeline.sources.imagefolder import ImageFolder
from pipeline.sources.imagenet_boxes import BoxedValidation
from pipeline.sources.subset import Subset
from pipeline.sources.tiny_imagenet import TinyImageNet
from pipeline.sources.webdataset import WebDatasetTars
from pipeline.storage import Place, find_place

AUTO = "auto"
"""The kind that stands for any: it is found out by what lies at the location."""

DATA = "data"
"""Where repositories of Hugging Face keep their parquet files."""


@dataclass(frozen=True)
class Kind:
    """A layout: what opens it, how it is recognised by names alone (None: never by itself), and in words what it is."""

    open: Callable[[Place], Source]
    recognised: Callable[[Place], bool]
    words: str


def _has_all(*names: str) -> Callable[[Place], bool]:
    return lambda place: all(place.has(name) for name in names)


def _has_any(*names: str) -> Callable[[Place], bool]:
    return lambda place: any(place.has(name) for name in names)


def _never(place: Place) -> bool:
    return False


def _files(place: Place) -> list[str]:
    """The name of the file, those that match, or those of all files right in the folder."""
    listed = place.is_folder
    return [each.name for each in place.store.entries("") if not each.is_folder] if listed else place.files("")


def _holds(suffix: str) -> Callable[[Place], bool]:
    return lambda place: any(name.lower().endswith(suffix) for name in _files(place))


def _is_hugging_face(place: Place) -> bool:
    """Parquet files, or a folder ``data`` of them, as repositories have it."""
    if _holds(".parquet")(place):
        return True
    below = [each.name for each in place.store.entries("") if each.is_folder] if place.is_folder else []
    return DATA in below and any(each.name.lower().endswith(".parquet") for each in place.store.entries(DATA))


def _is_validation_tar(place: Place) -> bool:
    return place.name == "ILSVRC2012_img_val.tar"


def _is_flat_validation(place: Place) -> bool:
    return place.is_folder and any(name.startswith("ILSVRC2012_val_") for name in _files(place))


def _is_webdataset(place: Place) -> bool:
    return not _is_validation_tar(place) and _holds(".tar")(place)


def _is_imagefolder(place: Place) -> bool:
    special = (each for name, each in KINDS.items() if name != "imagefolder")
    return place.is_folder and not any(each.recognised(place) for each in special)


KINDS: Mapping[str, Kind] = {
    "imagefolder": Kind(ImageFolder, _is_imagefolder, "a folder of images, one folder per class"),
    "ilsvrc2012-val": Kind(
        FlatValidation, _is_flat_validation, f"the flat validation folder of ILSVRC2012, with one of {LABEL_FILES}"
    ),
    "ilsvrc2012-val-tar": Kind(ValidationTar, _is_validation_tar, "ILSVRC2012_img_val.tar, a label file beside it"),
    "imagenet-boxes": Kind(
        BoxedValidation, _never, "the flat validation folder, images cut to their first box, classes of a wnids.txt"
    ),
    "hf-parquet": Kind(HuggingFaceParquet, _is_hugging_face, "Hugging Face parquet files"),
    "cifar-10": Kind(Cifar, _has_all("test_batch", "batches.meta"), "cifar-10-batches-py, its test images"),
    "cifar-100": Kind(Cifar100, _has_all("test", "meta"), "cifar-100-python, its test images with fine labels"),
    "cifar-100-coarse": Kind(Cifar100Coarse, _never, "cifar-100-python, its test images with coarse labels"),
    "tiny-imagenet": Kind(
        TinyImageNet, _has_all("wnids.txt", "val/val_annotations.txt"), "tiny-imagenet-200, its validation images"
    ),
    "imagenet64": Kind(
        DownsampledImageNet,
        _has_any(*DOWNSAMPLED_FILES),
        "downsampled ImageNet, its validation images (val_data, or val_data.npz)",
    ),
    "webdataset": Kind(WebDatasetTars, _is_webdataset, "WebDataset tars"),
}
"""Source kind -> how it is recognised and read."""


def detect(location: str) -> str:
    """The kind of source at ``location``, by names alone. Raises UserError where nothing or more than one kind fits."""
    place = _existing(location)
    found = [name for name, kind in KINDS.items() if kind.recognised(place)]
    if len(found) == 1:
        return found[0]
    looked = "; ".join(f"{name}: {kind.words}" for name, kind in KINDS.items())
    what = f"could be {' or '.join(found)}" if found else "is of no known kind"
    raise UserError(f"the source {location} {what}; name it with --source-kind. Kinds are: {looked}")


def open_source(kind: str, location: str, ids: str | None = None) -> Source:
    """The source of this kind at ``location``, or the part of it that a file lists. Raises UserError."""
    if kind == AUTO:
        kind = detect(location)
    if kind not in KINDS:
        raise UserError(f"source kind {kind!r} is unknown; allowed: {', '.join(KINDS)}")
    source = KINDS[kind].open(_existing(location))
    return source if ids is None else Subset(source, ids)


def _existing(location: str) -> Place:
    place = find_place(location)
    if place is None:
        raise UserError(
            f"the source {location} does not exist; give a folder, a file, or a pattern such as data/test-*.parquet"
        )
    return place
