"""Samples and their members in a shard: payload, label and description. Also as examples of Hugging Face."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from manifests import Row
from pipeline.datasets.norms import in_8_bits
from pipeline.errors import UserError
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import Jpeg, Png, decode_members, encode_decoded, encode_members, stored_pixels
from pipeline.text import printable
from pipeline.transforms.family import Draws

if TYPE_CHECKING:
    import datasets

DESCRIBED_COLUMNS = (
    *("class_name", "decoder", "encoder", "key", "label", "level", "origin", "profile", "resize", "source_id"),
    *("transform", "version"),
)
"""Columns of the manifest that the JSON member of a sample contains."""

FRAMES_SHOWN = 7
"""Number of frames shown of a sequence, evenly spaced from the first to the last."""

MEDIA_TYPES: Mapping[str, str] = {".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png"}
"""Payloads that browsers can show: suffix -> media type."""


class Sample:
    """A sample of a data set.

    Attributes:
        row: Its row in the manifest.
        encoder: Format of its payload.
    """

    row: Row
    encoder: Encoder

    @property
    def members(self) -> Mapping[str, bytes]:
        """The payload members: suffix -> bytes."""
        raise NotImplementedError

    @property
    def intact(self) -> bool:
        """Whether the digest of the payload matches the manifest."""
        return payload_digest(self.members.values()) == self.row.payload_sha256

    def pixels(self) -> NDArray[np.uint8]:
        """Decode the payload: uint8 (H, W, 3), or (T, H, W, 3) for a sequence. Raise ValueError if it is damaged."""
        return decode_members(self.encoder, self.members)

    def frames_into(self) -> Iterator[Callable[[NDArray[np.uint8]], None]]:
        """Yield a function per frame that decodes it into an array (H, W, 3). Raise ValueError for another shape."""
        if not self.encoder.whole_sequence:
            yield from (partial(self.encoder.decode_into, data) for data in self.members.values())
            return
        pixels = self.pixels()
        frames = pixels if pixels.ndim == 4 else pixels[None]
        if frames.shape[:3] != (self.row.frames, self.row.height, self.row.width):
            raise ValueError(
                f"{self.row.key} contains frames of shape {frames.shape}, but the manifest has "
                f"{self.row.frames} frames of {self.row.width} x {self.row.height}"
            )
        for frame in frames:
            yield partial(_copy, frame)

    @property
    def suffix(self) -> str:
        """The suffix of a file with the payload: that of the encoder, or of the file that was indexed."""
        return self.encoder.suffix or os.path.splitext(self.row.origin)[1].lower()

    def payload(self) -> bytes:
        """Return the only payload member, of an image or of a sequence stored in one file."""
        (data,) = self.members.values()
        return data

    def __repr__(self) -> str:
        """Return the key, the size and the label."""
        row = self.row
        frames = f"{row.frames} frames of " if (row.frames or 1) > 1 else ""
        return f"<Sample {printable(row.key)!r}: {frames}{row.width} x {row.height}, label {row.label}>"

    def _repr_html_(self) -> str:
        """Return its picture, or some of its frames, for a notebook."""
        key = printable(self.row.key)
        shown = (figure(f"{key}{frame}", media, data, html.escape(frame[2:])) for frame, media, data in pictures(self))
        return f"<p>{html.escape(repr(self))}</p><div style='display: flex'>{''.join(shown)}</div>"


@dataclass(frozen=True, repr=False)
class StoredSample(Sample):
    """A sample that was read. ``stored``: its payload members, suffix -> bytes."""

    row: Row
    stored: Mapping[str, bytes]
    encoder: Encoder

    @property
    def members(self) -> Mapping[str, bytes]:
        """The payload members: suffix -> bytes."""
        return self.stored


@dataclass(frozen=True, repr=False)
class RenderedSample(Sample):
    """A sample that was made when it was read. Its payload is encoded only if it is needed.

    Attributes:
        row: Its row, without digests of the payload.
        output: Output of the transform: uint8 (H, W, 3), or frames (T, H, W, 3).
        encoder: Format of its payload.
        grain: Whether its content is noise.
    """

    row: Row
    output: NDArray[np.uint8]
    encoder: Encoder
    grain: bool

    @cached_property
    def members(self) -> Mapping[str, bytes]:
        """The payload members: suffix -> bytes."""
        return encode_members(self.encoder, self.output, self.grain)

    @property
    def intact(self) -> bool:
        """Whether the payload matches the digest in the row, if it has one."""
        return self.row.payload_sha256 is None or super().intact

    def pixels(self) -> NDArray[np.uint8]:
        """Return the pixels that readers get once the sample is stored: uint8 (H, W, 3), or (T, H, W, 3)."""
        return stored_pixels(self.encoder, self.output, self.grain)

    def frames_into(self) -> Iterator[Callable[[NDArray[np.uint8]], None]]:
        """Yield a function per frame that writes its pixels into an array (H, W, 3)."""
        if self.encoder.whole_sequence and self.output.ndim == 4:
            yield from (partial(_copy, frame) for frame in self.pixels())
            return
        for frame in self.output if self.output.ndim == 4 else self.output[None]:
            yield partial(self.encoder.stored_into, frame, self.grain)

    def with_digests(self) -> RenderedSample:
        """Return the sample with the columns of its row that only stored samples have: size and digests."""
        members, pixels = encode_decoded(self.encoder, self.output, self.grain)
        row = self.row._replace(
            size=sum(map(len, members.values())),
            payload_sha256=payload_digest(members.values()),
            pixel_sha256=pixel_digest(pixels),
        )
        return replace(self, row=row)


def _copy(frame: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    target[...] = frame


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


def pictures(sample: Sample) -> Iterator[tuple[str, str, bytes]]:
    """Yield frame name, media type and data of each picture. Raise UserError if the sample cannot be decoded."""
    if sample.encoder.suffix in sample.members and sample.suffix in MEDIA_TYPES:
        yield "", MEDIA_TYPES[sample.suffix], sample.payload()
        return
    try:
        pixels = sample.pixels()
    except ValueError as error:
        raise UserError(f"cannot decode {sample.row.key} ({error}): run robustshards verify") from error
    frames: Sequence[tuple[str, np.ndarray]] = [("", pixels)]
    if pixels.ndim == 4:
        indices = np.unique(np.linspace(0, len(pixels) - 1, FRAMES_SHOWN).round().astype(int))
        frames = [(f", frame {index}", pixels[index]) for index in indices]
    encoder = Jpeg(quality=90) if pixels.ndim == 4 else Png()
    for which, frame in frames:
        yield which, MEDIA_TYPES[encoder.suffix], encoder.encode(np.ascontiguousarray(in_8_bits(frame)))


def figure(alt: str, media: str, data: bytes, caption: str) -> str:
    """Return the HTML of a picture: alternative text, encoded data of a media type, and HTML as its caption."""
    source = f"data:{media};base64,{base64.b64encode(data).decode()}"
    return (
        f'<figure><img loading=lazy alt="{html.escape(alt)}" src="{source}"><figcaption>{caption}</figcaption></figure>'
    )


_IMAGE, _FRAMES = "image", "frames"
"""Column with the image, or with the frames of a sequence."""


def iterable_dataset(
    read: Callable[[Sequence[Any]], Iterator[Sample]], chunks: Sequence[Any], sequences: bool
) -> datasets.IterableDataset:
    """Return the samples that ``read`` returns for chunks, see ``DataSet.to_hf``. Processes get copies of both."""
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{error.name} is not installed: pip install datasets") from error
    image = {_FRAMES: datasets.List(datasets.Image())} if sequences else {_IMAGE: datasets.Image()}
    integer, text = datasets.Value("int64"), datasets.Value("string")
    columns = {"label": integer, "transform": text, "level": integer, "source_id": text}
    return datasets.IterableDataset.from_generator(
        _examples,
        features=datasets.Features({**image, **columns}),
        gen_kwargs={"read": read, "chunks": chunks, "sequences": sequences},  # its only list is distributed
        split=datasets.Split.TEST,
    )


def _examples(
    read: Callable[[Sequence[Any]], Iterator[Sample]], chunks: Sequence[Any], sequences: bool
) -> Iterator[dict[str, Any]]:
    """Yield the samples of chunks as examples."""
    for sample in read(chunks):
        row, images = sample.row, [{"bytes": data, "path": None} for data in _image_files(sample)]
        content = {_FRAMES: images} if sequences else {_IMAGE: images[0]}
        columns = {"label": row.label, "transform": row.transform, "level": row.level}
        yield {**content, **columns, "source_id": row.source_id}


def _image_files(sample: Sample) -> list[bytes]:
    """Return the frames as image files: the payload if it is JPEG or PNG, else PNG with the same pixels."""
    if isinstance(sample.encoder, Jpeg | Png):
        return list(sample.members.values())
    return list(encode_members(Png(), sample.pixels()).values())
