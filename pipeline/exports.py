"""From a finished data set to layouts that other tools read: streamed from the shards, resumed by running again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import manifests
from manifests import Row
from pipeline.encoders import Encoder, Npy
from pipeline.errors import UserError
from pipeline.recipes import Recipe
from pipeline.storage import LocalStore
from pipeline.verify import read_manifest, read_recipe


@dataclass
class Exported:
    """What an export came to: files written, files that were there already, failed samples passed over."""

    written: int = 0
    there: int = 0
    passed_over: int = 0


@dataclass(frozen=True)
class Payload:
    """A sample's row and its payload bytes, checked against the row."""

    row: Row
    data: bytes


def export(data_set: str, layout: str, out: str) -> Exported:
    """Write a finished data set in another layout to a folder.

    Files appear whole or not at all; those that are there with the right content are left as they are.
    Raises UserError for an unknown layout, an unfinished or unfit data set, and a shard that is not what was built.
    """
    if layout not in LAYOUTS:
        raise UserError(f"no layout is called {layout!r}; allowed: {', '.join(LAYOUTS)}")
    store = LocalStore(data_set)
    recipe, done = read_recipe(store), Exported()
    target = LocalStore(out)
    try:
        LAYOUTS[layout](recipe, store, target, done)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; run the same command again") from error
    return done


def _imagenet_s_folder(recipe: Recipe, store: LocalStore, target: LocalStore, done: Exported) -> None:
    """``<pair>/<class>/<name>.npy`` and, for each pair, ``<pair>.txt`` with lines ``<class>/<name>.npy <label>``."""
    if recipe.family.sequences:
        raise UserError(f"{recipe.name} holds sequences; this layout has one array per image")
    for transform, rows in groupby(read_manifest(store), key=lambda row: (row.transform, row.level)):
        folder = transform[0] if not transform[1] else f"{transform[0]}/{transform[1]}"
        index = []
        for payload in _payloads(store, rows, done):
            name = f"{payload.row.source_id}.npy"
            _write(target, f"{folder}/{name}", _as_npy(recipe.encoder, payload.data), done)
            index.append(f"{name} {payload.row.label}\n")
        _write(target, f"{folder}.txt", "".join(index).encode(), done)


LAYOUTS: Mapping[str, Callable[[Recipe, LocalStore, LocalStore, Exported], None]] = {
    "imagenet-s-folder": _imagenet_s_folder
}
"""Layout -> what writes it."""


def _payloads(store: LocalStore, rows: Iterator[Row], done: Exported) -> Iterator[Payload]:
    """The payloads of rows in their order, each shard opened once. Raises UserError."""
    for shard, group in groupby(rows, key=lambda row: row.shard):
        try:
            with open(store.path(shard), "rb") as file:
                for row in group:
                    if row.status != manifests.OK:
                        done.passed_over += 1
                        continue
                    file.seek(row.offset or 0)
                    data = file.read(row.size or 0)
                    if hashlib.sha256(data).hexdigest() != row.payload_sha256:
                        raise UserError(f"{row.key} in {shard} is not what was built: run robustshards verify")
                    yield Payload(row, data)
        except FileNotFoundError:
            raise UserError(f"{shard} is missing: run robustshards verify") from None


def _as_npy(encoder: Encoder, data: bytes) -> bytes:
    """A payload as an array file: as it is if it is one."""
    return data if isinstance(encoder, Npy) else Npy().encode(encoder.decode(data))


def _write(target: LocalStore, name: str, data: bytes, done: Exported) -> None:
    """A file, unless it is there with this content."""
    path = target.path(name)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        done.there += 1
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(f"{path}.partial")
    aside.write_bytes(data)
    os.replace(aside, path)
    done.written += 1
