"""The published procedure for ImageNet-P: Pillow, scikit-image and Wand frame by frame, one PNG per frame, then ffmpeg.

Used only by the benchmark. It does what the scripts of 2018 do for each frame, with current libraries.
"""

import io
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from math import cos, hypot, radians, sin
from pathlib import Path

import cv2
import numpy as np
from PIL import Image as PillowImage
from PIL.Image import Image
from scipy.ndimage import zoom
from skimage import color

SIDE, SHORTER = 224, 256
FRAMES = 31


def write_sequence(name: str, photograph: Path, folder: Path, preset: str = "veryslow") -> int:
    """Make one sequence of a photograph as PNG frames and an MP4. Return the number of frames."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with PillowImage.open(photograph) as file:
        clean = file.convert("RGB")
    width, height = clean.size
    scale = SHORTER / min(width, height)
    resized = clean.resize((int(width * scale), int(height * scale)), PillowImage.Resampling.BILINEAR)
    count = 0
    for count, frame in enumerate(SEQUENCES[name](resized), start=1):
        frame.save(folder / f"{count:03d}.png")
    tune = ["-tune", "grain"] if name.endswith("noise") else ["-crf", "20"]
    command = ["ffmpeg", "-loglevel", "error", "-y", "-threads", "1", "-framerate", "1", "-i", str(folder / "%03d.png")]
    command += ["-c:v", "libx264", "-preset", preset, *tune, "-threads", "1", str(folder / "sequence.mp4")]
    subprocess.run(command, check=True)
    return count


def _crop(image: Image) -> Image:
    left, top = (round((side - SIDE) / 2) for side in image.size)
    return image.crop((left, top, left + SIDE, top + SIDE))


def _affine(image: Image, turn: float, shift: float, scale: float, nearest: bool = False) -> Image:
    x, y = image.width / 2 + 0.5, image.height / 2 + 0.5
    angle, zoomed = radians(turn), 1 / scale
    first, second = (cos(angle) * zoomed, sin(angle) * zoomed), (-sin(angle) * zoomed, cos(angle) * zoomed)
    matrix = (*first, first[0] * (-x - shift) - first[1] * y + x, *second, second[0] * (-x - shift) - second[1] * y + y)
    way = PillowImage.Resampling.NEAREST if nearest else PillowImage.Resampling.BILINEAR
    return image.transform(image.size, PillowImage.Transform.AFFINE, matrix, way)


def _levels(values: np.ndarray) -> Image:
    return PillowImage.fromarray(np.uint8(np.clip(values, 0, 1) * 255))


def _gaussian_noise(resized: Image) -> Iterator[Image]:
    base = _crop(resized)
    yield base
    for _ in range(FRAMES - 1):
        yield _levels(np.asarray(base) / 255.0 + np.random.normal(scale=0.03, size=(SIDE, SIDE, 3)))


def _shot_noise(resized: Image) -> Iterator[Image]:
    base = _crop(resized)
    yield base
    for _ in range(FRAMES - 1):
        yield _levels(np.random.poisson(np.asarray(base) / 255.0 * 300) / 300.0)


def _wand_blur(image: Image, radius: float, sigma: float, angle: float) -> Image:
    from wand.image import Image as WandImage

    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    with WandImage(blob=buffer.getvalue()) as magick:
        magick.motion_blur(radius=radius, sigma=sigma, angle=angle)
        blurred = np.asarray(cv2.imdecode(np.frombuffer(magick.make_blob(), np.uint8), cv2.IMREAD_UNCHANGED))
    return PillowImage.fromarray(blurred if blurred.ndim == 2 else np.ascontiguousarray(blurred[..., 2::-1]))


def _motion_blur(resized: Image) -> Iterator[Image]:
    base = _crop(resized)
    for index in range(FRAMES):
        yield _wand_blur(base, 10, 3, (index - 30) * 4)


def _zoom_blur(resized: Image) -> Iterator[Image]:
    average = np.asarray(_crop(resized), np.float32) / 255.0
    yield _crop(resized)
    for index in range(1, FRAMES):
        average = average + np.asarray(_crop(_affine(resized, 0, 0, 1 + 0.004 * index)), np.float32) / 255.0
        yield _levels(average / (index + 1))


def _snow(resized: Image) -> Iterator[Image]:
    base = np.asarray(_crop(resized), np.float32) / 255.0
    layer = zoom(np.random.normal(size=(SIDE // 3 + 1, SIDE // 3 + 1), loc=0.05, scale=0.3), 3, order=1)[:SIDE, :SIDE]
    layer[layer < 0.5] = 0
    flakes = _levels(layer)
    grey = cv2.cvtColor(base, cv2.COLOR_RGB2GRAY)[..., None]
    for index in range(FRAMES):
        fallen = np.asarray(_wand_blur(flakes, 14, 4, 4 * index - 150)) / 255.0
        fallen = (fallen if fallen.ndim == 2 else fallen[..., 0])[..., None]
        white = 0.85 * base + 0.15 * np.maximum(base, grey * 1.5 + 0.5)
        yield _levels(white + fallen + np.rot90(fallen, k=2))


def _brightness(resized: Image) -> Iterator[Image]:
    base = np.asarray(_crop(resized)) / 255.0
    for index in range(FRAMES):
        hsv = color.rgb2hsv(base)
        hsv[..., 2] = np.clip(hsv[..., 2] + (index - 15) * 0.02, 0, 1)
        yield _levels(color.hsv2rgb(hsv))


def _translate(resized: Image) -> Iterator[Image]:
    for index in range(41):
        yield _crop(_affine(resized, 0, index - 20, 1, nearest=True))


def _rotate(resized: Image) -> Iterator[Image]:
    for index in range(FRAMES):
        yield _crop(_affine(resized, index - 15, 0, 1))


def _scale(resized: Image) -> Iterator[Image]:
    for index in range(FRAMES):
        yield _crop(_affine(resized, 0, 0, (index * 2.5 + 40) / 100))


def _tilt(resized: Image) -> Iterator[Image]:
    width, height = resized.size
    focal = hypot(width, height)
    image = np.asarray(resized)
    for index in range(FRAMES):
        e = radians(index - 15)
        c, s = cos(e), sin(e)
        turn_x = np.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]])
        turn_y = np.array([[c, 0, -s, 0], [0, 1, 0, 0], [s, 0, c, 0], [0, 0, 0, 1]])
        lift = np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1], [0, 0, 1]])
        project = np.array([[focal, 0, width / 2, 0], [0, focal, height / 2, 0], [0, 0, 1, 0]])
        matrix = (
            project @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, focal], [0, 0, 0, 1]]) @ turn_x @ turn_y @ lift
        )
        yield _crop(PillowImage.fromarray(cv2.warpPerspective(image, matrix, (width, height))))


SEQUENCES: Mapping[str, Callable[[Image], Iterator[Image]]] = {
    "gaussian_noise": _gaussian_noise,
    "shot_noise": _shot_noise,
    "motion_blur": _motion_blur,
    "zoom_blur": _zoom_blur,
    "snow": _snow,
    "brightness": _brightness,
    "translate": _translate,
    "rotate": _rotate,
    "tilt": _tilt,
    "scale": _scale,
}
"""The ten sequences of the benchmark, at 224 x 224."""
