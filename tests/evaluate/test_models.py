"""Models from every form: the outputs of the module that was saved; and files that would do more are refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import IMAGENET_MEAN, IMAGENET_STD, ModelInput, load_model
from tests.conftest import ROOT

SIDE, CLASSES = 8, 5

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning", "ignore:.*LeafSpec:FutureWarning")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Small(torch.nn.Module):
    """A network with what files have to carry: weights, statistics, a constant, sizes computed from the images."""

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
    """The network operator by operator, as torch's exporter would need a package more."""
    weights = {
        name: value.numpy().astype(helper.tensor_dtype_to_np_dtype(kind)) for name, value in module.state_dict().items()
    }
    weights["steps"] = weights["conv.bias"].reshape(1, 4, 1, 1) * 0 + [[[[0]], [[1]], [[2]], [[3]]]]
    constants = {name: value.astype(weights["conv.bias"].dtype) for name, value in weights.items() if value.ndim}
    made = [numpy_helper.from_array(value, name) for name, value in constants.items()]
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
    taken = helper.make_tensor_value_info("images", kind, [batch, 3, side, side])
    given = helper.make_tensor_value_info("logits", kind, [batch, CLASSES])
    graph = helper.make_graph(nodes, "small", [taken], [given], made)
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


@pytest.fixture(params=WRITERS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def test_files_give_the_outputs_of_their_module(form: str, tmp_path: Path) -> None:
    name, write, told, batch = WRITERS[form]
    module = Small().eval()
    write(tmp_path / name, module)
    model = load_model(str(tmp_path / name))
    assert (model.spec, model.input, model.batch) == (str(tmp_path / name), told, batch)
    with torch.inference_mode():
        given = model.module(images())
        assert type(given) is torch.Tensor
        torch.testing.assert_close(given, module(images()))
        if batch is None:
            torch.testing.assert_close(model.module(images(3)), module(images(3)))
            torch.testing.assert_close(model.module(images(1)), module(images(1)))
        if told.size is None and form != "traced":
            torch.testing.assert_close(model.module(images(2, 12)), module(images(2, 12)))


def test_digests_tell_weights_apart(form: str, tmp_path: Path) -> None:
    name, write, _, _ = WRITERS[form]
    digests = []
    for number, seed in enumerate((0, 0, 1)):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        write(path, Small(seed).eval())
        digests.append(load_model(str(path)).digest)
    assert digests[0] != digests[2]
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(tmp_path / "0" / name, again)
    assert load_model(str(again / name)).digest == digests[0]


def test_modules_stay_in_evaluation_mode(form: str, tmp_path: Path) -> None:
    name, write, _, _ = WRITERS[form]
    write(tmp_path / name, Small().eval())
    module = load_model(str(tmp_path / name)).module
    before = module(images())
    assert module.train().training is False
    module.to("cpu").eval()
    torch.testing.assert_close(module(images()), before)
    assert not before.requires_grad


def test_modules_can_be_compiled(form: str, tmp_path: Path) -> None:
    name, write, _, _ = WRITERS[form]
    module = Small().eval()
    write(tmp_path / name, module)
    compiled = torch.compile(load_model(str(tmp_path / name)).module, backend="eager")
    with torch.inference_mode():
        torch.testing.assert_close(compiled(images()), module(images()))


def test_a_file_of_half_precision_is_read(tmp_path: Path) -> None:
    module = Small().eval()
    write_onnx(tmp_path / "model.onnx", module, kind=TensorProto.FLOAT16)
    given = load_model(str(tmp_path / "model.onnx")).module(images())
    torch.testing.assert_close(given.float(), module(images()).detach(), atol=0.02, rtol=0.02)


# Factories


FACTORIES = """
import torch
from tests.evaluate.test_models import Small

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


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package in the current folder, which is not on the path before."""
    package = f"factories_{tmp_path.name.replace('-', '_')}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "made.py").write_text(FACTORIES)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.chdir(tmp_path)
    return f"{package}.made"


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
        ("missing", r"missing.* cannot be made: AttributeError.*; write it as package.module:callable"),
        ("number", "gives a int; a torch.nn.Module is allowed"),
        ("broken", "cannot be made: KeyError: 'weights'"),
        ("unreadable", "cannot be made: RuntimeError: no; an attribute pretrained_cfg or default_cfg"),
        ("oblong", r"tells .*8, 9.*; \(3, H, H\) and three numbers"),
    ],
)
def test_factories_that_cannot_be_used(factories: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_model(f"{factories}:{name}")


@pytest.mark.parametrize(("name", "given"), [("as_features", r"\(2, 5, 1, 1\)"), ("as_nothing", "NoneType")])
def test_outputs_that_are_no_logits(factories: str, name: str, given: str) -> None:
    with pytest.raises(UserError, match=f"the model gives {given}.* for 2 images; logits of"):
        load_model(f"{factories}:{name}").module(images())


# Weights


def test_weights_are_loaded_into_a_factory(factories: str, tmp_path: Path) -> None:
    module = Small(9).eval()
    state = module.state_dict()
    prefixed = {f"module.{name}": value for name, value in state.items()}
    compiled = {f"module._orig_mod.{name}": value for name, value in state.items()}
    outermost = {f"_orig_mod.module.{name}": value for name, value in state.items()}
    contents = [
        state,
        {"state_dict": state, "epoch": 3},
        {"model": prefixed, "best": 0.5},
        {"model_state_dict": compiled},
        outermost,
    ]
    digests = {load_model(f"{factories}:plain").digest}
    for number, content in enumerate(contents):
        for legacy in (False, True):
            path = tmp_path / f"{number}{legacy}.pth"
            torch.save(content, path, _use_new_zipfile_serialization=not legacy)
            model = load_model(f"{factories}:plain", str(path))
            torch.testing.assert_close(model.module(images()), module(images()))
            digests.add(model.digest)
    assert len(digests) == 2


def test_weights_that_do_not_fit_are_named(factories: str, tmp_path: Path) -> None:
    state = Small(9, classes=7).state_dict()
    state["extra"] = state.pop("conv.weight")
    torch.save(state, tmp_path / "w.pth")
    fault = (
        r"w.pth does not fit .*plain: 1 missing \(conv.weight\); 1 unexpected \(extra\); 2 of another shape \(head.bia"
    )
    with pytest.raises(UserError, match=fault):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))
    torch.save({f"blocks.{name}": value for name, value in state.items()}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"9 missing \(conv.bias, conv.weight, head.bias \.\.\.\); 9 unexpected"):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))


def test_complex_weights_do_not_lose_half(factories: str, tmp_path: Path) -> None:
    state = Small(9).state_dict()
    torch.save({**state, "head.bias": state["head.bias"].to(torch.complex64)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"1 of complex numbers.* \(head.bias\)"):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))


def test_weights_that_are_none(factories: str, tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    for content, message in (
        (
            {"epoch": 3, "net": Small().state_dict()},
            "holds no state dict but epoch, net; a state dict is allowed, alone",
        ),
        (torch.zeros(3), "holds no state dict but Tensor"),
        ({1: torch.zeros(3)}, "holds no state dict but 1"),
        (Small(), "asks for .*Small, which weights do not need; save only the state dict"),
    ):
        torch.save(content, path)
        with pytest.raises(UserError, match=message):
            load_model(f"{factories}:plain", str(path))
    for data in (b"", b"junk", b"PK\x03\x04 and no more", torch.serialization.MAGIC_NUMBER.to_bytes(10, "little")):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"w\.pth is refused"):
            load_model(f"{factories}:plain", str(path))
    with pytest.raises(UserError, match=r"there is no file .*absent\.pth; name the file with the model's state dict"):
        load_model(f"{factories}:plain", str(tmp_path / "absent.pth"))


# Messages


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ckpt", "model.safetensors", "model.pth.tar"])
def test_bare_weights_need_a_factory(tmp_path: Path, name: str) -> None:
    torch.save(Small().state_dict(), tmp_path / name)
    with pytest.raises(
        UserError, match=r"name the model as package.module:callable, .* and its state dict with --weights"
    ):
        load_model(str(tmp_path / name))


def test_files_that_hold_weights_take_no_others(form: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--weights w.pth came with .*, which holds its weights; leave --weights out"):
        load_model(WRITERS[form][0], "w.pth")


@pytest.mark.parametrize("spec", ["model.pt", "model.pt2", "model.onnx", "model.safetensors"])
def test_missing_files_are_named(spec: str) -> None:
    with pytest.raises(UserError, match=f"there is no file {spec}; name a model's file, or package.module:callable"):
        load_model(spec)


@pytest.mark.parametrize("spec", ["", "resnet50", "folder/", "a b:c", "model.h5"])
def test_other_texts_name_no_model(spec: str) -> None:
    with pytest.raises(
        UserError, match=r"names no model; allowed are timm:NAME, torchvision:NAME, hf:NAME, FILE.onnx, "
    ):
        load_model(spec)


@pytest.mark.parametrize("library", ["timm", "torchvision", "transformers", "onnxruntime", "safetensors"])
def test_missing_libraries_are_named(
    library: str, tmp_path: Path, factories: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"{library}.torch", raising=False)
    write_onnx(tmp_path / "model.onnx", Small())
    (tmp_path / "w.safetensors").touch()
    spec = {"timm": "timm:resnet18", "torchvision": "torchvision:resnet18", "transformers": "hf:some/model"}
    weights = str(tmp_path / "w.safetensors") if library == "safetensors" else None
    other = str(tmp_path / "model.onnx") if library == "onnxruntime" else f"{factories}:plain"
    with pytest.raises(UserError, match=f"needs {library}, which is not installed; install it: pip install {library}"):
        load_model(spec.get(library, other), weights)


def test_libraries_are_imported_only_when_asked_for() -> None:
    program = "import pipeline.evaluate.models.loading, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"timm", "torchvision", "transformers", "onnxruntime", "onnx", "safetensors", "ray"} & {
        *done.stdout.split()
    }


# Files from others


class Attack:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._command = f"touch {mark}"

    def __reduce__(self):
        return os.system, (self._command,)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that an exploit makes when it runs."""
    return tmp_path / "ran"


def change(path: Path, changes: dict[str, bytes], compress: tuple[str, ...] = ()) -> None:
    """Puts records into an archive of torch, in the place of those with the same name."""
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


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_exploit_in_weights_runs_nothing(
    factories: str, tmp_path: Path, mark: Path, legacy: bool, wrapped: bool
) -> None:
    path = tmp_path / "w.pth"
    state = Small().state_dict()
    state["extra"] = Attack(mark)
    torch.save({"state_dict": state} if wrapped else state, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(UserError, match=r"w\.pth is refused: .* asks for posix.system, which weights do not need"):
        load_model(f"{factories}:plain", str(path))
    assert not mark.exists()
    torch.load(path, weights_only=False)
    assert mark.exists(), "the exploit is none"


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.ts", "model.pt2", "model.onnx", "model.ckpt"])
def test_an_exploit_in_place_of_a_model_runs_nothing(tmp_path: Path, mark: Path, name: str) -> None:
    for legacy in (False, True):
        torch.save(Attack(mark), tmp_path / name, _use_new_zipfile_serialization=not legacy)
        with pytest.raises(UserError, match=name):
            load_model(str(tmp_path / name))
    (tmp_path / name).write_bytes(pickle.dumps(Attack(mark)))
    with pytest.raises(UserError, match=name):
        load_model(str(tmp_path / name))
    assert not mark.exists()


@pytest.mark.parametrize("record", ["data.pkl", "constants.pkl"])
@pytest.mark.parametrize("write", [write_scripted, write_traced])
def test_an_exploit_in_torchscript_runs_nothing(
    tmp_path: Path, mark: Path, record: str, write: Callable[[Path, Small], None]
) -> None:
    path = tmp_path / "model.pt"
    write(path, Small().eval())
    change(path, {record: pickle.dumps(Attack(mark), protocol=2)})
    with pytest.raises(UserError, match=r"model.pt is refused: .* asks for posix.system"):
        load_model(str(path))
    assert not mark.exists()


SAVING = """
class Bad(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def __getstate__(self: __torch__.Bad) -> int:
    return 1
  def __setstate__(self: __torch__.Bad, state: int) -> NoneType:
    {line}
    self.training = False
    return None
  def forward(self: __torch__.Bad, images: Tensor) -> Tensor:
    return images
"""


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('torch.save(torch.zeros([2]), "{mark}")', "save"),
        ('_0 = torch\n    _0.save(torch.zeros([2]), "{mark}")', "save"),
        ('_0 = torch.from_file("{mark}", True, 4)', "from_file"),
        ('getattr(torch, "sa\\x76e")(torch.zeros([2]), "{mark}")', "getattr"),
        ('_0 = torch.zeros([2])\n    _0.save("{mark}")', "save"),
        ("_0 = ops.c10d.barrier", "ops"),
        ("_0 = ops\n    _1 = _0.aten", "ops"),
        ("_0 = __torch__.torch.classes.quantized.Conv2dPackedParamsBase", "classes"),
        (
            "_0 = torch._index_put_impl_(torch.zeros([1]), [torch.tensor([9])], torch.zeros([1]), False, True)",
            "_index_put",
        ),
    ],
)
def test_torchscript_that_runs_when_loaded_is_refused(tmp_path: Path, mark: Path, line: str, named: str) -> None:
    path = tmp_path / "model.pt"
    write_scripted(path, torch.nn.Identity())
    state = b"\x80\x02c__torch__\nBad\nq\x00)\x81K\x01b."
    change(path, {"code/__torch__.py": SAVING.format(line=line.format(mark=mark)).encode(), "data.pkl": state})
    with pytest.raises(UserError, match=rf"names .*{named}.*, which may reach files or memory; export the model with"):
        load_model(str(path))
    assert not mark.exists()


def test_torchscript_does_write_files_when_loaded(tmp_path: Path, mark: Path) -> None:
    """Or the test above proves nothing: torch's own reader, of the same archive."""
    path = tmp_path / "model.pt"
    write_scripted(path, torch.nn.Identity())
    code = SAVING.format(line=f'torch.save(torch.zeros([2]), "{mark}")').encode()
    change(path, {"code/__torch__.py": code, "data.pkl": b"\x80\x02c__torch__\nBad\nq\x00)\x81K\x01b."})
    torch.jit.load(path)
    assert mark.exists()


def graph_of(path: Path) -> dict[str, Any]:
    return json.loads(read(path, "models/model.json"))


def test_an_exploit_in_an_exported_program_runs_nothing(tmp_path: Path, mark: Path) -> None:
    """In the pickles that torch.export.load follows: weights, constants, inputs kept as an example."""
    path = tmp_path / "model.pt2"
    module = Small().eval()
    write_exported(path, module)
    torch.save(Attack(mark), tmp_path / "attack.pt")
    attack = (tmp_path / "attack.pt").read_bytes()
    original = path.read_bytes()
    change(path, {"data/sample_inputs/model.pt": attack})
    torch.testing.assert_close(load_model(str(path)).module(images()), module(images()), check_stride=False)
    for folder in ("weights", "constants"):
        path.write_bytes(original)
        name = f"data/{folder}/model_{folder}_config.json"
        config = json.loads(read(path, name))
        meta = next(iter(json.loads(read(path, "data/weights/model_weights_config.json"))["config"].values()))
        config["config"]["conv.weight"] = {**meta, "path_name": "tensor_99", "use_pickle": True}
        change(path, {name: json.dumps(config).encode(), f"data/{folder}/tensor_99": attack})
        with pytest.raises(UserError, match=r"conv.weight is pickled; export a model of plain tensors"):
            load_model(str(path))
        assert not mark.exists()
        with suppress(Exception):
            torch.export.load(path)
        assert mark.exists(), "the exploit is none"
        mark.unlink()


def test_texts_in_an_exported_program_are_not_evaluated(tmp_path: Path, mark: Path) -> None:
    path = tmp_path / "model.pt2"
    module = Small().eval()
    write_exported(path, module)
    program = graph_of(path)
    sizes = program["graph_module"]["graph"]["tensor_values"]["images"]["sizes"]
    sizes[0]["as_expr"]["expr_str"] = f"__import__('os').system('touch {mark}')"
    program["guards_code"] = [f"__import__('os').system('touch {mark}')"]
    change(path, {"models/model.json": json.dumps(program).encode()})
    torch.testing.assert_close(load_model(str(path)).module(images()), module(images()), check_stride=False)
    assert not mark.exists()
    with suppress(Exception):
        torch.export.load(path)
    assert mark.exists(), "the exploit is none"


@pytest.mark.parametrize(
    "target",
    [
        *("torch.hub.load", "torch.ops.aten.from_file.default", "torch.ops.aten.save.default", "_operator.attrgetter"),
        *("torch.ops.aten._reshape_alias.default", "torch.ops.aten.relu.__class__", "torch.ops.higher_order.cond"),
        *("torch.ops.torchvision.nms.default", "torch.ops.aten.nothing.default", "torch.ops.aten.relu.default.name"),
    ],
)
def test_operators_that_do_more_are_refused(tmp_path: Path, target: str) -> None:
    path = tmp_path / "model.pt2"
    write_exported(path, Small().eval())
    program = graph_of(path)
    program["graph_module"]["graph"]["nodes"][0]["target"] = target
    change(path, {"models/model.json": json.dumps(program).encode()})
    with pytest.raises(UserError, match=f"its program calls {target}; operators of aten that only compute are allowed"):
        load_model(str(path))


def test_exported_programs_that_cannot_be_judged(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    training = torch.export.export(Small().train(), (images(),)).run_decompositions()
    torch.export.save(training, path)
    with pytest.raises(UserError, match=r"changes its own state as in training; export the model after model.eval\(\)"):
        load_model(str(path))

    class Two(Small):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(first + second)

    torch.export.save(torch.export.export(Two().eval(), (images(), images())), path)
    with pytest.raises(UserError, match="it takes 2 inputs; one tensor of images is allowed"):
        load_model(str(path))
    torch.export.save(torch.export.export(Small().double().eval(), (images().double(),)), path)
    with pytest.raises(UserError, match=r"it takes \[2, 3, 8, 8\] of torch.float64; \(N, 3, H, H\) of float32"):
        load_model(str(path))
    write_exported(path, Small().eval())
    program = graph_of(path)
    for damage, message in (
        (
            ("schema_version", {"major": 99, "minor": 0}),
            "its format is .*99.*; 8 is allowed: save it with torch 2.9 on",
        ),
        (("graph_module", {"graph": {}}), "its program is not sound"),
        (("graph_module", []), "its program is not sound"),
    ):
        change(path, {"models/model.json": json.dumps({**program, damage[0]: damage[1]}).encode()})
        with pytest.raises(UserError, match=message):
            load_model(str(path))
    write_exported(path, Small().eval())
    change(path, {"data/weights/weight_0": b"\0" * 16})
    with pytest.raises(UserError, match=r"its program is not sound .*out of bounds"):
        load_model(str(path))
    write_scripted(path, Small().eval())
    with pytest.raises(UserError, match=r"it holds no program of torch.export; write it with torch.export.save"):
        load_model(str(path))


def tensor_pickle(
    count: int, size: int, offset: int = 0, stride: int = 1, item: bytes = b"ctorch\nFloatStorage\n"
) -> bytes:
    """{"w": tensor} as torch.save has it, with numbers of our choice."""
    long = [b"\x8a\x08" + struct.pack("<q", number) for number in (count, offset, size, stride)]
    storage = b"(X\x07\x00\x00\x00storage" + item + b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + long[0] + b"tQ"
    rest = long[1] + long[2] + b"\x85" + long[3] + b"\x85" + b"\x89ccollections\nOrderedDict\n)Rt"
    return b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"Rs."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (tensor_pickle(5, 4), "promises 5 numbers where there are fewer bytes"),
        (tensor_pickle(2**61, 4), "fewer bytes"),
        (tensor_pickle(4, 5), "reaches beyond its bytes"),
        (tensor_pickle(4, 4, offset=1), "reaches beyond"),
        (tensor_pickle(4, 2, stride=4), "reaches beyond"),
        (tensor_pickle(4, 2, stride=-1), "whose shape is none"),
        (tensor_pickle(4, 2, offset=-1), "whose shape is none"),
        (tensor_pickle(2**40, 4, item=b"K\x00"), "refers to something that is no storage"),
        (b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x08\x85R.", "asks for builtins.bytearray"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "asks for more memory|does not fit"),
        (b"\x80\x02X\xff\xff\xff\x7fshort.", "is refused"),
        (b"\x80\x02K\x01K\x02\x85R.", "is refused"),
    ],
)
@pytest.mark.parametrize("torchscript", [False, True])
def test_pickles_cannot_reach_memory(
    factories: str, tmp_path: Path, data: bytes, message: str, torchscript: bool
) -> None:
    path = tmp_path / "model.pt"
    if torchscript:
        write_scripted(path, Small().eval())
    else:
        torch.save({}, path)
    change(path, {"data.pkl": data, "data/0": b"\0" * 16})
    with pytest.raises(UserError, match=message):
        load_model(str(path)) if torchscript else load_model(f"{factories}:plain", str(path))


@pytest.mark.parametrize("bomb", ["compressed numbers", "compressed code", "long pickle", "overlap", "twice"])
def test_zip_bombs_are_refused(factories: str, tmp_path: Path, bomb: str) -> None:
    path = tmp_path / "model.pt"
    write_scripted(path, Small().eval())
    if bomb == "compressed numbers":
        change(path, {"data/0": b"\0" * 2**20}, compress=("data/0",))
    elif bomb == "compressed code":
        code = {f"code/__torch__/bomb{number}.py": b"\n" * 2**25 for number in range(3)}
        change(path, code, compress=tuple(code))
    elif bomb == "long pickle":
        change(path, {"data.pkl": b"\x80\x02" + b"]" * 2**25 + b"."}, compress=("data.pkl",))
    elif bomb == "overlap":
        _overlap(path)
    else:
        change(path, {"DATA.pkl": b""})
    message = (
        r"is compressed, as no tensor is|33554435 bytes; 16777216 are allowed|overlap, unfold beyond measure, or have"
    )
    with pytest.raises(UserError, match=message):
        load_model(str(path))
    with pytest.raises(UserError, match=f"{message}|asks for __torch__"):
        load_model(f"{factories}:plain", str(path))


def _overlap(path: Path) -> None:
    """Lets many entries of the directory share the bytes of one record."""
    with zipfile.ZipFile(path) as archive:
        stored = [info for info in archive.infolist() if info.compress_type == zipfile.ZIP_STORED]
    largest = max(stored, key=lambda info: info.file_size)
    data = path.read_bytes()
    end = data.rindex(b"PK\x05\x06")
    size, start = struct.unpack("<LL", data[end + 12 : end + 20])
    entries = data[start : start + size]
    place = entries.index(largest.filename.encode()) - 46
    length = len(largest.filename)
    for number in range(1000):
        entries += entries[place : place + 46] + f"{number:{length}d}".encode()
    count = struct.unpack("<H", data[end + 10 : end + 12])[0] + 1000
    tail = data[end : end + 8] + struct.pack("<HHLL", count, count, len(entries), start) + data[end + 20 :]
    path.write_bytes(data[:start] + entries + tail)


DAMAGED: dict[str, Callable[[Path, Small], None]] = {
    "model.pt": write_scripted,
    "model.pt2": write_exported,
    "model.onnx": write_onnx,
    "w.pth": lambda path, module: torch.save(module.state_dict(), path),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_never_escapes(factories: str, tmp_path: Path, name: str) -> None:
    """Bytes changed at random: a model, or a UserError."""
    path = tmp_path / name
    DAMAGED[name](path, Small(3).eval())
    original = path.read_bytes()
    generator = torch.Generator().manual_seed(5)
    for _ in range(60):
        data = bytearray(original)
        for place in torch.randint(len(data), (4,), generator=generator).tolist():
            data[place] = int(torch.randint(256, (), generator=generator))
        path.write_bytes(data)
        with suppress(UserError):
            load_model(f"{factories}:plain", str(path)) if name == "w.pth" else load_model(str(path))


# ONNX


def test_weights_beside_an_onnx_file(tmp_path: Path) -> None:
    module = Small().eval()
    more = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    write_onnx(tmp_path / "model.onnx", module, **more)
    model = load_model(str(tmp_path / "model.onnx"))
    torch.testing.assert_close(model.module(images()), module(images()))
    data = bytearray((tmp_path / "w.bin").read_bytes())
    data[0] ^= 1
    (tmp_path / "w.bin").write_bytes(data)
    assert load_model(str(tmp_path / "model.onnx")).digest != model.digest
    (tmp_path / "w.bin").unlink()
    with pytest.raises(UserError, match=r"has weights in w.bin, which is missing; put that file beside the model"):
        load_model(str(tmp_path / "model.onnx"))


@pytest.mark.parametrize("place", ["initializer", "constant", "branch", "function", "sparse"])
@pytest.mark.parametrize(
    "location", ["../out.bin", "{folder}/out.bin", "link.bin", "linked/out.bin", "sub/../../out.bin"]
)
def test_onnx_files_stay_in_their_folder(tmp_path: Path, location: str, place: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "out.bin").write_bytes(bytes(range(12)) * 2)
    (folder / "link.bin").symlink_to("../out.bin")
    (folder / "linked").symlink_to("..")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("offset", "0"), ("location", location.format(folder=tmp_path)), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 2, 2])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constant = helper.make_node("Constant", [], ["w"], value=tensor)
    inner = helper.make_graph([constant], "branch", [], [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)])
    nodes = {
        "initializer": [],
        "constant": [constant],
        "branch": [helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner)],
        "function": [helper.make_node("Weights", [], ["w"], domain="own")],
        "sparse": [],
    }[place]
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([*nodes, product], "g", [taken], [given], [tensor] if place == "initializer" else [])
    if place == "sparse":
        graph.sparse_initializer.add().values.CopyFrom(tensor)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "Weights", [], ["w"], [constant], imports)] if place == "function" else []
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(
        UserError, match=r"is refused: its weights are at .*out.bin|link.bin, which is not in the model's"
    ):
        load_model(str(folder / "model.onnx"))


def test_onnx_files_that_cannot_be_judged(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for inputs, message in (
        (
            [("x", TensorProto.FLOAT, ["N", 3])],
            r"takes x tensor\(float\) \['N', 3\]; one input of \(N, 3, H, W\) floats",
        ),
        ([("x", TensorProto.UINT8, ["N", 3, 8, 8])], r"takes x tensor\(uint8\)"),
        ([("x", TensorProto.FLOAT, ["N", 8, 8, 3])], r"takes x tensor\(float\) \['N', 8, 8, 3\]"),
        ([("x", TensorProto.FLOAT, ["N", 3, 8, 9])], "takes images of 9 x 8; squares are allowed"),
        ([("x", TensorProto.FLOAT, ["N", 3, 8, 8]), ("z", TensorProto.FLOAT, [1])], r"takes x .*, z tensor\(float\)"),
    ):
        taken = [helper.make_tensor_value_info(*each) for each in inputs]
        given = helper.make_tensor_value_info("y", inputs[0][1], inputs[0][2])
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", taken, [given])
        onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        with pytest.raises(UserError, match=message):
            load_model(str(path))
    for data in (b"", b"junk", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x08\x08"):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"is no sound ONNX file|cannot be loaded by onnxruntime"):
            load_model(str(path))


def test_onnx_runs_on_the_gpu_where_the_images_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that would be made; this machine has none."""
    import onnxruntime

    write_onnx(tmp_path / "model.onnx", Small())
    module: Any = load_model(str(tmp_path / "model.onnx")).module.inner
    asked: list[Any] = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, providers, **__: asked.append(providers))
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    module._session(torch.device("cuda", 1))
    assert asked == [[("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"]]
