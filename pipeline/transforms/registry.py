"""The families that a recipe may name."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.transforms import clean, imagenet_c, imagenet_p, imagenet_s
from pipeline.transforms.family import Family

FAMILIES: Mapping[str, Family] = {
    "corruptions": imagenet_c.FAMILY,
    "perturbations": imagenet_p.FAMILY,
    "system-noise": imagenet_s.FAMILY,
    "none": clean.FAMILY,
}
