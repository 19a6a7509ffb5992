"""Loading of TorchScript and torch.export files.

Both formats can run code when they are loaded, so they are loaded only if the user trusts them.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from pipeline.errors import UserError
from pipeline.evaluate.models.guards import user_errors
from pipeline.storage.zips import check_records


def require_trust(spec: str, kind: str, trusted: bool) -> None:
    """Raise UserError if the user does not trust a file that can run code."""
    if not trusted:
        raise UserError(
            f"{spec} is a {kind} file, which can run code: add --trust-model if you trust its origin, or use ONNX"
        )


def load_torchscript(path: Path) -> torch.nn.Module:
    """Load a trusted TorchScript file onto the CPU. Raise UserError if it is damaged, or torch cannot load it."""
    with user_errors(str(path), "save it with torch.jit.save"), warnings.catch_warnings():
        check_records(path)
        warnings.simplefilter("ignore")  # deprecations, addressed to the author of the file
        return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]


class ExportedModel(torch.nn.Module):
    """A model from a trusted torch.export file. It maps images, float32 of shape (N, 3, H, W), to the program's output.

    Attributes:
        batch: Fixed batch size. None accepts any batch size.
        size: Fixed side of the images in pixels. None accepts any size.

    Raises:
        UserError: The file is damaged, torch cannot load it, the program has other inputs, or modifies its own state.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        with user_errors(str(path), "save it with torch.export.save, exported on the CPU with this torch version"):
            check_records(path)
            self._program = torch.export.load(path)
            self.batch, self.size = _batch_and_size(path, self._program)
            self._device = torch.device("cpu")
            self.inner: torch.nn.Module = self._program.module()

    def forward(self, images: torch.Tensor) -> Any:
        """Return the output of the program for a batch of images."""
        return self.inner(images)

    def train(self, mode: bool = True) -> "ExportedModel":
        """Return the model unchanged: an exported program has only one mode."""
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "ExportedModel":
        """Move the program to another device, including the devices stored in its graph."""
        device = fn(torch.empty(0, device=self._device)).device
        if device != self._device:
            from torch.export.passes import move_to_device_pass

            self._device = device
            self.inner = move_to_device_pass(self._program, device).module()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def _batch_and_size(path: Path, program: ExportedProgram) -> tuple[int | None, int | None]:
    """Return the fixed batch size and side, or None if they vary. Raise UserError if the inputs are unsupported."""
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        raise UserError(f"{path} modifies its own state, as in training mode: export the model after model.eval()")
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    names = signature.user_inputs
    images = values.get(str(names[0])) if len(names) == 1 else None
    if not isinstance(images, torch.Tensor):
        raise UserError(f"{path} takes {len(names)} inputs: export it with one tensor of images as input")
    shape = tuple(side if isinstance(side, int) else None for side in images.shape)
    if images.dtype != torch.float32 or len(shape) != 4 or shape[1] not in {3, None} or shape[2] != shape[3]:
        raise UserError(
            f"{path} takes {list(shape)} of {images.dtype}: export it for images (N, 3, H, H) of torch.float32"
        )
    return shape[0], shape[2]
