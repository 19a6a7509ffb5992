"""ImageNet-W: every image with one watermark, which networks answer with "carton".

Source: Li et al., A Whac-A-Mole Dilemma, CVPR 2023.
"""

from pathlib import Path

from corruptions.preparation import Steps, fixed_size
from corruptions.watermark import CORRUPTIONS, TEXT, add_watermark, mask, overlay
from pipeline.transforms.family import BankNeeds, Condition, Family, Image, Recognition, Render, Rendering

CITATION = """\
@inproceedings{li2023whac,
  title = {A Whac-A-Mole Dilemma: Shortcuts Come in Multiples Where Mitigating One Amplifies Others},
  author = {Li, Zhiheng and Evtimov, Ivan and Gordo, Albert and Hazirbas, Caner and Hassner, Tal and
            Canton Ferrer, Cristian and Xu, Chenliang and Ibrahim, Mark},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year = {2023}
}"""

CARTON = 478
"""Class of ImageNet that networks answer under the watermark: carton (n02971356)."""


def _watermarked(condition: Condition, rendering: Rendering) -> Render:
    if "font" in rendering.bank:
        return lambda image, seed: overlay(image, rendering.bank["font"])
    return lambda image, seed: add_watermark(image, None, None)


def _mask(font: Path, steps: Steps, text: str) -> Image:
    """Return the mask of a text in a font, for the size of the prepared images. Raises ValueError."""
    size = fixed_size(steps)
    if size is None or size[0] != size[1]:
        raise ValueError("a watermark needs square images of one size: end prepare.steps with center_crop or square")
    return mask(size[0], font, text or TEXT)


FAMILY = Family(
    name="imagenet-w",
    title="ImageNet-W: the watermark shortcut",
    names=tuple(CORRUPTIONS),
    version=lambda name: CORRUPTIONS[name].version,
    render=_watermarked,
    profiles=("imagenet",),
    bank=BankNeeds(title="a font", transforms=tuple(CORRUPTIONS), files={"font": _mask}, optional=True),
    shortcut=CARTON,
    recognition=Recognition(("watermark/<class>/<file>",), bare_level=0),
    citation=CITATION,
)
