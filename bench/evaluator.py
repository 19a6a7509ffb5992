"""Speed of the evaluator, compared with the same model on data in memory. At a ratio of 1, the model never waits.

python -m bench.evaluator --stored DATA --rendered RENDERED --model torchvision:resnet50 --device cuda
"""

import argparse
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter

import torch

from bench.report import markdown_line
from bench.utilisation import Utilisation
from pipeline.datasets.base import Chunk, DataSet, Location
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.rendered import Rendered
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict.classifier import PRECISIONS, Classifier
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor
from pipeline.evaluate.predict.preparation import EvaluatedImages
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.settings import available_device, settings
from pipeline.evaluate.results.folder import EvaluationTable, Precision
from pipeline.execution.work import Attempt
from pipeline.software import device_name

FOLDER = Path("build/bench/evaluator")
DEFAULT_PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
ROUNDS = 4
"""Number of times that the data set is predicted. The first one starts the loader processes, and is not measured."""

TURNS = 50
"""Number of batches that are predicted from memory."""

TITLES = (
    "precision", "compiled", "batch", "data", "streamed, images/s", "in memory, images/s", "streamed / in memory",
    "GPU busy", "GPU memory, GB",
)  # fmt: skip


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
    arguments.add_argument("--precision", action="append", choices=PRECISIONS, help="Default: fp32 and bf16.")
    arguments.add_argument("--compile", action="store_true", help="Measure the compiled model too.")
    options = arguments.parse_args()
    model = load_model(options.model, options.weights)
    print(markdown_line(TITLES))
    print("|---|---|---:|---|" + "---:|" * 5)
    for precision, compiled in product(options.precision or DEFAULT_PRECISIONS, (False, True)[: 1 + options.compile]):
        request = EvaluationRequest(
            "", options.model, "", weights=options.weights, device=options.device, batch_size=options.batch_size,
            precision=precision, channels_last=precision != "fp32", compile=compiled,
        )  # fmt: skip
        for name, location in _locations(options.stored, options.rendered).items():
            figures = _measure(request, open_data_set(*location), model, options.loaders)
            print(markdown_line((precision, "yes" if compiled else "no", figures[0], name, *figures[1:])), flush=True)
    memory = getrusage(RUSAGE_SELF).ru_maxrss / 1e6
    device = device_name(available_device(options.device))
    print(f"\n{device}, {options.loaders} loader processes. Peak memory of the process: {memory:.1f} GB.")


def _locations(stored: str | None, rendered: str | None) -> dict[str, Location]:
    """Return the data sets to measure, by what they are."""
    found = {"stored shards": Location(stored)} if stored else {}
    if rendered:
        found |= {"rendered": Location(rendered), "rendered, --pixels": Location(rendered, pixels=True)}
    return found


def _measure(request: EvaluationRequest, data_set: DataSet, model: Model, loaders: int) -> tuple[str, ...]:
    """Return the columns of a row: batch size, images per second from the data set and from memory, use of the GPU."""
    chunks = list(data_set.chunks())
    if isinstance(data_set, Rendered):
        data_set.prepare_cache()
    table = settings(request, EvaluatedImages(data_set, chunks), model, None)
    is_gpu = table.run.device.startswith("cuda")
    with Utilisation(is_gpu) as utilisation:
        start, end, images = _streamed(table, data_set.location, chunks, loaders)
    busy, streamed, memory = utilisation.share(start, end), images / (end - start), _in_memory(table, model)
    return (
        str(table.run.batch), f"{streamed:,.0f}", f"{memory:,.0f}", f"{streamed / memory:.2f}",
        "-" if busy is None else f"{busy:.0%}", f"{torch.cuda.max_memory_allocated() / 1e9:.1f}" if is_gpu else "-",
    )  # fmt: skip


def _streamed(
    table: EvaluationTable, data: Location, chunks: Sequence[Chunk], loaders: int
) -> tuple[float, float, int]:
    """Predict, and return when the first round ended and when the last, and the number of images between."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    total, start, first, frames = sum(chunk.frames for chunk in chunks), 0.0, 0, 0
    for done in Predictor(EvaluationJob(table, data, str(FOLDER), loaders)).run(Attempt([*chunks] * ROUNDS)):
        frames = done.frames
        if frames >= total and not first:
            first, start = frames, perf_counter()
    return start, perf_counter(), frames - first


def _in_memory(table: EvaluationTable, model: Model) -> float:
    """Return images per second of the same model on one batch that is already on the device."""
    classifier, batch = Classifier(table, model), table.run.batch
    side = table.input.size or 224
    images = torch.randint(0, 256, (batch, side, side, 3), dtype=torch.uint8).to(classifier.device)
    with classifier.casting_once():
        classifier.logits(images).sum().item()
        start = perf_counter()
        for _ in range(TURNS):
            logits = classifier.logits(images)
        logits.sum().item()
        return TURNS * batch / (perf_counter() - start)


if __name__ == "__main__":
    main()
