"""ONNX files: what they give, and what they may not point to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import (
    Small,
    images,
    write_onnx,
)


def test_a_file_of_half_precision_is_read(tmp_path: Path) -> None:
    module = Small().eval()
    write_onnx(tmp_path / "model.onnx", module, kind=TensorProto.FLOAT16)
    given = load_model(str(tmp_path / "model.onnx")).module(images())
    torch.testing.assert_close(given.float(), module(images()).detach(), atol=0.02, rtol=0.02)


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
    with pytest.raises(UserError, match=r"has external data in w.bin, which is missing; put it beside the model"):
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
        UserError,
        match=r"refused: its external data are at .*(out|link).bin', (outside of|a link that leads out of) the model's",
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
        ([("x", TensorProto.FLOAT, ["N", 3, 8, 9])], "takes images of 9 x 8; square ones are allowed"),
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
        with pytest.raises(UserError, match=r"is not a valid ONNX file|cannot be loaded by onnxruntime"):
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
