"""Fingerprints of decoders: library, version, and a digest of the pixels of a few bundled images.

A change of JPEG decoder has moved published mCE figures by 0.3 points. So a data set records which decoder read its
photographs, and an evaluation records which decoder read the payloads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

import numpy as np

from pipeline.images.decoders import DECODERS

IMAGES = "fingerprint_images"
"""Folder in this package of small JPEGs: 4:4:4, 4:2:2, 4:2:0 and grey; even and odd sizes; baseline and progressive."""


@cache
def fingerprint(decoder: str) -> str:
    """Return ``<library and versions>; <digest>`` of an installed decoder. Raises what the decoder raises."""
    row, state = DECODERS[decoder], hashlib.sha256()
    for image in sorted(resources.files(__package__).joinpath(IMAGES).iterdir(), key=lambda file: file.name):
        pixels = row.decode(image.read_bytes())
        state.update(f"{image.name} {pixels.shape}\n".encode())
        state.update(np.ascontiguousarray(pixels).data)
    return f"{row.library()}; {state.hexdigest()[:16]}"


def fingerprints(decoders: Iterable[str] = DECODERS) -> dict[str, str]:
    """Return the fingerprints of the installed decoders by name."""
    return {name: fingerprint(name) for name in decoders if not DECODERS[name].missing()}


def changes(built: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each decoder of a build that is missing on this machine or gives other pixels."""
    for name, recorded in built.items():
        if name not in DECODERS or (missing := DECODERS[name].missing()):
            why = missing if name in DECODERS else "this version of robustshards has no decoder of this name"
            yield f"decoder {name}, used by the build ({_library(recorded)}), is not available on this machine: {why}"
        elif _digest(current := fingerprint(name)) != _digest(recorded):
            yield (
                f"decoder {name} gives different pixels on this machine: the data set was built with "
                f"{_library(recorded)}, this machine has {_library(current)}; a change of decoder has moved published "
                "mCE figures by 0.3 points"
            )


def _library(text: str) -> str:
    return text.rpartition("; ")[0]


def _digest(text: str) -> str:
    return text.rpartition("; ")[2]
