"""ONNX models, run by onnxruntime. The files that a model points to are checked before it opens them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.guards import first_line, optional_library
from pipeline.storage import open_regular
from pipeline.text import shown

PROVIDERS: Mapping[str, str] = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""Kind of device -> its name in onnxruntime."""

DTYPES: Mapping[str, type[np.generic]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}

MAX_FILE = 2**31
"""Bytes of an ONNX file, which is one message of protobuf; larger weights are in files beside it."""


class OnnxModel(torch.nn.Module):
    """An ONNX model. Images (N, 3, H, W) float32 -> its first output, on the images' device.

    ``batch``, ``size``: the only number of images and the only side that it takes, None for any. Images on a GPU run
    there if onnxruntime supports it.

    Raises:
        UserError: onnxruntime cannot load it, or it takes something else.
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
            raise UserError(f"{path} takes images of {width} x {height}; square ones are allowed")
        self._input, self._dtype = images.name, DTYPES[images.type]
        self._output = session.get_outputs()[0].name
        # Not as a decorator: its import takes seconds.
        self._run = torch.compiler.disable(self._run_session)  # type: ignore[no-untyped-call]
        self.batch = batch if isinstance(batch, int) else None
        self.size = height if isinstance(height, int) else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the model's first output for a batch."""
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
                # Without fallback: it prints, and hides a GPU that fails.
                self._sessions[device] = library.InferenceSession(
                    str(self._path), options, providers=providers, enable_fallback=0
                )
            except Exception as error:
                raise UserError(f"{self._path} cannot be loaded by onnxruntime: {first_line(error)}") from error
        return self._sessions[device]


def external_files(path: Path) -> list[Path]:
    """Return the files with a model's external data, in the order of their names.

    Raises:
        UserError: The file is not ONNX, or its data are missing or outside of the model's folder.
    """
    library = optional_library("onnx", str(path))
    if path.stat().st_size > MAX_FILE:
        raise UserError(f"{path} is refused: it has {path.stat().st_size} bytes; at most {MAX_FILE} are allowed")
    try:
        model = library.load_model(path, format="protobuf", load_external_data=False)
        locations = sorted({location for tensor in _tensors(model) for location in _locations(tensor)})
    except Exception as error:  # protobuf has errors of its own
        raise UserError(f"{path} is not a valid ONNX file ({first_line(error)})") from error
    return [_external_file(path, location) for location in locations]


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a protobuf message, however deep: in graphs, nodes, branches, functions."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto":
                yield part
            else:
                yield from _tensors(part)


def _locations(tensor: Any) -> list[str]:
    """Return where a tensor's external data are, as a path relative to the model."""
    return [entry.value for entry in tensor.external_data if entry.key == "location"]


def _external_file(path: Path, location: str) -> Path:
    """Return a regular file in the folder of a model. Raise UserError for any other."""
    refused = f"{path} is refused: its external data are at {shown(location)}"
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise UserError(f"{refused}, outside of the model's folder; a relative path without '..' is allowed")
    folder = path.parent.resolve()
    try:
        file = (folder / location).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{refused}: {first_line(error)}") from error
    if not file.is_relative_to(folder):
        raise UserError(f"{refused}, a link that leads out of the model's folder; put the file itself there")
    try:
        open_regular(file).close()
    except FileNotFoundError:
        raise UserError(f"{path} has external data in {location}, which is missing; put it beside the model") from None
    except OSError as error:
        raise UserError(f"{refused}: {error.strerror}") from error
    return folder / location
