"""Tests of models from factories."""

import pytest
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.base import IMAGENET_MEAN, IMAGENET_STD, ModelInput
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import Small, images


@pytest.mark.parametrize("name", ["plain", "Namespace.nested", "as_dictionary", "as_object", "as_tuple", "trusting"])
def test_logits_are_extracted_from_every_kind_of_output(factories: str, name: str) -> None:
    model = load_model(f"{factories}:{name}")
    torch.testing.assert_close(model.module(images()), Small(3).eval()(images()), check_stride=False)
    assert type(model.module(images())) is torch.Tensor
    assert (model.input, model.batch) == (ModelInput(None, IMAGENET_MEAN, IMAGENET_STD), None)
    assert not model.module.training


def test_the_model_input_is_read_from_timm_attributes(factories: str) -> None:
    assert load_model(f"{factories}:described").input == ModelInput(8, (0.5, 0.5, 0.5), (1, 1, 2))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"missing.* cannot be loaded: AttributeError.*; write it as package.module:function"),
        ("number", "returns int: return a torch.nn.Module"),
        ("broken", "cannot be loaded: KeyError: 'weights'"),
        ("unreadable", "cannot be loaded: RuntimeError: no; .* pretrained_cfg or default_cfg"),
        ("oblong", r"invalid input description .*8, 9.*: use input_size \(3, H, H\)"),
    ],
)
def test_unusable_factories_are_rejected_with_the_remedy(factories: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_model(f"{factories}:{name}")


@pytest.mark.parametrize(("name", "returned"), [("as_features", r"\(2, 5, 1, 1\)"), ("as_nothing", "NoneType")])
def test_outputs_without_logits_are_rejected(factories: str, name: str, returned: str) -> None:
    with pytest.raises(UserError, match=f"the model returns {returned}.* for 2 images; write a factory"):
        load_model(f"{factories}:{name}").module(images())
