"""Speed of the evaluator, compared with the same model on data in memory. At a ratio of 1, the model never waits.

python -m bench.evaluator --stored DATA --rendered RENDERED --model torchvision:resnet50 --device cuda
"""

import argparse
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from time import perf_counter

import torch

from bench.report import markdown_line
from pipeline.datasets.base import Chunk, DataSet, Location
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.rendered import Rendered
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict.classifier import Classifier
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor
from pipeline.evaluate.predict.preparation import EvaluatedImages
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.settings import settings
from pipeline.evaluate.results.folder import EvaluationTable, Precision
from pipeline.execution.work import Attempt

FOLDER = Path("build/bench/evaluator")
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
TITLES = ("precision", "compiled", "batch", "data", "streamed, images/s", "in memory, images/s", "streamed / in memory")


def main() -> None:
    """Measure, and print a table."""
    arguments = argparse.ArgumentParser(prog="python -m bench.evaluator", description=__doc__)
    arguments.add_argument("--stored", help="Folder of a built data set.")
    arguments.add_argument("--rendered", help="Folder of a rendered data set.")
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--weights")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--batch-size", type=int, default=0)
    arguments.add_argument("--loaders", type=int, default=15)
    arguments.add_argument("--compile", action="store_true", help="Measure the compiled model too.")
    options = arguments.parse_args()
    model = load_model(options.model, options.weights)
    print(markdown_line(TITLES))
    print("|---|---|---:|---|---:|---:|---:|")
    for precision, compiled in product(PRECISIONS, (False, True)[: 1 + options.compile]):
        request = EvaluationRequest(
            "", options.model, "", weights=options.weights, device=options.device, batch_size=options.batch_size,
            precision=precision, channels_last=precision != "fp32", compile=compiled,
        )  # fmt: skip
        for name, location in _locations(options.stored, options.rendered).items():
            batch, streamed, memory = _measure(request, open_data_set(*location), model, options.loaders)
            figures = (f"{streamed:,.0f}", f"{memory:,.0f}", f"{streamed / memory:.2f}")
            print(markdown_line((precision, "yes" if compiled else "no", str(batch), name, *figures)), flush=True)
    print(f"\n{_device_name(options.device)}, {options.loaders} loader processes")


def _locations(stored: str | None, rendered: str | None) -> dict[str, Location]:
    """Return the data sets to measure, by what they are."""
    found = {"stored shards": Location(stored)} if stored else {}
    if rendered:
        found |= {"rendered": Location(rendered), "rendered, --pixels": Location(rendered, pixels=True)}
    return found


def _measure(request: EvaluationRequest, data_set: DataSet, model: Model, loaders: int) -> tuple[int, float, float]:
    """Return the batch size, and images per second from the data set and from memory."""
    chunks = list(data_set.chunks())
    if isinstance(data_set, Rendered):
        data_set.prepare_cache()
    table = settings(request, EvaluatedImages(data_set, chunks), model, None)
    _streamed(table, data_set.location, chunks[: 2 * loaders + 1], loaders)  # fill caches, and compile
    return table.run.batch, _streamed(table, data_set.location, chunks, loaders), _in_memory(table, model, chunks)


def _streamed(table: EvaluationTable, data: Location, chunks: Sequence[Chunk], loaders: int) -> float:
    """Return images per second from shards to published predictions, after the first batch."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    frames, first, start = 0, 0, 0.0
    for done in Predictor(EvaluationJob(table, data, str(FOLDER), loaders)).run(Attempt(chunks)):
        frames = done.frames
        if frames and not first:
            first, start = frames, perf_counter()
    return (frames - first) / (perf_counter() - start)


def _in_memory(table: EvaluationTable, model: Model, chunks: Sequence[Chunk]) -> float:
    """Return images per second of the same model on one batch that is already on the device."""
    classifier, batch = Classifier(table, model), table.run.batch
    side = table.input.size or 224
    images = torch.randint(0, 256, (batch, side, side, 3), dtype=torch.uint8).to(classifier.device)
    turns = max(sum(chunk.frames for chunk in chunks) // batch, 3)
    classifier.logits(images).sum().item()
    start = perf_counter()
    for _ in range(turns):
        logits = classifier.logits(images)
    logits.sum().item()
    return turns * batch / (perf_counter() - start)


def _device_name(device: str) -> str:
    is_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    return torch.cuda.get_device_name() if is_gpu else "CPU"


if __name__ == "__main__":
    main()
