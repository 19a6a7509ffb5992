"""Lines, polygons and discs as sets of pixels, in integers: the pixels that OpenCV 4.5.1 draws."""

import numpy as np

from corruptions.kernels import inlined, kernel

FRACTION = 16
"""Number of fraction bits of the positions at which edges of a polygon cross rows."""
INSIDE = np.uint8(1)


@inlined
def sort_short(values, count):
    """Sort the first values of an array. It is faster than NumPy's sort for a few."""
    for i in range(1, count):
        value, k = values[i], i
        while k > 0 and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value


@kernel
def truncated_quotient(numerator, denominator):
    """Return the quotient of two integers without its fraction."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


@kernel
def cut_to_rows(x0, y0, x1, y1, last):
    """Return a line whose ends are moved along it into rows 0..last. It must reach these rows.

    Quirk: the second end is moved along the line from the moved first end, which may have another slope.
    """
    if y0 < 0 or y0 > last:
        edge = 0 if y0 < 0 else last
        x0, y0 = x0 + truncated_quotient((edge - y0) * (x1 - x0), y1 - y0), edge
    if y1 < 0 or y1 > last:
        edge = 0 if y1 < 0 else last
        x1, y1 = x1 + truncated_quotient((edge - y1) * (x1 - x0), y1 - y0), edge
    return x0, y0, x1, y1


@kernel
def line_pixels(line, height, width, out):
    """Write the pixels of a line to ``out`` and return their number.

    The line is one pixel wide and 8-connected, and contains both ends. Halfway between two pixels, it contains the one
    nearer to its left end.

    Args:
        line: The ends, (x0, y0, x1, y1). They may be outside of the image.
        height: Height of the image, at least 2.
        width: Width of the image, at least 2.
        out: int64 (max(height, width),). A pixel is y * width + x.

    Returns:
        The number of pixels inside of the image.
    """
    x0, y0, x1, y1 = line
    if max(y0, y1) < 0 or min(y0, y1) >= height or max(x0, x1) < 0 or min(x0, x1) >= width:
        return 0
    x0, y0, x1, y1 = cut_to_rows(x0, y0, x1, y1, height - 1)
    if max(x0, x1) < 0 or min(x0, x1) >= width:
        return 0
    y0, x0, y1, x1 = cut_to_rows(y0, x0, y1, x1, width - 1)
    if x1 < x0:
        x0, y0, x1, y1 = x1, y1, x0, y0
    run, rise = x1 - x0, abs(y1 - y0)
    down = width if y1 > y0 else -width
    along, across = (down, 1) if rise > run else (1, down)
    length, minor = max(run, rise), min(run, rise)
    for i in range(length + 1):
        steps = (2 * i * minor + length - 1) // (2 * length) if length > 0 else 0
        out[i] = y0 * width + x0 + i * along + steps * across
    return length + 1


@kernel
def draw_lines(lines, level, image):
    """Set the pixels of lines, as in :func:`line_pixels`, in all channels.

    Args:
        lines: The ends of each line, int64 (n, 4).
        level: uint8.
        image: uint8 (H, W, C), changed in place.
    """
    height, width, channels = image.shape
    pixels = image.reshape(height * width, channels)
    drawn = np.empty(max(height, width), np.int64)
    for k in range(lines.shape[0]):
        line = (lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3])
        for i in range(line_pixels(line, height, width, drawn)):
            for channel in range(channels):
                pixels[drawn[i], channel] = level


@kernel
def fill_inside(lines, mask):
    """Set the pixels between the edges of a polygon, by the even-odd rule.

    Args:
        lines: The ends of its edges, int64 (n, 4).
        mask: uint8 (H, W), changed in place.
    """
    count = lines.shape[0]
    tops, bottoms = np.empty(count, np.int64), np.empty(count, np.int64)
    starts, slopes, crossings = np.empty(count, np.int64), np.zeros(count, np.int64), np.empty(count, np.int64)
    for k in range(count):
        x0, y0, x1, y1 = lines[k]
        tops[k], bottoms[k] = min(y0, y1), max(y0, y1)
        starts[k] = (x0 if y0 < y1 else x1) << FRACTION
        if y0 != y1:
            slopes[k] = truncated_quotient((x1 - x0) << FRACTION, y1 - y0)
    for y in range(max(tops.min(), 0), min(bottoms.max(), mask.shape[0])):
        found = 0
        for k in range(count):
            if tops[k] <= y < bottoms[k]:
                crossings[found] = starts[k] + (y - tops[k]) * slopes[k]
                found += 1
        sort_short(crossings, found)
        for k in range(0, found, 2):
            first, last = -(-crossings[k] >> FRACTION), crossings[k + 1] >> FRACTION
            mask[y, max(first, 0) : max(last + 1, 0)] = INSIDE


@kernel
def polygons_mask(polygons, height, width):
    """Return the union of polygons, which contain their edges, uint8 (H, W), 0 or 1.

    Args:
        polygons: x and y of each corner, int64 (n, corners, 2).
        height: Height of the mask.
        width: Width of the mask.
    """
    mask = np.zeros((height, width), np.uint8)
    count = polygons.shape[1]
    lines = np.empty((count, 4), np.int64)
    for p in range(polygons.shape[0]):
        for k in range(count):
            for axis in range(2):
                lines[k, axis], lines[k, 2 + axis] = polygons[p, k - 1, axis], polygons[p, k, axis]
        draw_lines(lines, INSIDE, mask.reshape(height, width, 1))
        fill_inside(lines, mask)
    return mask


@kernel
def disc_reaches(radius):
    """Return how far a filled disc reaches to both sides of its centre, int64 (radius + 1,), by distance of the row."""
    reaches = np.zeros(radius + 1, np.int64)
    far, near, error = radius, 0, 0
    while far >= near:
        reaches[near] = max(reaches[near], far)
        reaches[far] = max(reaches[far], near)
        near += 1
        error += 2 * near - 1
        if error > 0:
            error -= 2 * far - 1
            far -= 1
    return reaches
