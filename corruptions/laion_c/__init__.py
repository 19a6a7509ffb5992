"""The six distortions of LAION-C (Li, Klein, Brendel, Geirhos & Zimmermann, ICML 2025), as its script draws them."""

from collections.abc import Mapping

from corruptions.catalogue import Transform, table
from corruptions.laion_c import bands, drawn, tiles

GROUP = "laion-c"
"""Group of these distortions."""

_MOSAIC = table(tiles.Tiled, imagenet=[(4,), (6,), (8,), (16,), (28,)])
_GLITCH = {"imagenet": (2, 4, 5, 8, 10)}
_LINES = table(bands.Lines, imagenet=[(224, 1), (178, 2), (112, 4), (84, 6), (60, 8)])
_SHAPES = {"imagenet": (150, 300, 600, 800, 1000)}
_STICKERS = table(tiles.Tiled, imagenet=[(tiles.STICKER, count) for count in (100, 200, 400, 600, 1200)])
_SHIFTS = {"imagenet": ((0, 50), (50, 100), (100, 125), (125, 150), (150, 255))}

CORRUPTIONS: Mapping[str, Transform] = {
    row.name: row
    for row in (
        Transform("mosaic", 1, GROUP, _MOSAIC, tiles.make_mosaic),
        Transform("glitched", 1, GROUP, _GLITCH, bands.glitch),
        Transform("vertical_lines", 1, GROUP, _LINES, bands.draw_lines),
        Transform("geometric_shapes", 1, GROUP, _SHAPES, drawn.add_shapes, drawn.draw_shapes, keys=drawn.SHAPE_KEYS),
        Transform(
            "stickers",
            1,
            GROUP,
            _STICKERS,
            tiles.paste_stickers,
            tiles.draw_stickers,
            keys=("tile", "row", "column"),
            smallest=tiles.STICKER + 1,
        ),
        Transform(
            "luminance_checkerboard", 1, GROUP, _SHIFTS, drawn.shift_luminance, drawn.draw_shifts, keys=("shift",)
        ),
    )
}
"""Name -> distortion, in published order."""

NAMES = tuple(CORRUPTIONS)
"""The distortions in published order."""
