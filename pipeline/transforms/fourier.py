"""Photographs plus one spatial frequency, for Fourier heat maps: a level is a frequency.

Source: Yin, Gontijo Lopes, Shlens, Cubuk & Gilmer, NeurIPS 2019.
"""

from corruptions import fourier
from corruptions.draws import FastDraws
from pipeline.transforms.family import Condition, Draws, Family, Image, Recognition, Render, Rendering

CITATION = """\
@inproceedings{yin2019fourier,
  title = {A Fourier Perspective on Model Robustness in Computer Vision},
  author = {Yin, Dong and Gontijo Lopes, Raphael and Shlens, Jonathon and Cubuk, Ekin D. and Gilmer, Justin},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2019}
}"""


def _render(condition: Condition, rendering: Rendering) -> Render:
    p, q = fourier.frequency(condition.level)

    def render(image: Image, seed: int) -> Image:
        return fourier.fourier_noise(image, p, q, rendering.norm, fourier.draw_signs(FastDraws(seed)))

    return render


def _draws(condition: Condition, seed: int, height: int, width: int) -> Draws:
    return {"signs": list(fourier.draw_signs(FastDraws(seed)))}


FAMILY = Family(
    name="fourier",
    title="One spatial frequency added to images, for Fourier heat maps",
    names=tuple(fourier.CORRUPTIONS),
    version=lambda name: fourier.CORRUPTIONS[name].version,
    render=_render,
    levels=fourier.LEVELS,
    map_levels=fourier.levels,
    unfit=fourier.unfit,
    draws=_draws,
    recognition=Recognition(("fourier_noise/<level>/<class>/<file>",)),
    citation=CITATION,
)
