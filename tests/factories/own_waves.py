"""A user's family of transforms: waves of random phase, added to the prepared image."""

import numpy as np

from pipeline.transforms.family import Condition, Family, Image, Listing, Recognition, Render, Rendering

AMPLITUDE, LENGTH = 40.0, 9.0
"""Amplitude of the waves in levels, and their length in pixels."""

AXES = {"wave_rows": 0, "wave_columns": 1}
"""Transform -> axis along which its waves run."""


def _render(condition: Condition, rendering: Rendering) -> Render:
    axis = AXES[condition.transform]

    def render(image: Image, seed: int) -> Image:
        phase = np.random.default_rng(seed).uniform(0, 2 * np.pi)
        wave = AMPLITUDE * np.sin(np.arange(image.shape[axis]) / LENGTH + phase)
        return (image + (wave[:, None, None] if axis == 0 else wave[None, :, None])).clip(0, 255).astype(np.uint8)

    return render


def _listing() -> Listing:
    rows = tuple((name, "rows" if axis == 0 else "columns", 7) for name, axis in AXES.items())
    return Listing(("wave", "runs along", "version"), rows, {name: {"along": along} for name, along, _ in rows})


FAMILY = Family(
    name="own-waves",
    title="Waves of random phase",
    names=tuple(AXES),
    version=lambda name: 7,
    render=_render,
    groups={"everything": tuple(AXES)},
    recognition=Recognition(("<wave>/<class>/<file>",), bare_level=0),
    citation="@misc{waves2026,\n  title = {Waves},\n  author = {Nobody},\n  year = {2026}\n}",
    listing=_listing,
    modules=("own_waves",),
    libraries=("own-waves",),
)
