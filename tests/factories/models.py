"""A small network, functions that write it in each file format, and malicious files."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from pipeline.evaluate.models.base import ModelInput

SIDE, CLASSES = 8, 5


class Small(torch.nn.Module):
    """A network with everything a file must store: weights, statistics, a constant and computed sizes."""

    def __init__(self, seed: int = 0, classes: int = CLASSES) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(16, classes)
        torch.nn.init.uniform_(self.norm.running_mean)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.nn.functional.gelu(self.norm(self.conv(images)), approximate="tanh")
        features = features + torch.arange(4.0, device=images.device).view(1, 4, 1, 1)
        first, second = torch.nn.functional.adaptive_avg_pool2d(features, 2).chunk(2, 1)
        return self.head(torch.cat([second, first], 1).reshape(images.shape[0], -1))


def images(count: int = 2, side: int = SIDE) -> torch.Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def write_scripted(path: Path, module: torch.nn.Module) -> None:
    torch.jit.script(module).save(path)


def write_traced(path: Path, module: torch.nn.Module) -> None:
    torch.jit.trace(module, images()).save(path)


def write_frozen(path: Path, module: torch.nn.Module) -> None:
    torch.jit.freeze(torch.jit.script(module)).save(path)


def write_exported(path: Path, module: torch.nn.Module, dynamic: tuple[int, ...] = (0,)) -> None:
    shapes = dict.fromkeys(dynamic, torch.export.Dim.AUTO)
    torch.export.save(torch.export.export(module, (images(),), dynamic_shapes=(shapes,)), path)


def write_exported_static(path: Path, module: torch.nn.Module) -> None:
    write_exported(path, module, ())


def write_exported_free(path: Path, module: torch.nn.Module) -> None:
    write_exported(path, module, (0, 2, 3))


def write_onnx(
    path: Path, module: Small, batch: int | str = "N", side: int | str = SIDE, kind: int = TensorProto.FLOAT, **more
) -> None:
    """Write the network operator by operator. torch's exporter would need another package."""
    weights = {
        name: value.numpy().astype(helper.tensor_dtype_to_np_dtype(kind)) for name, value in module.state_dict().items()
    }
    weights["steps"] = weights["conv.bias"].reshape(1, 4, 1, 1) * 0 + [[[[0]], [[1]], [[2]], [[3]]]]
    constants = {name: value.astype(weights["conv.bias"].dtype) for name, value in weights.items() if value.ndim}
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    statistics = ["norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    nodes = [
        helper.make_node("Conv", ["images", "conv.weight", "conv.bias"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", *statistics], ["b"]),
        helper.make_node("Gelu", ["b"], ["c"], approximate="tanh"),
        helper.make_node("Add", ["c", "steps"], ["d"]),
        helper.make_node("AveragePool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Split", ["e"], ["f", "g"], axis=1, num_outputs=2),
        helper.make_node("Concat", ["g", "f"], ["h"], axis=1),
        helper.make_node("Flatten", ["h"], ["i"]),
        helper.make_node("Gemm", ["i", "head.weight", "head.bias"], ["logits"], transB=1),
    ]
    inputs = helper.make_tensor_value_info("images", kind, [batch, 3, side, side])
    outputs = helper.make_tensor_value_info("logits", kind, [batch, CLASSES])
    graph = helper.make_graph(nodes, "small", [inputs], [outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save_model(model, path, **more)


def write_onnx_static(path: Path, module: Small) -> None:
    write_onnx(path, module, batch=2)


WRITERS: dict[str, tuple[str, Callable[[Path, Small], None], ModelInput, int | None]] = {
    "scripted": ("model.pt", write_scripted, ModelInput(), None),
    "traced": ("model.torchscript", write_traced, ModelInput(), None),
    "frozen": ("model.ts", write_frozen, ModelInput(), None),
    "exported": ("model.pt2", write_exported, ModelInput(SIDE), None),
    "exported, static": ("model.pt2", write_exported_static, ModelInput(SIDE), 2),
    "exported, any size": ("model.pt2", write_exported_free, ModelInput(), None),
    "onnx": ("model.onnx", write_onnx, ModelInput(SIDE), None),
    "onnx, static": ("model.onnx", write_onnx_static, ModelInput(SIDE), 2),
}


TORCH_FORMS = [form for form in WRITERS if "onnx" not in form]
"""Formats that torch loads, for users who trust the file."""


FACTORIES = """
import torch
from tests.factories.models import Small

def plain():
    return Small(3)

def described():
    module = Small(3)
    module.default_cfg = {"input_size": (3, 8, 8), "mean": (0.5, 0.5, 0.5), "std": [1, 1, 2]}
    return module

class Unreadable(Small):
    @property
    def default_cfg(self):
        raise RuntimeError("no")

def unreadable():
    return Unreadable(3)

def oblong():
    module = Small(3)
    module.pretrained_cfg = {"input_size": (3, 8, 9)}
    return module

class Wrapped(torch.nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.inner, self.wrap = Small(3), wrap
    def forward(self, images):
        return self.wrap(self.inner(images))

class Output(dict):
    @property
    def logits(self):
        return self["logits"]

def as_dictionary(): return Wrapped(lambda logits: {"loss": None, "logits": logits})
def as_object(): return Wrapped(lambda logits: type("Output", (), {"logits": logits, "states": None}))
def as_tuple(): return Wrapped(lambda logits: (logits, logits.sum()))
def as_features(): return Wrapped(lambda logits: logits[:, :, None, None])
def as_nothing(): return Wrapped(lambda logits: None)

def trusting():
    torch.save(Small(3), "own.pth")
    return torch.load("own.pth", weights_only=False)

def number(): return 3
def broken(): raise KeyError("weights")
class Namespace:
    nested = staticmethod(plain)
"""


class Attack:
    """An object that runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._command = f"touch {mark}"

    def __reduce__(self):
        return os.system, (self._command,)


def change(path: Path, changes: dict[str, bytes], compress: tuple[str, ...] = ()) -> None:
    """Add records to an archive of torch, or replace those with the same name."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    folder = next(iter(contents)).split("/")[0]
    contents |= {f"{folder}/{name}": data for name, data in changes.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            deflate = name.removeprefix(f"{folder}/") in compress
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED)


def read(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(found for found in archive.namelist() if found.endswith(f"/{name}")))
