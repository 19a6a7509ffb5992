"""Time of a stylised image: robustshards, and modules of PyTorch, called as the published script calls them."""

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray

from bench.report import section, table
from bench.timing import medians
from pipeline.transforms import adain
from tests.factories.style_networks import PUBLISHED, network, write_weights

Image = NDArray[np.uint8]

NOTE = (
    "Milliseconds on the CPU, with random weights of the published layers and strength 1, two paintings in turn. The "
    "published script computes the features of the painting for each image; robustshards keeps their statistics."
)


def measure(image: Image, seconds: float) -> str:
    """Return the section of one image, whose paintings are its mirror images. Each call has three turns."""
    torch.set_num_threads(1)
    paintings = np.stack([image[:, ::-1], image[::-1]])
    encoder, decoder = (network(part, PUBLISHED) for part in PUBLISHED)
    with TemporaryDirectory() as folder:
        files = {part: write_weights(Path(folder), part, PUBLISHED) for part in PUBLISHED}
        transfer = adain.StyleTransfer(**{part: adain.weights_of(part, files[part]) for part in files}, device="cpu")
    turns = count()

    @torch.no_grad()
    def published() -> Image:
        content, style = encoder(_values(image)), encoder(_values(paintings[next(turns) % 2]))
        (mean, deviation), (style_mean, style_deviation) = _statistics(content), _statistics(style)
        output = decoder((content - mean) / deviation * style_deviation + style_mean)
        return output[0].mul(255).add(0.5).clamp(0, 255).permute(1, 2, 0).byte().numpy()

    calls = {
        "robustshards": lambda: transfer.stylise(image, paintings, next(turns) % 2, 1.0),
        "published script": published,
    }
    found = medians(calls, seconds)
    ours, theirs = found.values()
    cells = ["stylised", f"{ours:.0f}", f"{theirs:.0f}", f"{theirs / ours:.1f}"]
    head = ("transform", *found, "published script / robustshards")
    return section("### Stylised images, 224 x 224", table(head, [cells]), NOTE)


def _values(image: Image) -> torch.Tensor:
    return torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float() / 255


def _statistics(features: torch.Tensor) -> adain.Statistics:
    """Return mean and standard deviation of each channel, as the published script computes them."""
    flat = features.view(*features.shape[:2], -1)
    return flat.mean(2)[..., None, None], (flat.var(2) + adain.EPSILON).sqrt()[..., None, None]
