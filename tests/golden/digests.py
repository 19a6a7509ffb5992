"""Digests of everything that the project makes of small images, held against those that are committed.

``python -m tests.golden.digests`` says what differs; with ``--write`` it records the digests as they are now. A change
of pixels belongs with a new version of its transform, and with a line in the changelog.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corruptions import Options
from corruptions.catalogue import PROFILE_SIDES
from corruptions.preparation import PROFILE_STEPS
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.images.decoders import DECODERS, decode
from pipeline.images.encoders import Encoder, Jpeg, Mp4, Npy, Png, encode_members
from pipeline.images.resizers import OPERATORS, prepare
from pipeline.transforms.family import Condition, Family, Rendering
from pipeline.transforms.registry import FAMILIES

FILE = Path(__file__).parent / "digests.json"

RECORD = "python -m tests.golden.digests --write"

SEED = 20_190_301
HEIGHT, WIDTH, SIDE = 150, 201, 57

NOT_THE_SAME_EVERYWHERE = frozenset({"opencv-bicubic", "nvjpeg"})
"""A resize operator whose pixels differ between CPUs, and a decoder that needs a GPU."""

ENCODERS: Mapping[str, Encoder] = {
    "jpeg": Jpeg(),
    "jpeg quality=40 optimize=false": Jpeg(quality=40, optimize=False),
    "png": Png(),
    "npy": Npy(),
    "npy layout=CHW": Npy(layout="CHW"),
}


class Digest(NamedTuple):
    """The version of what made the pixels, sha256 of the pixels, and of their payload as JPEG."""

    version: int
    pixels: str
    payload: str


def photograph(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A made image (H, W, 3): slopes, a disc, stripes and grain, by whole numbers alone, the same on every machine."""
    rows, columns = np.mgrid[0:height, 0:width].astype(np.int64)
    slopes = np.stack(
        [rows * 255 // height, columns * 255 // width, (rows + columns) * 255 // (height + width)], axis=2
    )
    disc = ((rows - height // 3) ** 2 + (columns - width // 2) ** 2 < (height // 4) ** 2)[:, :, None]
    stripes = ((rows // 3 + columns // 5) % 7 == 0)[:, :, None]
    grain = ((rows * 7919 + columns * 104_729) % 65_537 * 31 % 41)[:, :, None] - 20
    levels = np.where(disc, 255 - slopes, slopes) + grain + 60 * stripes
    return np.clip(levels, 0, 255).astype(np.uint8)


def encoded_photograph() -> bytes:
    """A JPEG of odd sides with halved chroma."""
    folder = resources.files("pipeline.images").joinpath("fingerprint_images")
    first, *_ = sorted(file.name for file in folder.iterdir() if "420" in file.name)
    return folder.joinpath(first).read_bytes()


def computed() -> dict[str, Digest]:
    """All digests as they are on this machine, name -> digest."""
    return dict([*_transforms(), *_decoders(), *_operators(), *_encoders()])


def committed() -> dict[str, Digest]:
    """The digests of the file."""
    return {name: Digest(*values) for name, values in json.loads(FILE.read_text()).items()}


def differences(ours: Mapping[str, Digest], theirs: Mapping[str, Digest]) -> Iterator[str]:
    """What is not as it is committed, in words."""
    for name, digest in ours.items():
        known = theirs.get(name)
        if known is None:
            yield f"{name} is not among the committed digests: record it with {RECORD}"
        elif digest.version != known.version:
            yield f"{name} has version {digest.version}, the committed digest is of {known.version}: record it"
        elif digest != known:
            yield f"{name} has other bytes, but still version {digest.version}: raise the version, then record it"
    yield from (f"{name} is committed, but no longer made" for name in theirs.keys() - ours.keys())


def _transforms() -> Iterator[tuple[str, Digest]]:
    """Every transform at every level in every profile. Those of decoders have no profile, and stand under one."""
    for family_name, family in FAMILIES.items():
        for profile in ("imagenet",) if family.from_encoded else PROFILE_SIDES:
            start = encoded_photograph() if family.from_encoded else photograph()
            prepared = family.prepare(start, PROFILE_STEPS[profile], "pillow-bilinear")
            for condition in _steps(family):
                output = family.render(condition, Rendering(profile, Options()))(prepared, SEED)
                version = family.version(condition.transform)
                yield f"{family_name}/{profile}/{condition.transform}/{condition.level}", _digest(version, output)


def _steps(family: Family) -> Iterator[Condition]:
    for name in family.names:
        if not NOT_THE_SAME_EVERYWHERE & set(family.pairs.get(name, ())):
            yield from dict.fromkeys(Condition(name, family.level_of(name, level)) for level in family.levels)


def _decoders() -> Iterator[tuple[str, Digest]]:
    folder = resources.files("pipeline.images").joinpath("fingerprint_images")
    for name in DECODERS:
        if name not in NOT_THE_SAME_EVERYWHERE:
            for file in sorted(folder.iterdir(), key=lambda file: file.name):
                yield f"decoders/{name}/{file.name}", _digest(1, decode(file.read_bytes(), name))


def _operators() -> Iterator[tuple[str, Digest]]:
    for name in OPERATORS:
        if name not in NOT_THE_SAME_EVERYWHERE:
            for label, side in (("down", SIDE), ("up", 3 * WIDTH)):
                yield f"operators/{name}/{label}", _digest(1, prepare(photograph(), (("square", side),), name))


def _encoders() -> Iterator[tuple[str, Digest]]:
    image = photograph()
    frames = np.stack([np.roll(image[:64, :96], shift, axis=1) for shift in range(4)])
    for name, encoder in ENCODERS.items():
        yield f"encoders/{name}", _digest(1, image, encoder)
    for grain in (False, True):
        yield f"encoders/mp4 grain={grain}", _digest(1, frames, Mp4(preset="fast"), grain)


def _digest(version: int, pixels: np.ndarray, encoder: Encoder | None = None, grain: bool = False) -> Digest:
    members: Mapping[str, bytes] = encode_members(encoder or Jpeg(), pixels, grain)
    return Digest(version, pixel_digest(pixels), payload_digest(members.values()))


def write(digests: Mapping[str, Digest]) -> None:
    """Record digests, a line for each."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(list(digest))}" for name, digest in digests.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


def total(digests: Mapping[str, Digest]) -> str:
    """One digest of all: what to compare between machines."""
    return hashlib.sha256(json.dumps({name: list(digests[name]) for name in sorted(digests)}).encode()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Compare, or record. Returns 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="record the digests as they are now")
    ours: dict[str, Any] = computed()
    if parser.parse_args(arguments).write:
        write(ours)
    found = list(differences(ours, committed()))
    print("\n".join([*found, f"{len(ours)} digests, together {total(ours)}"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
