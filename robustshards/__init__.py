"""ImageNet-C, -P, -S and -Syn2Nat made from your own images, and the evaluation of models on them.

Images in memory (uint8 RGB arrays; inputs are never modified):

    corrupted = rs.corrupt(image, "fog", severity=3, seed=1)       # (H, W, 3) -> (H, W, 3)
    frames = rs.perturb(photograph, "rotate", seed=1)              # (H, W, 3) -> (31, 224, 224, 3)
    prepared = rs.system_noise(jpeg_bytes, decoder="opencv")       # encoded file -> (224, 224, 3)
    rs.corruptions.names("benchmark"), rs.perturbations.names("benchmark")

Data sets in a folder or behind a URL:

    rs.build("imagenet-c", "photographs", "imagenet-c", only="fog", severities=(1, 3, 5))
    for sample in rs.open("imagenet-c").samples("fog", 3):
        image, label = sample.pixels(), sample.row.label
    evaluation = rs.evaluate("torchvision:resnet50", "imagenet-c", "results/resnet50")
    print(rs.report([evaluation]).markdown())

Functions print nothing, and leave signal handlers, the current folder and the environment unchanged. Invalid input
raises ``UserError``, whose message says what is wrong and what to do. A message may name an option of the command
line: ``--batch-size`` there is the keyword argument ``batch_size`` here. Heavy libraries are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from robustshards._environment import preserve_environment

if TYPE_CHECKING:
    import corruptions
    import perturbations
    from corruptions import corrupt
    from perturbations import perturb
    from pipeline.build.result import BuildResult
    from pipeline.datasets.base import DataSet
    from pipeline.datasets.samples import Sample
    from pipeline.errors import SampleError, UnfinishedError, UnreachableError, UserError
    from pipeline.evaluate import metrics
    from pipeline.evaluate.predict.result import EvaluationResult
    from pipeline.recipes import library as recipes
    from pipeline.transforms.imagenet_s import render as system_noise
    from robustshards._version import __version__ as __version__
    from robustshards.building import build
    from robustshards.evaluating import evaluate
    from robustshards.opening import open
    from robustshards.reporting import Report, report

_TARGETS = {
    "BuildResult": "pipeline.build.result:BuildResult",
    "DataSet": "pipeline.datasets.base:DataSet",
    "EvaluationResult": "pipeline.evaluate.predict.result:EvaluationResult",
    "Report": "robustshards.reporting:Report",
    "Sample": "pipeline.datasets.samples:Sample",
    "SampleError": "pipeline.errors:SampleError",
    "UnfinishedError": "pipeline.errors:UnfinishedError",
    "UnreachableError": "pipeline.errors:UnreachableError",
    "UserError": "pipeline.errors:UserError",
    "__version__": "robustshards._version:__version__",
    "build": "robustshards.building:build",
    "corrupt": "corruptions:corrupt",
    "corruptions": "corruptions:",
    "evaluate": "robustshards.evaluating:evaluate",
    "metrics": "pipeline.evaluate.metrics:",
    "open": "robustshards.opening:open",
    "perturb": "perturbations:perturb",
    "perturbations": "perturbations:",
    "recipes": "pipeline.recipes.library:",
    "report": "robustshards.reporting:report",
    "system_noise": "pipeline.transforms.imagenet_s:render",
}
"""Public name -> "module:attribute". A target that ends with a colon is the module itself."""

__all__ = [
    "BuildResult",
    "DataSet",
    "EvaluationResult",
    "Report",
    "Sample",
    "SampleError",
    "UnfinishedError",
    "UnreachableError",
    "UserError",
    "build",
    "corrupt",
    "corruptions",
    "evaluate",
    "metrics",
    "open",
    "perturb",
    "perturbations",
    "recipes",
    "report",
    "system_noise",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _TARGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _TARGETS[name].partition(":")
    with preserve_environment():
        imported = import_module(module)
    globals()[name] = getattr(imported, attribute) if attribute else imported
    return globals()[name]


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(_TARGETS)
