"""Three of the twelve corruptions of ImageNet-3DCC: those that are functions of the picture alone.

Source: Kar, Yeo, Atanov & Zamir, CVPR 2022.
"""

import corruptions
from corruptions.catalogue import SEVERITIES
from corruptions.noise_3dcc import CORRUPTIONS, GROUP
from pipeline.transforms.family import Family, Recognition
from pipeline.transforms.imagenet_c import corrupted

CITATION = """\
@inproceedings{kar20223d,
  title = {3D Common Corruptions and Data Augmentation},
  author = {Kar, Oğuzhan Fatih and Yeo, Teresa and Atanov, Andrei and Zamir, Amir},
  booktitle = {IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year = {2022}
}"""

OTHERS = (
    *("near_focus", "far_focus", "bit_error", "flash", "fog_3d", "h265_abr", "h265_crf", "xy_motion_blur"),
    "z_motion_blur",
)
"""The other nine corruptions of ImageNet-3DCC, which need depth or a video encoder."""

FAMILY = Family(
    name="imagenet-3dcc-noise",
    title="ImageNet-3DCC: three of its twelve corruptions, those that need no depth",
    names=corruptions.names("3dcc-noise"),
    version=lambda name: CORRUPTIONS[name].version,
    render=corrupted,
    groups={GROUP: corruptions.names("3dcc-noise")},
    levels=SEVERITIES,
    profiles=("imagenet",),
    recognition=Recognition(published_names=OTHERS),
    citation=CITATION,
)
