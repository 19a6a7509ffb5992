"""Tests of timm, torchvision and transformers models, loaded by name and from saved files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.environment import clients, run_client
from tests.conftest import ROOT

__all__ = ["clients"]

COMMON = """
import json, traceback
from pathlib import Path
import safetensors.torch
import timm, torchvision, transformers
from transformers import ConvNextConfig, ConvNextForImageClassification, ConvNextImageProcessor
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor
from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
torch.set_num_threads(1)
transformers.logging.disable_progress_bar()
folder = Path(sys.argv[1])
def make(spec, **options):
    library, name = spec.split(":")
    module = timm.create_model(name, **options) if library == "timm" else getattr(torchvision.models, name)(**options)
    return module.eval()
def same(model, other, side):
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        output, expected = model.module(images), other.eval()(images)
    expected = getattr(expected, "logits", expected)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)
    assert type(output) is torch.Tensor and output.shape == (2, expected.shape[1])
def input_of(model):
    return [model.input.size, *model.input.mean, *model.input.std]
def error_of(spec, weights=None):
    try:
        load_model(spec, weights)
    except UserError as error:
        return str(error)
"""

NAMED = """
def check_weights(spec):
    module = make(spec)
    torch.save({"state_dict": module.state_dict()}, folder / "w.pth")
    safetensors.torch.save_file(module.state_dict(), folder / "w.safetensors")
    models = [load_model(spec, str(folder / file)) for file in ("w.pth", "w.safetensors")]
    for model in models:
        same(model, module, model.input.size)
    assert models[0].digest == models[1].digest
    library = spec.partition(":")[0]
    return input_of(models[0]), error_of(library + ":resnet18", str(folder / "w.pth")), error_of(library + ":none")
"""

SAVED = """
def check_files(spec, **options):
    module, images = make(spec, **options), torch.randn(2, 3, 64, 64)
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(module, (images,), dynamic_shapes=dynamic), folder / "m.pt2")
    torch.jit.trace(module, images, check_trace=False).save(folder / "traced.pt")
    torch.jit.script(module).save(folder / "scripted.pt")
    files = ("m.pt2", "traced.pt", "scripted.pt")
    for file in files:
        assert "--trust-model" in error_of(str(folder / file)), file
        same(load_model(str(folder / file), trust=True), module, 64)
    return files
"""

HUGGING_FACE = """
def save_and_load(name, module, processor):
    module.eval().save_pretrained(folder / name)
    if processor:
        processor.save_pretrained(folder / name)
    return load_model("hf:" + str(folder / name))

class Attack:
    def __reduce__(self):
        import os
        return os.system, ("touch " + str(folder / "ran"),)

def hugging_face():
    vit = ViTForImageClassification(ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, image_size=32, patch_size=8, num_labels=7))
    size = {"height": 32, "width": 32}
    half = save_and_load("half", vit, ViTImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.25, 0.5, 1.0]))
    plain = save_and_load("plain", vit, ViTImageProcessor(size=size, do_normalize=False))
    alone = save_and_load("alone", vit, None)
    next_ = ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[4, 4, 4, 4], depths=[1, 1, 1, 1], num_labels=7))
    cropped = save_and_load("cropped", next_, ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875,
        image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]))
    same(half, vit, 32), same(alone, vit, 32), same(cropped, next_, 64)
    other = ViTForImageClassification(vit.config)
    torch.save(other.state_dict(), folder / "w.pth")
    loaded = load_model("hf:" + str(folder / "half"), str(folder / "w.pth"))
    same(loaded, other, 32)
    assert half.digest == plain.digest != loaded.digest
    for name in ("half", "cropped"):
        (folder / name / "model.safetensors").unlink()
        torch.save(Attack(), folder / name / "pytorch_model.bin")
    config = json.loads((folder / "plain" / "config.json").read_text())
    coded = {"AutoConfig": "own.Config", "AutoModelForImageClassification": "own.Own"}
    config |= {"model_type": "own", "auto_map": coded}
    (folder / "plain" / "config.json").write_text(json.dumps(config))
    (folder / "plain" / "own.py").write_text("open(%r, 'w')" % str(folder / "ran"))
    errors = [error_of("hf:" + str(folder / name)) for name in ("half", "plain", "absent")]
    assert not (folder / "ran").exists()
    return [*map(input_of, (half, alone, cropped)), *errors]
"""

CASES = """
results = {}
for case, (function, options) in json.loads(sys.argv[2]).items():
    try:
        results[case] = {"result": globals()[function](**options)}
    except Exception:
        results[case] = {"failure": traceback.format_exc()}
print(json.dumps(results))
"""

PROGRAM = COMMON + NAMED + SAVED + HUGGING_FACE + CASES

IMAGENET = [0.485, 0.456, 0.406, 0.229, 0.224, 0.225]

NAMED_MODELS = {
    "timm:resnet10t": [176, *IMAGENET],
    "timm:vit_tiny_patch16_224": [224, *[0.5] * 6],
    "torchvision:shufflenet_v2_x0_5": [224, *IMAGENET],
    "torchvision:inception_v3": [299, *IMAGENET],
}
"""Input size, channel means and channel standard deviations of each model."""

SWIN = {"patch_size": [4, 4], "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": [7, 7]}

SAVED_MODELS: dict[str, dict[str, Any]] = {
    "timm:efficientvit_b0": {"depths": [1, 1, 1, 1]},  # contains a region without autocast
    "timm:vit_tiny_patch16_224": {"depth": 2, "img_size": 64},
    "timm:mobilevit_xxs": {},  # uses private operators for upsampling
    "torchvision:SwinTransformer": SWIN,
}
"""Options that make each model small."""


@pytest.fixture(scope="module")
def results(clients: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run all cases in one process, since imports take longer than most cases, and return their results or errors."""
    cases = {
        "hugging face": ["hugging_face", {}],
        **{f"check_weights {spec}": ["check_weights", {"spec": spec}] for spec in NAMED_MODELS},
        **{f"check_files {spec}": ["check_files", {"spec": spec, **options}] for spec, options in SAVED_MODELS.items()},
    }
    folder = tmp_path_factory.mktemp("models")
    printed = run_client(clients, PROGRAM, folder, json.dumps(cases), modules=ROOT)
    results: dict[str, dict[str, Any]] = json.loads(printed.splitlines()[-1])
    return results


def result(results: dict[str, dict[str, Any]], case: str) -> Any:
    """Return the result of a case. Fail the test if the case failed."""
    assert "failure" not in results[case], results[case]["failure"]
    return results[case]["result"]


@pytest.mark.parametrize("spec", NAMED_MODELS)
def test_models_of_libraries_are_loaded_with_given_weights(results: dict[str, dict[str, Any]], spec: str) -> None:
    output, misfit, unknown = result(results, f"check_weights {spec}")
    library = spec.partition(":")[0]
    assert output == NAMED_MODELS[spec]
    assert f"w.pth does not fit {library}:resnet18: " in misfit
    assert unknown.startswith(f"{library}:none cannot be loaded: ")
    assert "lists the names" in unknown


@pytest.mark.parametrize("spec", SAVED_MODELS)
def test_exported_and_scripted_files_give_the_outputs_of_the_module(
    results: dict[str, dict[str, Any]], spec: str
) -> None:
    assert result(results, f"check_files {spec}") == ["m.pt2", "traced.pt", "scripted.pt"]


def test_transformers_models_are_loaded_from_folders(results: dict[str, dict[str, Any]]) -> None:
    half, alone, cropped, pickled, coded, absent = result(results, "hugging face")
    assert half == [32, 0.5, 0.5, 0.5, 0.25, 0.5, 1.0]
    assert alone == [32, *IMAGENET]
    assert cropped == [64, *IMAGENET]
    assert "UnpicklingError: it contains more than weights; " in pickled
    for error in (pickled, coded, absent):
        assert "cannot be loaded: " in error
        assert "give the name or folder of an image classifier; models with custom code" in error
