"""The number of multiply-add operations of a model for one image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.predict.classifier import Classifier
from pipeline.evaluate.results.folder import EvaluationTable


def multiply_adds(table: EvaluationTable, model: Model, height: int, width: int) -> int | None:
    """Return the number of multiply-add operations of a model for one image; None if they cannot be counted.

    Convolutions, matrix products and attention are counted. Models that torch does not compute have none.

    Args:
        table: Settings of the evaluation.
        model: The model.
        height: Height of the images in pixels.
        width: Width of the images in pixels.
    """
    batch = model.batch or 1
    single = table.model_copy(update={"run": table.run.model_copy(update={"batch": batch, "compile": False})})
    try:
        with FlopCounterMode(display=False) as counter, _separate_products():
            Classifier(single, model).logits(torch.zeros((batch, height, width, 3), dtype=torch.uint8))
        return counter.get_total_flops() // (2 * batch) or None
    except (UserError, RuntimeError, ValueError, TypeError, MemoryError):
        return None


@contextmanager
def _separate_products() -> Iterator[None]:
    """Compute attention as matrix products, because fused kernels are not counted on every device."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
