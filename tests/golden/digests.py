"""Digests of all outputs for small images, compared with the committed ones.

``python -m tests.golden.digests`` prints the differences. With ``--write`` it records the current digests. A change of
pixels needs a new version of its transform and a line in the changelog.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import resources
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import corruptions
import perturbations
from corruptions import Options
from corruptions.fourier import Frequency
from corruptions.preparation import PROFILE_STEPS
from pipeline.datasets.samples import payload_digest, pixel_digest
from pipeline.images.decoders import DECODERS, decode
from pipeline.images.encoder import Encoder
from pipeline.images.encoders import Jpeg, Mp4, Npy, Png, encode_members
from pipeline.images.files import Own
from pipeline.images.resizers import OPERATORS, prepare
from pipeline.transforms.family import Condition, Family, Rendering
from pipeline.transforms.registry import FAMILIES

FILE = Path(__file__).parent / "digests.json"
"""The committed digests."""

RECORD = "python -m tests.golden.digests --write"
"""Command that records the current digests."""

SEED = 20_190_301
"""Seed of all transforms."""
HEIGHT, WIDTH = 150, 201
"""Sides of the photograph in pixels."""
RESIZED: Mapping[str, int] = {"down": 57, "less down": 101, "up": 603}
"""Label -> side of the resized photograph. Libraries have other code for reductions to more than a third."""
LEVEL = 3
"""Severity and difficulty of the transforms with draws of NumPy's legacy generator."""
PROFILE = "tiny"
"""Their profile, or the first for which they were published."""

SOME_LEVELS: Mapping[str, tuple[int, ...]] = {
    "low-pass": (0, 1, 5, 16, 40, 112),
    "fourier": tuple(Frequency(*at).level for at in ((0, 0), (0, 1), (3, -5), (8, 15), (15, 0))),
}
"""Family with many levels -> those to record."""

NORM = 4.0
"""Norm of spatial frequencies."""

REAL_LEVELS = (25, 475)
"""Real severities to record, in hundredths."""

NOT_REPRODUCIBLE = frozenset({"nvjpeg"})
"""A decoder that needs a GPU."""

REPRODUCIBLE = tuple(name for name in FAMILIES if name not in ("adversarial", "stylised"))
"""Families whose pixels do not depend on a model."""

ENCODERS: Mapping[str, Encoder] = {
    "jpeg": Jpeg(),
    "jpeg quality=40 optimize=false": Jpeg(quality=40, optimize=False),
    "jpeg quality=100 optimize=false chroma=4:4:4": Jpeg(quality=100, optimize=False, chroma="4:4:4"),
    "png": Png(),
    "npy": Npy(),
    "npy layout=CHW": Npy(layout="CHW"),
    **{f"own {suffix}": Own().of(f"x.{suffix}") for suffix in ("jpg", "png", "bmp", "tif", "webp", "ppm")},
}
"""Label -> encoder to record. Each encoder needs at least one entry."""


class Digest(NamedTuple):
    """Version of the transform, SHA-256 of its pixels, and SHA-256 of their JPEG payload."""

    version: int
    pixels: str
    payload: str


Compute = Callable[[], Digest]
"""A function that computes one digest."""


def photograph(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Return a synthetic image, uint8 (H, W, 3): slopes, a disc, stripes and grain.

    It is computed from integers only, so that it is the same on every machine.
    """
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
    """Return a JPEG file with odd sides and 4:2:0 chroma."""
    folder = resources.files("pipeline.images").joinpath("fingerprint_images")
    first, *_ = sorted(file.name for file in folder.iterdir() if "420" in file.name)
    return folder.joinpath(first).read_bytes()


def computations() -> dict[str, Compute]:
    """Return the functions that compute the digests, by name. Nothing is computed before they are called."""
    return dict([*_transforms(), *_published_draws(), *_decoders(), *_operators(), *_encoders()])


def computed() -> dict[str, Digest]:
    """Return the digests of this machine, by name."""
    return {name: compute() for name, compute in computations().items()}


def committed() -> dict[str, Digest]:
    """Return the committed digests, by name."""
    return {name: Digest(*values) for name, values in json.loads(FILE.read_text()).items()}


def differences(ours: Mapping[str, Digest], theirs: Mapping[str, Digest]) -> Iterator[str]:
    """Yield a description of each difference between computed and committed digests."""
    for name, digest in ours.items():
        recorded = theirs.get(name)
        if recorded is None:
            yield f"{name} has no committed digest: record it with {RECORD}"
        elif digest.version != recorded.version:
            yield f"{name} has version {digest.version}, recorded was {recorded.version}: record it with {RECORD}"
        elif digest != recorded:
            yield f"{name} changed but still has version {digest.version}: increase the version, then run {RECORD}"
    yield from (f"{name} is no longer computed: remove it with {RECORD}" for name in theirs.keys() - ours.keys())


def _transforms() -> Iterator[tuple[str, Compute]]:
    """Yield the digest of each transform at each level in each profile of its family.

    Transforms of decoders have no profile; they are named after the profile imagenet.
    """
    for family_name in REPRODUCIBLE:
        family = FAMILIES[family_name]
        for profile in ("imagenet",) if family.from_encoded else family.profiles:
            for condition in _conditions(family, profile):
                name = f"{family_name}/{profile}/{condition.transform}/{condition.level}"
                for shape in family.shapes or ("",):
                    yield f"{name}/{shape}".rstrip("/"), partial(_rendered, family, profile, condition, shape)


def _conditions(family: Family, profile: str) -> Iterator[Condition]:
    """Yield the reproducible conditions of a family in a profile."""
    for name in family.names_in(profile):
        if not NOT_REPRODUCIBLE & set(family.pairs.get(name, ())):
            real = REAL_LEVELS if name in family.real and profile == family.profiles[0] else ()
            levels = (*SOME_LEVELS.get(family.name, family.levels), *real)
            yield from dict.fromkeys(Condition(name, family.level_of(name, level)) for level in levels)


def _rendered(family: Family, profile: str, condition: Condition, shape: str) -> Digest:
    bank = {side: _tiles(int(side)) for side in family.bank.arrays} if family.bank else {}
    rendering = Rendering(profile, Options(), shape, bank=bank, norm=NORM)
    output = family.render(condition, rendering)(_prepared(family.name, profile), SEED)
    return _digest(family.version(condition.transform), output)


@cache
def _prepared(family_name: str, profile: str) -> Any:
    """Return the input that all conditions of a family share. They do not modify it."""
    family = FAMILIES[family_name]
    source = encoded_photograph() if family.from_encoded else photograph()
    return family.prepare(source, PROFILE_STEPS.get(profile, ()), "pillow-bilinear")


@cache
def _tiles(side: int) -> np.ndarray:
    """Return 24 tiles of a side in pixels, of photographs in other colours."""
    shades = (photograph()[..., order] // divisor for order in permutations(range(3)) for divisor in range(1, 5))
    return corruptions.tiles(shades, side)


def _published_draws() -> Iterator[tuple[str, Compute]]:
    """Yield the digest of each corruption and perturbation with draws of NumPy's legacy generator.

    All other digests are of the fast generator.
    """
    for family_name in ("corruptions", "c-bar", "perturbations", "imagenet-3dcc-noise"):
        for name in FAMILIES[family_name].names:
            yield f"published-draws/{family_name}/{name}", partial(_published, family_name, name)


def _published(family_name: str, name: str) -> Digest:
    rng, family = np.random.RandomState(SEED), FAMILIES[family_name]
    profiles = [profile for profile in family.profiles if name in family.names_in(profile)]
    profile = PROFILE if PROFILE in profiles else profiles[0]
    if family_name == "perturbations":
        output = perturbations.perturb(photograph(), name, profile=profile, difficulty=LEVEL, rng=rng)
    else:
        output = corruptions.corrupt(photograph(), name, LEVEL, profile=profile, rng=rng)
    return _digest(family.version(name), output)


def _decoders() -> Iterator[tuple[str, Compute]]:
    folder = resources.files("pipeline.images").joinpath("fingerprint_images")
    for name in DECODERS:
        if name not in NOT_REPRODUCIBLE:
            for file in sorted(folder.iterdir(), key=lambda file: file.name):
                yield f"decoders/{name}/{file.name}", partial(_decoded, file.read_bytes(), name)


def _decoded(data: bytes, decoder: str) -> Digest:
    return _digest(1, decode(data, decoder))


def _operators() -> Iterator[tuple[str, Compute]]:
    for name in OPERATORS:
        if name not in NOT_REPRODUCIBLE:
            for label, side in RESIZED.items():
                yield f"operators/{name}/{label}", partial(_resized, side, name)


def _resized(side: int, operator: str) -> Digest:
    return _digest(OPERATORS[operator].version, prepare(photograph(), (("square", side),), operator))


def _encoders() -> Iterator[tuple[str, Compute]]:
    for name, encoder in ENCODERS.items():
        yield f"encoders/{name}", partial(_encoded, photograph, encoder)
    for grain in (False, True):
        yield f"encoders/mp4 grain={grain}", partial(_encoded, _frames, Mp4(preset="fast"), grain)


def _encoded(content: Callable[[], np.ndarray], encoder: Encoder, grain: bool = False) -> Digest:
    return _digest(1, content(), encoder, grain)


def _frames() -> np.ndarray:
    """Return a sequence that moves to the side, uint8 (T, H, W, 3)."""
    return np.stack([np.roll(photograph()[:64, :96], shift, axis=1) for shift in range(4)])


def _digest(version: int, pixels: np.ndarray, encoder: Encoder | None = None, grain: bool = False) -> Digest:
    members: Mapping[str, bytes] = encode_members(encoder or Jpeg(), pixels, grain)
    return Digest(version, pixel_digest(pixels), payload_digest(members.values()))


def write(digests: Mapping[str, Digest]) -> None:
    """Write the digests to the file, one per line."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(list(digest))}" for name, digest in digests.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


def total(digests: Mapping[str, Digest]) -> str:
    """Return one digest of all digests, to compare between machines."""
    return hashlib.sha256(json.dumps({name: list(digests[name]) for name in sorted(digests)}).encode()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Compare or record the digests. Return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="record the current digests")
    recorded = parser.parse_args(arguments).write
    ours: dict[str, Any] = computed()
    if recorded:
        write(ours)
    changed = list(differences(ours, committed()))
    print("\n".join([*changed, f"{len(ours)} digests, total {total(ours)}"]))
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
