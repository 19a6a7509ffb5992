"""Speed of the evaluator, compared with the same model on data in memory. At a ratio of 1, the model never waits.

python -m bench.evaluator DATA --model torchvision:resnet50 --device cuda
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from bench.report import markdown_line
from pipeline.datasets.base import Chunk
from pipeline.datasets.opening import open_data_set
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict.classifier import Classifier
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor
from pipeline.evaluate.predict.preparation import EvaluatedImages
from pipeline.evaluate.predict.settings import EvaluationRequest, settings
from pipeline.evaluate.results.folder import EvaluationTable
from pipeline.execution.work import Attempt

FOLDER = Path("build/bench/evaluator")
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    """Measure, and print a table."""
    arguments = argparse.ArgumentParser(prog="python -m bench.evaluator", description=__doc__)
    arguments.add_argument("data", help="Folder of a built data set.")
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--weights")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--batch-size", type=int, default=0)
    arguments.add_argument("--loaders", type=int, default=15)
    options = arguments.parse_args()
    data_set, model = open_data_set(options.data), load_model(options.model, options.weights)
    chunks = list(data_set.chunks())
    request = EvaluationRequest(
        options.data, options.model, "", weights=options.weights, device=options.device, batch=options.batch_size
    )
    print(markdown_line(("precision", "batch", "streamed, images/s", "in memory, images/s", "streamed / in memory")))
    print("|---|---:|---:|---:|---:|")
    for precision in PRECISIONS:
        changed = replace(request, precision=precision, channels_last=precision != "fp32")  # type: ignore[arg-type]
        table = settings(changed, EvaluatedImages(data_set, chunks), model, None)
        streamed, memory = _streamed(table, options.data, chunks, options.loaders), _in_memory(table, model, chunks)
        figures = (f"{streamed:,.0f}", f"{memory:,.0f}", f"{streamed / memory:.2f}")
        print(markdown_line((precision, str(table.run.batch), *figures)), flush=True)
    print(f"\n{_device_name(table.run.device)}, {options.loaders} loader processes")


def _streamed(table: EvaluationTable, data: str, chunks: Sequence[Chunk], loaders: int) -> float:
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
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "CPU"


if __name__ == "__main__":
    main()
