"""Sums of small integers in kernels, which are 32-bit within a chunk."""

import numpy as np

from corruptions.kernels.colour import contrast

WHITE = 255


def test_the_sum_of_a_chunk_fits_into_32_bits() -> None:
    assert contrast.CHUNK * WHITE < 2**32


def test_the_sum_of_an_image_may_exceed_32_bits() -> None:
    pixels = 2**32 // WHITE + 2 * contrast.CHUNK
    white = np.full(3 * pixels, WHITE, np.uint8)
    assert (contrast.scale_deviations(white, 0.4) == WHITE).all()
