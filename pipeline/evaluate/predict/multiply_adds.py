"""The number of multiply-add operations of a model for one image."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.predict.classifier import Classifier
from pipeline.evaluate.results.folder import EvaluationTable


def multiply_adds(table: EvaluationTable, model: Model, height: int, width: int) -> int | None:
    """Return the number of multiply-add operations of a model for one image; None if they cannot be counted.

    Convolutions, matrix products and attention are counted. Models that torch does not compute have none.
    """
    batch = model.batch or 1
    single = table.with_run(batch=batch, compile=False)
    try:
        with _Counter() as counter, _separate_products():  # type: ignore[no-untyped-call]
            Classifier(single, model).logits(torch.zeros((batch, height, width, 3), dtype=torch.uint8))
        return counter.operations // (2 * batch) or None
    except (UserError, RuntimeError, ValueError, TypeError, MemoryError):
        return None


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A count of floating-point operations, as that of ``FlopCounterMode``, which imports the compiler of torch."""

    operations = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        count, keywords = flop_registry.get(func.overloadpacket), kwargs or {}
        if count is None:
            with self:
                result = func.decompose(*args, **keywords)
            if result is not NotImplemented:
                return result
        result = func(*args, **keywords)
        self.operations += count(*args, **keywords, out_val=result) if count else 0
        return result


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
