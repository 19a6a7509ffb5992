"""Low-pass filtered photographs: levels are bandwidths in cycles per image.

Source: ARES-Bench, arXiv 2302.14301, which leaves the filter open.
"""

from corruptions import low_pass
from corruptions.preparation import Steps
from pipeline.images.resizers import prepare
from pipeline.transforms.family import Condition, Family, Image, Recognition, Render, Rendering

CITATION = """\
@article{liu2023comprehensive,
  title = {A Comprehensive Study on Robustness of Image Classification Models: Benchmarking and Rethinking},
  author = {Liu, Chang and Dong, Yinpeng and Xiang, Wenzhao and Yang, Xiao and Su, Hang and Zhu, Jun and Chen, Yuefeng
            and He, Yuan and Xue, Hui and Zheng, Shibao},
  journal = {arXiv preprint arXiv:2302.14301},
  year = {2023}
}"""

LARGEST_BANDWIDTH = 512


def _spectra(photograph: Image, steps: Steps, operator: str) -> low_pass.Spectra:
    """Return the transform of the prepared photograph, which all its levels share."""
    return low_pass.spectra(prepare(photograph, steps, operator))


def _limit(condition: Condition, rendering: Rendering) -> Render:
    shape = rendering.shape or low_pass.DEFAULT
    return lambda spectra, seed: low_pass.limited(spectra, condition.level, shape=shape)


FAMILY = Family(
    name="low-pass",
    title="Low-pass filtered images, for frequency bias",
    names=("low_pass",),
    version=lambda name: low_pass.VERSION,
    render=_limit,
    levels=tuple(range(LARGEST_BANDWIDTH + 1)),
    shapes=tuple(low_pass.SHAPES),
    pass_all=low_pass.pass_all,
    prepare=_spectra,
    prepared_bytes=lambda spectra: spectra.nbytes,
    recognition=Recognition(("low_pass/<bandwidth>/<class>/<file>",)),
    citation=CITATION,
)
