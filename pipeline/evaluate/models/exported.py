"""Programs of torch.export (.pt2), run from the graph in the file.

torch.export.load is for trusted files only: it unpickles what a file asks it to, evaluates the texts that describe
sizes, compiles names of the graph into Python, and loads machine code. Here a graph is data: its steps are operators of
aten, called one after the other on tensors, and its weights are plain bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.archives import Archive, first_line
from pipeline.evaluate.models.graphs import DTYPES, read_graph

SCHEMA = 8
"""Major version of the graph's format, that of torch 2.9 to 2.13."""

MODEL, WEIGHTS, CONSTANTS = "models/model.json", "data/weights/", "data/constants/"


class ExportedProgram(torch.nn.Module):
    """The program in a file of torch.export.save. Images (N, 3, H, W) float32 -> its tensor, or a tuple of several.

    ``batch``, ``size``: the number of images and their side, where the program was exported for one only. Raises
    UserError for a file that is none and for programs with other operators than those of aten.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            with Archive(path) as archive:
                self._read(archive)
        except UserError:
            raise
        except Exception as error:  # a graph that is not built as torch builds it fails nearly anywhere
            raise UserError(f"{path} is refused: its program is not sound ({first_line(error)})") from error

    def forward(self, images: torch.Tensor) -> Any:
        """What the program gives for a batch. Raises as its operators do."""
        weights = iter(self.buffers())
        inputs = [images if name == self._images else next(weights) for name in self._graph.inputs]
        outputs = self._graph.run(images.device, *inputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _read(self, archive: Archive) -> None:
        if MODEL not in archive or archive.read("archive_format") != b"pt2":
            raise archive.refusal("it holds no program of torch.export; write it with torch.export.save (torch 2.9 on)")
        program = json.loads(archive.read(MODEL))
        if program["schema_version"]["major"] != SCHEMA:
            raise archive.refusal(
                f"its format is {program['schema_version']}; {SCHEMA} is allowed: save it with torch 2.9 on"
            )
        graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
        if any(set(output) != {"user_output"} for output in signature["output_specs"]):
            raise archive.refusal("it changes its own state as in training; export the model after model.eval()")
        self._graph = read_graph(archive, graph)
        self._read_inputs(archive, graph, signature["input_specs"])

    def _read_inputs(self, archive: Archive, graph: dict[str, Any], inputs: list[dict[str, Any]]) -> None:
        stored = {**_tensors(archive, WEIGHTS), **_tensors(archive, CONSTANTS)}
        images: list[str] = []
        for item, name in zip(inputs, self._graph.inputs, strict=True):
            ((kind, content),) = item.items()
            if kind in {"parameter", "buffer", "tensor_constant"}:
                self.register_buffer(f"tensor{len(self._buffers)}", stored[content[f"{kind}_name"]])
            elif kind == "user_input" and set(content["arg"]) == {"as_tensor"}:
                images.append(name)
            else:
                raise archive.refusal(f"it has an input of the kind {kind}; one tensor of images is allowed")
        if len(images) != 1:
            raise archive.refusal(f"it takes {len(images)} inputs; one tensor of images is allowed")
        self._images = images[0]
        shape = graph["tensor_values"][self._images]
        sizes = [size.get("as_int") for size in shape["sizes"]]
        if (
            DTYPES.get(shape["dtype"]) != torch.float32
            or len(sizes) != 4
            or sizes[1] not in {3, None}
            or sizes[2] != sizes[3]
        ):
            raise archive.refusal(
                f"it takes {sizes} of {DTYPES.get(shape['dtype'])}; (N, 3, H, H) of float32 is allowed"
            )
        self.batch: int | None = sizes[0]
        self.size: int | None = sizes[2]


def _tensors(archive: Archive, folder: str) -> dict[str, torch.Tensor]:
    """The tensors of a folder of the archive, those that share bytes still sharing them."""
    config = json.loads(archive.read(f"{folder}model_{folder.split('/')[1]}_config.json"))["config"]
    contents: dict[str, bytearray] = {}
    tensors = {}
    for name, item in config.items():
        if item["use_pickle"]:
            raise archive.refusal(f"{name} is pickled; export a model of plain tensors")
        record, meta = item["path_name"], item["tensor_meta"]
        if record not in contents:
            contents[record] = bytearray(archive.numbers(folder + record))
        dtype = DTYPES[meta["dtype"]]
        flat = torch.frombuffer(contents[record], dtype=dtype) if contents[record] else torch.empty(0, dtype=dtype)
        sizes, strides = ([size["as_int"] for size in meta[key]] for key in ("sizes", "strides"))
        tensors[name] = flat.as_strided(sizes, strides, meta["storage_offset"]["as_int"])  # refuses to leave its bytes
    return tensors
