"""Blur corruptions: the kept quirks, and each kernel compared with a simple reference."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from corruptions import blur
from corruptions.draws import PublishedDraws
from corruptions.kernels.sampling import glass, zoom
from corruptions.kernels.smoothing import defocus, gaussian, mirrored, motion
from corruptions.kernels.smoothing import gaussian_image as smoothing
from tests.factories.images import noise

SHAPES = ((16, 16, 3), (16, 40, 3), (61, 97, 3))


def levels(image):
    return (np.clip(image, 0, 1) * 255).astype(np.uint8)


def disks():
    return sorted({(row.radius, row.alias) for rows in blur.DEFOCUS_BLUR.values() for row in rows})


@pytest.mark.parametrize(("radius", "alias"), disks())
def test_defocus_equals_correlation_with_the_published_filter(radius, alias):
    weights = defocus.disk_weights(radius, alias)
    for shape in SHAPES:
        image = noise(*shape[:2])
        planes = [cv2.filter2D(image[..., c] / 255.0, -1, weights) for c in range(3)]
        difference = np.abs(defocus.defocus(image, radius, alias).astype(int) - levels(np.stack(planes, axis=-1)))
        assert difference.max() <= 1


def test_defocus_filters_as_wide_as_their_grid_brighten():
    assert defocus.disk_weights(8, 0.5).sum() == pytest.approx(1.013, abs=5e-4)
    assert defocus.disk_weights(10, 0.5).sum() == pytest.approx(1.011, abs=5e-4)
    assert defocus.disk_weights(6, 0.5).sum() == pytest.approx(1, abs=1e-6)
    flat = np.full((32, 32, 3), 200, np.uint8)
    assert (defocus.defocus(flat, 8, 0.5) == 202).all()


@pytest.mark.parametrize(("radius", "alias"), disks())
def test_decomposed_disk_equals_the_published_filter(radius, alias):
    disk, published = defocus.decompose_disk(radius, alias), defocus.disk_weights(radius, alias).astype(float)
    middle = published.shape[0] // 2 + 2
    smoothing = np.concatenate([disk.half[:0:-1], disk.half]).astype(float)
    runs, sides = np.zeros((2, 2 * middle + 1, 2 * middle + 1))
    for row, dx in disk.runs.reshape(-1, 2):
        if row < disk.heights.size:
            runs[middle - disk.heights[row] : middle + disk.heights[row] + 1, middle + dx] = 1
    heights = [*disk.heights.tolist(), -1]
    for position, row, gain in ((0, disk.rim[1], 1), (1, disk.rim[2], -1)) if disk.rim.size else ():
        reach, height = disk.rim[0] + position, heights[row]
        sides[middle - height : middle + height + 1, [middle - reach, middle + reach]] = gain
        across = [dx for row, dx in disk.ends.reshape(-1, 2) if row == position]
        assert across == list(range(-height, height + 1))
    along_y = ndimage.convolve1d(sides, smoothing, 0, mode="constant") * smoothing[len(smoothing) // 2 - 1]
    whole = ndimage.convolve1d(ndimage.convolve1d(runs, smoothing, 0, mode="constant"), smoothing, 1, mode="constant")
    kernel = disk.main * (whole + along_y + along_y.T)
    assert kernel.sum() == pytest.approx(published.sum(), abs=1e-12)
    assert np.abs(kernel - np.pad(published, 2)).sum() * 255 < 0.04  # largest difference in levels in any image


def published_units(image, sigma, truncate):
    """Smooth in scipy's order of additions, with weights that do not depend on NumPy's exp."""
    half = gaussian.half_gaussian(sigma, truncate)
    weights = np.append(half[:0:-1], half)
    down = ndimage.correlate1d(image / 255.0, weights, axis=0, mode="nearest")
    return ndimage.correlate1d(down, weights, axis=1, mode="nearest")


def sensitive_images(shape):
    """Yield images whose smoothed values are at or near integers: flat, ramps, two levels, and nearly flat ones."""
    flat, grain = np.full(shape, 255, np.uint8), noise(*shape[:2])
    rows, columns = np.indices(shape[:2]).astype(np.uint8)
    yield from (flat, flat - 77, flat // 255 * (grain > 200), flat - (grain > 250), grain)
    yield from (np.repeat(ramp[:, :, None], 3, axis=2) for ramp in (rows, columns, 3 * columns, rows + columns))
    half = flat.copy()
    half[shape[0] // 2 :, shape[1] // 3 :] = (0, 128, 254)
    yield half


WIDTHS = [(0.05, 4), (0.25, 6), (0.4, 4), (0.7, 4), (1, 4), (1.3, 7), (2.3, 4), (3, 4), (6, 4)]


@pytest.mark.parametrize(("sigma", "truncate"), WIDTHS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_smoothing_equals_the_published_levels(sigma, truncate, shape):
    for image in sensitive_images(shape):
        expected = levels(published_units(image, sigma, truncate))
        np.testing.assert_array_equal(smoothing.smooth_image(image, sigma, truncate), expected)


random_images = given(
    st.floats(0.15, 7), st.integers(16, 40), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 16, 256])
)


@settings(max_examples=60)
@random_images
def test_smoothing_equals_the_published_levels_for_any_sigma(sigma, side, seed, span):
    image = (255 - np.random.RandomState(seed).randint(0, span, (side, side + 7, 3))).astype(np.uint8)
    np.testing.assert_array_equal(smoothing.smooth_image(image, sigma), levels(published_units(image, sigma, 4)))


@settings(max_examples=60)
@random_images
def test_float32_levels_differ_only_within_the_bound_of_an_integer(sigma, side, seed, span):
    image = (np.random.RandomState(seed).randint(0, 256, (side, side + 7, 3)) // span * span).astype(np.uint8)
    weights = smoothing.image_filter(sigma, 4)
    found, published = np.empty((side, 3 * (side + 7)), np.uint8), published_units(image, sigma, 4)
    smoothing.smooth_levels(image.reshape(side, -1), *weights._replace(error=np.float32(0)), found)
    exact = 255 * published[found.reshape(image.shape) != levels(published)]
    assert np.abs(exact - np.rint(exact)).max(initial=0) <= weights.error


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 6.0])
def test_smoothed_planes_equal_scipy(sigma):
    plane = noise(61, 97)[:, :, 0] / 255.0
    wanted = ndimage.gaussian_filter(plane, sigma, mode="nearest")
    assert gaussian.smooth_plane(plane, sigma) == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize(("kind", "error"), [(np.float32, 3e-7), (np.float64, 1e-15)], ids=["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (61, 97)], ids=str)
def test_mirrored_fields_equal_scipy(shape, kind, error):
    field = (noise(*shape)[:, :, 0] / 255.0).astype(kind)
    down, across = (gaussian.half_gaussian(sigma, 3.0).astype(kind) for sigma in (1.7, 5.0))
    wanted = ndimage.gaussian_filter(field.astype(np.float64), (1.7, 5.0), mode="reflect", truncate=3.0)
    np.testing.assert_allclose(mirrored.smooth_mirrored(field, down, across), wanted, rtol=0, atol=error)


def test_glass_copies_pixels():
    image = noise(16, 20)
    delta = 2
    offsets = np.random.RandomState(1).randint(-delta, delta, (2, 12, 16, 2))
    expected = image.copy()
    for visits in offsets:
        for i, row in enumerate(visits):
            for j, (dx, dy) in enumerate(row):
                h, w = 16 - delta - i, 20 - delta - j
                expected[h, w] = expected[h + dy, w + dx]
    assert (glass.shuffle(image, offsets, delta) == expected).all()


def test_glass_draws_equal_one_call_per_pixel():
    draws = blur.draw_offsets(PublishedDraws(np.random.RandomState(3)), noise(16, 18), blur.Glass(1.0, 3, 2))
    one_by_one = np.random.RandomState(3)
    assert draws.shape == (2, 10, 12, 2)
    assert all((one_by_one.randint(-3, 3, size=2) == pair).all() for pair in draws.reshape(-1, 2))


def test_motion_offsets_round_as_in_imagemagick():
    offsets = {
        angle: motion.tap_offsets(21, *motion.line_step(21, angle)).tolist() for angle in (0.0, 45.0, 90.0, 180.0)
    }
    assert offsets[0.0][2] == [2, 0]
    assert offsets[90.0][2] == [0, 2]
    assert offsets[180.0][2][0] == -2
    assert offsets[45.0][:3] == [[0, 0], [1, 1], [1, 1]]


def test_motion_taps_on_one_pixel_are_merged():
    weights = motion.one_sided_weights(10, 3.0)
    offsets, merged, bound = motion.fast_taps(motion.tap_offsets(21, *motion.line_step(21, 45.0)), weights)
    taken = [tuple(offset) for offset, weight in zip(offsets.tolist(), merged, strict=True) if weight]
    assert len(set(taken)) == len(taken) < 21
    assert merged.sum() == pytest.approx(1, abs=1e-6)
    assert bound < motion.MAGICK[1] / motion.QUANTUM / 4  # flat images stay certain


def test_motion_rounds_like_a_16_bit_quantum():
    for level in np.linspace(0, 255, 10001):
        quantum = np.floor(motion.QUANTUM * level + 0.5)
        assert np.floor(quantum / motion.QUANTUM) == np.floor(level + motion.MAGICK[1] / motion.QUANTUM)


def test_zoom_factors_include_the_excluded_end():
    factors = blur.zoom_factors(1.0, 1.11, 0.01)
    assert len(factors) == 12
    assert factors[-1] == pytest.approx(1.11)


@pytest.mark.parametrize("factor", [1.0, 1.03, 1.25, 2.0, 3.0, 4.5])
@pytest.mark.parametrize("shape", [(16, 16), (16, 40), (61, 97), (224, 224)])
def test_zoom_equals_scipy(factor, shape):
    layer = np.random.RandomState(0).normal(0, 1, shape)
    whole = ndimage.zoom(layer[zoom.centre_crop(shape, factor)], factor, order=1)
    top, left = ((big - side) // 2 for big, side in zip(whole.shape, shape, strict=True))
    expected = whole[top : top + shape[0], left : left + shape[1]]
    zoomed = zoom.zoom_centre(layer[zoom.centre_crop(shape, factor)], shape, factor)
    assert zoomed == pytest.approx(expected, abs=1e-12)


def published_zooms(image, factors):
    """Add scipy's zooms in float32, in the published order."""
    pixels = (image / 255.0).astype(np.float32)
    total = np.zeros_like(pixels)
    for factor in factors:
        whole = ndimage.zoom(pixels[zoom.centre_crop(image.shape[:2], factor)], (factor, factor, 1), order=1)
        top, left = ((big - side) // 2 for big, side in zip(whole.shape, image.shape[:2], strict=False))
        total += whole[top : top + image.shape[0], left : left + image.shape[1]]
    return levels((pixels + total) / (len(factors) + 1))


def zoom_ranges():
    return sorted({(row.start, row.stop, row.step) for rows in blur.ZOOM_BLUR.values() for row in rows})


@pytest.mark.parametrize("zooms", zoom_ranges())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_zoom_blur_equals_the_published_levels(zooms, shape):
    factors = blur.zoom_factors(*zooms)
    for image in sensitive_images(shape):
        np.testing.assert_array_equal(zoom.zoom_blur(image, factors), published_zooms(image, factors))


@settings(max_examples=40)
@given(st.lists(st.floats(1.001, 3.0), min_size=1, max_size=5, unique=True), st.integers(0, 2**32 - 1))
def test_zoom_blur_equals_the_published_levels_for_any_factor(zooms, seed):
    image = noise(40, 61, seed)
    expected = published_zooms(image, (1.0, *zooms))
    complete = published_zooms(np.full_like(image, 255), (1.0, *zooms)) > 253  # scipy may miss the last row or column
    found = zoom.zoom_blur(image, (1.0, *zooms))
    np.testing.assert_array_equal(found[complete], expected[complete])


@pytest.mark.parametrize("row", blur.CORRUPTIONS, ids=lambda row: row.name)
def test_flat_images_change_by_at_most_two_levels(row):
    image = np.full((48, 42, 3), 77, np.uint8)
    for profile, severities in row.levels.items():
        for severity, parameters in enumerate(severities, start=1):
            draws = row.draw(PublishedDraws(np.random.RandomState(0)), image, parameters)
            difference = row.apply(image, parameters, draws).astype(int) - 77
            assert -2 <= difference.min() <= difference.max() <= 1, (profile, severity)
