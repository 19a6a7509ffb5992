"""The images of a stream of CCC, made from the photographs of a source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
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
from pipeline.images.encoders import Jpeg, stored_pixels
from pipeline.render.renderer import boxed
from pipeline.sources import npz
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.kinds import open_source
from pipeline.storage import find_place

CONVERT = 'numpy.savez_compressed("matrix.npz", **numpy.load("ccc_accuracy_matrix.pickle", allow_pickle=True))'
"""Converts the published matrix, in a process that can do no harm."""

LONGEST_STREAM = 10**9
"""Maximum number of images of a stream."""

KEPT = 128
"""Number of decoded photographs that a process remembers: about 70 MB of 500 x 375."""


class Entry(NamedTuple):
    """A step of a stream: its number, what it does to its images, and their indices in the listing, in order."""

    number: int
    step: ccc.Step
    indices: NDArray[np.int64]


def read_accuracies(location: str, baseline: float) -> dict[str, NDArray[np.float64]]:
    """Return the matrices of the pairs that a baseline needs. Nothing is unpickled.

    Args:
        location: Path or URL of an ``.npz`` file.
        baseline: Target accuracy in percent.

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
    try:
        matrices = npz.load(place, keys, "fiu")
        return {key: ccc.check_accuracy(matrices[key], key, (ccc.GRID, ccc.GRID)) for key in keys}
    except ValueError as error:
        raise UserError(f"the accuracy matrix {location} is invalid: {error}") from error


def read_photograph(source: Source, image: SourceImage) -> Image:
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
        steps: What each step does.
        listing: The images of the source, in its order.
        location: Path or URL of the source.
        kind: Layout of the source.
        digest: Digest of the matrix and of the listing.
        encode: Whether images pass through JPEG of quality 85, as published.
    """

    stream: ccc.StreamKey
    steps: Sequence[ccc.Step]
    listing: Sequence[SourceImage]
    location: str
    kind: str
    digest: str
    encode: bool = True

    def __getstate__(self) -> dict[str, object]:
        """Return the fields, without the opened source."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_source", "_photograph")}

    def entry(self, number: int) -> Entry:
        """Return a step, 0 <= number < len(steps)."""
        return Entry(number, self.steps[number], self.stream.order(number, len(self.listing)))

    @cached_property
    def _source(self) -> Source:
        return open_source(self.kind, self.location)

    @cached_property
    def _photograph(self) -> Callable[[SourceImage], Image]:
        """A function that reads a photograph, and remembers the latest ones."""
        return lru_cache(KEPT)(partial(read_photograph, self._source))

    def render(self, number: int, image: SourceImage) -> Image:
        """Return an image of a step, uint8 (224, 224, 3).

        Raises:
            UserError: The source image cannot be read or decoded.
        """
        uniforms, *seeds = self.stream.draws(number, image.id)
        first, second, *severities = self.steps[number]
        pixels = ccc.prepare(self._photograph(image), uniforms.tolist())
        for name, severity, seed in zip((first, second), severities, seeds, strict=True):
            if severity:
                pixels = _corruptor(name, severity)(pixels, seed)
        return stored_pixels(Jpeg(), pixels) if self.encode else pixels


def ccc_images(
    location: str,
    accuracies: str | Mapping[str, ArrayLike],
    stream: ccc.StreamKey,
    images: int,
    *,
    kind: str,
    classes: Sequence[str],
    encode: bool,
) -> CCCImages:
    """Return the images of a stream.

    Args:
        location: Path or URL of the source.
        accuracies: The accuracy matrix, or the path or URL of its ``.npz`` file.
        stream: Baseline, speed and seed.
        images: Length of the stream.
        kind: Layout of the source; "auto" detects it.
        classes: All class names in label order; empty: the source numbers its classes.
        encode: Whether images pass through JPEG.

    Raises:
        UserError: The source or the matrix is invalid, or the source has fewer images than a step.
    """
    try:
        baseline = ccc.check_baseline(stream.baseline)
        matrices = read_accuracies(accuracies, baseline) if isinstance(accuracies, str) else accuracies
        steps = list(islice(ccc.walk(matrices, baseline, stream.seed), -(-images // stream.speed)))
        source = open_source(kind, location, classes=classes)
        listing = list(source)
        stream.order(0, len(listing))
    except (ValueError, TypeError) as error:
        raise UserError(str(error)) from error
    digest = hashlib.sha256(repr((images, encode, [(each.id, each.label) for each in listing])).encode())
    digest.update(repr((str(stream), steps)).encode())
    return CCCImages(stream, steps, listing, location, kind, digest.hexdigest(), encode)
