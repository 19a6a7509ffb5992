"""Photographs for the benchmarks."""

from pathlib import Path

import cv2

from pipeline.recipes import schema as recipes
from pipeline.render.renderer import Image, Renderer
from pipeline.sources.kinds import open_source
from tests.photographs import write_photographs


def photographs(folder: Path) -> Path:
    """Return the folder of ImageNet photographs next to the checkout, or write those of scikit-image to ``folder``."""
    shared = Path(__file__).parent.parent.parent / "shared" / "images"
    if shared.is_dir():
        return shared
    write_photographs(folder)
    return folder


def jpeg_by_opencv(image: Image) -> None:
    """Encode an image by OpenCV, with the quality of ImageNet-C. Other code is compared with its time."""
    settings = [cv2.IMWRITE_JPEG_QUALITY, 85, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
    cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)


def clean_images(folder: Path, recipe: recipes.Recipe, count: int) -> list[Image]:
    """Return the first ``count`` prepared images of a folder."""
    renderer, source = Renderer(recipe), open_source("imagefolder", str(folder))
    images = []
    for image in source:
        images.append(renderer.prepare(renderer.decode(source.read(image))))
        if len(images) == count:
            break
    return images


def repeated(folder: Path, target: Path, count: int) -> Path:
    """Create an ImageFolder of ``count`` links to the photographs of a folder, in one class, and return it."""
    files = [Path(folder) / image.origin for image in open_source("imagefolder", str(folder))]
    (target / "all").mkdir(parents=True, exist_ok=True)
    for index in range(count):
        file = files[index % len(files)]
        link = target / "all" / f"{index:06d}{file.suffix}"
        if not link.exists():
            link.symlink_to(file.resolve())
    return target
