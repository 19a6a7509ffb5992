"""TorchScript and torch.export files."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import (
    Attack,
    Small,
    change,
    images,
    read,
    write_exported,
    write_scripted,
    write_traced,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning", "ignore:.*LeafSpec:FutureWarning")


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
