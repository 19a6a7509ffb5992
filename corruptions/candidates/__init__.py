"""The 40 candidate corruptions of ImageNet-Syn2Nat, and the 18 that were chosen from them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corruptions.candidates import colour, filters, geometric, noise, occlusion, weather
from corruptions.candidates.catalogue import GROUP, Draws, candidate
from corruptions.catalogue import Transform
from corruptions.registry import find

__all__ = ["CORRUPTIONS", "GROUP", "RECORDED", "SYN2NAT", "check_draws", "get"]

LARGEST = 2**24
"""Largest absolute value of a drawn number: float32 holds all integers up to it."""
PLACES = frozenset({"circles"})
"""Draws whose integers have no limit: places may be far outside of the image."""

SYN2NAT = (
    *("Solarize", "RandomSunFlare", "RandomShadow", "Affines", "Perspective", "Cutout", "Sharpen", "RandomRain"),
    *("Emboss", "RandomContrast", "RandomBrightness", "RandomGamma", "ISONoise", "Downscale", "Posterize"),
    *("ColorJitter", "ChannelDropout", "ToSepia"),
)
"""Names of the 18 candidates of ImageNet-Syn2Nat, in published order."""

CORRUPTIONS: Mapping[str, Transform] = {
    row.name: replace(row, benchmark=row.name in SYN2NAT)
    for row in (
        candidate("Affines", geometric.shrink, scale=(0.6, 0.8)),
        candidate("Blur", filters.blur_box, filters.draw_side(filters.BOX_SIDES), ("ksize",)),
        candidate("Border", geometric.frame),
        candidate("ChannelDropout", colour.drop_channels, colour.draw_channels, ("channels_to_drop",)),
        candidate("CoarseDropout", occlusion.cover, occlusion.draw_holes, ("holes",)),
        candidate("ColorJitter", colour.jitter_colours, colour.draw_jitter, (*colour.JITTER_STEPS, "order")),
        candidate("Cutout", occlusion.cover, occlusion.draw_cutout, ("holes",)),
        candidate("Downscale", geometric.downscale),
        candidate("ElasticTransform", geometric.distort_elastic, geometric.draw_elastic, ("corners", "dx", "dy")),
        candidate("Emboss", filters.emboss, version=2, strength=(0.2, 0.7)),
        candidate("Flip", geometric.flip, geometric.draw_direction, ("d",)),
        candidate("GaussianBlur", filters.blur_gaussian, filters.draw_gaussian, ("ksize",)),
        candidate("GaussNoise", noise.add_gauss, noise.draw_gauss, ("gauss",), version=2),
        candidate("GridDistortion", geometric.distort_grid, geometric.draw_steps, ("stepsx", "stepsy")),
        candidate(
            "HueSaturationValue",
            colour.shift_hue_saturation_value,
            hue_shift=(-100, 100),
            sat_shift=(-150, 150),
            val_shift=(-100, 100),
        ),
        candidate("ImageCompression", colour.compress, colour.draw_quality, ("quality",)),
        candidate("InvertImg", colour.invert),
        candidate(
            "ISONoise", colour.add_iso_noise, colour.draw_iso_noise, ("luminance_noise", "color_noise"), version=2
        ),
        candidate("JpegCompression", colour.compress, colour.draw_quality, ("quality",)),
        candidate("MedianBlur", filters.blur_median, filters.draw_side(filters.MEDIAN_SIDES), ("ksize",)),
        candidate("MotionBlur", filters.blur_line, filters.draw_line, ("ksize", "start", "end")),
        candidate("MultiplicativeNoise", noise.multiply, noise.draw_multiplier, ("multiplier",)),
        candidate("OpticalDistortion", geometric.distort_radially, geometric.draw_distortion, ("k", "dx", "dy")),
        candidate("Perspective", geometric.change_perspective, geometric.draw_corners, ("jitter",)),
        candidate("Posterize", colour.posterize),
        candidate("RandomBrightness", colour.shift_brightness, beta=(-0.9, 0.9)),
        candidate("RandomContrast", colour.scale_contrast, colour.draw_contrast, ("alpha",)),
        candidate("RandomFog", weather.add_fog, weather.draw_fog, ("fog_coef", "haze_list")),
        candidate("RandomGamma", colour.darken, colour.draw_gamma, ("gamma",)),
        candidate("RandomGridShuffle", geometric.shuffle, geometric.draw_tiles, ("tiles",)),
        candidate("RandomRain", weather.add_rain, weather.draw_rain, ("rain_drops",)),
        candidate("RandomShadow", weather.add_shadows, weather.draw_shadows, ("vertices_list",)),
        candidate("RandomSnow", weather.add_snow, snow_point=(0.1, 0.3)),
        candidate(
            "RandomSunFlare", weather.add_flare, weather.draw_flare, ("flare_center_x", "flare_center_y", "circles")
        ),
        candidate("RGBShift", colour.shift_channels, r_shift=(-200, 200), g_shift=(-200, 200), b_shift=(-200, 200)),
        candidate("Rotate", geometric.rotate, angle=(-180.0, 180.0)),
        candidate("Sharpen", filters.sharpen, version=2, alpha=(0.3, 0.6), lightness=(0.6, 1.0)),
        candidate("Solarize", colour.solarize),
        candidate("ToSepia", colour.tone),
        candidate("Transpose", geometric.shift, dx=(-0.7, 0.7), dy=(-0.7, 0.7)),
    )
}
"""Name -> candidate, in published order, which is alphabetical without regard to case."""

RECORDED: Mapping[str, frozenset[str]] = {
    "ElasticTransform": frozenset({"random_state"}),
    "GaussNoise": frozenset({"random_state", "var"}),
    "ISONoise": frozenset({"color_shift", "color_sigma", "intensity", "lam", "random_state"}),
    "MultiplicativeNoise": frozenset({"random_state"}),
    "Perspective": frozenset({"scale"}),
}
"""Candidate -> what the published library records beside the draws: how they were made. It is not used."""


def get(name: str) -> Transform:
    """Return a candidate. Raises ValueError if the name is unknown."""
    return find("candidate", CORRUPTIONS, name)


def check_draws(row: Transform, draws: Draws) -> Draws:
    """Return the draws. Raises TypeError if they are no mapping, and ValueError for invalid keys or numbers.

    Keys in RECORDED are accepted.
    """
    if not isinstance(draws, Mapping):
        raise TypeError(f"draws must be a mapping as returned by corruptions.draw, not {type(draws).__name__}")
    if set(draws) - RECORDED.get(row.name, frozenset()) != set(row.keys):
        allowed = ", ".join(row.keys) or "no keys"
        raise ValueError(f"draws of {row.name!r} must have {allowed}, not {', '.join(map(str, draws)) or 'none'}")
    for key in row.keys:
        _check_numbers(key, draws[key])
    return draws


def _check_numbers(key: str, value: Any) -> None:
    """Raise ValueError if a draw contains a number that kernels cannot use."""
    if isinstance(value, list | tuple):
        for each in value:
            _check_numbers(key, each)
    elif not isinstance(value, str) and not (type(value) is int and key in PLACES):
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "fiu" or not (np.abs(numbers.astype(np.float64)) <= LARGEST).all():
            raise ValueError(f"draw {key!r} must have finite numbers of at most {LARGEST}, not {value!r:.80}")
