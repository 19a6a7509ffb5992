"""Icons-50, whole or one part of a protocol: icons of 50 classes in the styles of several companies."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.errors import SampleError, UserError
from pipeline.images.decoders import decode_on_white
from pipeline.sources import pickles
from pipeline.sources.base import Pixels, SourceImage, identifier, refuse_duplicates
from pipeline.sources.files import is_system_folder
from pipeline.sources.imagefolder import ImageFolder
from pipeline.sources.parts import STYLE, Part, require_both
from pipeline.storage import Place
from pipeline.tasks.labels import LabelSpace, Numbering
from pipeline.tasks.lists import shipped_list
from pipeline.text import counted, shown

KIND = "icons-50"

ARRAY_FILE = "Icons-50.npy"
"""The array as distributed."""

CLASSES = 50
"""Number of classes of the complete data set."""

SUBTYPES = frozenset(shipped_list("icons50_subtypes.txt"))
"""Subtypes that the protocol "subclass" holds out."""

LATER_RENDITION = "2"
"""The rendition that the protocol "rendition" holds out."""


@dataclass(frozen=True)
class Icon:
    """An icon.

    Attributes:
        image: The icon in its source.
        style: Style, such as "microsoft". Empty, like all fields, if the name of the file has no fields.
        rendition: Number of the rendition.
        subtype: What the icon shows, within its class.
    """

    image: SourceImage
    style: str = ""
    rendition: str = ""
    subtype: str = ""


class Icons50:
    """The icons of one part, or all of them, ordered by id. Both forms have the same ids, labels and class names.

    Ids are ``class_<label>/<style>/<rendition>_<subtype>``, and labels number the sorted class folders. Transparent
    pixels are laid on white.

    Source: Hendrycks and Dietterich, arXiv 1807.01697, Icons-50.
    """

    def __init__(
        self, place: Place, protocol: str | None = None, matching: str | None = None, part: Part | None = None
    ) -> None:
        """Open the icons.

        Args:
            place: The array, or the folder that contains it or the class folders.
            protocol: What is held out. None for all icons.
            matching: How icons to hold out are found. None by their fields.
            part: Part to use.

        Raises:
            UserError: An option is missing or has no effect, or the source is invalid.
        """
        if protocol or part or matching:
            require_both(KIND, protocol=protocol, part=part)
        is_array = not place.is_folder or place.has(ARRAY_FILE)
        self._form: _Array | _Folders = _Array(place) if is_array else _Folders(place)
        self.location = self._form.location
        self.notices = tuple(self._form.notices)
        self._protocol, self._matching, self._part = protocol, matching or "field", part
        if self._matching == "substring" and not self._form.has_paths:
            raise UserError(
                f"{self.location} has no paths, which source.matching=substring searches: give the class folders"
            )

    @property
    def ignored(self) -> Counter[str]:
        """Suffix -> number of skipped files."""
        return self._form.ignored

    @property
    def labels(self) -> LabelSpace:
        """What the labels count."""
        return self._form.labels

    def __iter__(self) -> Iterator[SourceImage]:
        """Yield the icons of the part. Raise UserError if there are none, or the source is invalid."""
        icons = sorted(self._form.icons(), key=lambda icon: icon.image.id)
        refuse_duplicates(f"{self.location} has the icons", ((icon.image.id, icon.image.origin) for icon in icons))
        yield from self._selected(icons)

    def read(self, image: SourceImage) -> bytes | Pixels:
        """Return the content of an icon; the pixels if it is transparent or from the array.

        Raises:
            OSError: The file cannot be read.
            SampleError: The name of the file has no fields, or the file is damaged.
        """
        return self._form.read(image)

    def _selected(self, icons: Sequence[Icon]) -> list[SourceImage]:
        """Return the icons of the part, and update the notices."""
        if self._protocol is None:
            return [icon.image for icon in icons]
        _check_style(self._protocol, icons, self.location)
        kinds = MATCHING if self._form.has_paths else [self._matching]
        held_out = {kind: [MATCHING[kind](self._protocol, icon) for icon in icons] for kind in kinds}
        differ = sum(len(set(outcomes)) > 1 for outcomes in zip(*held_out.values(), strict=True))
        told = [f"{counted(differ, 'icon')} would be in the other part with another source.matching"] if differ else []
        self.notices = (*self._form.notices, *told)
        wanted = self._part == "held_out"
        images = [icon.image for icon, out in zip(icons, held_out[self._matching], strict=True) if out == wanted]
        if not images:
            raise UserError(
                f"{self.location}: the part {self._part} of the protocol {self._protocol} is empty: give the complete "
                "data set, or another source.protocol"
            )
        return images


def _matches_field(protocol: str, icon: Icon) -> bool:
    """Return whether a protocol holds an icon out, by equality of its fields."""
    if protocol.startswith(STYLE):
        return icon.style == protocol.removeprefix(STYLE)
    return icon.subtype in SUBTYPES if protocol == "subclass" else icon.rendition == LATER_RENDITION


def _matches_substring(protocol: str, icon: Icon) -> bool:
    """Return whether a protocol holds an icon out, by a search in its path, as the published program does."""
    if protocol.startswith(STYLE):
        return protocol.removeprefix(STYLE) in icon.image.origin
    texts = SUBTYPES if protocol == "subclass" else (f"_{LATER_RENDITION}",)
    return any(text in icon.image.origin for text in texts)


MATCHING: dict[str, Callable[[str, Icon], bool]] = {"field": _matches_field, "substring": _matches_substring}
"""Value of ``source.matching`` -> whether a protocol holds an icon out."""


def _check_style(protocol: str, icons: Sequence[Icon], where: str) -> None:
    """Raise UserError if a protocol holds out a style that no icon has."""
    styles = sorted({icon.style for icon in icons} - {""})
    style = protocol.removeprefix(STYLE)
    if protocol.startswith(STYLE) and style not in styles:
        raise UserError(f"{where} has no icon of the style {shown(style)}; it has {', '.join(map(shown, styles))}")


class _Folders:
    """Class folders of files named ``<style>_<rendition>_<subtype>.png``."""

    has_paths = True

    def __init__(self, place: Place) -> None:
        self._folder = ImageFolder(place)
        self.location = place.location
        folders = (entry.name for entry in place.store.entries("") if entry.is_folder)
        names = sorted(name for name in folders if not is_system_folder(name))
        if not names:
            raise UserError(f"{self.location} has neither {ARRAY_FILE} nor class folders: give the folder Icons-50")
        self.labels = _label_space(len(names), tuple(names))
        self.notices: Sequence[str] = _class_notices(len(names))

    @property
    def ignored(self) -> Counter[str]:
        return self._folder.ignored

    def icons(self) -> Iterator[Icon]:
        for image in self._folder:
            fields = _fields(image)
            words = fields or (identifier(image.origin.rpartition("/")[2]),)
            yield Icon(_named(image, words), *(fields or ()))

    def read(self, image: SourceImage) -> bytes | Pixels:
        if _fields(image) is None:
            raise SampleError("the name of the file is not <style>_<rendition>_<subtype>: rename or remove it")
        data = self._folder.read(image)
        on_white = decode_on_white(data)
        return data if on_white is None else on_white


class _Array:
    """The array ``Icons-50.npy``, a pickled dictionary, which is loaded when first needed."""

    has_paths = False

    def __init__(self, place: Place) -> None:
        self._file = Place(place.store, ARRAY_FILE) if place.is_folder else place
        self.location = self._file.location
        self.ignored: Counter[str] = Counter()
        folders = place.is_folder and any(entry.is_folder for entry in place.store.entries(""))
        self._beside = [f"{self.location} is read; the folders beside it are not"] if folders else []

    @cached_property
    def _content(self) -> dict[str, Any]:
        """The arrays and lists of the file, of equal length. Raises UserError if they are invalid."""
        where, content = self.location, pickles.load_file(self._file)
        images = content.values.get("image")
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise UserError(f"the value of 'image' in {where} is not a uint8 array of shape (icons, 3, height, width)")
        if not all(images.shape):
            raise UserError(f"the images in {where} have the shape {images.shape}, without pixels: download it again")
        labels = content.labels("class", len(images))
        if unlabelled := [index for index, label in enumerate(labels) if label < 0]:
            raise UserError(f"{where}, image {unlabelled[0]}, has no class: download the file again")
        fields = ("style", "rendition", "subtype")
        return {"image": images, "class": labels, **{key: content.texts(key, len(images)) for key in fields}}

    @property
    def labels(self) -> LabelSpace:
        return _label_space(self._classes, tuple(map(_class_name, range(self._classes))))

    @property
    def notices(self) -> Sequence[str]:
        return (*self._beside, *_class_notices(self._classes))

    @property
    def _classes(self) -> int:
        return max(self._content["class"], default=-1) + 1

    def icons(self) -> Iterator[Icon]:
        content = self._content
        size = content["image"][0].size if len(content["image"]) else 0
        columns = (content[key] for key in ("class", "style", "rendition", "subtype"))
        for index, (label, *fields) in enumerate(zip(*columns, strict=True)):
            if wrong := [field for field in fields if not field or "/" in field]:
                raise UserError(f"{self.location}, image {index}, has the invalid field {shown(wrong[0])}: use words")
            image = SourceImage("", label, "", f"{self._file.name}#{index}", size)
            yield Icon(_named(image, fields), *fields)

    def read(self, image: SourceImage) -> Pixels:
        index = int(image.origin.rpartition("#")[2])
        return np.ascontiguousarray(self._content["image"][index].transpose(1, 2, 0))


def _fields(image: SourceImage) -> tuple[str, str, str] | None:
    """Return style, rendition and subtype in the name of a file; None if it has no two underscores between words."""
    fields = identifier(image.origin.rpartition("/")[2]).split("_", 2)
    return (fields[0], fields[1], fields[2]) if len(fields) == 3 and all(fields) else None


def _named(image: SourceImage, words: Sequence[str]) -> SourceImage:
    """Return an icon with the id and class name that both forms give it."""
    name = _class_name(image.label)
    style, *rest = words
    id_ = identifier("/".join((name, style, "_".join(rest)) if rest else (name, style)) + ".png")
    return SourceImage(id_, image.label, name, image.origin, image.size)


def _class_name(label: int) -> str:
    return f"class_{label:02d}"


def _label_space(classes: int, names: tuple[str, ...]) -> LabelSpace:
    return LabelSpace(numbering=Numbering.SORTED, classes=classes, present=classes, names=names)


def _class_notices(classes: int) -> Sequence[str]:
    return () if classes == CLASSES else (f"{counted(classes, 'class', 'classes')} of icons instead of {CLASSES}",)
