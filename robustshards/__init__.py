"""ImageNet-C, -C-bar, -P, -S and -Syn2Nat made from your own images, and the evaluation of models on them.

Images in memory (uint8 RGB arrays; inputs are never modified):

    corrupted = rs.corrupt(image, "fog", severity=3, seed=1)       # (H, W, 3) -> (H, W, 3)
    frames = rs.perturb(photograph, "rotate", seed=1)              # (H, W, 3) -> (31, 224, 224, 3)
    prepared = rs.system_noise(jpeg_bytes, decoder="opencv")       # encoded file -> (224, 224, 3)
    filtered = rs.low_pass(image, 20)                              # up to 20 cycles per image
    wavy = rs.fourier_noise(image, 5, 3, norm=15.7)                # plus 5 cycles down and 3 across
    rs.corruptions.names("benchmark"), rs.perturbations.names("benchmark")
    corrupted = rs.Corruptor("fog", 3)(image, "city/a.png")        # for detectors' loaders: images of any size
    augment = rs.Augmentation("extra", severities=(1, 2, 3))       # for training: augment(image, key, epoch)

Data sets in a folder or behind a URL:

    rs.build("imagenet-c", "photographs", "imagenet-c", only="fog", severities=(1, 3, 5))
    for sample in rs.open("imagenet-c").samples("fog", 3):
        image, label = sample.pixels(), sample.row.label
    assert rs.compare("imagenet-c", "colleague/roots.json")        # the same images? prints as the command does
    found = rs.recognise("index", "photographs")                   # which ImageNet-C is it? found.conditions[0].verdict
    data = rs.render("imagenet-c", "photographs")                  # the same without shards: made when it is read
    evaluation = rs.evaluate("torchvision:resnet50", "imagenet-c", "results/resnet50")
    print(evaluation.summary())
    results = rs.benchmark("torchvision:resnet50", "photographs", recipes=["imagenet-c", "imagenet-p"])

Data sets of PyTorch, for loops of your own:

    images = rs.torch.Images("imagenet-c", "fog", 3)                          # images[0] -> (tensor, label)
    stream = rs.torch.Stream("imagenet-c", [("fog", 5), ("snow", 5)], batch_size=64)

Functions print nothing, except for the progress bar of ``benchmark``, which ``progress=False`` turns off. They leave
signal handlers, the current folder, the environment, and the random generators and settings of torch, NumPy, OpenCV
and Python unchanged. Invalid input raises ``UserError``, whose message says what is wrong and what to do. A message may
name an option of the command line: ``--batch-size`` there is the keyword argument ``batch_size`` here. Heavy libraries
are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from robustshards._process import preserve_process

if TYPE_CHECKING:
    import corruptions
    import perturbations
    from corruptions import corrupt
    from corruptions.augmentation import Augmentation
    from corruptions.fourier import fourier_noise
    from corruptions.low_pass import low_pass
    from perturbations import perturb
    from pipeline.builder.result import BuildResult
    from pipeline.datasets.base import DataSet
    from pipeline.datasets.samples import Sample
    from pipeline.errors import SampleError, UnfinishedError, UnreachableError, UserError
    from pipeline.evaluate import metrics
    from pipeline.evaluate.predict.result import EvaluationResult
    from pipeline.recipes import library as recipes
    from pipeline.transforms.imagenet_s import render as system_noise
    from robustshards import streams, torch
    from robustshards._version import __version__ as __version__
    from robustshards.benchmarking import Benchmark, benchmark
    from robustshards.building import build, mirror
    from robustshards.corruptor import Corruptor
    from robustshards.evaluating import evaluate
    from robustshards.reading import compare, open, recognise, sample_seed
    from robustshards.rendering import render
    from robustshards.reporting import Evaluation, Report, report

_TARGETS = {
    "Augmentation": "corruptions.augmentation:Augmentation",
    "Benchmark": "robustshards.benchmarking:Benchmark",
    "BuildResult": "pipeline.builder.result:BuildResult",
    "Corruptor": "robustshards.corruptor:Corruptor",
    "DataSet": "pipeline.datasets.base:DataSet",
    "Evaluation": "robustshards.reporting:Evaluation",
    "EvaluationResult": "pipeline.evaluate.predict.result:EvaluationResult",
    "Report": "robustshards.reporting:Report",
    "Sample": "pipeline.datasets.samples:Sample",
    "SampleError": "pipeline.errors:SampleError",
    "UnfinishedError": "pipeline.errors:UnfinishedError",
    "UnreachableError": "pipeline.errors:UnreachableError",
    "UserError": "pipeline.errors:UserError",
    "__version__": "robustshards._version:__version__",
    "benchmark": "robustshards.benchmarking:benchmark",
    "build": "robustshards.building:build",
    "compare": "robustshards.reading:compare",
    "corrupt": "corruptions:corrupt",
    "corruptions": "corruptions:",
    "evaluate": "robustshards.evaluating:evaluate",
    "fourier_noise": "corruptions.fourier:fourier_noise",
    "low_pass": "corruptions.low_pass:low_pass",
    "metrics": "pipeline.evaluate.metrics:",
    "mirror": "robustshards.building:mirror",
    "open": "robustshards.reading:open",
    "perturb": "perturbations:perturb",
    "perturbations": "perturbations:",
    "recipes": "pipeline.recipes.library:",
    "recognise": "robustshards.reading:recognise",
    "render": "robustshards.rendering:render",
    "report": "robustshards.reporting:report",
    "sample_seed": "robustshards.reading:sample_seed",
    "streams": "robustshards.streams:",
    "system_noise": "pipeline.transforms.imagenet_s:render",
    "torch": "robustshards.torch:",
}
"""Public name -> "module:attribute". A target that ends with a colon is the module itself."""

__all__ = [
    "Augmentation",
    "Benchmark",
    "BuildResult",
    "Corruptor",
    "DataSet",
    "Evaluation",
    "EvaluationResult",
    "Report",
    "Sample",
    "SampleError",
    "UnfinishedError",
    "UnreachableError",
    "UserError",
    "benchmark",
    "build",
    "compare",
    "corrupt",
    "corruptions",
    "evaluate",
    "fourier_noise",
    "low_pass",
    "metrics",
    "mirror",
    "open",
    "perturb",
    "perturbations",
    "recipes",
    "recognise",
    "render",
    "report",
    "sample_seed",
    "streams",
    "system_noise",
    "torch",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _TARGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _TARGETS[name].partition(":")
    with preserve_process():
        imported = import_module(module)
    globals()[name] = getattr(imported, attribute) if attribute else imported
    return globals()[name]


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(_TARGETS)
