"""One block of source images through every transform that still lacks it. Knows no Ray."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import manifests
from pipeline.build.counts import BuildCounts
from pipeline.build.plan import ShardTask, WorkItem
from pipeline.build.shard_builder import commit
from pipeline.datasets.samples import payload_digest, pixel_digest, side_members
from pipeline.datasets.shards import ShardWriter
from pipeline.errors import SampleError, UnreachableError, UserError
from pipeline.execution.work import At, Attempt
from pipeline.images.encoders import decode_members
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import source_digest
from pipeline.render.warm_up import ready_renderer
from pipeline.sources.base import SourceImage
from pipeline.sources.kinds import open_source
from pipeline.storage import LARGEST_READ, Store, open_store

REPORT_EVERY_S = 0.5
"""Seconds between two reports of a worker."""

ENDS_PROCESSES = "ends the process that works on it, in every attempt"
"""Why a sample failed of which nothing can be known, since whoever makes it dies."""

PUBLISHING_THREADS = 4

IMAGES_TOGETHER, BYTES_TOGETHER = 8, 2**24
"""How many images at most have their samples made together, transform by transform, and bytes of outputs that go
through a stage together: where each sample goes through all stages by itself, no stage finds its code and tables in the
caches. All of them are in memory, so an image that is larger than these bytes is made by itself."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_PATH = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\":,;()]+/)+([^\s/'\":,;()]+)")
"""An absolute path; the group is the file's name."""

NOTHING = np.empty(0, np.uint8)
"""The output of a sample that has none yet, or none any more."""


@dataclass(frozen=True)
class BuildJob:
    """What every worker of a build is told once."""

    recipe: Recipe
    source: str
    output: str
    frost_folder: str | None = None


@dataclass(frozen=True)
class _Clean:
    """A source image, read and prepared, or the reason why not."""

    source: SourceImage
    sha256: str | None
    prepared: Any
    error: str | None

    @property
    def size(self) -> int:
        """Bytes. What is no array (all that sequences or pairs of decoders share) counts as all there is room for."""
        return self.prepared.nbytes if isinstance(self.prepared, np.ndarray) else BYTES_TOGETHER


def _condemned(image: SourceImage, sha256: str | None = None) -> _Clean:
    """The image for samples that are not tried again."""
    return _Clean(image, sha256, None, f"{image.origin}: {ENDS_PROCESSES}")


class Worker:
    """Holds what stays the same from block to block."""

    def __init__(self, job: BuildJob) -> None:
        self._recipe = job.recipe
        self._renderer = ready_renderer(job.recipe, job.frost_folder)
        self._source = open_source(job.recipe.source.kind, job.source)
        self._store = open_store(job.output)
        roots = {job.source, self._source.location, job.output, self._store.root}
        self._roots = sorted(roots, key=len, reverse=True)

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts | At]:
        """Make and publish the shards of a block; each source image is read and prepared once for all of them.

        Yields what has been done so far about every half second, and once at the end: one report, which grows. A
        careful attempt also tells where it is. Raises OSError where a shard cannot be written, and UnreachableError.
        """
        block, report, reported = attempt.work, BuildCounts(), time.monotonic()
        with ExitStack() as stack:
            shards = [
                stack.enter_context(_OpenShard(task, self._recipe, self._store.scratch())) for task in block.tasks
            ]
            for news in self._make(shards, attempt, report):
                if news is not report:
                    yield news
                elif time.monotonic() - reported > REPORT_EVERY_S:
                    yield report
                    reported = time.monotonic()
            if attempt.careful:
                yield At(None)
            # Side by side, since each waits for the disk.
            start = time.perf_counter()
            with ThreadPoolExecutor(PUBLISHING_THREADS) as pool:
                sizes = list(pool.map(lambda shard: shard.publish(self._store), shards))
            for task, size in zip(block.tasks, sizes, strict=True):
                report.shards += 1
                report.shard_samples[str(task.condition)] += len(block.images)
                report.shard_bytes[str(task.condition)] += size
            report.lap("publish", start)
        yield report

    def _make(
        self, shards: Sequence[_OpenShard], attempt: Attempt[WorkItem], report: BuildCounts
    ) -> Iterator[BuildCounts | At]:
        """Add the samples of all images to the shards, in their order; the report whenever some are there."""
        images: list[_Clean] = []
        for image in attempt.work.images:
            if image.id in attempt.condemned:
                images.append(_condemned(image))
            else:
                if attempt.careful:
                    yield At(image.id)
                images.append(self._clean(image, report))
            room = len(images) < IMAGES_TOGETHER and sum(clean.size for clean in images) < BYTES_TOGETHER
            if attempt.careful or not room:
                yield from self._samples(images, shards, attempt, report)
                images = []
        yield from self._samples(images, shards, attempt, report)

    def _samples(
        self, images: Sequence[_Clean], shards: Sequence[_OpenShard], attempt: Attempt[WorkItem], report: BuildCounts
    ) -> Iterator[BuildCounts | At]:
        """Add the samples of these images to the shards; those that are condemned fail untried."""
        samples: list[_Sample] = []
        held = 0
        for shard in shards:
            for clean in images:
                condemned = bool(attempt.condemned) and shard.item(clean.source) in attempt.condemned
                suspected = clean.source.id in attempt.suspects and not clean.error and not condemned
                if suspected:
                    yield At(shard.item(clean.source))
                sample = shard.begin(_condemned(clean.source, clean.sha256) if condemned else clean)
                held += self._transform(sample, report)
                samples.append(sample)
                if suspected or held >= BYTES_TOGETHER:
                    self._finish(samples, report)
                    yield report
                    samples, held = [], 0
        self._finish(samples, report)
        yield report

    def _clean(self, image: SourceImage, report: BuildCounts) -> _Clean:
        sha256, start = None, time.perf_counter()
        try:
            if image.size > LARGEST_READ:
                raise SampleError(f"refused: its {image.size} bytes are more than the {LARGEST_READ} allowed")
            data = self._source.read(image)
            sha256 = source_digest(data)
            start = report.lap("read", start)
            photograph = self._renderer.decode(data, image.box)
            start = report.lap("decode", start)
            prepared = self._renderer.prepare(photograph)
            report.lap("prepare", start)
            return _Clean(image, sha256, prepared, None)
        except (UserError, UnreachableError):  # no photograph is to blame
            raise
        except Exception as error:  # readers of damaged files raise nearly anything
            return _Clean(image, sha256, None, f"{image.origin}: {self._reason(error)}")

    def _transform(self, sample: _Sample, report: BuildCounts) -> int:
        """Make the output of a sample. Its bytes."""
        start, condition = time.perf_counter(), sample.shard.condition
        self._attempt(sample, self._render)
        report.rendering[condition.transform] += report.lap("transform", start) - start
        return sample.output.nbytes

    def _finish(self, samples: Sequence[_Sample], report: BuildCounts) -> None:
        """Take transformed samples through the other stages, and append them. Raises OSError."""
        start = time.perf_counter()
        for sample in samples:
            self._attempt(sample, self._encode)
        start = report.lap("encode", start)
        for sample in samples:
            self._attempt(sample, self._check)
        start = report.lap("check", start)
        for sample in samples:
            sample.shard.append(sample, report)
        report.lap("write", start)

    def _attempt(self, sample: _Sample, stage: Callable[[_Sample], None]) -> None:
        """Take a sample through a stage. Whatever goes wrong with it is recorded, and the rest goes on."""
        if sample.row["error"] is None:
            try:
                stage(sample)
            except Exception as error:
                sample.row["error"] = self._reason(error)

    def _reason(self, error: BaseException) -> str:
        """An error's text without what differs between machines and runs: absolute paths and object addresses."""
        if isinstance(error, SampleError):
            text = str(error)
        else:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            text = f"{type(error).__name__}: {said or 'no reason was given'}"
        for root in self._roots:
            text = text.replace(f"{root}/", "")
        return _PATH.sub(r"\1", _ADDRESS.sub("", text))

    def _render(self, sample: _Sample) -> None:
        clean = sample.clean
        sample.output = self._renderer.transform(clean.prepared, clean.source.id, sample.shard.condition)

    def _encode(self, sample: _Sample) -> None:
        sample.members = self._renderer.encode(sample.output, sample.shard.condition)
        sample.output = NOTHING

    def _check(self, sample: _Sample) -> None:
        """What a reader will get, as the row tells it."""
        pixels = decode_members(self._recipe.encoder, sample.members)
        sample.row |= {
            "payload_sha256": payload_digest(sample.members.values()),
            "pixel_sha256": pixel_digest(pixels),
            "frames": len(pixels) if pixels.ndim == 4 else 1,
            "height": pixels.shape[-3],
            "width": pixels.shape[-2],
            "status": manifests.OK,
        }


class _Sample:
    """A sample in the making: its row as far as it is known, and what the last stage gave."""

    def __init__(self, shard: _OpenShard, clean: _Clean, row: dict[str, Any]) -> None:
        self.shard, self.clean, self.row = shard, clean, row
        self.output = NOTHING
        self.members: dict[str, bytes] = {}


class _OpenShard:
    """A shard that is being written: its tar aside, its rows in memory."""

    def __init__(self, task: ShardTask, recipe: Recipe, scratch: Path) -> None:
        self._task = task
        self.condition = task.condition
        self._step = str(task.condition)
        self._recipe = recipe
        self._scratch = scratch
        self._tar = ShardWriter(scratch)
        self._rows: list[dict[str, Any]] = []
        self._common = self._common_columns()

    def __enter__(self) -> _OpenShard:
        return self

    def __exit__(self, *_: object) -> None:
        """What is not published is removed: where the disk is full, the next attempt needs the room."""
        try:
            self._tar.close()
        finally:
            self._scratch.unlink(missing_ok=True)

    def item(self, image: SourceImage) -> str:
        """What a careful worker calls the sample of an image here: no id, since those hold no dot."""
        return f"{image.id}.{self._step}"

    def begin(self, clean: _Clean) -> _Sample:
        """The sample of an image, of which nothing has been made yet; one of an unreadable image has failed."""
        source = clean.source
        row = self._common | {
            "key": f"{source.id}-{self._step}",
            "source_id": source.id,
            "source_sha256": clean.sha256,
            "origin": source.origin,
            "label": source.label,
            "class_name": source.class_name,
            "error": clean.error,
        }
        return _Sample(self, clean, row)

    def append(self, sample: _Sample, report: BuildCounts) -> None:
        """Write a sample and keep its row; of one that failed, the row alone.

        Raises OSError, after which the tar is of no use.
        """
        row, members = sample.row, sample.members
        if row["error"] is None:
            named = {row["key"] + suffix: data for suffix, data in (members | side_members(row)).items()}
            offsets = self._tar.add(named)
            *_, last_payload = members.values()
            row |= {"offset": offsets[0], "size": offsets[len(members) - 1] + len(last_payload) - offsets[0]}
            report.payload_bytes += sum(map(len, members.values()))
        else:
            report.failed += 1
        report.samples[self.condition.transform] += 1
        self._rows.append(row)

    def publish(self, store: Store) -> int:
        """End the tar, and commit it with its rows. Its bytes."""
        sha256, size = self._tar.finish()
        rows = [manifests.Row(**columns, shard_sha256=sha256) for columns in self._rows]
        commit(store, self._task, self._scratch, size, rows)
        return size

    def _common_columns(self) -> dict[str, Any]:
        """What all rows of the shard share, and what is not known of a sample before it is made."""
        condition, recipe = self._task.condition, self._recipe
        pair = recipe.pair(condition)
        made = ("offset", "size", "frames", "height", "width", "payload_sha256", "pixel_sha256", "error")
        return dict.fromkeys(made) | {
            "shard": self._task.shard,
            "transform": condition.transform,
            "version": recipe.family.version(condition.transform),
            "level": condition.level,
            "profile": recipe.profile,
            "decoder": pair.decoder,
            "resize": pair.resize,
            "encoder": str(recipe.encoder),
            "status": manifests.FAILED,
        }
