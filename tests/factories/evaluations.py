"""Finished evaluations with given logits, so that every figure is known."""

from __future__ import annotations

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
from pipeline.evaluate.results.predictions import SCHEMA, Frames, Outputs, write_part
from pipeline.recipes.attacks import AttackTable
from pipeline.storage import LocalStore
from pipeline.tasks.schema import Task
from pipeline.transforms.family import Condition


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
    parts = []
    for key, values in logits.items():
        condition, frames = Condition(*key), values if values.ndim == 3 else values[:, None]
        ids = list(names or (f"image{index}" for index in range(len(frames))))
        rows = list((only or {}).get(key, range(len(frames))))
        selected = frames.astype(np.float32)[rows]
        groups = task.groups if task else ()
        known = list(digests or (0,) * len(ids))
        samples = ([ids[row] for row in rows], [labels[row] for row in rows], [known[row] for row in rows])
        write_condition(store, condition, selected, *samples, groups)
        parts.append(f"{condition}-000000")
    store.publish_bytes("".join(f"{part}\n" for part in parts).encode(), CHUNKS_FILE)
    merged, facts = store.path(PREDICTIONS_FILE), manifests.with_blank_seal({FACT_EVALUATION: table.digest})
    manifests.merge([[store.path(EVALUATION.part(part))] for part in parts], facts, merged, SCHEMA)
    manifests.seal_file(merged)
    return str(folder)


def write_condition(
    store: LocalStore,
    condition: Condition,
    logits: np.ndarray,
    ids: Sequence[str],
    labels: Sequence[int],
    digests: Sequence[int],
    groups: Sequence[Sequence[int]] = (),
) -> None:
    """Write the predictions of one condition, from logits (S, T, K) of classes, which may be in groups."""
    samples, length, classes = logits.shape
    groups = groups or [[number] for number in range(classes)]
    group_of_class = np.full(classes, -1, np.int32)
    for number, group in enumerate(groups):
        group_of_class[list(group)] = number
    every: Any = logits.reshape(samples * length, classes)
    flat: Any = np.stack([every[:, list(group)].max(axis=1) for group in groups], axis=1)
    label = np.repeat(np.asarray(labels), length)
    probabilities = np.exp(flat) / np.exp(flat).sum(axis=1, keepdims=True)
    rows = np.arange(len(flat))
    outputs = Outputs(
        np.argsort(-flat, axis=-1, kind="stable")[:, :5].astype(np.int32),
        np.where(label < 0, 0, ordinal_ranks(flat)[rows, label]).astype(np.int32),
        np.where(label < 0, np.nan, probabilities[rows, label]).astype(np.float32),
        probabilities.max(axis=1).astype(np.float32),
        group_of_class[every.argmax(axis=1)],
        np.square(probabilities).sum(axis=1).astype(np.float32),
    )
    keys = [f"{id_}-{condition}" for id_ in ids for _ in range(length)]
    sources = [id_ for id_ in ids for _ in range(length)]
    frames = Frames(keys, sources, label.tolist(), list(range(length)) * samples, np.repeat(digests, length).tolist())
    path = store.path(EVALUATION.part(f"{condition}-000000"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_part(condition, frames, outputs, {}, path)


def votes(classes: Sequence[int], count: int = 7) -> np.ndarray:
    """Return logits (S, K) of a model that predicts these classes."""
    return np.eye(count)[list(classes)] * 5
