"""How often ``index --source`` names sets correctly whose making is known.

``python -m tests.golden.recognition PHOTOGRAPHS FIRST COUNT CASES CORRUPTIONS RECIPE`` prints each verdict on sets made
of some of the photographs, and their counts, for docs/exports.md. Cases and corruptions are separated by commas, or
``all``; the recipe is imagenet-c, imagenet-c-299 or tiny-imagenet-c.
"""

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

import corruptions
from corruptions.catalogue import SEVERITIES
from pipeline.datasets.recognise import verdicts
from pipeline.datasets.recognise.comparison import Comparison, Photographs, Theirs, coding_of
from pipeline.datasets.recognise.verdicts import Alteration, judge
from pipeline.images.decoders import decode
from pipeline.sources.base import SourceImage

Image = NDArray[np.uint8]
Make = Callable[[Image, str, int, int], bytes]
"""A function of a prepared photograph, a corruption, a severity and a seed that returns a JPEG file."""

PROFILES: Mapping[int, str] = {299: "inception", 64: "tiny"}
"""Side of the images -> profile, if it is not imagenet."""


def jpeg(image: Image, quality: int = 85) -> bytes:
    buffer = io.BytesIO()
    PillowImage.fromarray(np.ascontiguousarray(image)).save(buffer, "jpeg", quality=quality, optimize=True)
    return buffer.getvalue()


def published(image: Image, name: str, severity: int, seed: int) -> bytes:
    profile = PROFILES.get(len(image), "imagenet")
    return jpeg(corruptions.corrupt(image, name, severity, profile=profile, rng=np.random.RandomState(seed)))


def again(change: Callable[[Image], Image] = lambda image: image, quality: int = 85) -> Make:
    """Return a function that changes published images and compresses them again."""
    return lambda *which: jpeg(change(decode(published(*which))), quality)


def reduced(image: Image) -> Image:
    """Return an image of 224 as one of 192 pixels, and others in proportion."""
    side = len(image) * 6 // 7
    return np.asarray(PillowImage.fromarray(image).resize((side, side), PillowImage.Resampling.BICUBIC))


def exchanged(image: Image, name: str, severity: int, seed: int) -> bytes:
    return published(image, name, 1 + severity % 5, seed)


def whitened(image: Image, name: str, severity: int, seed: int) -> bytes:
    """Snow as augmentation libraries make it: dark pixels become lighter. For other corruptions: grey noise."""
    pixels, strength = image / 255, 0.1 * severity
    if name == "snow":
        light = pixels.max(2, keepdims=True) / 2 + pixels.min(2, keepdims=True) / 2
        return jpeg(
            (255 * np.where(light < 0.3 + strength, pixels * (1.5 + strength), pixels).clip(0, 1)).astype(np.uint8)
        )
    noise = np.random.default_rng(seed).normal(0, strength, image.shape[:2])[..., None]
    return jpeg((255 * (pixels + noise).clip(0, 1)).astype(np.uint8))


CASES: Mapping[str, tuple[Make, tuple[str, ...]]] = {
    "other draws": (published, (verdicts.DRAWS, verdicts.PUBLISHED, verdicts.SAME)),
    "quality 60": (again(quality=60), (verdicts.RECOMPRESSED,)),
    "moved by 2 pixels": (
        again(lambda image: np.pad(image, [(2, 0), (2, 0), (0, 0)], "edge")[:-2, :-2]),
        (verdicts.SIZE,),
    ),
    "192 x 192": (again(reduced), (verdicts.SIZE,)),
    "next severity": (exchanged, (verdicts.SEVERITY,)),
    "another formula": (whitened, (verdicts.NOT_IT,)),
}
"""Case -> how its images are made, and the correct verdicts."""


def outcome(case: str, verdict: verdicts.Verdict) -> str:
    """Return what a verdict on a set of known making is."""
    if verdict.verdict in CASES[case][1]:
        return "correct"
    return "no verdict" if verdict.verdict == verdicts.UNKNOWN else f"wrong, {verdict.sure}"


def judged(
    photographs: Photographs, chosen: Sequence[SourceImage], names: Sequence[str], cases: Sequence[str], recipe: str
) -> Iterator[tuple[str, str, int, verdicts.Measured, verdicts.Verdict]]:
    """Yield case, corruption, severity, what was measured and the verdict."""
    for name in names:
        comparison = Comparison(name, photographs)
        for case in cases:
            make, _ = CASES[case]
            for severity in SEVERITIES:
                images = []
                for number, photograph in enumerate(chosen):
                    seed = 100_000 * severity + number
                    data = make(photographs.prepared(Alteration(recipe), photograph), name, severity, seed)
                    images.append(Theirs(photograph, decode(data), coding_of(data)))
                measured = comparison.measure(severity, images)
                yield case, name, severity, measured, judge(measured)


def main(
    source: str, first: str, count: str, cases: str = "all", names: str = "all", recipe: str = "imagenet-c"
) -> None:
    photographs, counts = Photographs(source), Counter[tuple[str, str]]()
    chosen = photographs.images[int(first) : int(first) + int(count)]
    wanted = list(CASES) if cases == "all" else cases.split(",")
    several = corruptions.names("all") if names == "all" else names.split(",")
    for case, name, severity, measured, verdict in judged(photographs, chosen, several, wanted, recipe):
        counts[case, outcome(case, verdict)] += 1
        details = f"{verdict.verdict} ({verdict.sure}) {'; '.join(verdict.details)}"
        print(f"{outcome(case, verdict)}: {case}, {name} {severity}: {details} {measured.scores.round(2)}", flush=True)
    for (case, what), number in counts.items():
        print(f"| {case} | {what} | {number} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
