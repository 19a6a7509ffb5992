"""The six distortions of LAION-C (Li, Klein, Brendel, Geirhos & Zimmermann, ICML 2025), as its script draws them."""

from __future__ import annotations

from collections.abc import Mapping

from corruptions.catalogue import Transform
from corruptions.laion_c import bands, drawn, tiles
from corruptions.laion_c.catalogue import GROUP

NAMES = ("mosaic", "glitched", "vertical_lines", "geometric_shapes", "stickers", "luminance_checkerboard")
"""The distortions in published order."""

_ROWS = {row.name: row for part in (tiles, bands, drawn) for row in part.CORRUPTIONS}
CORRUPTIONS: Mapping[str, Transform] = {name: _ROWS[name] for name in NAMES}
"""Name -> distortion, in published order."""

GROUPS: Mapping[str, tuple[str, ...]] = {GROUP: NAMES}
"""Group -> names in published order."""
