"""ONNX models, run by onnxruntime; the files that a model points to are looked up before it opens them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.archives import first_line
from pipeline.evaluate.models.model_files import optional_library

PROVIDERS: Mapping[str, str] = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""Kind of device -> what onnxruntime calls it."""

DTYPES: Mapping[str, type[np.generic]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}

LARGEST_FILE = 2**31
"""Bytes of an ONNX file, which is one message of protobuf; larger weights are in files beside it."""

LONGEST_LOCATION = 2**13
"""Bytes of where external data are said to be that are read: beyond that it is no path."""

MOST_FIELDS = 4_000_000
"""Fields of a file that are looked through: a few for each operator and tensor."""

_NESTED: Mapping[str, Mapping[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor"},
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "ExternalData"},
}
"""Message -> number of a field -> the message in it, on the ways to external data. Source: onnx.proto."""


class OnnxModel(torch.nn.Module):
    """A model in ONNX. Images (N, 3, H, W) float32 -> its first output, on the images' device.

    ``batch``, ``size``: the number of images and their side, where the model allows one only. Runs on the GPU for
    images that are there, where onnxruntime can. Raises UserError for a file that is none or takes something else.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._sessions: dict[torch.device, Any] = {}
        session = self._session(torch.device("cpu"))
        images, *others = session.get_inputs()
        batch, channels, height, width = images.shape if len(images.shape) == 4 else [None, 0, None, None]
        if others or images.type not in DTYPES or channels == 0 or (isinstance(channels, int) and channels != 3):
            taken = ", ".join(f"{item.name} {item.type} {item.shape}" for item in (images, *others))
            raise UserError(f"{path} takes {taken}; one input of (N, 3, H, W) floats is allowed")
        if isinstance(height, int) and isinstance(width, int) and height != width:
            raise UserError(f"{path} takes images of {width} x {height}; squares are allowed")
        self._input, self._dtype = images.name, DTYPES[images.type]
        self._output = session.get_outputs()[0].name
        # Not as a decorator: it takes seconds to import what it needs.
        self._run = torch.compiler.disable(self._run_session)  # type: ignore[no-untyped-call]
        self.batch = batch if isinstance(batch, int) else None
        self.size = height if isinstance(height, int) else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """What the model gives for a batch."""
        return self._run(images)

    def _run_session(self, images: torch.Tensor) -> torch.Tensor:
        array = np.ascontiguousarray(images.detach().cpu().numpy(), self._dtype)
        (output,) = self._session(images.device).run([self._output], {self._input: array})
        return torch.from_numpy(output).to(images.device)

    def _session(self, device: torch.device) -> Any:
        if device not in self._sessions:
            library = optional_library("onnxruntime", str(self._path))
            options = library.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = 3
            wanted = PROVIDERS.get(device.type, PROVIDERS["cpu"])
            providers: list[Any] = [PROVIDERS["cpu"]]
            if wanted != PROVIDERS["cpu"] and wanted in library.get_available_providers():
                providers.insert(0, (wanted, {"device_id": device.index or 0}))
            try:
                # Without fallback: it prints, and would make light of a GPU that fails.
                self._sessions[device] = library.InferenceSession(
                    str(self._path), options, providers=providers, enable_fallback=0
                )
            except Exception as error:
                raise UserError(f"{self._path} cannot be loaded by onnxruntime: {first_line(error)}") from error
        return self._sessions[device]


def external_files(path: Path) -> list[Path]:
    """The files with a model's weights, besides its own, in the order of their names.

    Raises UserError for what is no ONNX file, and for files that are missing or not in the model's folder or below it.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than the {LARGEST_FILE} bytes allowed")
        data = memoryview(np.memmap(path, np.uint8, "r").data)
        locations = sorted(set(_locations(data, "Model", iter(range(MOST_FIELDS)))))
    except (ValueError, IndexError, RecursionError) as error:
        raise UserError(f"{path} is no sound ONNX file ({first_line(error)})") from error
    folder = path.parent.resolve()
    for location in locations:
        # Links are followed first: neither dots nor links may lead out.
        try:
            inside = (folder / location).resolve().is_relative_to(folder)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"{path} is refused: its weights are at {location[:200]!a}: {first_line(error)}") from error
        if not inside:
            raise UserError(f"{path} is refused: its weights are at {location}, which is not in the model's folder")
        if not (folder / location).is_file():
            raise UserError(f"{path} has weights in {location}, which is missing; put that file beside the model")
    return [folder / location for location in locations]


def _locations(data: memoryview, message: str, left: Iterator[int]) -> Iterator[str]:
    """The locations of all external data in a message. ``left`` has an item for each field that may come yet."""
    entry: dict[int, bytes] = {}
    for number, content in _fields(data, left):
        if message == "ExternalData":
            entry[number] = bytes(content[:LONGEST_LOCATION])
        elif number in _NESTED[message]:
            yield from _locations(content, _NESTED[message][number], left)
    if entry.get(1) == b"location":
        yield entry.get(2, b"").decode()


def _fields(data: memoryview, left: Iterator[int]) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message in protobuf's wire format that hold bytes: number, content. Raises ValueError."""
    position = 0
    while position < len(data):
        if next(left, None) is None:
            raise ValueError(f"more than the {MOST_FIELDS} fields allowed")
        tag, position = _variable(data, position)
        kind = tag & 7
        if tag < 8:
            raise ValueError("a field without a number")
        if kind == 0:
            _, position = _variable(data, position)
            continue
        if kind not in {1, 2, 5}:
            raise ValueError(f"a field of the kind {kind}")
        length, position = _variable(data, position) if kind == 2 else ({1: 8, 5: 4}[kind], position)
        if length > len(data) - position:
            raise ValueError("a field that is longer than the file")
        if kind == 2:
            yield tag >> 3, data[position : position + length]
        position += length


def _variable(data: memoryview, position: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    number = 0
    for place in range(10):
        byte = data[position + place]
        number |= (byte & 127) << (7 * place)
        if byte < 128:
            return number, position + place + 1
    raise ValueError("a number without an end")
