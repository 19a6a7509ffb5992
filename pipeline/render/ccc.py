"""The images of a stream of CCC, made from the photographs of a source."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import corruptions
from corruptions import ccc
from corruptions.catalogue import Image
from pipeline.errors import UnreachableError, UserError
from pipeline.images.decoders import decode
from pipeline.images.encoders import Jpeg
from pipeline.render.renderer import boxed
from pipeline.sources import npz
from pipeline.sources.base import UNLABELLED, Source, SourceImage
from pipeline.sources.kinds import AUTO, open_source
from pipeline.sources.threads import ReadAhead
from pipeline.storage import find_place
from pipeline.tasks.labels import LabelSpace

CONVERT = 'numpy.savez_compressed("matrix.npz", **numpy.load("ccc_accuracy_matrix.pickle", allow_pickle=True))'
"""Converts the published matrix, in a process that can do no harm."""

LONGEST_STREAM = 10**9
"""Maximum number of images of a stream."""

KEPT = 128
"""Number of decoded photographs that a process remembers: about 70 MB of 500 x 375."""


class Place(NamedTuple):
    """What an image of a stream is made of: the number of its step, what that does, and the photograph."""

    number: int
    step: ccc.Step
    image: SourceImage


def read_accuracies(location: str, baseline: float) -> dict[str, NDArray[np.float64]]:
    """Return the matrices of the pairs that a baseline needs from an ``.npz`` file. Nothing is unpickled.

    Raises:
        UserError: The file is missing or no ``.npz``, or lacks a pair, or one is not 21 x 21 percents.
    """
    place = find_place(location)
    if place is None or place.is_folder:
        raise UserError(f"the accuracy matrix {location} is not a file: give the path of an .npz file")
    if not place.name.endswith(".npz"):
        raise UserError(
            f"the accuracy matrix {location} is no .npz file. Pickles are not read, since they can run any code; "
            f"convert one whose origin you trust, in a sandbox: {CONVERT}"
        )
    keys = list(ccc.pair_keys(ccc.names(baseline)).values())
    held = set(npz.names(place))
    if missing := [key for key in keys if key not in held]:
        raise UserError(
            f"the accuracy matrix {location} lacks {len(missing)} of {len(keys)} pairs that baseline {baseline:g} "
            f"needs, for example {missing[0]}: measure them with robustshards ccc-matrix --baseline {baseline:g}"
        )
    try:
        matrices = npz.load(place, keys, "fiu")
        return {key: ccc.check_accuracy(matrices[key], key, (ccc.GRID, ccc.GRID)) for key in keys}
    except ValueError as error:
        raise UserError(f"the accuracy matrix {location} is invalid: {error}") from error


def read_photograph(source: Source | ReadAhead, image: SourceImage) -> Image:
    """Return a photograph, cropped to its box. Raise UserError if it cannot be read or decoded."""
    try:
        data = source.read(image)
        photograph = decode(data) if isinstance(data, bytes) else data
        return photograph if image.box is None else boxed(photograph, image.box)
    except (UserError, UnreachableError):
        raise
    except Exception as error:  # readers of damaged files can raise any exception
        raise UserError(f"cannot read the source image {image.origin}: {error}; restore or remove it") from error


@lru_cache(maxsize=512)
def _corruptor(name: str, severity: float) -> Callable[[Image, int], Image]:
    return corruptions.corruptor(name, float(severity))


@dataclass(frozen=True)
class CCCImages:
    """The images of a stream, and how they are made. Instances can be pickled.

    Attributes:
        stream: Baseline, speed and seed.
        length: Number of images.
        steps: What each step does.
        listing: The images of the source, in its order.
        labels: What their labels count. None if unknown.
        location: Path or URL of the source.
        kind: Layout of the source.
        matrix: Digest of the accuracy matrix.
        digest: Digest of all that decides the images.
        encode: Whether images pass through JPEG of quality 85, as published.
    """

    stream: ccc.StreamKey
    length: int
    steps: Sequence[ccc.Step]
    listing: Sequence[SourceImage]
    labels: LabelSpace | None
    location: str
    kind: str
    matrix: str
    digest: str
    encode: bool

    def __getstate__(self) -> dict[str, object]:
        """Return the fields, without the opened source and what is remembered."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def at(self, number: int) -> Place:
        """Return what an image of the stream is made of, counted from 0."""
        step, place = divmod(number, self.stream.speed)
        return Place(step, self.steps[step], self.listing[self._indices(step)[place]])

    def order(self, step: int) -> NDArray[np.int64]:
        """Return the indices of the images of a step in the listing, in order."""
        return self.stream.order(step, len(self.listing))

    @cached_property
    def _indices(self) -> Callable[[int], NDArray[np.int64]]:
        """A function that returns the order of a step, and remembers the latest one."""
        return lru_cache(2)(self.order)

    @cached_property
    def _source(self) -> ReadAhead:
        return ReadAhead(open_source(self.kind, self.location))

    @cached_property
    def _photograph(self) -> Callable[[SourceImage], Image]:
        """A function that reads a photograph, and remembers the latest ones."""
        return lru_cache(KEPT)(partial(read_photograph, self._source))

    def rendered(self, places: Sequence[Place]) -> Iterator[Image]:
        """Yield images of the stream; photographs are read from an object store in advance. Raise like ``render``."""
        with self._source.expecting(place.image for place in places):
            yield from map(self.render, places)

    def render(self, place: Place) -> Image:
        """Return an image of the stream, uint8 (224, 224, 3).

        Raises:
            UserError: The source image cannot be read or decoded.
        """
        uniforms, *seeds = self.stream.draws(place.number, place.image.id)
        first, second, *severities = place.step
        pixels = ccc.prepare(self._photograph(place.image), uniforms.tolist())
        for name, severity, seed in zip((first, second), severities, seeds, strict=True):
            if severity:
                pixels = _corruptor(name, severity)(pixels, seed)
        return Jpeg().stored(pixels) if self.encode else pixels


def ccc_images(
    location: str,
    accuracies: str | Mapping[str, ArrayLike],
    stream: ccc.StreamKey,
    length: int,
    *,
    kind: str = AUTO,
    classes: Sequence[str] = (),
    encode: bool = True,
    unlabelled: bool = False,
) -> CCCImages:
    """Return the images of a stream.

    Args:
        location: Path or URL of the source.
        accuracies: The accuracy matrix, or the path or URL of its ``.npz`` file.
        stream: Baseline, speed and seed.
        length: Number of images.
        kind: Layout of the source. Default: detected.
        classes: All class names in label order; empty: the source numbers its classes.
        encode: Whether images pass through JPEG.
        unlabelled: Whether to accept images without labels.

    Raises:
        UserError: The source or the matrix is invalid, or the source has fewer images than a step.
    """
    try:
        baseline = ccc.check_baseline(stream.baseline)
        matrices = read_accuracies(accuracies, baseline) if isinstance(accuracies, str) else accuracies
        steps = list(islice(ccc.walk(matrices, baseline, stream.seed), -(-length // stream.speed)))
        source = open_source(kind, location, classes=classes)
        listing = list(source)
        stream.order(0, len(listing))
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from error
    if not unlabelled and any(image.label == UNLABELLED for image in listing):
        raise UserError("the source has images without labels: pass unlabelled=True, or sort them into folders")
    matrix = hashlib.sha256()
    for key in ccc.pair_keys(ccc.names(baseline)).values():
        matrix.update(np.asarray(matrices[key], np.float64).tobytes())
    facts = (length, encode, [(each.id, each.label) for each in listing], str(stream), steps)
    digest = hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()
    return CCCImages(stream, length, steps, listing, source.labels, location, kind, matrix.hexdigest(), digest, encode)
