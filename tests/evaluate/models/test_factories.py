"""Models of a user's own code, and of libraries."""

from __future__ import annotations

import pytest
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.base import IMAGENET_MEAN, IMAGENET_STD, ModelInput
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import (
    Small,
    images,
)


@pytest.mark.parametrize("name", ["plain", "Namespace.nested", "as_dictionary", "as_object", "as_tuple", "trusting"])
def test_factories_give_logits(factories: str, name: str) -> None:
    model = load_model(f"{factories}:{name}")
    torch.testing.assert_close(model.module(images()), Small(3).eval()(images()), check_stride=False)
    assert type(model.module(images())) is torch.Tensor
    assert (model.input, model.batch) == (ModelInput(None, IMAGENET_MEAN, IMAGENET_STD), None)
    assert not model.module.training


def test_a_factory_tells_its_input(factories: str) -> None:
    assert load_model(f"{factories}:described").input == ModelInput(8, (0.5, 0.5, 0.5), (1, 1, 2))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"missing.* cannot be loaded: AttributeError.*; write it as package.module:function"),
        ("number", "returns a int; a torch.nn.Module is allowed"),
        ("broken", "cannot be loaded: KeyError: 'weights'"),
        ("unreadable", "cannot be loaded: RuntimeError: no; an attribute pretrained_cfg or default_cfg"),
        ("oblong", r"describes its input as .*8, 9.*; input_size \(3, H, H\)"),
    ],
)
def test_factories_that_cannot_be_used(factories: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_model(f"{factories}:{name}")


@pytest.mark.parametrize(("name", "given"), [("as_features", r"\(2, 5, 1, 1\)"), ("as_nothing", "NoneType")])
def test_outputs_that_are_no_logits(factories: str, name: str, given: str) -> None:
    with pytest.raises(UserError, match=f"the model returns {given}.* for 2 images; logits of"):
        load_model(f"{factories}:{name}").module(images())
