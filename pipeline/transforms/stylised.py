"""Photographs in the style of paintings, as Stylized-ImageNet: a level is the strength in percent.

Source: Geirhos et al., ICLR 2019, with the network of Huang & Belongie, ICCV 2017. Weights and paintings are a user's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corruptions.draws import FastDraws
from corruptions.preparation import Steps
from pipeline.images.resizers import prepare
from pipeline.transforms.family import BankNeeds, Condition, Family, Image, Recognition, Render, Rendering

if TYPE_CHECKING:
    from pipeline.transforms.adain import StyleTransfer

CITATION = """\
@inproceedings{geirhos2019imagenet,
  title = {ImageNet-trained CNNs are biased towards texture; increasing shape bias improves accuracy and robustness},
  author = {Geirhos, Robert and Rubisch, Patricia and Michaelis, Claudio and Bethge, Matthias and Wichmann, Felix A. and
            Brendel, Wieland},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2019}
}"""

PERCENT = 100

_NETWORKS: dict[str, tuple[Mapping[str, Image], StyleTransfer]] = {}
"""Device -> the bank that was used last, and its network, which all levels share."""


def _network(bank: Mapping[str, Image], device: str) -> StyleTransfer:
    from pipeline.transforms.adain import StyleTransfer

    if device not in _NETWORKS or _NETWORKS[device][0] is not bank:
        _NETWORKS[device] = bank, StyleTransfer(bank["encoder"], bank["decoder"], device)
    return _NETWORKS[device][1]


def _render(condition: Condition, rendering: Rendering) -> Render:
    network, paintings = _network(rendering.bank, rendering.device), rendering.bank["paintings"]

    def render(image: Image, seed: int) -> Image:
        if min(image.shape[:2]) < 16:
            raise ValueError(f"image must have at least 16 x 16 pixels, not {image.shape[1]} x {image.shape[0]}")
        painting = FastDraws(seed).integer(0, len(paintings))
        return network.stylise(image, paintings, painting, condition.level / PERCENT)

    return render


def _weights(part: str) -> Callable[[Path, Steps, str], NDArray[np.uint8]]:
    def read(path: Path, steps: Steps, text: str) -> NDArray[np.uint8]:
        from pipeline.transforms.adain import weights_of

        return weights_of(part, path)

    return read


FAMILY = Family(
    name="stylised",
    title="Stylised photographs: the style of paintings by AdaIN, with weights and paintings of the user",
    names=("stylised",),
    version=lambda name: 1,
    render=_render,
    levels=range(PERCENT + 1),
    bank=BankNeeds(
        title="paintings, and the weights of an encoder and a decoder",
        transforms=("stylised",),
        arrays=("paintings",),
        entries=lambda painting, steps, resize: [prepare(painting, steps, resize)],
        files={part: _weights(part) for part in ("encoder", "decoder")},
    ),
    on_device=True,
    one_draw=True,
    recognition=Recognition(("stylised/<percent>/<class>/<file>",), bare_level=PERCENT),
    citation=CITATION,
    libraries=("torch",),
)
