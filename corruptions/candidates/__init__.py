"""The 40 candidate corruptions of ImageNet-Syn2Nat, and the 18 that were chosen from them."""

from __future__ import annotations

from collections.abc import Mapping

from corruptions.candidates import colour, filters, geometric, noise, occlusion, weather
from corruptions.candidates.catalogue import Candidate

LEVEL = 1
"""The only level: each candidate was published with one setting."""
PROFILE = "imagenet"
"""The only profile for which settings were published."""
MIN_SIDE = 130
"""Smallest accepted image side in pixels: the side that Border keeps."""

CANDIDATES: Mapping[str, Candidate] = {
    row.name: row
    for row in sorted(
        (
            *geometric.CANDIDATES,
            *colour.CANDIDATES,
            *filters.CANDIDATES,
            *noise.CANDIDATES,
            *occlusion.CANDIDATES,
            *weather.CANDIDATES,
        ),
        key=lambda row: row.name.casefold(),
    )
}
"""Name -> candidate, in published order, which is alphabetical without regard to case."""

SYN2NAT = (
    *("Solarize", "RandomSunFlare", "RandomShadow", "Affines", "Perspective", "Cutout", "Sharpen", "RandomRain"),
    *("Emboss", "RandomContrast", "RandomBrightness", "RandomGamma", "ISONoise", "Downscale", "Posterize"),
    *("ColorJitter", "ChannelDropout", "ToSepia"),
)
"""Names of the 18 candidates of ImageNet-Syn2Nat, in published order."""

GROUPS: Mapping[str, tuple[str, ...]] = {"candidates": tuple(CANDIDATES), "syn2nat": SYN2NAT}
"""Group -> names in published order."""
