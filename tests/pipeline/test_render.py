"""Images that are smaller than the crops of a recipe."""

import numpy as np
import pytest

from pipeline.errors import SampleError, UserError
from pipeline.images.encoders import Png
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer
from pipeline.render.warm_up import try_transforms


def recipe(*conditions: tuple[str, float]) -> Recipe:
    return library.load("imagenet-c").changed(
        prepare={"steps": conditions}, transforms={"only": ["contrast"], "levels": [1]}
    )


def test_only_images_smaller_than_the_crop_fail() -> None:
    cropped = recipe(("center_crop", 224.0))
    renderer = try_transforms(cropped, None)
    (condition,) = cropped.conditions()
    with pytest.raises(SampleError, match="224 x 224 pixels cannot be cropped from 223 x 300"):
        renderer.members(Png().encode(np.zeros((223, 300, 3), np.uint8)), "", condition)
    assert list(renderer.members(Png().encode(np.zeros((224, 300, 3), np.uint8)), "", condition)) == [".jpg"]


def test_a_preparation_that_fails_for_every_image_is_refused() -> None:
    with pytest.raises(UserError, match=r"\[prepare\].*224 x 224 pixels cannot be cropped from 200 x 200"):
        try_transforms(recipe(("shorter_side", 200.0), ("center_crop", 224.0)), None)


def test_sequences_from_small_images_fail() -> None:
    cropped = library.load("imagenet-p").changed(prepare={"steps": (("center_crop", 224.0),)})
    renderer = Renderer(cropped)
    with pytest.raises(SampleError, match="cannot be cropped"):
        renderer.prepare(np.zeros((100, 300, 3), np.uint8))
