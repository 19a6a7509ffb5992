"""ImageNet-W: every image with one watermark, which networks answer with "carton".

Source: Li et al., A Whac-A-Mole Dilemma, CVPR 2023.
"""

from __future__ import annotations

from corruptions.watermark import CORRUPTIONS, add_watermark
from pipeline.transforms.family import Condition, Family, Recognition, Render, Rendering

CITATION = """\
@inproceedings{li2023whac,
  title = {A Whac-A-Mole Dilemma: Shortcuts Come in Multiples Where Mitigating One Amplifies Others},
  author = {Li, Zhiheng and Evtimov, Ivan and Gordo, Albert and Hazirbas, Caner and Hassner, Tal and
            Canton Ferrer, Cristian and Xu, Chenliang and Ibrahim, Mark},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year = {2023}
}"""


def _watermarked(condition: Condition, rendering: Rendering) -> Render:
    return lambda image, seed: add_watermark(image, None, None)


FAMILY = Family(
    name="imagenet-w",
    title="ImageNet-W: the watermark shortcut",
    names=tuple(CORRUPTIONS),
    version=lambda name: CORRUPTIONS[name].version,
    render=_watermarked,
    profiles=("imagenet",),
    recognition=Recognition(("watermark/<class>/<file>",), bare_level=0),
    citation=CITATION,
)
