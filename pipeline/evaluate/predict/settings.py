"""Settings that determine the predictions of an evaluation, from the request, the model or a measurement."""

import torch

import manifests
from corruptions.catalogue import PROFILE_SIDES
from manifests import Row
from pipeline.datasets.adversarial import recorded_attack
from pipeline.datasets.base import DataSet
from pipeline.datasets.built import Built
from pipeline.datasets.indexed import Indexed
from pipeline.datasets.rendered import Rendered
from pipeline.datasets.roots import read_roots
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.guards import first_line
from pipeline.evaluate.predict.classifier import Classifier, torch_message
from pipeline.evaluate.predict.multiply_adds import multiply_adds
from pipeline.evaluate.predict.preparation import EvaluatedImages, current_decoder
from pipeline.evaluate.predict.request import EvaluationRequest, check_channels
from pipeline.evaluate.results.folder import (
    FILES,
    DataSetTable,
    EvaluationTable,
    InputTable,
    ModelTable,
    RunTable,
    StreamTable,
)
from pipeline.loaders.protocols import find
from pipeline.sources.base import UNLABELLED
from pipeline.tasks.labels import is_number, label_folders
from pipeline.tasks.lists import IMAGENET
from pipeline.text import counted, shown

CPU_BATCH, GPU_BATCH = 32, 256
"""Default batch sizes for images of 224 x 224. Those of protocols are the same on every device and for every size,
because what a model adapts to depends on it."""

MAX_DEFAULT_BATCH = 1024
"""Largest default batch size, for small images."""

MAX_SIDE = 4096
"""Maximum input size, in pixels."""

MAX_BATCH_BYTES = 2**30
"""Maximum size of a float32 batch in bytes: 1783 images of 224 x 224."""

DEVICES = ("cpu", "cuda", "mps", "xpu")
"""Supported device types. Other torch devices, for example meta, cannot run a model."""


def settings(
    request: EvaluationRequest,
    images: EvaluatedImages,
    model: Model,
    earlier: EvaluationTable | None,
    stream: StreamTable | None = None,
) -> EvaluationTable:
    """Return all settings that determine the predictions.

    Args:
        request: Request of the user.
        images: Images to evaluate on.
        model: Loaded model.
        earlier: Settings of an earlier run in the same folder, whose batch size and note are reused. None if there is
            no earlier run.
        stream: Order of the images. None if it does not matter.

    Returns:
        The settings. Their batch size is at most the number of images in the largest chunk, unless the model has a
        fixed one or the evaluation is ordered.

    Raises:
        UserError: A setting is invalid, the model does not accept the images, or its outputs do not fit the labels.
    """
    data_set = images.data_set
    height, width = images.size()
    model_input, size = model.input, input_size(request, model)
    largest, device = largest_batch(height, width, size), available_device(request.device)
    recorded = earlier.run.batch if earlier else 0
    batch = request.batch_size or model.batch or recorded
    if request.precision == "tf32" and not device.startswith("cuda"):
        raise UserError(f"invalid precision tf32 for {device}: only NVIDIA GPUs have it; use fp32, or --device cuda")
    if model.batch and request.ordered:
        raise UserError(
            f"the model {request.model} accepts only batches of {model.batch}, but the last batches of an ordered "
            "evaluation are smaller: export a model that accepts any batch size, or remove --ordered and --protocol"
        )
    if model.batch and batch != model.batch:
        raise UserError(f"the model {request.model} accepts only batches of {model.batch}: remove --batch-size {batch}")
    if not 0 <= batch <= largest:
        raise UserError(
            f"invalid batch size {batch} for images of {width} x {height}: use --batch-size 1 to {largest}, or 0 for "
            "the default"
        )
    if not batch or batch not in (recorded, model.batch):
        batch = min(batch or _default_batch(request, device, largest), largest if request.ordered else images.fullest)
    steps, mean, std = images.preparation, request.mean or model_input.mean, request.std or model_input.std
    check_channels(mean, std)
    table = EvaluationTable(
        model=ModelTable(
            name=display_name(request),
            spec=_encodable(request.model, "--model"),
            weights=_encodable(request.weights or "", "--weights"),
            digest=model.digest,
            code=model.code,
            classes=1,
            note=note_of(request, earlier),
            parameters=model.parameters,
        ),
        input=InputTable(
            size=0 if size is None or (height, width) == (size, size) else size,
            mean=mean,
            std=std,
            steps=steps.steps if steps else None,
            resize=steps.resize if steps else None,
            decoder=current_decoder(earlier.input.decoder if earlier else None) if steps else None,
        ),
        run=RunTable(
            device=device,
            precision=request.precision,
            batch=batch,
            channels_last=_channels_last(request, model, device, earlier),
            compile=request.compile,
        ),
        data_set=data_set_table(images, height, width, earlier),
        stream=stream,
        task=data_set.task,
        attack=recorded_attack(data_set),
        software=dict(model.software),
    )
    shrink = not (request.batch_size or recorded)
    try:
        table = _run_once(table, model, images, shrink)
    except UserError:
        if not table.run.channels_last or request.channels_last:
            raise
        # Some models accept only images that are contiguous, such as those that call view().
        model.module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        table = _run_once(table.with_run(channels_last=False), model, images, shrink)
    check_labels(data_set, table.model.name, table.model.classes)
    operations = multiply_adds(table, model, height, width)
    return table.model_copy(update={"model": table.model.model_copy(update={"multiply_adds": operations})})


def data_set_table(
    images: EvaluatedImages, height: int, width: int, earlier: EvaluationTable | None = None
) -> DataSetTable:
    """Return the description of a data set, given the size of its images as the model gets them."""
    data_set, row = images.data_set, first_row(images)
    roots = read_roots(data_set.store)
    sides = (name for name, side in PROFILE_SIDES.items() if (height, width) == (side, side))
    return DataSetTable(
        name=data_set.name,
        family=data_set.family_name,
        profile=next(sides, "") if images.preparation else row.profile,
        manifest_sha256=data_set.manifest_digest(),
        content_sha256=data_set.content(),
        samples=sum(chunk.samples for chunk in images.chunks),
        failed=sum(chunk.count - chunk.samples for chunk in images.chunks),
        pass_all=data_set.family.least_pass_all(height, width),
        encoder=FILES if isinstance(data_set.main, Indexed) else row.encoder,
        seed=data_set.main.recipe.seed if isinstance(data_set.main, Built | Rendered) else None,
        pixel_root=None if data_set.location.pixels or roots is None else roots.pixel_root,
    )


def check_labelled(data_set: DataSet) -> None:
    """Raise UserError if images of a data set have no labels."""
    tables = data_set.tables(("label",), {"status": [manifests.OK], "label": [UNLABELLED]})
    if count := sum(table.num_rows for table in tables):
        raise UserError(
            f"{data_set.name} has {counted(count, 'unlabelled image')}, so no error rate can be computed: make it "
            "again from images with labels, for example one folder per class, by build or render (mirrors have none)"
        )


def check_labels(data_set: DataSet, model: str, classes: int) -> None:
    """Raise UserError if a number of outputs cannot be the labels of a data set. If it has a task, that decides."""
    known = data_set.task or data_set.labels
    reason = known.mismatch(classes) if known else _contradiction(data_set, classes)
    if reason:
        raise UserError(f"{model} cannot be evaluated on {data_set.name}: {reason}")


def _contradiction(data_set: DataSet, outputs: int) -> str | None:
    """Return why the outputs of a model cannot be the labels of a data set, by the names of its classes.

    Other tools number all class folders from 0 in sorted order, also numbers and a part of ImageNet's WordNet ids. Such
    labels fit only a model that was trained on these folders. None if no name contradicts its label.
    """
    labels: dict[str, int] = {}
    known = frozenset(IMAGENET)
    for table in data_set.tables(("class_name", "label")):
        for pair in table.group_by(["class_name", "label"]).aggregate([]).to_pylist():
            name, label = pair["class_name"], pair["label"]
            if label != UNLABELLED and not (is_number(name) or name in known):
                return None
            if label != UNLABELLED:
                labels[name] = label
    try:
        expected = label_folders(list(labels))
    except UserError:
        return None
    if expected.space.classes not in (0, outputs):
        return None
    for name, label in expected.labels.items():
        if labels[name] != label:
            return (
                f"its class {shown(name)} has the label {labels[name]}, but {label} if the labels are "
                f"{expected.space}, and it does not say what they count: build or index it again in another folder; "
                "for a model with classes in an order of its own, list them with --classes FILE"
            )
    return None


def input_size(request: EvaluationRequest, model: Model) -> int | None:
    """Return the side that images are resized to; 0 or None to keep their size. Raise UserError if it is invalid."""
    size = model.input.size if request.input_size is None else request.input_size
    if size is not None and not 0 <= size <= MAX_SIDE:
        raise UserError(
            f"invalid input size {size}: use --input-size 1 to {MAX_SIDE}, or 0 to keep the size of the images"
        )
    return size


def first_row(images: EvaluatedImages) -> Row:
    """Return the row of the first image that did not fail."""
    return next(row for row in images.data_set.rows_of(images.first) if row.height)


def largest_batch(height: int, width: int, size: int | None) -> int:
    """Return the maximum batch size for images of a height and width, resized to ``size`` if it is not 0 or None."""
    pixels = max(height * width, (size or 0) ** 2)
    return max(MAX_BATCH_BYTES // (pixels * 3 * 4), 1)


def display_name(request: EvaluationRequest) -> str:
    """Return the display name of the model. Raise UserError if it is that of a file and not valid UTF-8."""
    return _encodable(request.model, "--model") if request.name is None else request.name


def note_of(request: EvaluationRequest, earlier: EvaluationTable | None) -> str | None:
    """Return the remark about the model, or that of an earlier run."""
    if request.note is None:
        return earlier.model.note if earlier else None
    return request.note.strip() or None


def _encodable(text: str, option: str) -> str:
    """Return a text unchanged. Raise UserError if it cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{option} {text!a} is not valid UTF-8: rename the file, or create a link to it") from error
    return text


def available_device(requested: str) -> str:
    """Return the name of the device to use. Raise UserError if it is not available."""
    if requested == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(requested).type
        if kind not in DEVICES:
            raise ValueError(f"use {', '.join(DEVICES)}")
        torch.zeros(1, device=requested)
    except Exception as error:  # torch raises many types, even ModuleNotFoundError
        raise UserError(
            f"the device {requested!r} is not available: {first_line(error)}; use cpu, which is always available"
        ) from error
    return kind if kind == "cpu" else requested


def _default_batch(request: EvaluationRequest, device: str, largest: int) -> int:
    """Return the default batch size, given the largest possible one, which depends on the size of the images."""
    if request.ordered:
        return min(find(request.protocol).batch_size, largest)
    batch = (CPU_BATCH if device == "cpu" else GPU_BATCH) * largest // largest_batch(224, 224, None)
    return max(min(batch, MAX_DEFAULT_BATCH), 1)


def _channels_last(request: EvaluationRequest, model: Model, device: str, earlier: EvaluationTable | None) -> bool:
    """Return whether to use the channels-last memory format, or to try it first."""
    if request.channels_last is not None:
        return request.channels_last
    if earlier:
        return earlier.run.channels_last
    is_computed_by_torch = model.parameters is not None  # others would copy the images
    return device == "cpu" and not request.ordered and is_computed_by_torch


def _run_once(table: EvaluationTable, model: Model, images: EvaluatedImages, shrink: bool) -> EvaluationTable:
    """Return the settings with the number of classes that a model returns for black images.

    ``shrink`` halves a batch size that exceeds the memory of a GPU. Raise UserError if the model fails.
    """
    batch, (height, width) = table.run.batch, images.size()
    last = min((chunk.frames - 1) % batch + 1 for chunk in images.chunks if chunk.frames)
    # A compiled model takes minutes to make: find the batch size without the compiler, then check that it compiles.
    later = table.run.compile and shrink
    trial = table.with_run(compile=False) if later else table
    whole = later or (table.stream and table.run.device != "cpu")  # shows whether the memory of a GPU suffices
    try:
        black = torch.zeros((batch if whole else min(last, 2), height, width, 3), dtype=torch.uint8)
        logits = Classifier(trial, model).logits(black)
    except (RuntimeError, ValueError, TypeError) as error:
        raise UserError(
            f"the model {table.model.spec} cannot run on {table.run.device} with a batch size of {batch}: "
            f"{torch_message(error)}; use a smaller --batch-size"
        ) from error
    except UserError as error:
        if not shrink or batch == 1 or not isinstance(error.__cause__, torch.OutOfMemoryError):
            raise
        return _run_once(table.with_run(batch=batch // 2), model, images, shrink)
    if later:
        return _run_once(table, model, images, shrink=False)
    return table.model_copy(update={"model": table.model.model_copy(update={"classes": int(logits.shape[1])})})
