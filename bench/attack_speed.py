"""Speed of an attack: PGD of 20 steps on 1,000 images of 224 pixels with a ResNet-50 of random weights.

python -m bench.attack_speed --device cuda
"""

import argparse
import shutil
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from PIL import Image

from bench.report import table
from bench.utilisation import Utilisation
from pipeline.attack import attack_recipe
from pipeline.attack.attack import run_attack
from pipeline.attack.request import AttackRequest
from pipeline.attack.victim import predicted
from pipeline.builder.counts import BuildCounts
from pipeline.datasets.index.manifest import index
from pipeline.execution.resumable import SilentWatcher
from pipeline.execution.work import Tally
from pipeline.software import device_name

FOLDER = Path("build/bench/attacks")
SIDE, CLASSES = 224, 1000


def main() -> None:
    """Measure, and print a table."""
    arguments = argparse.ArgumentParser(prog="python -m bench.attack_speed", description=__doc__)
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--images", type=int, default=1000)
    arguments.add_argument("--batch-size", type=int, default=128)
    options = arguments.parse_args()
    device = ("cuda" if torch.cuda.is_available() else "cpu") if options.device == "auto" else options.device
    shutil.rmtree(FOLDER, ignore_errors=True)
    clean = _write_images(options.images, device)
    recipe = attack_recipe.named(["pgd_linf"], ["4/255"]).model_copy(update={"batch": options.batch_size})
    request = AttackRequest(
        str(clean),
        "bench.attack_speed:resnet50",
        str(FOLDER / "out"),
        attacks=recipe,
        device=device,
        executor="local",
        workers=1,
    )
    watcher = _Watcher()
    with Utilisation(device.startswith("cuda")) as utilisation:
        run_attack(request, watcher)
    busy = utilisation.share(watcher.first, watcher.last)
    figures = (f"{watcher.rate():,.1f}", "-" if busy is None else f"{busy:.0%}")
    head, row = ("device", "batch", "images/s", "GPU busy"), (device_name(device), str(options.batch_size), *figures)
    print(table(head, [row]))


class Bottleneck(torch.nn.Module):
    """A block of ResNet-50."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            *_convolution(channels, inner, 1), torch.nn.ReLU(),
            *_convolution(inner, inner, 3, stride), torch.nn.ReLU(),
            *_convolution(inner, 4 * inner, 1),
        )  # fmt: skip
        same = stride == 1 and channels == 4 * inner
        self.shortcut = torch.nn.Sequential(*([] if same else _convolution(channels, 4 * inner, 1, stride)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the features, with those of the shortcut added."""
        return torch.nn.functional.relu(self.layers(images) + self.shortcut(images))


def resnet50() -> torch.nn.Module:
    """Return a ResNet-50 with random weights, the same at every call."""
    torch.manual_seed(0)
    blocks, channels = list[torch.nn.Module](), 64
    for inner, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for position in range(count):
            blocks.append(Bottleneck(channels, inner, stride if position == 0 else 1))
            channels = 4 * inner
    stem = [*_convolution(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(channels, CLASSES)]
    model = torch.nn.Sequential(*stem, *blocks, *head)
    model.default_cfg = {"input_size": (3, SIDE, SIDE), "mean": (0.5,) * 3, "std": (0.5,) * 3}  # type: ignore[assignment]
    return model


def _convolution(channels: int, outputs: int, size: int, stride: int = 1) -> list[torch.nn.Module]:
    convolution = torch.nn.Conv2d(channels, outputs, size, stride, size // 2, bias=False)
    return [convolution, torch.nn.BatchNorm2d(outputs)]


def _write_images(count: int, device: str) -> Path:
    """Write images of noise and index them. Their labels are the predictions, since other images are not attacked."""
    model, generator = resnet50().eval().to(device), np.random.default_rng(0)
    for number in range(count):
        pixels = generator.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)
        values = torch.from_numpy(pixels).permute(2, 0, 1)[None].to(device) / 255
        with torch.inference_mode():
            label = int(predicted(model((values - 0.5) / 0.5))[0])
        path = FOLDER / "images" / f"{label:04d}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, compress_level=1)
    index(str(FOLDER / "images"), str(FOLDER / "clean"), classes=[f"{label:04d}" for label in range(CLASSES)])
    return FOLDER / "clean"


class _Watcher(SilentWatcher):
    """An observer that measures from the first finished batch to the last."""

    first = last = 0.0
    _before = _images = 0

    def reported(self, tally: Tally[BuildCounts]) -> None:
        """Note the time of each report."""
        images = tally.total().samples.total()
        if images and not self.first:
            self.first, self._before = perf_counter(), images
        self.last, self._images = perf_counter(), images

    def rate(self) -> float:
        """Return images per second after the first batch."""
        return (self._images - self._before) / max(self.last - self.first, 1e-9)


if __name__ == "__main__":
    main()
