"""Tests of model files in every format: outputs, digests, errors and exploits."""

import os
import pickle
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import WRITERS, Attack, Small, images, write_exported, write_onnx, write_scripted

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*torch.jit.*", "ignore:.*LeafSpec:FutureWarning")]


def test_loaded_files_give_the_outputs_of_the_saved_module_and_stay_in_evaluation_mode(
    form: str, tmp_path: Path
) -> None:
    name, write, model_input, batch = WRITERS[form]
    module = Small().eval()
    write(tmp_path / name, module)
    model = load_model(str(tmp_path / name), trust=True)
    assert (model.spec, model.input, model.batch) == (str(tmp_path / name), model_input, batch)
    with torch.inference_mode():
        output = model.module(images())
        assert type(output) is torch.Tensor
        torch.testing.assert_close(output, module(images()))
        if batch is None:
            torch.testing.assert_close(model.module(images(3)), module(images(3)))
            torch.testing.assert_close(model.module(images(1)), module(images(1)))
        if model_input.size is None and form != "traced":
            torch.testing.assert_close(model.module(images(2, 12)), module(images(2, 12)))
    assert model.module.train().training is False
    output = model.module.to("cpu").eval()(images())
    torch.testing.assert_close(output, module(images()))
    assert not output.requires_grad


def test_digests_depend_on_the_weights_and_not_on_the_path(form: str, tmp_path: Path) -> None:
    name, write, _, _ = WRITERS[form]
    digests = []
    for number, seed in enumerate((0, 1)):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        write(path, Small(seed).eval())
        digests.append(load_model(str(path), trust=True).digest)
    assert digests[0] != digests[1]
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(tmp_path / "0" / name, again)
    assert load_model(str(again / name), trust=True).digest == digests[0]


@pytest.mark.parametrize("form", ["scripted", "exported", "onnx"])
def test_loaded_modules_can_be_compiled(form: str, tmp_path: Path) -> None:
    name, write, _, _ = WRITERS[form]
    module = Small().eval()
    write(tmp_path / name, module)
    compiled = torch.compile(load_model(str(tmp_path / name), trust=True).module, backend="eager")
    with torch.inference_mode():
        torch.testing.assert_close(compiled(images()), module(images()))


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ckpt", "model.safetensors", "model.pth.tar"])
def test_weights_without_a_model_are_rejected(tmp_path: Path, name: str) -> None:
    torch.save(Small().state_dict(), tmp_path / name)
    with pytest.raises(
        UserError, match=r"give the model as package.module:function, .* and its state dict with --weights"
    ):
        load_model(str(tmp_path / name))


def test_weights_are_rejected_for_files_that_contain_weights(form: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--weights w.pth is not allowed for .*: remove --weights"):
        load_model(WRITERS[form][0], "w.pth")


@pytest.mark.parametrize("spec", ["model.pt", "model.pt2", "model.onnx", "model.safetensors"])
def test_missing_files_are_named(spec: str) -> None:
    with pytest.raises(UserError, match=f"file not found: {spec}; give a model file, or package.module:function"):
        load_model(spec)


@pytest.mark.parametrize("spec", ["", "resnet50", "folder/", "a b:c", "model.h5"])
def test_invalid_model_specifications_are_rejected(spec: str) -> None:
    with pytest.raises(UserError, match=r"invalid model .*: use timm:NAME, torchvision:NAME, hf:NAME, FILE.onnx, "):
        load_model(spec)


@pytest.mark.parametrize("library", ["timm", "torchvision", "transformers", "onnx", "onnxruntime", "safetensors"])
def test_missing_libraries_are_named_with_the_install_command(
    library: str, tmp_path: Path, factories: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"{library}.torch", raising=False)
    write_onnx(tmp_path / "model.onnx", Small())
    (tmp_path / "w.safetensors").touch()
    spec = {"timm": "timm:resnet18", "torchvision": "torchvision:resnet18", "transformers": "hf:some/model"}
    weights = str(tmp_path / "w.safetensors") if library == "safetensors" else None
    other = str(tmp_path / "model.onnx") if library.startswith("onnx") else f"{factories}:plain"
    with pytest.raises(UserError, match=f"needs {library}, which is not installed; install it: pip install {library}"):
        load_model(spec.get(library, other), weights)


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ts", "model.pt2", "model.onnx", "model.ckpt"])
def test_an_exploit_in_a_model_file_is_not_run(tmp_path: Path, mark: Path, name: str) -> None:
    for legacy in (False, True):
        torch.save(Attack(mark), tmp_path / name, _use_new_zipfile_serialization=not legacy)
        with pytest.raises(UserError, match=name):
            load_model(str(tmp_path / name))
    (tmp_path / name).write_bytes(pickle.dumps(Attack(mark)))
    with pytest.raises(UserError, match=name):
        load_model(str(tmp_path / name))
    assert not mark.exists()


DAMAGED: dict[str, Callable[[Path, Small], None]] = {
    "model.pt": write_scripted,
    "model.pt2": write_exported,
    "model.onnx": write_onnx,
    "w.pth": lambda path, module: torch.save(module.state_dict(), path),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_raise_only_user_errors(factories: str, tmp_path: Path, name: str) -> None:
    """Change random bytes. Loading must either succeed or raise UserError."""
    path = tmp_path / name
    DAMAGED[name](path, Small(3).eval())
    original = path.read_bytes()
    generator = torch.Generator().manual_seed(5)
    for _ in range(60):
        data = bytearray(original)
        for index in torch.randint(len(data), (4,), generator=generator).tolist():
            data[index] = int(torch.randint(256, (), generator=generator))
        path.write_bytes(data)
        with suppress(UserError):
            load_model(f"{factories}:plain", str(path)) if name == "w.pth" else load_model(str(path), trust=True)


@pytest.mark.parametrize(("name", "record"), [("model.pt", b"Small"), ("model.pt2", b"graph_module")])
def test_a_damaged_record_is_found_before_torch_reads_it(tmp_path: Path, name: str, record: bytes) -> None:
    """Torch's reader can crash the process on such a file."""
    path = tmp_path / name
    DAMAGED[name](path, Small(3).eval())
    data = path.read_bytes()
    assert record in data
    path.write_bytes(data.replace(record, record[::-1]))
    with pytest.raises(UserError, match=f"{name} cannot be loaded: UnsafeZipError: its record .* is damaged"):
        load_model(str(path), trust=True)


@pytest.mark.parametrize("name", ["m.onnx", "m.pt", "m.pt2", "m.safetensors"])
def test_folders_pipes_and_devices_are_rejected(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()
    with pytest.raises(UserError, match=f"{name} cannot be read: .* a folder: .*regular file"):
        load_model(str(path))
    path.rmdir()
    os.mkfifo(path)
    for weights in (None, str(path)):
        with pytest.raises(UserError, match=f"{name} cannot be read: .* a pipe: .*regular file"):
            load_model("tests.factories.small_models:tiny" if weights else str(path), weights)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match="is a device"):
        load_model(str(path))
    with pytest.raises(UserError, match="NUL byte"):
        load_model(f"a\0b/{name}")


def test_files_above_the_size_limits_are_rejected(tmp_path: Path) -> None:
    for size, message in (
        (2**32, "m.onnx was rejected: it has 4294967296 bytes; the limit is 2147483648"),
        (2**20, "m.onnx is not a valid ONNX file"),
    ):
        with (tmp_path / "m.onnx").open("wb") as file:
            file.truncate(size)
        with pytest.raises(UserError, match=f"{message}"):
            load_model(str(tmp_path / "m.onnx"))
    with (tmp_path / "m.pt").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(2**31)
        file.seek(0, 2)
        ends = (0).to_bytes(4, "little") + b"\x60\xea" * 2 + (2**30).to_bytes(4, "little") + bytes(4) + bytes(2)
        file.write(b"PK\x05\x06" + ends)
    with pytest.raises(UserError, match="its zip directory exceeds the maximum of 16777216 bytes"):
        load_model(str(tmp_path / "m.pt"))
