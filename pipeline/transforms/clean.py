"""The family of clean images: prepared but not transformed, for clean error."""

from corruptions.catalogue import PROFILES
from pipeline.transforms import imagenet_w
from pipeline.transforms.family import Condition, Family, Recognition, Render, Rendering


def _keep(condition: Condition, rendering: Rendering) -> Render:
    return lambda image, seed: image


CLEAN = Condition("none", 0)
"""The only condition of clean images."""

FAMILY = Family(
    name="none",
    title="Clean images: prepared but not transformed",
    names=(CLEAN.transform,),
    version=lambda name: 1,
    render=_keep,
    profiles=PROFILES,
    shortcut=imagenet_w.CARTON,  # to compare with
    recognition=Recognition(("none/<class>/<file>", "<class>/<file>"), bare_level=CLEAN.level),
)
