"""The examples of the page on PyTorch run with timm, torchvision and RobustBench instead of stand-ins."""

import json
from pathlib import Path

import pytest

from tests.clients.environment import clients, run_client
from tests.conftest import ROOT
from tests.docs.test_examples import IMAGENET_VAL, PAGES
from tests.photographs import write_photographs

__all__ = ["clients"]

WITHOUT_DOWNLOADS = """
import json
import timm
create = timm.create_model
timm.create_model = lambda name, pretrained: create("resnet10t", num_classes=1000)
for number, code in enumerate(json.loads(sys.argv[1])):
    exec(compile(code, f"block {number}", "exec"), {"__name__": f"block_{number}"})
    print("done", number)
"""
"""Run blocks with a small model, since no weights can be downloaded."""

TORCHVISION = """
import numpy as np
import robustshards as rs
import torch
from robustshards.torch import Images
from torchvision.models import ResNet50_Weights
from torchvision.transforms import v2

composed = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
for transform, form in ((composed, None), (v2.ToDtype(torch.float32, scale=True), "tensor")):
    images = Images("imagenet-c", "fog", 5, input_transform=transform, as_=form)
    for index, sample in enumerate(rs.open("imagenet-c").samples("fog", 5)):
        image, label = images[index]
        np.testing.assert_allclose(image.permute(1, 2, 0).numpy(), sample.pixels() / np.float32(255), atol=1e-7)
        assert label == sample.row.label
weights = ResNet50_Weights.IMAGENET1K_V2
image, _ = Images("imagenet-c", "fog", 5, input_transform=weights.transforms(resize_size=224))[0]
mean, std = (torch.tensor(values).view(3, 1, 1) for values in (weights.transforms().mean, weights.transforms().std))
original = Images("imagenet-c", "fog", 5)[0][0]
torch.testing.assert_close(image, (original / 255 - mean) / std)
"""


def test_examples_run_with_the_packages(clients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_photographs(tmp_path / "imagenet-val", IMAGENET_VAL)
    monkeypatch.chdir(tmp_path)
    blocks = [block.code for block in PAGES["docs/pytorch.md"] if block.language == "python"]
    printed = run_client(clients, WITHOUT_DOWNLOADS, json.dumps([*blocks, TORCHVISION]), modules=ROOT)
    assert f"done {len(blocks)}" in printed
    assert "fog error" in printed
