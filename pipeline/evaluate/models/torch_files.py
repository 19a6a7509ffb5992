"""TorchScript and torch.export files, loaded by torch itself.

Both formats can run code when they are loaded. They are loaded only for a user who trusts them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from pipeline.errors import UserError
from pipeline.evaluate.models.archives import Archive, is_zip
from pipeline.evaluate.models.guards import failures


def is_torchscript(path: Path) -> bool:
    """Return whether a file is a TorchScript archive, by the record that torch goes by. Raise UserError for damage."""
    if not is_zip(path):
        return False
    with Archive(path) as archive:
        return "constants.pkl" in archive


def require_trust(spec: str, kind: str, trusted: bool) -> None:
    """Raise UserError for a file that can run code, unless the user trusts it."""
    if not trusted:
        raise UserError(
            f"{spec} is a {kind} file, which can run code: give --trust-model if you trust its origin, or use ONNX"
        )


def load_torchscript(path: Path) -> torch.nn.Module:
    """Load a trusted TorchScript file onto the CPU. Raise UserError where torch cannot."""
    with failures(str(path), "save it with torch.jit.save"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's advice to whoever wrote the file
        return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]


class ExportedModel(torch.nn.Module):
    """A trusted file of torch.export. Images (N, 3, H, W) float32 -> what the program returns.

    ``batch``, ``size``: the only number of images and the only side that it takes, None for any.

    Raises:
        UserError: torch cannot load it, it takes something else, or it changes its own state.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        with failures(str(path), "save it with torch.export.save, exported on the CPU by the torch installed here"):
            self._program = torch.export.load(path)
            self.batch, self.size = _batch_and_size(path, self._program)
            self._device = torch.device("cpu")
            self.inner: torch.nn.Module = self._program.module()

    def forward(self, images: torch.Tensor) -> Any:
        """Return what the program returns for a batch."""
        return self.inner(images)

    def train(self, mode: bool = True) -> ExportedModel:
        """Return this model unchanged: an exported program has one mode."""
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> ExportedModel:
        """Move the program as ``to`` asks, with the devices that are written in its graph."""
        device = fn(torch.empty(0, device=self._device)).device
        if device != self._device:
            from torch.export.passes import move_to_device_pass

            self._device = device
            self.inner = move_to_device_pass(self._program, device).module()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def _batch_and_size(path: Path, program: ExportedProgram) -> tuple[int | None, int | None]:
    """Return the number of images and their side where a program takes one only. Raise UserError for other inputs."""
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        raise UserError(f"{path} changes its own state, as in training; export the model after model.eval()")
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    names = signature.user_inputs
    images = values.get(str(names[0])) if len(names) == 1 else None
    if not isinstance(images, torch.Tensor):
        raise UserError(f"{path} takes {len(names)} inputs; one tensor of images is allowed")
    shape = tuple(side if isinstance(side, int) else None for side in images.shape)
    if images.dtype != torch.float32 or len(shape) != 4 or shape[1] not in {3, None} or shape[2] != shape[3]:
        raise UserError(f"{path} takes {list(shape)} of {images.dtype}; (N, 3, H, H) of torch.float32 is allowed")
    return shape[0], shape[2]
