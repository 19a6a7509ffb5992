"""Tests of ONNX models: outputs, external data, inputs and devices."""

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from tests.factories.models import Small, images, write_onnx


def test_float16_models_are_run(tmp_path: Path) -> None:
    module = Small().eval()
    write_onnx(tmp_path / "model.onnx", module, kind=TensorProto.FLOAT16)
    output = load_model(str(tmp_path / "model.onnx")).module(images())
    torch.testing.assert_close(output.float(), module(images()).detach(), atol=0.02, rtol=0.02)


def test_external_data_are_loaded_and_change_the_digest(tmp_path: Path) -> None:
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
    with pytest.raises(UserError, match=r"needs w.bin, which is missing: put it next to the model"):
        load_model(str(tmp_path / "model.onnx"))


@pytest.mark.parametrize("place", ["initializer", "constant", "branch", "function", "sparse"])
@pytest.mark.parametrize(
    "location", ["../out.bin", "{folder}/out.bin", "link.bin", "linked/out.bin", "sub/../../out.bin"]
)
def test_external_data_outside_the_folder_of_the_model_are_rejected(tmp_path: Path, location: str, place: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "out.bin").write_bytes(bytes(range(12)) * 2)
    (folder / "link.bin").symlink_to("../out.bin")
    (folder / "linked").symlink_to("..")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("offset", "0"), ("location", location.format(folder=tmp_path)), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    inputs_of_graph = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 2, 2])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
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
    graph = helper.make_graph(
        [*nodes, product], "g", [inputs_of_graph], [output], [tensor] if place == "initializer" else []
    )
    if place == "sparse":
        graph.sparse_initializer.add().values.CopyFrom(tensor)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "Weights", [], ["w"], [constant], imports)] if place == "function" else []
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(
        UserError,
        match=r"rejected: its external data are in .*(out|link).bin', (outside|a link to a file outside) the folder",
    ):
        load_model(str(folder / "model.onnx"))


def test_unsupported_inputs_and_invalid_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for inputs, message in (
        (
            [("x", TensorProto.FLOAT, ["N", 3])],
            r"takes x tensor\(float\) \['N', 3\]: export it with one float input \(N, 3, H, W\)",
        ),
        ([("x", TensorProto.UINT8, ["N", 3, 8, 8])], r"takes x tensor\(uint8\)"),
        ([("x", TensorProto.FLOAT, ["N", 8, 8, 3])], r"takes x tensor\(float\) \['N', 8, 8, 3\]"),
        ([("x", TensorProto.FLOAT, ["N", 3, 8, 9])], "takes images of 9 x 8: export it for square images"),
        ([("x", TensorProto.FLOAT, ["N", 3, 8, 8]), ("z", TensorProto.FLOAT, [1])], r"takes x .*, z tensor\(float\)"),
    ):
        inputs_of_graph = [helper.make_tensor_value_info(*each) for each in inputs]
        output = helper.make_tensor_value_info("y", inputs[0][1], inputs[0][2])
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", inputs_of_graph, [output])
        onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        with pytest.raises(UserError, match=message):
            load_model(str(path))
    for data in (b"", b"junk", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x08\x08"):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"is not a valid ONNX file|cannot be loaded by onnxruntime"):
            load_model(str(path))


def test_sessions_use_the_gpu_of_the_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test records the requested providers, since it must not need a GPU."""
    import onnxruntime

    write_onnx(tmp_path / "model.onnx", Small())
    module: Any = load_model(str(tmp_path / "model.onnx")).module.inner
    requested: list[Any] = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, providers, **__: requested.append(providers))
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    module._session(torch.device("cuda", 1))
    assert requested == [[("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"]]
