"""Tests of TorchScript and torch.export files, which are loaded only if trusted."""

import json
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import (
    TORCH_FORMS,
    WRITERS,
    Attack,
    Small,
    change,
    images,
    read,
    write_exported,
    write_scripted,
    write_traced,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*", "ignore:.*LeafSpec:FutureWarning")

SAVING = """
class Bad(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def __getstate__(self: __torch__.Bad) -> int:
    return 1
  def __setstate__(self: __torch__.Bad, state: int) -> NoneType:
    torch.save(torch.zeros([2]), "{mark}")
    self.training = False
    return None
  def forward(self: __torch__.Bad, images: Tensor) -> Tensor:
    return images
"""
"""TorchScript that writes a file when it is loaded."""


@pytest.mark.parametrize("form", TORCH_FORMS)
def test_files_that_can_run_code_require_trust(form: str, tmp_path: Path) -> None:
    name, write, _, _ = WRITERS[form]
    write(tmp_path / name, Small().eval())
    kind = "torch.export" if name.endswith("pt2") else "TorchScript"
    with pytest.raises(
        UserError, match=f"{name} is a {kind} file, which can run code: add --trust-model if you trust its origin"
    ):
        load_model(str(tmp_path / name))


def test_torchscript_runs_only_when_trusted(tmp_path: Path, mark: Path) -> None:
    path = tmp_path / "model.pt"
    write_scripted(path, torch.nn.Identity())
    state = b"\x80\x02c__torch__\nBad\nq\x00)\x81K\x01b."
    change(path, {"code/__torch__.py": SAVING.format(mark=mark).encode(), "data.pkl": state})
    with pytest.raises(UserError, match="--trust-model"):
        load_model(str(path))
    assert not mark.exists()
    with warnings.catch_warnings(action="error"):
        load_model(str(path), trust=True)
    assert mark.exists(), "the exploit does not work"


@pytest.mark.parametrize("record", ["data.pkl", "constants.pkl"])
@pytest.mark.parametrize("write", [write_scripted, write_traced])
def test_an_exploit_in_torchscript_is_not_run(
    tmp_path: Path, mark: Path, record: str, write: Callable[[Path, Small], None]
) -> None:
    path = tmp_path / "model.pt"
    write(path, Small().eval())
    change(path, {record: pickle.dumps(Attack(mark), protocol=2)})
    for trust in (False, True):  # torch's TorchScript reader cannot call Python functions
        with pytest.raises(UserError, match=r"model\.pt"):
            load_model(str(path), trust=trust)
        assert not mark.exists()


@pytest.mark.parametrize("folder", ["weights", "constants"])
def test_an_exploit_in_an_exported_program_runs_only_when_trusted(tmp_path: Path, mark: Path, folder: str) -> None:
    path = tmp_path / "model.pt2"
    write_exported(path, Small().eval())
    torch.save(Attack(mark), tmp_path / "attack.pt")
    name = f"data/{folder}/model_{folder}_config.json"
    config = json.loads(read(path, name))
    meta = next(iter(json.loads(read(path, "data/weights/model_weights_config.json"))["config"].values()))
    config["config"]["conv.weight"] = {**meta, "path_name": "tensor_99", "use_pickle": True}
    attack = (tmp_path / "attack.pt").read_bytes()
    change(path, {name: json.dumps(config).encode(), f"data/{folder}/tensor_99": attack})
    with pytest.raises(UserError, match="--trust-model"):
        load_model(str(path))
    assert not mark.exists()
    with suppress(UserError):
        load_model(str(path), trust=True)
    assert mark.exists(), "the exploit does not work"


def test_expressions_in_an_exported_program_run_only_when_trusted(tmp_path: Path, mark: Path) -> None:
    path = tmp_path / "model.pt2"
    write_exported(path, Small().eval())
    program = graph_of(path)
    program["guards_code"] = [f"__import__('os').system('touch {mark}')"]
    sizes = program["graph_module"]["graph"]["tensor_values"]["images"]["sizes"]
    sizes[0]["as_expr"]["expr_str"] = f"__import__('os').system('touch {mark}')"
    change(path, {"models/model.json": json.dumps(program).encode()})
    with pytest.raises(UserError, match="--trust-model"):
        load_model(str(path))
    assert not mark.exists()
    with suppress(UserError):
        load_model(str(path), trust=True)
    assert mark.exists(), "the exploit does not work"


def graph_of(path: Path) -> dict[str, Any]:
    return json.loads(read(path, "models/model.json"))


def test_programs_in_training_mode_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    training = torch.export.export(Small().train(), (images(),)).run_decompositions()
    torch.export.save(training, path)
    with pytest.raises(UserError, match=r"modifies its own state, .*: export the model after model.eval\(\)"):
        load_model(str(path), trust=True)


def test_programs_with_other_inputs_are_rejected(tmp_path: Path) -> None:
    class Two(Small):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(first + second)

    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Two().eval(), (images(), images())), path)
    with pytest.raises(UserError, match="takes 2 inputs: export it with one tensor of images"):
        load_model(str(path), trust=True)
    torch.export.save(torch.export.export(Small().double().eval(), (images().double(),)), path)
    with pytest.raises(
        UserError, match=r"takes \[2, 3, 8, 8\] of torch.float64: export it for images \(N, 3, H, H\) of torch.float32"
    ):
        load_model(str(path), trust=True)


def test_files_that_torch_cannot_load_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    write_scripted(path, Small().eval())
    with pytest.raises(UserError, match=r"model.pt2 cannot be loaded: .*; save it with torch.export.save"):
        load_model(str(path), trust=True)
    write_exported(path, Small().eval())
    change(path, {"models/model.json": json.dumps({**graph_of(path), "graph_module": []}).encode()})
    with pytest.raises(UserError, match=r"model.pt2 cannot be loaded: "):
        load_model(str(path), trust=True)
    path = tmp_path / "model.pt"
    write_scripted(path, Small().eval())
    change(path, {"code/__torch__/tests/factories/models.py": b"not TorchScript"})
    with pytest.raises(UserError, match=r"model.pt cannot be loaded: .*; save it with torch.jit.save"):
        load_model(str(path), trust=True)


def test_moved_programs_use_the_new_device_in_their_graph(tmp_path: Path) -> None:
    """``Small`` creates a constant on the device it was exported on. The meta device replaces a GPU."""
    path = tmp_path / "model.pt2"
    write_exported(path, Small().eval())
    module = load_model(str(path), trust=True).module.to("meta")
    assert module(images().to("meta")).device.type == "meta"
