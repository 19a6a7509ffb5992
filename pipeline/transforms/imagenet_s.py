"""ImageNet-S: photographs prepared with different decoders and resize operators, and not corrupted otherwise.

Source: RobustART (Tang et al. 2021), section E.3.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corruptions.preparation import Steps
from corruptions.registry import unknown
from pipeline.errors import UserError
from pipeline.images.decoders import DECODERS, decode
from pipeline.images.resizers import OPERATORS, prepare
from pipeline.settings import integer
from pipeline.transforms.family import WHOLE_BUDGET, Condition, Family, Listing, Pair, Recognition, Render, Rendering

Image = NDArray[np.uint8]

CITATION = """\
@article{tang2021robustart,
  title = {RobustART: Benchmarking Robustness on Architecture Design and Training Techniques},
  author = {Tang, Shiyu and Gong, Ruihao and Wang, Yan and Liu, Aishan and Wang, Jiakai and Chen, Xinyun and
            Yu, Fengwei and Liu, Xianglong and Song, Dawn and Yuille, Alan and Torr, Philip H. S. and Tao, Dacheng},
  journal = {arXiv preprint arXiv:2109.05211},
  year = {2021}
}"""

DEFAULT_DECODER, DEFAULT_RESIZE = "pillow", "pillow-bilinear"
MAX_SIDE = 7168
"""Largest side of ``render`` in pixels, for which the photograph is resized to 8192 x 8192."""
PAPER_DECODERS = ("pillow", "opencv", "ffmpeg")


DEFAULT = Pair(DEFAULT_DECODER, DEFAULT_RESIZE)

PAIRS: Mapping[str, Pair] = {str(pair): pair for pair in map(Pair._make, product(DECODERS, OPERATORS))}
"""All pairs of decoder and resize operator, by transform name."""

DECODER_PAIRS = tuple(str(Pair(decoder, DEFAULT_RESIZE)) for decoder in PAPER_DECODERS)
RESIZE_PAIRS = tuple(str(Pair(DEFAULT_DECODER, resize)) for resize in OPERATORS)
GROUPS: Mapping[str, tuple[str, ...]] = {
    "paper": tuple(name for name in PAIRS if name in {*DECODER_PAIRS, *RESIZE_PAIRS}),
    "full": tuple(name for name, pair in PAIRS.items() if pair.decoder in PAPER_DECODERS),
    "decoders": DECODER_PAIRS,
    "resizers": RESIZE_PAIRS,
}
"""Groups of transforms. The paper varies one factor at a time (13 pairs); the full grid of its decoders and operators
has 33 pairs."""


@dataclass(frozen=True)
class Decodings:
    """An encoded photograph and the steps of its preparation. Each decoder decodes it once, on demand."""

    data: bytes
    steps: Steps
    _decoded: dict[str, Image] = field(default_factory=dict)

    def prepared(self, pair: Pair) -> Image:
        """Return the photograph prepared with a pair, RGB. Raises SampleError, or UserError for a missing decoder."""
        if pair.decoder not in self._decoded:
            self._decoded[pair.decoder] = decode(self.data, pair.decoder)
        return prepare(self._decoded[pair.decoder], self.steps, pair.resize)


def render(data: bytes, decoder: str = DEFAULT_DECODER, resize: str = DEFAULT_RESIZE, side: int = 224) -> Image:
    """Prepare an encoded photograph with one decoder and one resize operator, as in ImageNet-S.

    The photograph is resized to a square of side ``int(side * 8 / 7)`` without keeping its aspect ratio, then
    cropped to its centre.

    Args:
        data: Content of an image file, for example a JPEG.
        decoder: ``"pillow"``, ``"opencv"``, ``"ffmpeg"``, ``"turbo-fast"`` or ``"nvjpeg"``.
        resize: Resize operator, for example ``"pillow-bilinear"`` or ``"opencv-area"``.
        side: Side of the result in pixels, 1..7168.

    Returns:
        A uint8 RGB array (side, side, 3), 0..255.

    Raises:
        SampleError: The photograph cannot be decoded.
        UserError: An argument is invalid (for ``side`` also a ValueError), or the decoder is not installed.

    Source: RobustART (Tang et al. 2021), section E.3.3.
    """
    if resize not in OPERATORS:
        raise UserError(unknown("resize operator", resize, allowed=OPERATORS))
    if not isinstance(data, bytes):
        raise UserError(f"invalid data of type {type(data).__name__}: pass the content of an image file as bytes")
    return prepare(decode(data, decoder), steps_for(integer(1, MAX_SIDE).checked(side, "side")), resize)


def steps_for(side: int) -> Steps:
    """Return the preparation steps of ImageNet-S for a side in pixels."""
    return (("square", int(side * 8 / 7)), ("center_crop", side))


class Difference(NamedTuple):
    """Difference between the images of a pair and those of the default pair, in levels."""

    pair: Pair
    mean: float
    largest: int


def differences(photographs: Iterable[bytes], side: int = 224) -> Iterator[Difference]:
    """Yield mean and largest difference of each installed decoder and each resize operator from the default.

    One factor changes at a time.

    Args:
        photographs: Encoded photographs.
        side: Side of the prepared images in pixels.

    Raises:
        SampleError: A photograph cannot be decoded.
    """
    decoders = [name for name, each in DECODERS.items() if not each.missing()]
    pairs = [Pair(name, DEFAULT_RESIZE) for name in decoders] + [Pair(DEFAULT_DECODER, name) for name in OPERATORS]
    pairs = [pair for pair in pairs if pair != DEFAULT]
    sums, largest, values = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0), 0
    for data in photographs:
        photograph = Decodings(data, steps_for(side))
        default = photograph.prepared(DEFAULT).astype(np.int16)
        values += default.size
        for pair in pairs:
            apart = np.abs(photograph.prepared(pair) - default)
            sums[pair] += int(apart.sum())
            largest[pair] = max(largest[pair], int(apart.max()))
    for pair in pairs:
        yield Difference(pair, sums[pair] / max(values, 1), largest[pair])


def published_differences() -> dict[str, Any]:
    """Return the results of ``make differences``: ``measured_on``, and ``pairs`` with name, mean and largest."""
    text = resources.files(__package__).joinpath("decoder_differences.json").read_text("utf-8")
    measured: dict[str, Any] = json.loads(text)
    return measured


def _decodings(data: bytes, steps: Steps, operator: str) -> Decodings:
    return Decodings(data, steps)


def _pass_through(condition: Condition, rendering: Rendering) -> Render:
    return lambda photograph, seed: photograph.prepared(PAIRS[condition.transform])


def _listing() -> Listing:
    measured = published_differences()
    return Listing(
        ("decoder_resize operator", "mean difference from the default, levels", "largest"),
        tuple((row["name"], f"{row['mean']:.2f}", row["largest"]) for row in measured["pairs"]),
        measured,
        f"measured on {measured['measured_on']}",
    )


FAMILY = Family(
    name="system-noise",
    title="ImageNet-S: pairs of decoder and resize operator",
    names=tuple(PAIRS),
    version=lambda name: OPERATORS[PAIRS[name].resize].version,
    render=_pass_through,
    groups=GROUPS,
    prepare=_decodings,
    prepared_bytes=lambda decodings: WHOLE_BUDGET,
    from_encoded=True,
    pairs=PAIRS,
    recognition=Recognition(("<decoder>_<resize>/<class>/<file>",), bare_level=0),
    citation=CITATION,
    listing=_listing,
)
