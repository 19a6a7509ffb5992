"""Where clean images come from: one file per layout, one row per kind here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UserError
from pipeline.sources.annotated import LABEL_FILES, BoxedValidation, FlatValidation, TinyImageNet, ValidationTar
from pipeline.sources.arrays import Cifar, Cifar100, Cifar100Coarse, DownsampledImageNet
from pipeline.sources.base import Pixels, Source, SourceImage, read_lines
from pipeline.sources.hf_parquet import HuggingFaceParquet
from pipeline.sources.imagefolder import ImageFolder
from pipeline.sources.tars import WebDatasetTars

__all__ = ["AUTO", "KINDS", "Pixels", "Source", "SourceImage", "detect", "open_source", "subset"]

AUTO = "auto"
"""The kind that stands for any: it is found out by what lies at the location."""


@dataclass(frozen=True)
class Kind:
    """A layout: what opens it, how it is recognised by names alone (None: never by itself), and in words what it is."""

    open: Callable[[Path], Source]
    recognised: Callable[[Path], bool]
    words: str


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda path: path.is_dir() and all((path / name).exists() for name in names)


def _never(path: Path) -> bool:
    return False


def _holds(pattern: str) -> Callable[[Path], bool]:
    suffix = pattern.removeprefix("*")
    return lambda path: path.name.endswith(suffix) if path.is_file() else next(path.glob(pattern), None) is not None


def _is_validation_tar(path: Path) -> bool:
    return path.is_file() and path.name == "ILSVRC2012_img_val.tar"


def _is_flat_validation(path: Path) -> bool:
    return path.is_dir() and next(path.glob("ILSVRC2012_val_*"), None) is not None


def _is_webdataset(path: Path) -> bool:
    return not _is_validation_tar(path) and _holds("*.tar")(path)


def _is_imagefolder(path: Path) -> bool:
    special = (each for name, each in KINDS.items() if name != "imagefolder")
    return path.is_dir() and not any(each.recognised(path) for each in special)


KINDS: Mapping[str, Kind] = {
    "imagefolder": Kind(ImageFolder, _is_imagefolder, "a folder of images, one folder per class"),
    "ilsvrc2012-val": Kind(
        FlatValidation, _is_flat_validation, f"the flat validation folder of ILSVRC2012, with one of {LABEL_FILES}"
    ),
    "ilsvrc2012-val-tar": Kind(ValidationTar, _is_validation_tar, "ILSVRC2012_img_val.tar, a label file beside it"),
    "imagenet-boxes": Kind(
        BoxedValidation, _never, "the flat validation folder, images cut to their first box, classes of a wnids.txt"
    ),
    "hf-parquet": Kind(HuggingFaceParquet, _holds("*.parquet"), "Hugging Face parquet files"),
    "cifar-10": Kind(Cifar, _has("test_batch", "batches.meta"), "cifar-10-batches-py, its test images"),
    "cifar-100": Kind(Cifar100, _has("test", "meta"), "cifar-100-python, its test images with fine labels"),
    "cifar-100-coarse": Kind(Cifar100Coarse, _never, "cifar-100-python, its test images with coarse labels"),
    "tiny-imagenet": Kind(
        TinyImageNet, _has("wnids.txt", "val/val_annotations.txt"), "tiny-imagenet-200, its validation images"
    ),
    "imagenet64": Kind(
        DownsampledImageNet,
        lambda path: path.is_dir() and any((path / name).is_file() for name in ("val_data", "val_data.npz")),
        "downsampled ImageNet, its validation images (val_data, or val_data.npz)",
    ),
    "webdataset": Kind(WebDatasetTars, _is_webdataset, "WebDataset tars"),
}
"""Source kind -> how it is recognised and read."""


def detect(location: str) -> str:
    """The kind of source at ``location``, by names alone. Raises UserError where nothing or more than one kind fits."""
    path = _existing(location)
    found = [name for name, kind in KINDS.items() if kind.recognised(path)]
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


def _existing(location: str) -> Path:
    path = Path(location)
    if not path.exists():
        raise UserError(f"the source {location} does not exist; give the folder that holds the class folders")
    return path


class Subset:
    """The images of a source that a text file lists, in the source's order.

    A line is an id, a path in the source, or a file name, with or without suffix (RobustBench's lists, for example).
    """

    def __init__(self, source: Source, listed: str) -> None:
        self.location = source.location
        self._source = source
        self._listed = listed
        self._wanted = {_plain(line) for line in read_lines(Path(listed))}

    @property
    def ignored(self) -> Counter[str]:
        """Files passed over by the whole source."""
        return self._source.ignored

    def __iter__(self) -> Iterator[SourceImage]:
        """The listed images. Raises UserError, at the end, for lines that name none."""
        missing = set(self._wanted)
        for image in self._source:
            names = {_plain(image.id), _plain(image.origin), _plain(image.origin.rpartition("/")[2])} & self._wanted
            if names:
                missing -= names
                yield image
        if missing:
            some = ", ".join(sorted(missing)[:3])
            raise UserError(f"{self._listed} lists {len(missing)} images that are not in {self.location}: {some} ...")

    def read(self, image: SourceImage) -> bytes | Pixels:
        """As the whole source."""
        return self._source.read(image)


def _plain(name: str) -> str:
    """A name without suffix, dots as in ids."""
    stem, dot, suffix = name.rpartition(".")
    return (stem if dot and "/" not in suffix else name).replace(".", "_")
