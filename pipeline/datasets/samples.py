"""Samples and their members in a shard: payload, label and description."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from manifests import Row
from pipeline.images.encoders import Encoder, decode_members
from pipeline.transforms.family import Draws

DESCRIBED_COLUMNS = (
    *("class_name", "decoder", "encoder", "key", "label", "level", "origin", "profile", "resize", "source_id"),
    *("transform", "version"),
)
"""Columns of the manifest that the JSON member of a sample contains."""


@dataclass(frozen=True)
class Sample:
    """A manifest row and its payload members, suffix -> bytes."""

    row: Row
    members: Mapping[str, bytes]
    encoder: Encoder

    @property
    def intact(self) -> bool:
        """Whether the digest of the payload matches the manifest."""
        return payload_digest(self.members.values()) == self.row.payload_sha256

    def pixels(self) -> NDArray[np.uint8]:
        """Decode the payload: uint8 (H, W, 3), or (T, H, W, 3) for a sequence. Raise ValueError if it is damaged."""
        return decode_members(self.encoder, self.members)

    @property
    def suffix(self) -> str:
        """The suffix of a file with the payload: that of the encoder, or of the file that was indexed."""
        return self.encoder.suffix or os.path.splitext(self.row.origin)[1].lower()

    def payload(self) -> bytes:
        """Return the only payload member, of an image or of a sequence stored in one file."""
        (data,) = self.members.values()
        return data


def payload_digest(payloads: Iterable[bytes]) -> str:
    """Return the sha256 of the concatenated payload members in hexadecimal."""
    digest = hashlib.sha256()
    for payload in payloads:
        digest.update(payload)
    return digest.hexdigest()


def pixel_digest(pixels: NDArray[np.uint8]) -> str:
    """Return the sha256 of the bytes of a decoded array in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()


def described_columns(row: Row) -> dict[str, Any]:
    """Return the columns of a row that its JSON member contains."""
    return {name: getattr(row, name) for name in DESCRIBED_COLUMNS}


def side_members(columns: Mapping[str, Any], draws: Draws | None = None) -> dict[str, bytes]:
    """Return the members that follow a payload: ``.cls`` with the label and ``.json`` with the description.

    Args:
        columns: Column -> value, at least for ``DESCRIBED_COLUMNS``. No value may be None.
        draws: What was drawn for the sample; None if the family of its transform records no draws.
    """
    description = to_json({name: columns[name] for name in DESCRIBED_COLUMNS})  # faster than the json module
    if draws is not None:
        # Only the json module promises that every version writes a float in the same way.
        drawn = json.dumps(draws, separators=(",", ":")).encode()
        description = b'%b,"draws":%b}' % (description.removesuffix(b"}"), drawn)
    return {".cls": str(columns["label"]).encode(), ".json": description}
