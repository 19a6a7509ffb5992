"""Contact sheets for docs/, to check the images by eye: ``python -m tests.sheets docs``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import skimage.data
from PIL import Image, ImageDraw, ImageFont

import corruptions
import perturbations
from corruptions import c_bar, fourier
from corruptions.draws import FastDraws
from pipeline.images.resizers import prepare
from pipeline.transforms import adain
from tests.factories.style_networks import PUBLISHED, write_weights

IMAGENET = [("shorter_side", 256), ("center_crop", 224)]
SYN2NAT = [("square", 256), ("center_crop", 224)]
CANDIDATE_SEEDS = (1, 2)
MARGIN, LABEL_HEIGHT, LABEL_SIZE = 2, 22, 16
LONGEST = 1264
"""Largest width and height of a sheet in pixels."""


def corruption_sheet(photograph: np.ndarray, severity: int = 3) -> Image.Image:
    """Return all 19 corruptions at one severity beside the clean image, five in a row."""
    image = prepare(photograph, IMAGENET)
    corrupted = [(name, corruptions.corrupt(image, name, severity, seed=1)) for name in corruptions.names("all")]
    return grid([labelled(picture, name) for name, picture in [("clean", image), *corrupted]], columns=5)


def perturbation_sheet(photograph: np.ndarray) -> Image.Image:
    """Return all 14 perturbations at their first, middle and last frame, two in a row."""
    tiles = []
    for name in perturbations.names("all"):
        frames = perturbations.perturb(photograph, name, seed=1)
        chosen = (0, len(frames) // 2, len(frames) - 1)
        label = f"{name}: frames {', '.join(map(str, chosen))}"
        tiles.append(labelled(np.concatenate([frames[index] for index in chosen], axis=1), label))
    return grid(tiles, columns=2)


def candidate_sheet(photograph: np.ndarray) -> Image.Image:
    """Return all 40 candidates with two draws each, five in a row. Those that draw nothing are the same twice."""
    image = prepare(photograph, SYN2NAT, "opencv-area")
    tiles = []
    for name in corruptions.names("candidates"):
        drawn = [corruptions.corrupt(image, name, seed=seed) for seed in CANDIDATE_SEEDS]
        tiles.append(labelled(np.concatenate(drawn, axis=1), name))
    return grid(tiles, columns=5)


def bar_sheet(photograph: np.ndarray, severity: int = 3) -> Image.Image:
    """Return the ten of ImageNet-C-bar at one severity, then the other five of CIFAR-10-C-bar, four in a row."""
    image = prepare(photograph, IMAGENET)
    tiles = [labelled(image, "clean")]
    for name in corruptions.names("c-bar"):
        profile = "imagenet" if name in c_bar.PUBLISHED["imagenet"] else "cifar"
        tiles.append(labelled(corruptions.corrupt(image, name, severity, profile=profile, seed=1), name))
    return grid(tiles, columns=4)


def order_sheet(photograph: np.ndarray) -> Image.Image:
    """Return frost, water and mud of profile detection in both orders of the channels, RGB above BGR."""
    tiles = []
    for channels in ("rgb", "bgr"):
        for name, severity in (("frost", 3), ("spatter", 2), ("spatter", 4)):
            picture = corruptions.corrupt(photograph, name, severity, profile="detection", channels=channels, seed=3)
            tiles.append(labelled(picture, f"{name} {severity}, {channels}"))
    return grid(tiles, columns=3)


def noise_sheet(photograph: np.ndarray) -> Image.Image:
    """Return the three corruptions of ImageNet-3DCC that need no depth, a row each: clean, severities 1, 3 and 5."""
    image = prepare(photograph, IMAGENET)
    tiles = []
    for name in corruptions.names("3dcc-noise"):
        tiles.append(labelled(image, "clean"))
        tiles += [labelled(corruptions.corrupt(image, name, each, seed=1), f"{name} {each}") for each in (1, 3, 5)]
    return grid(tiles, columns=4)


def watermark_sheet(photograph: np.ndarray) -> Image.Image:
    """Return a photograph without and with the watermark of ImageNet-W."""
    image = prepare(photograph, IMAGENET)
    return grid([labelled(image, "clean"), labelled(corruptions.corrupt(image, "watermark"), "watermark")], columns=2)


def laion_sheet(photograph: np.ndarray, severity: int = 3) -> Image.Image:
    """Return the six distortions of LAION-C at one severity, three in a row. Tiles are parts of the photograph."""
    image = prepare(photograph, IMAGENET)
    parts = [photograph[y : y + 60, x : x + 60] for y in range(0, 240, 12) for x in range(0, 390, 13)]
    tiles = []
    for name in corruptions.names("laion-c"):
        side = {"mosaic": 8, "stickers": 16}.get(name, 0)
        bank = corruptions.tiles(parts, side) if side else None
        tiles.append(labelled(corruptions.corrupt(image, name, severity, seed=1, bank=bank), name))
    return grid(tiles, columns=3)


def frequency_sheet(photograph: np.ndarray) -> Image.Image:
    """Return a photograph plus one of seven spatial frequencies, four in a row."""
    image = prepare(photograph, IMAGENET)
    tiles = [labelled(image, "clean")]
    for at in ((0, 0), (0, 1), (2, -3), (0, 10), (10, 0), (15, 15), (31, -31)):
        signs = fourier.draw_signs(FastDraws(fourier.Frequency(*at).level))
        tiles.append(labelled(corruptions.fourier_noise(image, *at, 15.7, signs), f"(p, q) = {at}"))
    return grid(tiles, columns=4)


def stylised_sheet(photograph: np.ndarray, painting: np.ndarray) -> Image.Image:
    """Return a photograph in the style of another one at three strengths, by the published layers, random weights."""
    image, style = (prepare(each, IMAGENET) for each in (photograph, painting))
    with TemporaryDirectory() as folder:
        files = {part: write_weights(Path(folder), part, PUBLISHED) for part in PUBLISHED}
        weights = {part: adain.weights_of(part, file) for part, file in files.items()}
    transfer = adain.StyleTransfer(**weights, device="cpu")
    made = [
        labelled(transfer.stylise(image, style[None], 0, each / 100), f"random weights, {each}")
        for each in (0, 50, 100)
    ]
    return grid([labelled(image, "clean"), labelled(style, "painting"), *made], columns=5)


def labelled(picture: np.ndarray, text: str) -> np.ndarray:
    """Return the picture under a line of text, with a margin."""
    height, width, _ = picture.shape
    page = Image.new("RGB", (width + 2 * MARGIN, height + LABEL_HEIGHT + 2 * MARGIN), "white")
    needed = ImageFont.load_default(LABEL_SIZE).getlength(text)
    font = ImageFont.load_default(LABEL_SIZE * min(1, width / needed))
    ImageDraw.Draw(page).text((MARGIN, MARGIN), text, fill="black", font=font)
    page.paste(Image.fromarray(picture), (MARGIN, MARGIN + LABEL_HEIGHT))
    return np.asarray(page)


def grid(tiles: Sequence[np.ndarray], columns: int) -> Image.Image:
    """Return tiles of one size in rows, reduced where the whole is too large."""
    rows = [np.concatenate(tiles[index : index + columns], axis=1) for index in range(0, len(tiles), columns)]
    sheet = Image.fromarray(np.concatenate(rows))
    sheet.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
    return sheet


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    photograph = skimage.data.chelsea()
    corruption_sheet(photograph).save(folder / "imagenet-c.jpg", quality=85, optimize=True)
    perturbation_sheet(photograph).save(folder / "imagenet-p.jpg", quality=85, optimize=True)
    candidate_sheet(photograph).save(folder / "syn2nat.jpg", quality=85, optimize=True)
    order_sheet(photograph).save(folder / "native-bgr.jpg", quality=85, optimize=True)
    bar_sheet(photograph).save(folder / "imagenet-c-bar.jpg", quality=85, optimize=True)
    watermark_sheet(photograph).save(folder / "imagenet-w.png", optimize=True)
    noise_sheet(photograph).save(folder / "3dcc.jpg", quality=85, optimize=True)
    laion_sheet(photograph).save(folder / "laion-c.jpg", quality=85, optimize=True)
    frequency_sheet(photograph).save(folder / "fourier.jpg", quality=85, optimize=True)
    stylised_sheet(photograph, skimage.data.coffee()).save(folder / "stylised.jpg", quality=85, optimize=True)
