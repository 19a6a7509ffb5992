"""Our outputs beside the reference outputs, with the same draws, and the page that counts them.

``python -m tests.golden.fidelity`` writes ``docs/fidelity.md``. It needs the reference files in ``../shared/golden``.
"""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

import corruptions
import perturbations
from pipeline.transforms.imagenet_s import render
from tests.corruptions.candidates import goldens

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "fidelity.md"
"""The generated page."""

CORRUPTION_SEED = 1000
"""The reference images of severity s were drawn with RandomState(1000 + s)."""
NATIVE_SEED = 3000
"""Those of the profile of detection were drawn with RandomState(3000 + s), if no other seed is recorded."""
SEQUENCE_SEED = 2000
"""The reference frames of each sequence were drawn with RandomState(2000)."""

Arrays = Mapping[str, np.ndarray]
"""The content of a reference file."""


class Output(NamedTuple):
    """One output of ours, uint8, and its reference."""

    name: str
    """Transform."""
    key: str
    """Key of the reference."""
    found: np.ndarray
    expected: np.ndarray


def corruption_outputs(golden: Arrays, start: str = "", name: str = "") -> Iterator[Output]:
    """Yield the outputs of ImageNet-C and C-bar whose key begins with ``start``, of one corruption or of all."""
    for key, expected in golden.items():
        profile, index, *rest = key.split("/")
        if profile == "params" or rest == ["input"] or not key.startswith(start) or name not in {"", rest[0]}:
            continue
        severity, *seed = map(int, rest[1:])
        rng = np.random.RandomState(*seed or [CORRUPTION_SEED + severity])
        image = golden[f"{profile}/{index}/input"]
        found = corruptions.corrupt(image, rest[0], severity, profile=profile, rng=rng)
        yield Output(rest[0], key, found, expected)


def native_outputs(golden: Arrays, start: str = "detection", name: str = "") -> Iterator[Output]:
    """Yield the outputs of the profile of detection, of one corruption or of all, at the rows and columns kept."""
    for key, expected in golden.items():
        profile, index, *rest = key.split("/")
        if len(rest) != 2 or not key.startswith(start) or name not in {"", rest[0]}:
            continue
        prefix, (corruption, severity) = f"{profile}/{index}", rest
        image, step = golden[f"{prefix}/input"], int(golden.get(f"{prefix}/step", 1))
        height, width = golden.get(f"{prefix}/size", image.shape[:2])
        image = np.pad(image, [(0, height - len(image)), (0, width - len(image[0])), (0, 0)][: image.ndim], "wrap")
        rng = np.random.RandomState(int(golden.get(f"{prefix}/seed0", NATIVE_SEED)) + int(severity))
        found = corruptions.corrupt(image, corruption, int(severity), profile=profile, rng=rng)
        rows, columns = (sorted({*range(0, side, step), side - 1}) for side in (height, width))
        yield Output(corruption, key, found[np.ix_(rows, columns)], expected)


def frames(golden: Arrays, start: str = "", name: str = "") -> Iterator[Output]:
    """Yield the frames of ImageNet-P whose key begins with ``start``, of one perturbation or of all."""
    for key, length in golden.items():
        if key.endswith("/length") and key.startswith(start):
            prefix = key.removesuffix("length")
            profile, index, sequence = prefix.rstrip("/").split("/")
            own, _, digit = sequence.rpartition("_")  # "shot_noise_2" is difficulty 2
            transform, level = (own, int(digit)) if digit.isdigit() else (sequence, 1)
            if name not in {"", transform}:
                continue
            with Image.open(io.BytesIO(golden[f"{profile}/{index}/source"].tobytes())) as file:
                source = np.array(file.convert("RGB"))
            rng = np.random.RandomState(SEQUENCE_SEED)
            found = perturbations.perturb(source, transform, profile=profile, difficulty=level, rng=rng)
            assert len(found) == length
            for number in range(length):
                if f"{prefix}{number}" in golden:
                    yield Output(transform, f"{prefix}{number}", found[number], golden[f"{prefix}{number}"])


def pair_outputs(golden: Arrays) -> Iterator[Output]:
    """Yield the outputs of ImageNet-S. Decoders are combined with Pillow's bilinear, operators with its decoder."""
    for key, expected in golden.items():
        index, kind, *name = key.split("/")
        if name:
            yield Output(name[0], key, render(golden[f"{index}/source"].tobytes(), **{kind: name[0]}), expected)


def candidate_outputs(golden: Arrays) -> Iterator[Output]:
    """Yield the outputs of Syn2Nat's candidates."""
    for key in json.loads(golden["draws"].tobytes()):
        image, draws = goldens.arguments(golden, key)
        name = key.split("/")[0]
        yield Output(name, key, corruptions.apply(image, name, draws), golden[key])


NOISE_SEED = 5000
"""The reference images of ImageNet-3DCC's severity s were drawn with RandomState(5000 + s)."""


def noise_outputs(golden: Arrays) -> Iterator[Output]:
    """Yield the outputs of the corruptions of ImageNet-3DCC."""
    for key, expected in golden.items():
        name, _, rest = key.partition("/")
        if name in corruptions.names("3dcc-noise"):
            severity, image = rest.split("/")
            rng = np.random.RandomState(NOISE_SEED + int(severity))
            found = corruptions.corrupt(golden[f"input/{image}"], name, int(severity), rng=rng)
            yield Output(name, key, found, expected)


MOSAIC_SIDES = (4, 6, 8, 16, 28)
"""Side of the tiles of a mosaic at each severity."""
LAION_SEED = 5000
"""The reference images of LAION-C at severity s were drawn with RandomState(5000 + s), a new one for each image."""


def distortion_outputs(golden: Arrays) -> Iterator[Output]:
    """Yield the outputs of LAION-C. Mosaics of 6 pixels are the middle of those of 252 x 252 pixels."""
    for key, expected in golden.items():
        name, *rest = key.split("/")
        if name not in corruptions.names("laion-c"):
            continue
        severity, index = map(int, rest)
        side = {"mosaic": MOSAIC_SIDES[severity - 1], "stickers": 16}.get(name, 0)
        image = golden[f"input/{index}" if not side or 256 % side == 0 else f"input252/{index}"]
        middle = np.s_[14:-14, 14:-14] if len(image) == 252 else np.s_[:]
        source = image[middle] if side == 28 else image
        rng = np.random.RandomState(LAION_SEED + severity)
        bank = golden[f"bank/{side}"] if side else None
        found = corruptions.corrupt(source, name, severity, rng=rng, bank=bank)
        yield Output(name, key, found if side == 28 else found[middle], expected)


FAMILIES: Mapping[str, tuple[str, Callable[[Arrays], Iterable[Output]]]] = {
    "ImageNet-C": ("imagenet_c", corruption_outputs),
    "Detection": ("native", native_outputs),
    "ImageNet-C-bar": ("cbar", corruption_outputs),
    "ImageNet-P": ("imagenet_p", frames),
    "ImageNet-S": ("imagenet_s", pair_outputs),
    "ImageNet-Syn2Nat": ("syn2nat", candidate_outputs),
    "ImageNet-3DCC": ("noise3d", noise_outputs),
    "LAION-C": ("laion_c", distortion_outputs),
}
"""Family -> name of its reference file, and the function that yields its outputs."""

FUNCTIONS = "Computed in float32, with polynomials in place of the functions of the C library."

REASONS: Mapping[str, Mapping[str, str]] = {
    "ImageNet-C": {
        "defocus_blur": "Computed in float32. Published sums depend on the CPU: OpenCV takes a Fourier transform."
    },
    "Detection": {
        "defocus_blur": "Computed in float32. Published sums depend on the CPU: OpenCV takes a Fourier transform.",
        "motion_blur": "Weights of the published sum depend on the CPU: NumPy's exponential differs in the last bit.",
        "spatter": "Published values of water depend on the CPU. The published code gave these pixels on another.",
    },
    "ImageNet-C-bar": {
        "caustic_refraction": FUNCTIONS,
        "inverse_sparkles": FUNCTIONS,
        "sparkles": FUNCTIONS,
        "plasma_noise": FUNCTIONS,
        "brownish_noise": "The Fourier transform is computed in float32.",
        "circular_motion_blur": "Computed in float32. Published sums of flat areas are whole but for float64 errors.",
    },
    "ImageNet-P": {},
    "ImageNet-S": {
        "opencv-bicubic": "Published with Intel's IPP, whose pixels depend on the CPU; these are OpenCV's without it."
    },
    "ImageNet-Syn2Nat": {},
    "ImageNet-3DCC": {},
    "LAION-C": {},
}
"""Family -> transform with outputs that differ -> why. Some entries are not needed if all outputs are equal."""


class Count(NamedTuple):
    """Counts of the outputs of one transform."""

    outputs: int = 0
    equal: int = 0
    one_level: int = 0
    """Outputs that differ by at most one level."""
    different: int = 0
    """Values that differ."""
    values: int = 0

    def plus(self, output: Output) -> "Count":
        """Return the counts with one more output."""
        difference = np.abs(output.found.astype(int) - output.expected)
        largest = difference.max()
        here = (1, largest == 0, largest == 1, np.count_nonzero(difference), difference.size)
        return Count(*(int(old + new) for old, new in zip(self, here, strict=True)))


def count(outputs: Iterable[Output]) -> dict[str, Count]:
    """Return the counts of each transform, in order of appearance."""
    counts: dict[str, Count] = {}
    for output in outputs:
        counts[output.name] = counts.get(output.name, Count()).plus(output)
    return counts


INTRODUCTION = """\
# Fidelity

<!-- Generated from the reference outputs by `make fidelity`. Do not edit. -->

How many outputs equal those of the published generators for the same random draws, in all pixels, and how far the
others are. The reference outputs of ImageNet-C, -P, -S, C-bar and 3DCC were made by the published scripts on NumPy 2.4,
SciPy 1.17, scikit-image 0.26, OpenCV 5.0, Pillow 13.0 and ImageMagick 6.9.11 (Q16), those of Syn2Nat by albumentations
0.5.2 on OpenCV 4.5.1, those of LAION-C by its script on Pillow 13.0.

There are no reference outputs of ImageNet-W, Fourier heat maps and stylised photographs. Tests compare the masks of
ImageNet-W with their published digests, frequencies with their definition, and stylised images with PyTorch's layers.

The draws are those of NumPy's legacy generator (`rng=RandomState(...)`). Builds use a faster generator, whose numbers
are float32. Random layers (heights of fog, layers of snow and spatter, displacements of elastic_transform) are then
computed in float32 too, and the image from these layers as published. [Witnesses](witnesses.md) compares the images
by the errors that a trained network makes on them."""

HEADER = ("Transform", "Outputs", "Equal", "One level off", "More", "Values that differ", "Cause")


def rows(counts: Mapping[str, Count], reasons: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the transforms with outputs that differ."""
    for name, each in counts.items():
        if each.equal < each.outputs:
            more = each.outputs - each.equal - each.one_level
            share = f"{100 * each.different / each.values:.4f} %"
            yield (f"`{name}`", *map(str, each[:3]), str(more), share, reasons[name])


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [header, ["---" for _ in header], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(family: str, counts: Mapping[str, Count]) -> Iterator[str]:
    """Yield the parts of the page about one family."""
    outputs, equal = (sum(each[field] for each in counts.values()) for field in (0, 1))
    exact = [f"`{name}`" for name, each in counts.items() if each.equal == each.outputs]
    yield f"## {family}"
    yield f"{equal} of {outputs} outputs are equal."
    if equal < outputs:
        yield f"All outputs are equal of {len(exact)} of {len(counts)} transforms: {', '.join(exact)}. The others:"
        yield markdown_table(HEADER, rows(counts, REASONS[family]))


def page(folder: Path) -> str:
    """Return the page as Markdown, from the reference files in a folder."""
    parts = [INTRODUCTION]
    for family, (file, outputs) in FAMILIES.items():
        with np.load(folder / f"{file}.npz") as archive:
            parts += section(family, count(outputs(dict(archive))))
    return "\n\n".join(parts) + "\n"


def main() -> str | None:
    """Write the page. Return an error message if the reference files are missing."""
    folder = ROOT.parent / "shared" / "golden"
    if not folder.is_dir():
        return f"the reference files are missing: {folder} must contain imagenet_c.npz and the others"
    PAGE.write_text(page(folder))
    return None


if __name__ == "__main__":
    sys.exit(main())
