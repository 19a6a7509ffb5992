"""Models of timm, torchvision and transformers: made, and read back from the files that they are saved as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.environment import clients, run_client
from tests.conftest import ROOT

__all__ = ["clients"]

COMMON = """
import json
from pathlib import Path
from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
torch.set_num_threads(1)
folder = Path(sys.argv[1])
def same(model, other, side):
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        given, wanted = model.module(images), other.eval()(images)
    wanted = getattr(wanted, "logits", wanted)
    torch.testing.assert_close(given, wanted, atol=1e-5, rtol=1e-4)
    assert type(given) is torch.Tensor and given.shape == (2, wanted.shape[1])
def told(model):
    return [model.input.size, *model.input.mean, *model.input.std]
def refusal(spec, weights=None):
    try:
        load_model(spec, weights)
    except UserError as error:
        return str(error)
"""

NAMED = """
import safetensors.torch
library, name = sys.argv[2].split(":")
made = __import__(library).create_model(name) if library == "timm" else __import__(library).models.get_model(name)
torch.save({"state_dict": made.state_dict()}, folder / "w.pth")
safetensors.torch.save_file(made.state_dict(), folder / "w.safetensors")
models = [load_model(sys.argv[2], str(folder / file)) for file in ("w.pth", "w.safetensors")]
for model in models:
    same(model, made, model.input.size)
assert models[0].digest == models[1].digest
print(json.dumps([told(models[0]), refusal(library + ":resnet18", str(folder / "w.pth")), refusal(library + ":none")]))
"""

SAVED = """
library, name = sys.argv[2].split(":")
made = __import__(library).create_model(name) if library == "timm" else __import__(library).models.get_model(name)
side, made = int(sys.argv[3]), made.eval()
images = torch.randn(2, 3, side, side)
dynamic = ({0: torch.export.Dim("batch")},)
torch.export.save(torch.export.export(made, (images,), dynamic_shapes=dynamic), folder / "m.pt2")
torch.jit.trace(made, images, check_trace=False).save(folder / "traced.pt")
torch.jit.script(made).save(folder / "scripted.pt")
for file in ("m.pt2", "traced.pt", "scripted.pt"):
    assert "--trust-model" in refusal(str(folder / file))
    same(load_model(str(folder / file), trust=True), made, side)
print(json.dumps(None))
"""

HUGGING_FACE = """
import transformers
from transformers import ConvNextConfig, ConvNextForImageClassification, ConvNextImageProcessor
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor
transformers.logging.disable_progress_bar()
def written(name, made, processor):
    made.eval().save_pretrained(folder / name)
    if processor:
        processor.save_pretrained(folder / name)
    return load_model("hf:" + str(folder / name))
vit = ViTForImageClassification(ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=8, image_size=32, patch_size=8, num_labels=7))
size = {"height": 32, "width": 32}
half = written("half", vit, ViTImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.25, 0.5, 1.0]))
plain = written("plain", vit, ViTImageProcessor(size=size, do_normalize=False))
alone = written("alone", vit, None)
next_ = ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[4, 4, 4, 4], depths=[1, 1, 1, 1], num_labels=7))
cropped = written("cropped", next_, ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875,
    image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]))
same(half, vit, 32), same(alone, vit, 32), same(cropped, next_, 64)
other = ViTForImageClassification(vit.config)
torch.save(other.state_dict(), folder / "w.pth")
loaded = load_model("hf:" + str(folder / "half"), str(folder / "w.pth"))
same(loaded, other, 32)
assert half.digest == plain.digest != loaded.digest

class Attack:
    def __reduce__(self):
        import os
        return os.system, ("touch " + str(folder / "ran"),)
for name in ("half", "cropped"):
    (folder / name / "model.safetensors").unlink()
    torch.save(Attack(), folder / name / "pytorch_model.bin")
config = json.loads((folder / "plain" / "config.json").read_text())
config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForImageClassification": "own.Own"}}
(folder / "plain" / "config.json").write_text(json.dumps(config))
(folder / "plain" / "own.py").write_text("open(%r, 'w')" % str(folder / "ran"))
refusals = [refusal("hf:" + str(folder / name)) for name in ("half", "plain", "absent")]
assert not (folder / "ran").exists()
print(json.dumps([*map(told, (half, alone, cropped)), *refusals]))
"""

IMAGENET = [0.485, 0.456, 0.406, 0.229, 0.224, 0.225]


def run(clients: Path, program: str, *arguments: object) -> Any:
    """What the last line says that a program prints, in JSON."""
    printed = run_client(clients, COMMON + program, *arguments, modules=ROOT)
    return json.loads(printed.splitlines()[-1])


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("timm:resnet10t", [176, *IMAGENET]),
        ("timm:vit_tiny_patch16_224", [224, *[0.5] * 6]),
        ("torchvision:shufflenet_v2_x0_5", [224, *IMAGENET]),
        ("torchvision:inception_v3", [299, *IMAGENET]),
    ],
)
def test_named_models_take_weights(clients: Path, tmp_path: Path, spec: str, told: list[float]) -> None:
    given, misfit, unknown = run(clients, NAMED, tmp_path, spec)
    library = spec.partition(":")[0]
    assert given == told
    assert f"w.pth does not fit {library}:resnet18: " in misfit
    assert unknown.startswith(f"{library}:none cannot be loaded: ")
    assert "lists the names" in unknown


@pytest.mark.parametrize(
    ("spec", "side"),
    [
        ("timm:efficientvit_b0", 64),  # exports a region without autocast
        ("timm:vit_tiny_patch16_224", 224),
        ("timm:mobilevit_xxs", 64),  # scripts an upsampling with private operators
        ("torchvision:swin_t", 64),
    ],
)
def test_models_are_read_back_from_files(clients: Path, tmp_path: Path, spec: str, side: int) -> None:
    run(clients, SAVED, tmp_path, spec, side)


def test_transformers_from_a_folder(clients: Path, tmp_path: Path) -> None:
    half, alone, cropped, pickled, coded, absent = run(clients, HUGGING_FACE, tmp_path)
    assert half == [32, 0.5, 0.5, 0.5, 0.25, 0.5, 1.0]
    assert alone == [32, *IMAGENET]
    assert cropped == [64, *IMAGENET]
    assert "UnpicklingError: it contains more than weights; " in pickled
    for refused in (pickled, coded, absent):
        assert "cannot be loaded: " in refused
        assert "an image classifier is allowed, by its name or folder; models with code of their own" in refused
