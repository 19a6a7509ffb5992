"""Finished evaluations with given logits, so that every figure is known."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import manifests
from pipeline.evaluate.metrics import ordinal_ranks
from pipeline.evaluate.results.folder import (
    CHUNKS_FILE,
    EVALUATION,
    EVALUATION_FILE,
    FACT_EVALUATION,
    PREDICTIONS_FILE,
    DataSetTable,
    EvaluationTable,
    InputTable,
    ModelTable,
    RunTable,
)
from pipeline.evaluate.results.predictions import Frames, Outputs, write_part
from pipeline.recipes.attacks import AttackTable
from pipeline.storage import LocalStore
from pipeline.tasks.schema import Task
from pipeline.transforms.family import Condition

PART = "all-000000"
"""Name of the only part of the predictions."""


def write_evaluation(
    folder: Path,
    logits: Mapping[tuple[str, int], np.ndarray],
    labels: Sequence[int],
    family: str = "corruptions",
    model: str = "made",
    profile: str = "tiny",
    names: Sequence[str] | None = None,
    digests: Sequence[int] | None = None,
    failed: int = 0,
    digest: str = "",
    manifest: str = "0" * 64,
    data_set: str = "",
    size: int = 0,
    only: Mapping[tuple[str, int], Sequence[int]] | None = None,
    task: Task | None = None,
    attack: AttackTable | None = None,
    encoder: str | None = None,
    **described: Any,
) -> str:
    """Write the evaluation of a model with these logits, and return its folder.

    Args:
        folder: Folder of the evaluation.
        logits: (transform, level) -> logits (S, T, K) of sequences or (S, K) of images.
        labels: Labels of the S samples; -1 if unknown.
        family: Family of the transforms.
        model: Name of the model.
        profile: Profile of the data set.
        names: Source ids of the samples.
        digests: Digests of their photographs. Default: unknown.
        failed: Number of failed samples of the data set.
        digest: Digest of the model. Default: that of its name.
        manifest: Digest of the manifest.
        data_set: Name of the data set.
        size: Input size of the model.
        only: (transform, level) -> indices of the samples that did not fail. Default: all.
        task: Task of the data set.
        attack: How the images were attacked.
        encoder: Encoder of the images.
        described: Note and sizes of the model.
    """
    store = LocalStore(str(folder))
    classes = next(iter(logits.values())).shape[-1]
    digest = digest or sha256(model.encode()).hexdigest()
    table = EvaluationTable(
        model=ModelTable(name=model, spec="made:made", digest=digest, classes=classes, **described),
        input=InputTable(size=size, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
        run=RunTable(device="cpu", batch=8),
        data_set=DataSetTable(
            name=data_set or f"made-{family}",
            family=family,
            profile=profile,
            manifest_sha256=manifest,
            samples=len(labels) * len(logits),
            failed=failed,
            encoder=encoder,
        ),
        task=task,
        attack=attack,
    )
    store.publish_bytes(table.to_toml().encode(), EVALUATION_FILE)
    every, places = [], []
    for key, values in logits.items():
        sequences = values if values.ndim == 3 else values[:, None]
        rows = list((only or {}).get(key, range(len(sequences))))
        every.append(sequences[rows].reshape(-1, classes))
        places += [(Condition(*key), row, frame) for row in rows for frame in range(sequences.shape[1])]
    ids = [names[row] if names else f"image{row}" for _, row, _ in places]
    frames = Frames(
        key=[f"{id_}-{condition}" for id_, (condition, *_) in zip(ids, places, strict=True)],
        source_id=ids,
        label=[labels[row] for _, row, _ in places],
        frame=[frame for *_, frame in places],
        source_digest=[digests[row] if digests else 0 for _, row, _ in places],
        conditions=[condition for condition, *_ in places],
    )
    groups, shortcut = task.groups if task else (), table.shortcut
    outputs = outputs_of(np.concatenate(every).astype(np.float32), frames.label, groups, shortcut)
    part, merged = store.path(EVALUATION.part(PART)), store.path(PREDICTIONS_FILE)
    part.parent.mkdir(parents=True, exist_ok=True)
    write_part(Condition(*next(iter(logits))), frames, outputs, {}, part, table.schema)
    store.publish_bytes(f"{PART}\n".encode(), CHUNKS_FILE)
    manifests.merge([[part]], manifests.with_blank_seal({FACT_EVALUATION: table.digest}), merged, table.schema)
    manifests.seal_file(merged)
    return str(folder)


def outputs_of(
    logits: np.ndarray, labels: Sequence[int], groups: Sequence[Sequence[int]], shortcut: int | None = None
) -> Outputs:
    """Return what an evaluation records of the logits (N, K) of classes, which may be in groups."""
    groups = groups or [[number] for number in range(logits.shape[1])]
    group_of_class = np.full(logits.shape[1], -1, np.int32)
    for number, group in enumerate(groups):
        group_of_class[list(group)] = number
    flat: Any = np.stack([logits[:, list(group)].max(axis=1) for group in groups], axis=1)
    probabilities = np.exp(flat) / np.exp(flat).sum(axis=1, keepdims=True)
    rows, label = np.arange(len(flat)), np.asarray(labels)
    return Outputs(
        np.argsort(-flat, axis=-1, kind="stable")[:, :5].astype(np.int32),
        np.where(label < 0, 0, ordinal_ranks(flat)[rows, label]).astype(np.int32),
        np.where(label < 0, np.nan, probabilities[rows, label]).astype(np.float32),
        probabilities.max(axis=1).astype(np.float32),
        group_of_class[logits.argmax(axis=1)],
        np.square(probabilities).sum(axis=1).astype(np.float32),
        np.full(len(flat), np.nan, np.float32) if shortcut is None else probabilities[:, shortcut],
    )


def votes(classes: Sequence[int], count: int = 7) -> np.ndarray:
    """Return logits (S, K) of a model that predicts these classes."""
    return np.eye(count)[list(classes)] * 5
