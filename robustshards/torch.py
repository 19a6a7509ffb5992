"""Data sets and a transform for PyTorch: random access to images, streams of conditions, and corruptions for training.

    from robustshards.torch import CCC, Corrupt, Images, Stream

    images = Images("imagenet-c", "fog", 3)                                  # images[0] -> (tensor, label)
    stream = Stream("imagenet-c", [("fog", 5), ("snow", 5)], batch_size=64)  # yields (images, labels)
    corrupt = Corrupt("extra", severities=(1, 2, 3), seed=1)                 # corrupt(image, key=index, epoch=epoch)
    ccc = CCC("imagenet-val", "matrix.npz", baseline=20, speed=1000, seed=43)  # yields (images, labels)

torch is imported on first use of a name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from robustshards._process import preserve_process

if TYPE_CHECKING:
    from pipeline.loaders.augment import Corrupt
    from pipeline.loaders.ccc import CCC
    from pipeline.loaders.images import Images
    from pipeline.loaders.items import as_lists
    from pipeline.loaders.streams import Stream

_MODULES = {
    "CCC": "pipeline.loaders.ccc",
    "Corrupt": "pipeline.loaders.augment",
    "Images": "pipeline.loaders.images",
    "Stream": "pipeline.loaders.streams",
    "as_lists": "pipeline.loaders.items",
}
"""Public name -> module."""

__all__ = ["CCC", "Corrupt", "Images", "Stream", "as_lists"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562). Raise UserError if torch is not installed."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with preserve_process():
        from pipeline.evaluate.predict.requirements import check_requirements

        check_requirements()
        globals()[name] = getattr(import_module(_MODULES[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
