"""A sample as it lies in a shard: payload members, then its label and what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from manifests import Row
from pipeline.images.encoders import Encoder, decode_members

TOLD = (
    *("class_name", "decoder", "encoder", "key", "label", "level", "origin", "profile", "resize", "source_id"),
    *("transform", "version"),
)
"""Columns of the manifest that stand in a sample's description too."""


@dataclass(frozen=True)
class Sample:
    """A row and the payload members that were found for it, suffix -> bytes."""

    row: Row
    members: Mapping[str, bytes]
    encoder: Encoder

    @property
    def intact(self) -> bool:
        """Whether the payload is the one that the manifest tells of."""
        return payload_digest(self.members.values()) == self.row.payload_sha256

    def pixels(self) -> NDArray[np.uint8]:
        """Return what a reader gets: (H, W, 3), or (T, H, W, 3). Raises ValueError."""
        return decode_members(self.encoder, self.members)

    def payload(self) -> bytes:
        """Return the one payload of an image, or of a sequence that is stored whole."""
        (data,) = self.members.values()
        return data


def payload_digest(payloads: Iterable[bytes]) -> str:
    """Return the sha256 of a sample's payload members one after another, in hexadecimal."""
    digest = hashlib.sha256()
    for payload in payloads:
        digest.update(payload)
    return digest.hexdigest()


def pixel_digest(pixels: NDArray[np.uint8]) -> str:
    """Return the sha256 of a decoded array's bytes, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()


def told_columns(row: Row) -> dict[str, Any]:
    """Return the columns of a row that its description tells."""
    return {name: getattr(row, name) for name in TOLD}


def side_members(columns: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the members that stand beside a payload: the label, and what the sample is (no field is ever null).

    ``columns``: those of the manifest, or at least the ones that are told.
    """
    about = {name: columns[name] for name in TOLD}
    return {".cls": str(columns["label"]).encode(), ".json": to_json(about)}  # the library's takes four times as long
