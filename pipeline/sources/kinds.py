"""The table of source kinds, and their detection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from corruptions.registry import unknown
from pipeline.errors import UserError
from pipeline.sources.array_rows import DOWNSAMPLED_FILES, cifar_10, cifar_100, cifar_100_coarse, downsampled_imagenet
from pipeline.sources.base import Source
from pipeline.sources.cifar_subclasses import cifar_100_subclass
from pipeline.sources.hf_parquet import HuggingFaceParquet
from pipeline.sources.icons import Icons50
from pipeline.sources.ilsvrc2012 import LABEL_FILES, flat_validation, validation_tar
from pipeline.sources.imagefolder import AnyFolder, ImageFolder
from pipeline.sources.parts import WHOLE, PartOptions
from pipeline.sources.tiny_imagenet import boxed_validation, tiny_imagenet
from pipeline.sources.views import listed_classes, subset
from pipeline.sources.webdataset import WebDatasetTars
from pipeline.storage import Place, find_place

AUTO = "auto"
"""The kind that means: detect the layout."""

FILES = "files"
"""The kind of folders without classes. It is not detected, because they look like an imagefolder."""

DATA = "data"
"""Folder of the Parquet files in a Hugging Face repository."""


@dataclass(frozen=True)
class Kind:
    """A source layout.

    Attributes:
        open: Function that opens the source at a place.
        is_detected: Function that returns whether the file names at a place match this layout.
        description: Description of the layout for messages.
        options: Names of the options that ``open`` accepts as keyword arguments, see :class:`PartOptions`.
        folders: What each folder of an image id is, in reports on a part; empty for folders that they do not show.
    """

    open: Callable[..., Source]
    is_detected: Callable[[Place], bool]
    description: str
    options: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def _has_all(*names: str) -> Callable[[Place], bool]:
    return lambda place: all(place.has(name) for name in names)


def _never(place: Place) -> bool:
    return False


def _files(place: Place) -> list[str]:
    """Return the file, the files that match the pattern, or the files directly in the folder."""
    listed = place.is_folder
    return [each.name for each in place.store.entries("") if not each.is_folder] if listed else place.files("")


def _has_suffix(suffix: str) -> Callable[[Place], bool]:
    return lambda place: any(name.lower().endswith(suffix) for name in _files(place))


def _is_hugging_face(place: Place) -> bool:
    """Return whether there are Parquet files in the place or in its folder ``data``, as in repositories."""
    if _has_suffix(".parquet")(place):
        return True
    folders = [each.name for each in place.store.entries("") if each.is_folder] if place.is_folder else []
    return DATA in folders and any(each.name.lower().endswith(".parquet") for each in place.store.entries(DATA))


def _is_validation_tar(place: Place) -> bool:
    return place.name == "ILSVRC2012_img_val.tar"


def _is_flat_validation(place: Place) -> bool:
    return place.is_folder and any(name.startswith("ILSVRC2012_val_") for name in _files(place))


def _is_webdataset(place: Place) -> bool:
    return not _is_validation_tar(place) and _has_suffix(".tar")(place)


def _is_imagefolder(place: Place) -> bool:
    others = (each for name, each in KINDS.items() if name != "imagefolder")
    return place.is_folder and not any(each.is_detected(place) for each in others)


KINDS: Mapping[str, Kind] = {
    "imagefolder": Kind(ImageFolder, _is_imagefolder, "a folder of images, one folder per class"),
    FILES: Kind(AnyFolder, _never, "any folder of images, without classes"),
    "ilsvrc2012-val": Kind(
        flat_validation,
        _is_flat_validation,
        f"the flat ILSVRC2012 validation folder with one of {', '.join(LABEL_FILES)}",
    ),
    "ilsvrc2012-val-tar": Kind(
        validation_tar, _is_validation_tar, "ILSVRC2012_img_val.tar with a label file in the same folder"
    ),
    "imagenet-boxes": Kind(
        boxed_validation,
        _never,
        "the flat ILSVRC2012 validation folder, images of the classes in wnids.txt cropped to their first box",
    ),
    "hf-parquet": Kind(HuggingFaceParquet, _is_hugging_face, "Hugging Face Parquet files"),
    "cifar-10": Kind(cifar_10, _has_all("test_batch", "batches.meta"), "test images of cifar-10-batches-py"),
    "cifar-100": Kind(cifar_100, _has_all("test", "meta"), "test images of cifar-100-python with fine labels"),
    "cifar-100-coarse": Kind(cifar_100_coarse, _never, "test images of cifar-100-python with coarse labels"),
    "cifar-100-subclass": Kind(
        cifar_100_subclass,
        _never,
        "a part of cifar-100-python with coarse labels, by fine classes",
        ("hold_out", "part", "split"),
        ("fine class",),
    ),
    "icons-50": Kind(
        Icons50,
        _never,
        "Icons-50: class folders of icons, or Icons-50.npy",
        ("protocol", "matching", "part"),
        ("", "style"),
    ),
    "tiny-imagenet": Kind(
        tiny_imagenet, _has_all("wnids.txt", "val/val_annotations.txt"), "validation images of tiny-imagenet-200"
    ),
    "imagenet64": Kind(
        downsampled_imagenet,
        lambda place: any(map(place.has, DOWNSAMPLED_FILES)),
        "validation images of downsampled ImageNet (val_data or val_data.npz)",
    ),
    "webdataset": Kind(WebDatasetTars, _is_webdataset, "WebDataset tars"),
}
"""Name of a source kind -> its layout."""


def detect(location: str) -> str:
    """Return the source kind at a path, URL or pattern, detected by file names.

    Raises:
        UserError: The location does not exist, or no kind or more than one kind matches.
    """
    place = _existing(location)
    found = [name for name, kind in KINDS.items() if kind.is_detected(place)]
    if len(found) == 1:
        return found[0]
    allowed = "; ".join(f"{name}: {kind.description}" for name, kind in KINDS.items())
    what = f"could be {' or '.join(found)}" if found else "has an unknown layout"
    raise UserError(f"the source {location} {what}: set --source-kind to one of: {allowed}")


def check_part_options(kind: str, part: PartOptions) -> None:
    """Raise ValueError if an option that selects a part is not one of the source kind."""
    allowed = KINDS[kind].options if kind in KINDS else ()
    for name in part.given():
        if name not in allowed:
            kinds = ", ".join(other for other, each in KINDS.items() if name in each.options)
            raise ValueError(f"{name} is not an option of the source kind {kind!r}; it is one of: {kinds}")


def open_source(
    kind: str, location: str, ids: str | None = None, classes: Sequence[str] = (), part: PartOptions = WHOLE
) -> Source:
    """Open a source.

    Args:
        kind: A key of ``KINDS``, or ``"auto"`` to detect it.
        location: Path, URL or pattern.
        ids: Path or URL of a text file that lists the images to use. Default: all images.
        classes: All class names in label order. Default: the source numbers its classes.
        part: The part of the data set to use. Default: all of it.

    Raises:
        UserError: The source does not exist or is invalid, or an option is missing.
    """
    if kind == AUTO:
        kind = detect(location)
    if kind not in KINDS:
        raise UserError(unknown("source kind", kind, allowed=KINDS))
    options = {name: getattr(part, name) for name in KINDS[kind].options}
    source = KINDS[kind].open(_existing(location), **options)
    if classes:
        source = listed_classes(source, classes)
    return source if ids is None else subset(source, ids)


def _existing(location: str) -> Place:
    place = find_place(location)
    if place is None:
        raise UserError(
            f"the source {location} does not exist: give a folder, a file, or a pattern such as data/test-*.parquet"
        )
    return place
