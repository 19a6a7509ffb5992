"""One block of source images through every transform that still lacks it. Knows no Ray."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import manifests
from pipeline.encoders import decode_members
from pipeline.errors import SampleError
from pipeline.plan import Block, Task
from pipeline.recipes import Recipe
from pipeline.render import Renderer, ready_renderer, source_digest
from pipeline.samples import payload_digest, pixel_digest, side_members
from pipeline.shards import ShardWriter
from pipeline.sources import SourceImage, open_source
from pipeline.storage import LocalStore

REPORT_EVERY_S = 0.5
"""Seconds between two reports of a worker."""

PUBLISHING_THREADS = 4

FACT_TASK, FACT_FAILED, FACT_SHARD_SIZE = "task", "failed", "shard_size"
"""What a manifest part records about its shard as a whole: the task's digest, failed samples, bytes of the tar."""


@dataclass(frozen=True)
class Job:
    """What every worker of a build is told once."""

    recipe: Recipe
    source: str
    output: str
    frost_folder: str | None = None


@dataclass
class Report:
    """What a worker has done since its last report.

    ``samples`` by transform; of finished shards, samples and bytes by step (``fog-3``); ``seconds`` by stage: read,
    decode, prepare, ...
    """

    samples: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    shards: int = 0
    shard_samples: Counter[str] = field(default_factory=Counter)
    shard_bytes: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def lap(self, stage: str, start: float) -> float:
        """Add the time since ``start`` to a stage; the time now, from which the next one starts."""
        now = time.perf_counter()
        self.seconds[stage] += now - start
        return now

    def add(self, other: Report) -> None:
        """Add another report to this one."""
        self.samples.update(other.samples)
        self.failed += other.failed
        self.shards += other.shards
        self.shard_samples.update(other.shard_samples)
        self.shard_bytes.update(other.shard_bytes)
        self.payload_bytes += other.payload_bytes
        for stage, spent in other.seconds.items():
            self.seconds[stage] += spent


@dataclass(frozen=True)
class _Clean:
    """A source image, read and prepared, or the reason why not."""

    source: SourceImage
    sha256: str | None
    prepared: Any
    error: str | None


class Worker:
    """Holds what stays the same from block to block."""

    def __init__(self, job: Job) -> None:
        self._recipe = job.recipe
        self._renderer = ready_renderer(job.recipe, job.frost_folder)
        self._source = open_source(job.recipe.source.kind, job.source)
        self._store = LocalStore(job.output)

    def run(self, block: Block) -> Iterator[Report]:
        """Make and publish the shards of a block; each source image is read and prepared once for all of them.

        Yields what was done about every half second, and once at the end.
        """
        report, reported = Report(), time.monotonic()
        with ExitStack() as stack:
            shards = [
                stack.enter_context(_OpenShard(task, self._recipe, self._store.scratch())) for task in block.tasks
            ]
            for image in block.images:
                clean = self._clean(image, report)
                for shard in shards:
                    shard.add(clean, self._renderer, report)
                if time.monotonic() - reported > REPORT_EVERY_S:
                    yield report
                    report, reported = Report(), time.monotonic()
            # Side by side, since each waits for the disk.
            start = time.perf_counter()
            with ThreadPoolExecutor(PUBLISHING_THREADS) as pool:
                sizes = list(pool.map(lambda shard: shard.publish(self._store), shards))
            for task, size in zip(block.tasks, sizes, strict=True):
                report.shards += 1
                report.shard_samples[str(task.step)] += len(block.images)
                report.shard_bytes[str(task.step)] += size
            report.lap("publish", start)
        yield report

    def _clean(self, image: SourceImage, report: Report) -> _Clean:
        sha256, start = None, time.perf_counter()
        try:
            data = self._source.read(image)
            sha256 = source_digest(data)
            start = report.lap("read", start)
            photograph = self._renderer.decode(data, image.box)
            start = report.lap("decode", start)
            prepared = self._renderer.prepare(photograph)
            report.lap("prepare", start)
            return _Clean(image, sha256, prepared, None)
        except (SampleError, OSError, MemoryError) as error:
            return _Clean(image, sha256, None, f"{image.origin}: {_reason(error)}")


class _OpenShard:
    """A shard that is being written: its tar aside, its rows in memory."""

    def __init__(self, task: Task, recipe: Recipe, scratch: Path) -> None:
        self._task = task
        self._recipe = recipe
        self._scratch = scratch
        self._tar = ShardWriter(scratch)
        self._rows: list[dict[str, Any]] = []
        self._common = self._common_columns()

    def __enter__(self) -> _OpenShard:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def add(self, clean: _Clean, renderer: Renderer, report: Report) -> None:
        """Render, encode and append one sample; what fails becomes a failed row."""
        columns = self._columns(clean)
        try:
            self._append(columns, clean, renderer, report)
        except Exception as error:  # whatever goes wrong with one sample is recorded, and the rest goes on
            columns |= {"status": manifests.FAILED, "error": clean.error or _reason(error)}
            report.failed += 1
        report.samples[self._task.step.transform] += 1
        self._rows.append(columns)

    def publish(self, store: LocalStore) -> int:
        """Give tar and part their names, the part last: a shard exists once its part does. Its bytes."""
        sha256, size = self._tar.finish()
        store.publish(self._scratch, self._task.shard)
        rows = [manifests.Row(**columns, shard_sha256=sha256) for columns in self._rows]
        failed = sum(row.status == manifests.FAILED for row in rows)
        facts = {FACT_TASK: self._task.digest, FACT_FAILED: str(failed), FACT_SHARD_SIZE: str(size)}
        part = store.scratch()
        manifests.write_part(rows, facts, part)
        store.publish(part, self._task.part)
        return size

    def _append(self, columns: dict[str, Any], clean: _Clean, renderer: Renderer, report: Report) -> None:
        """Make one sample, append it to the tar, and fill in what its row says of it."""
        if clean.prepared is None:
            raise SampleError(clean.error)
        start, step, key = time.perf_counter(), self._task.step, columns["key"]
        output = renderer.transform(clean.prepared, clean.source.id, step)
        start = report.lap("transform", start)
        members = renderer.encode(output, step)
        start = report.lap("encode", start)
        pixels = decode_members(self._recipe.encoder, members)
        digests = {"payload_sha256": payload_digest(members.values()), "pixel_sha256": pixel_digest(pixels)}
        start = report.lap("check", start)
        offsets = self._tar.add({key + suffix: data for suffix, data in (members | side_members(columns)).items()})
        report.lap("write", start)
        *_, last_payload = members.values()
        report.payload_bytes += sum(map(len, members.values()))
        columns |= digests | {
            "offset": offsets[0],
            "size": offsets[len(members) - 1] + len(last_payload) - offsets[0],
            "frames": len(pixels) if pixels.ndim == 4 else 1,
            "height": pixels.shape[-3],
            "width": pixels.shape[-2],
            "status": manifests.OK,
        }

    def _columns(self, clean: _Clean) -> dict[str, Any]:
        """The row of a sample of which nothing has been made yet, but for the digest of its shard."""
        source = clean.source
        return self._common | {
            "key": f"{source.id}-{self._task.step}",
            "source_id": source.id,
            "source_sha256": clean.sha256,
            "origin": source.origin,
            "label": source.label,
            "class_name": source.class_name,
        }

    def _common_columns(self) -> dict[str, Any]:
        """What all rows of the shard share, and what is not known of a sample before it is made."""
        step, recipe = self._task.step, self._recipe
        pair = recipe.pair(step)
        made = ("offset", "size", "frames", "height", "width", "payload_sha256", "pixel_sha256", "error")
        return dict.fromkeys(made) | {
            "shard": self._task.shard,
            "transform": step.transform,
            "version": recipe.family.version(step.transform),
            "level": step.level,
            "profile": recipe.profile,
            "decoder": pair.decoder,
            "resize": pair.resize,
            "encoder": str(recipe.encoder),
            "status": manifests.FAILED,
        }


def _reason(error: BaseException) -> str:
    """An error's text without what differs between machines and runs: absolute paths and object addresses."""
    if isinstance(error, SampleError):
        return str(error)
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return re.sub(r" at 0x[0-9a-f]+", "", f"{type(error).__name__}: {text}")
