"""Fingerprints of decoders and resize operators: library, version, and a digest of the pixels of a few small images.

A change of JPEG decoder has moved published mCE figures by 0.3 points, and the same library may resize differently on
another CPU. So a data set records which decoders and resize operators prepared its photographs.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

import numpy as np

from corruptions.preparation import Image, Window
from pipeline.images.decoders import DECODERS
from pipeline.images.resizers import OPERATORS

IMAGES = "fingerprint_images"
"""Folder in this package of small JPEGs: 4:4:4, 4:2:2, 4:2:0 and grey; even and odd sizes; baseline and progressive."""

SIZES = (
    ((60, 72), (50, 60)),
    ((61, 45), (37, 29)),
    ((97, 83), (19, 23)),
    ((64, 96), (32, 32)),
    ((40, 61), (67, 37)),
    ((31, 30), (62, 60)),
    ((83, 97), (211, 190)),
)
"""Sizes (height, width) of images, and the sizes to which they are resized.

Libraries have different code for reductions between 1/3 and 1, stronger reductions, whole factors and enlargements. At
6:5, many mean values of areas are near the middle of two levels, where a fused multiply-add changes the result.
"""

_UNKNOWN = "this version of robustshards has none of this name"


@cache
def decoder_fingerprint(name: str) -> str:
    """Return ``<library and versions>; <digest>`` of an installed decoder. Raises what the decoder raises."""
    decoder = DECODERS[name]
    files = sorted(resources.files(__package__).joinpath(IMAGES).iterdir(), key=lambda file: file.name)
    return _fingerprint(decoder.library(), ((file.name, decoder.decode(file.read_bytes())) for file in files))


@cache
def resizer_fingerprint(name: str) -> str:
    """Return ``<library and version>; <digest>`` of a resize operator."""
    operator = OPERATORS[name]
    outputs = (
        (f"{height} x {width}", operator.resize(striped_image(height, width), *target, Window(0, 0, *target)))
        for (height, width), target in SIZES
    )
    return _fingerprint(operator.library(), outputs)


def _fingerprint(library: str, outputs: Iterable[tuple[str, Image]]) -> str:
    """Return the fingerprint of a library, given the names of its inputs and its outputs."""
    state = hashlib.sha256()
    for name, pixels in outputs:
        state.update(f"{name} {pixels.shape}\n".encode())
        state.update(np.ascontiguousarray(pixels).data)
    return f"{library}; {state.hexdigest()[:16]}"


def striped_image(height: int, width: int) -> Image:
    """Return an image of stripes that get narrower to the right and down, computed from integers.

    Args:
        height: Height in pixels.
        width: Width in pixels.

    Returns:
        uint8 RGB (height, width, 3), 0..255.
    """
    rows, columns, channels = np.ogrid[:height, :width, :3]
    levels = (7 * rows**2 + 3 * rows * columns + 5 * columns**2 + 85 * channels) // 16
    return (levels % 256).astype(np.uint8)


def decoder_fingerprints(names: Iterable[str] = DECODERS) -> dict[str, str]:
    """Return the fingerprints of the installed decoders by name."""
    return {name: decoder_fingerprint(name) for name in names if not DECODERS[name].missing()}


def resizer_fingerprints(names: Iterable[str] = OPERATORS) -> dict[str, str]:
    """Return the fingerprints of resize operators by name."""
    return {name: resizer_fingerprint(name) for name in names}


def same_pixels(one: str, other: str) -> bool:
    """Return whether two fingerprints have equal digests. Libraries and versions may differ."""
    return _digest(one) == _digest(other)


def pixel_digests(fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the pixels in fingerprints, by name, without libraries and versions."""
    return {name: _digest(text) for name, text in sorted(fingerprints.items())}


def changes(decoders: Mapping[str, str], resizers: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each decoder and resize operator that is missing on this machine or gives other pixels.

    Args:
        decoders: Fingerprints of the decoders of a build, by name.
        resizers: Fingerprints of its resize operators, by name.
    """
    for name, recorded in decoders.items():
        missing = DECODERS[name].missing() if name in DECODERS else _UNKNOWN
        current = "" if missing else decoder_fingerprint(name)
        consequence = "; a change of decoder has moved published mCE figures by 0.3 points"
        yield from _change(f"decoder {name}", recorded, current, missing, consequence)
    for name, recorded in resizers.items():
        missing = None if name in OPERATORS else _UNKNOWN
        current = "" if missing else resizer_fingerprint(name)
        yield from _change(f"resize operator {name}", recorded, current, missing)


def _change(what: str, recorded: str, current: str, missing: str | None, consequence: str = "") -> Iterator[str]:
    if missing:
        yield f"{what}, used by the build ({_library(recorded)}), is not available on this machine: {missing}"
    elif not same_pixels(current, recorded):
        yield (
            f"{what} gives different pixels on this machine: the data set was built with {_library(recorded)}, "
            f"this machine has {_library(current)}{consequence}"
        )


def _library(text: str) -> str:
    return text.rpartition("; ")[0]


def _digest(text: str) -> str:
    return text.rpartition("; ")[2]
