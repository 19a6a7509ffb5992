"""Properties for all images: sizes, flat images, determinism, and equality with reference libraries."""

import io
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage
from scipy import ndimage

import corruptions
from corruptions.catalogue import PROFILE_SIDES, SEVERITIES
from corruptions.kernels import planes
from corruptions.kernels.colour import color
from corruptions.kernels.smoothing import mirrored

SIZES = ((16, 16), (16, 40), (61, 97), (97, 61), (224, 224), (300, 500))
KEEP_FLAT = ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur", "contrast",
                  "elastic_transform", "pixelate")  # fmt: skip
BRIGHTENS = {"defocus_blur": 4}
"""Corruptions whose published filters have a sum above 1: flat images keep their level only below this severity."""


TRUNCATES_TWICE = ("glass_blur",)
"""Corruptions that truncate to 8 bits twice."""


def noise_image(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (height, width, 3)).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("name", corruptions.names("all"))
def test_corrupt_accepts_any_size_in_every_profile(name: str, fewer: int) -> None:
    for size in SIZES:
        image = noise_image(*size)
        for profile in PROFILE_SIDES:
            for severity in (1, 5) if fewer > 1 else SEVERITIES:
                fast = corruptions.corrupt(image, name, severity, profile=profile, seed=severity)
                slow = corruptions.corrupt(image, name, severity, profile=profile, rng=np.random.RandomState(severity))
                assert fast.shape == slow.shape == image.shape
                assert fast.dtype == slow.dtype == np.uint8
                assert fast.flags.c_contiguous
                assert slow.flags.c_contiguous


@pytest.mark.parametrize("shape", [(16, 20_000), (20_000, 16)])
def test_memory_is_in_proportion_to_pixels(shape: tuple[int, int]) -> None:
    """320 MB are enough for an image of 1 MB. Fog, whose map is square, is refused."""
    image = noise_image(*shape)
    for name in corruptions.names("all"):
        corruptions.corrupt(image[:16, :16], name, 5, seed=0)  # compile before the limit
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 320_000_000, limits[1]))
    try:
        for name in sorted(set(corruptions.names("all")) - {"fog"}):
            corruptions.corrupt(image, name, 5, seed=0)
        with pytest.raises(ValueError, match=rf"at most 8192 pixels, not {shape[0]} x {shape[1]}"):
            corruptions.corrupt(image, "fog", 5, seed=0)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc returns and keeps memory so")
@pytest.mark.parametrize("name", ["elastic_transform", "fog"])
def test_memory_of_a_large_image_is_used_for_the_next_one(name: str) -> None:
    """Otherwise each call takes 5,000 to 12,000 page faults, which double its time."""
    program = f"""
import resource, numpy, corruptions
image = numpy.zeros((1024, 2048, 3), numpy.uint8)
faults = []
for seed in range(4):
    corruptions.corrupt(image, "{name}", 3, profile="detection", seed=seed)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[-2])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert int(found.stdout) < 500


@pytest.mark.parametrize("name", KEEP_FLAT)
def test_flat_images_change_by_at_most_one_level_per_truncation(name: str) -> None:
    for level in (0, 1, 100, 127, 254, 255):
        image = np.full((48, 40, 3), level, np.uint8)
        for severity in range(1, BRIGHTENS.get(name, 6)):
            result = corruptions.corrupt(image, name, severity, seed=severity)
            assert np.abs(result.astype(int) - level).max() <= 1 + (name in TRUNCATES_TWICE)


@settings(max_examples=30)
@given(
    st.sampled_from(corruptions.names("all")),
    st.sampled_from(SEVERITIES),
    st.sampled_from(sorted(PROFILE_SIDES)),
    st.integers(0, 2**128 - 1),
    st.tuples(st.integers(16, 80), st.integers(16, 80)),
)
def test_equal_seeds_give_equal_images(
    name: str, severity: int, profile: str, seed: int, size: tuple[int, int]
) -> None:
    image = noise_image(*size)
    first = corruptions.corrupt(image, name, severity, profile=profile, seed=seed)
    assert np.array_equal(first, corruptions.corrupt(image, name, severity, profile=profile, seed=seed))


@settings(max_examples=60)
@given(
    st.tuples(st.integers(16, 120), st.integers(16, 120)).filter(lambda size: size[0] <= 2 * size[1]),
    st.sampled_from(SEVERITIES),
    st.sampled_from(sorted(PROFILE_SIDES)),
)
def test_pixelate_equals_pillow(size: tuple[int, int], severity: int, profile: str) -> None:
    image = noise_image(*size)
    fraction = corruptions.get("pixelate").parameters(profile, severity).c
    height, width = size
    small = PillowImage.fromarray(image).resize(
        (int(width * fraction), int(height * fraction)), PillowImage.Resampling.BOX
    )
    expected = np.asarray(small.resize((width, height), PillowImage.Resampling.BOX))
    assert np.array_equal(corruptions.corrupt(image, "pixelate", severity, profile=profile), expected)


@settings(max_examples=60)
@given(
    st.tuples(st.integers(16, 120), st.integers(16, 120)),
    st.sampled_from(SEVERITIES),
    st.sampled_from(sorted(PROFILE_SIDES)),
)
def test_jpeg_equals_pillow(size: tuple[int, int], severity: int, profile: str) -> None:
    image = noise_image(*size)
    coded = io.BytesIO()
    quality = corruptions.get("jpeg_compression").parameters(profile, severity).quality
    PillowImage.fromarray(image).save(coded, "JPEG", quality=quality)
    expected = np.asarray(PillowImage.open(coded))
    assert np.array_equal(corruptions.corrupt(image, "jpeg_compression", severity, profile=profile), expected)


@pytest.mark.parametrize("name", ["brightness", "saturate"])
@pytest.mark.parametrize("profile", PROFILE_SIDES)
def test_colour_equals_scikit_image(name: str, profile: str) -> None:
    color = pytest.importorskip("skimage.color")
    image = np.concatenate([noise_image(200, 300), noise_image(100, 300, seed=1) // 64 * 85])
    for severity in SEVERITIES:
        parameters = corruptions.get(name).parameters(profile, severity)
        hsv = color.rgb2hsv(image / 255.0)
        if name == "brightness":
            hsv[..., 2] = np.clip(hsv[..., 2] + parameters.c, 0, 1)
        else:
            hsv[..., 1] = np.clip(hsv[..., 1] * parameters.gain + parameters.offset, 0, 1)
        expected = (np.clip(color.hsv2rgb(hsv), 0, 1) * 255).astype(np.uint8)
        assert np.array_equal(corruptions.corrupt(image, name, severity, profile=profile), expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_to_unit_equals_division(kind: Any) -> None:
    levels = np.arange(256, dtype=kind)
    assert np.array_equal(planes.to_unit.py_func(levels, kind), levels / kind(255))


@given(st.floats(-6.0, 6.0).filter(lambda x: x == 0.0 or abs(x) > 1e-9))
@settings(max_examples=200)
def test_divide_by_6_equals_division(x: float) -> None:
    assert color.divide_by_6.py_func(x) == x / 6.0


def test_divide_by_6_equals_division_for_every_hue() -> None:
    levels = np.arange(256) / 255.0
    for bottom in range(256):
        spans = np.arange(bottom + 1, 256)
        for start in (0.0, 2.0, 4.0):
            hues = (levels[bottom:] - levels[bottom]) / (levels[spans] - levels[bottom])[:, None] + start
            assert np.array_equal(color.divide_by_6.py_func(hues), hues / 6.0)
            assert np.array_equal(color.divide_by_6.py_func(-hues), -hues / 6.0)


@pytest.mark.parametrize("sigma", [1.28, 2.44, 19.52, 28.8, 170.8])
@pytest.mark.parametrize("size", [(16, 40), (61, 97), (224, 224)])
def test_elastic_smoothing_equals_scipy(sigma: float, size: tuple[int, int]) -> None:
    field = np.random.RandomState(3).uniform(-1, 1, size)
    expected = ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=3.0)
    smooth = mirrored.smooth_field(field, (sigma, sigma), 3.0)
    assert np.abs(smooth - expected).max() < 4e-6  # 0.002 pixels at the largest published gain, 488
