"""A network on our images and on those of the published procedures: clean images, ImageNet-P and -S, reference files.

Images are compared before they are encoded.
"""

import hashlib
import io
import json
import math
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

import perturbations
from bench.published_sequences import SEQUENCES
from pipeline.evaluate.metrics.bootstrap import Bootstrap, Estimate
from pipeline.evaluate.metrics.corruptions import normalised_standard_deviation
from pipeline.evaluate.metrics.sequences import flip_probabilities_by_sequence
from pipeline.recipes import library
from pipeline.render.renderer import Renderer
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_s import GROUPS, PAIRS
from tests.golden.fidelity import FAMILIES

EVERY = 10
"""Only each tenth photograph is made into sequences of ImageNet-P, which have many frames."""

SCRIPT_SEED = 0
"""Seed of NumPy's global generator, from which the published sequences are drawn."""

Pixels = NDArray[np.uint8]
Classes = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Photographs:
    """The photographs and their labels, in the order of the reference predictions."""

    ids: Sequence[str]
    files: Sequence[bytes]
    labels: Classes

    def hits(self, top1: Classes) -> Floats:
        """Return whether predictions (photographs times columns,) are right, shape (photographs, columns)."""
        return (top1.reshape(len(self.ids), -1) == self.labels[:, None]).astype(float)

    def errors(self, top1: Classes) -> Floats:
        """Return whether predictions (photographs times columns,) are wrong, shape (photographs, columns)."""
        return 1 - self.hits(top1)


class Network:
    """The network, with its predictions by SHA-256 of the pixels, so that equal images are predicted once.

    Args:
        file: Where predictions are kept.
        batch: Batch size.
    """

    def __init__(self, file: Path, batch: int = 32) -> None:
        self._file, self._batch = file, batch
        self._known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}

    def top1(self, images: Iterable[Pixels]) -> Classes:
        """Return the predicted classes of images (224, 224, 3)."""
        waiting: dict[str, Pixels] = {}
        digests = []
        for image in images:
            digests.append(hashlib.sha256(image.tobytes()).hexdigest())
            if digests[-1] not in self._known:
                waiting[digests[-1]] = image
            if len(waiting) == self._batch:
                self._predict(waiting)
                waiting = {}
        if waiting:
            self._predict(waiting)
        self._file.write_text(json.dumps(self._known))
        return np.array([self._known[each] for each in digests])

    def _predict(self, images: Mapping[str, Pixels]) -> None:
        import torch

        from tests.networks import lite0

        self._model = getattr(self, "_model", None) or lite0()
        mean, std = self._model.default_cfg["mean"][0], self._model.default_cfg["std"][0]
        with torch.inference_mode():
            values = torch.from_numpy(np.stack(list(images.values()))).permute(0, 3, 1, 2).float() / 255
            classes = self._model((values - mean) / std).argmax(1).tolist()
        self._known |= dict(zip(images, classes, strict=True))


@dataclass(frozen=True)
class Compared:
    """The predictions on our images and on those of a published procedure, and a metric on both.

    ``equal`` and ``agreeing`` count the images that are equal in all pixels, and those with equal predictions.
    """

    name: str
    images: int
    equal: int
    agreeing: int
    metric: str = ""
    theirs: float = math.nan
    ours: float = math.nan
    difference: Estimate | None = None


Values = Callable[[Classes], Floats]
"""A function from predicted classes to values of shape (photographs, columns)."""

Metric = Callable[[Floats], Floats]
"""A function from values, or their means over photographs, of shape (..., columns) to a metric (...)."""


def mean_percent(values: Floats) -> Floats:
    """Return the mean over columns in percent."""
    return 100 * values.mean(axis=-1)


def paired(ours: Floats, theirs: Floats, metric: Metric) -> Estimate:
    """Return a metric of ours less that of theirs, (photographs, columns), with its interval over photographs."""
    columns = ours.shape[1]
    both = Bootstrap.of(np.hstack([ours, theirs]))
    return both.estimate(lambda means: metric(means[..., :columns]) - metric(means[..., columns:]))


def compared(
    name: str, network: Network, pairs: Sequence[tuple[Pixels, Pixels]], metrics: Mapping[str, tuple[Values, Metric]]
) -> Iterator[Compared]:
    """Yield the comparison of pairs, our image and theirs, by each metric; without its name but once."""
    equal = sum(np.array_equal(our, their) for our, their in pairs)
    ours, theirs = (network.top1(pair[index] for pair in pairs) for index in range(2))
    counts = (len(pairs), equal, int((ours == theirs).sum()))
    if not metrics:
        yield Compared(name, *counts)
    for title, (values, metric) in metrics.items():
        our, their = values(ours), values(theirs)
        figures = [float(metric(each.mean(axis=0))) for each in (their, our)]
        yield Compared(name, *counts, title, figures[0], figures[1], paired(our, their, metric))


def opened(data: bytes) -> Image.Image:
    """Return a photograph as the published scripts open it."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def resized(data: bytes) -> Image.Image:
    """Return a photograph with shorter side 256, as the published scripts resize it."""
    photograph = opened(data)
    shorter = min(photograph.size)
    width, height = (256 * side // shorter for side in photograph.size)
    return photograph.resize((width, height), Image.Resampling.BILINEAR)


def cropped(image: Image.Image) -> Pixels:
    """Return the centre of an image, 224 x 224, as the published scripts crop it."""
    left, top = (round((side - 224) / 2) for side in image.size)
    return np.asarray(image.crop((left, top, left + 224, top + 224)))


def clean(network: Network, photographs: Photographs) -> Iterator[Compared]:
    """Yield the comparison on clean images."""
    renderer = Renderer(library.load("imagenet-c"))
    pairs = [(renderer.prepare(renderer.decode(data)), cropped(resized(data))) for data in photographs.files]
    yield from compared("Clean images", network, pairs, {"error (%)": (photographs.errors, mean_percent)})


def sequences(network: Network, photographs: Photographs) -> Iterator[Compared]:
    """Yield the comparison on each perturbation of ImageNet-P, of each tenth photograph."""
    renderer = Renderer(library.load("imagenet-p"))
    chosen = list(zip(photographs.ids, photographs.files, strict=True))[::EVERY]
    np.random.seed(SCRIPT_SEED)
    for name in perturbations.names("benchmark"):
        pairs: list[tuple[Pixels, Pixels]] = []
        for source_id, data in chosen:
            ours = renderer.transform(renderer.prepare(renderer.decode(data)), source_id, Condition(name, 1))
            pairs += zip(ours, map(np.asarray, SEQUENCES[name](resized(data))), strict=True)
        ordered = perturbations.get(name).group != "noise"

        def flips(top1: Classes, ordered: bool = ordered) -> Floats:
            return flip_probabilities_by_sequence(top1.reshape(len(chosen), -1), ordered=ordered)[:, None]

        yield from compared(f"ImageNet-P, `{name}`", network, pairs, {"flip rate (%)": (flips, mean_percent)})


OPENCV = {
    "nearest": cv2.INTER_NEAREST, "bilinear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA, "bicubic": cv2.INTER_CUBIC,
    "lanczos": cv2.INTER_LANCZOS4,
}  # fmt: skip
"""Resize operators of OpenCV by our names."""


def decoded(data: bytes) -> dict[str, Pixels]:
    """Return a photograph as the three libraries decode it, which ignore its orientation."""
    photograph = opened(data)
    command = ["ffmpeg", "-loglevel", "error", "-noautorotate", "-i", "-", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, input=data, capture_output=True, check=True).stdout
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    return {
        "pillow": np.asarray(photograph),
        "opencv": np.ascontiguousarray(cv2.imdecode(np.frombuffer(data, np.uint8), flags)[..., ::-1], np.uint8),
        "ffmpeg": np.frombuffer(raw, np.uint8).reshape(*photograph.size[::-1], 3),
    }


def squared(image: Pixels, operator: str) -> Pixels:
    """Return the centre of an image that a library resized to 256 x 256, which does not keep its aspect ratio."""
    which, name = operator.split("-")
    if which == "opencv":
        return cropped(Image.fromarray(cv2.resize(image, (256, 256), interpolation=OPENCV[name])))
    return cropped(Image.fromarray(image).resize((256, 256), Image.Resampling[name.upper()]))


def pairs_of_libraries(network: Network, photographs: Photographs) -> Iterator[Compared]:
    """Yield the comparison on ImageNet-S with all 33 pairs of decoder and resize operator."""
    renderer = Renderer(library.load("imagenet-s"))
    images = []
    for source_id, data in zip(photographs.ids, photographs.files, strict=True):
        prepared, theirs = renderer.prepare(renderer.decode(data)), decoded(data)
        images += [
            (renderer.transform(prepared, source_id, Condition(name, 0)), squared(theirs[pair.decoder], pair.resize))
            for name, pair in PAIRS.items()
            if name in GROUPS["full"]
        ]
    metrics = {
        "error (%)": (photographs.errors, mean_percent),
        "NSD (points)": (photographs.hits, normalised_standard_deviation),
    }
    yield from compared(f"ImageNet-S, {len(GROUPS['full'])} pairs", network, images, metrics)


def references(network: Network, folder: Path, family: str) -> Iterator[Compared]:
    """Yield the comparison on the reference outputs of a family of 224 x 224 pixels."""
    file, outputs = FAMILIES[family]
    with np.load(folder / f"{file}.npz") as archive:
        pairs = [(each.found, each.expected) for each in outputs(dict(archive)) if each.found.shape == (224, 224, 3)]
    yield from compared(family, network, pairs, {})
