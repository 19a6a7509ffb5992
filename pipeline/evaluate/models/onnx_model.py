"""ONNX models, run by onnxruntime. External data files are checked before onnxruntime opens them."""

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
"""Mapping from torch device type to onnxruntime provider."""

DTYPES: Mapping[str, type[np.generic]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}

MAX_FILE_BYTES = 2**31
"""Maximum size of an ONNX file in bytes, the limit of protobuf. Larger models store weights in external files."""


class OnnxModel(torch.nn.Module):
    """An ONNX model that maps images, float32 of shape (N, 3, H, W), to its first output.

    The output is on the device of the images. Images on a GPU are processed there if onnxruntime supports it.

    Attributes:
        batch: Fixed batch size. None accepts any batch size.
        size: Fixed side of the images in pixels. None accepts any size.

    Raises:
        UserError: onnxruntime cannot load the file, or the model input is not one batch of square RGB images.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._sessions: dict[torch.device, Any] = {}
        session = self._session(torch.device("cpu"))
        images, *others = session.get_inputs()
        batch, channels, height, width = images.shape if len(images.shape) == 4 else [None, 0, None, None]
        if others or images.type not in DTYPES or channels == 0 or (isinstance(channels, int) and channels != 3):
            inputs = ", ".join(f"{item.name} {item.type} {item.shape}" for item in (images, *others))
            raise UserError(f"{path} takes {inputs}: export it with one float input (N, 3, H, W)")
        if isinstance(height, int) and isinstance(width, int) and height != width:
            raise UserError(f"{path} takes images of {width} x {height}: export it for square images")
        self._input, self._dtype = images.name, DTYPES[images.type]
        self._output = session.get_outputs()[0].name
        # Not used as a decorator, because importing torch.compiler takes seconds.
        self._run = torch.compiler.disable(self._run_session)  # type: ignore[no-untyped-call]
        self.batch = batch if isinstance(batch, int) else None
        self.size = height if isinstance(height, int) else None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the first output of the model for a batch of images."""
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
            provider = PROVIDERS.get(device.type, PROVIDERS["cpu"])
            providers: list[Any] = [PROVIDERS["cpu"]]
            if provider != PROVIDERS["cpu"] and provider in library.get_available_providers():
                providers.insert(0, (provider, {"device_id": device.index or 0}))
            try:
                # The fallback would print, and hide that a GPU fails.
                self._sessions[device] = library.InferenceSession(
                    str(self._path), options, providers=providers, enable_fallback=0
                )
            except Exception as error:
                raise UserError(f"{self._path} cannot be loaded by onnxruntime: {first_line(error)}") from error
        return self._sessions[device]


def external_files(path: Path) -> list[Path]:
    """Return the external data files of an ONNX model, sorted by name.

    Raises:
        UserError: The file is not ONNX, or an external file is missing or outside the folder of the model.
    """
    library = optional_library("onnx", str(path))
    if path.stat().st_size > MAX_FILE_BYTES:
        raise UserError(f"{path} was rejected: it has {path.stat().st_size} bytes; the limit is {MAX_FILE_BYTES}")
    try:
        model = library.load_model(path, format="protobuf", load_external_data=False)
        locations = sorted({location for tensor in _tensors(model) for location in _locations(tensor)})
    except Exception as error:  # protobuf defines its own exception types
        raise UserError(f"{path} is not a valid ONNX file ({first_line(error)})") from error
    return [_external_file(path, location) for location in locations]


def _tensors(message: Any) -> Iterator[Any]:
    """Yield all tensors in a protobuf message, including those of nested graphs, nodes and functions."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto":
                yield part
            else:
                yield from _tensors(part)


def _locations(tensor: Any) -> list[str]:
    """Return the paths of the external data of a tensor, relative to the folder of the model."""
    return [entry.value for entry in tensor.external_data if entry.key == "location"]


def _external_file(path: Path, location: str) -> Path:
    """Return the path of an external data file. Raise UserError if it is not a file in the folder of the model."""
    rejected = f"{path} was rejected: its external data are in {shown(location)}"
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise UserError(f"{rejected}, outside the folder of the model: use a relative path without '..'")
    folder = path.parent.resolve()
    try:
        file = (folder / location).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{rejected}: {first_line(error)}") from error
    if not file.is_relative_to(folder):
        raise UserError(f"{rejected}, a link to a file outside the folder of the model: copy the file there")
    try:
        open_regular(file).close()
    except FileNotFoundError:
        raise UserError(f"{path} needs {location}, which is missing: put it next to the model") from None
    except OSError as error:
        raise UserError(f"{rejected}: {error.strerror}") from error
    return folder / location
