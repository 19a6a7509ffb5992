"""How decoders are told apart: library, version, and the digest of what they make of a few bundled images.

Published mCE figures moved by 0.3 points because a JPEG decoder changed: what decoded the photographs is a part of a
data set, and what decodes its payloads a part of an evaluation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

import numpy as np

from pipeline.images.decoders import DECODERS

IMAGES = "fingerprint_images"
"""Folder of the package: small JPEGs, 4:4:4, 4:2:2, 4:2:0 and grey, of even and odd sides, baseline and progressive."""


@cache
def fingerprint(decoder: str) -> str:
    """``<library and versions>; <digest>`` of a decoder that is there. Raises what the decoder raises."""
    row, state = DECODERS[decoder], hashlib.sha256()
    for image in sorted(resources.files(__package__).joinpath(IMAGES).iterdir(), key=lambda file: file.name):
        pixels = row.decode(image.read_bytes())
        state.update(f"{image.name} {pixels.shape}\n".encode())
        state.update(np.ascontiguousarray(pixels).data)
    return f"{row.library()}; {state.hexdigest()[:16]}"


def fingerprints(decoders: Iterable[str] = DECODERS) -> dict[str, str]:
    """Decoder -> fingerprint, of those that are there."""
    return {name: fingerprint(name) for name in decoders if not DECODERS[name].missing()}


def changes(built: Mapping[str, str]) -> Iterator[str]:
    """What has changed between the decoders of a build and those of this machine, in words."""
    for name, there in built.items():
        if name not in DECODERS or (missing := DECODERS[name].missing()):
            why = missing if name in DECODERS else "this version of robustshards has none of that name"
            yield f"decoder {name}, which the build used ({_library(there)}), is not here: {why}"
        elif _digest(here := fingerprint(name)) != _digest(there):
            yield (
                f"decoder {name} gives other pixels here than where the data set was built: it was {_library(there)}, "
                f"here it is {_library(here)}; a change of decoder has moved published mCE figures by 0.3 points"
            )


def _library(text: str) -> str:
    return text.rpartition("; ")[0]


def _digest(text: str) -> str:
    return text.rpartition("; ")[2]
