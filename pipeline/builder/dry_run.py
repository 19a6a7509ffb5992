"""A dry run of a build: all checks and an estimate of the work, without writing to the output."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.filesize import decimal

from pipeline.builder.committed import find_missing
from pipeline.builder.estimate import measured_sizes, shard_sizes, with_size_warning
from pipeline.builder.plan import Missing, Plan
from pipeline.builder.preflight import prepare
from pipeline.builder.quota import estimated_bytes
from pipeline.builder.settings import BuildSettings, MirrorSettings
from pipeline.execution.resumable import Preparing
from pipeline.storage import open_store
from pipeline.text import duration


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run.

    Attributes:
        plan: The plan of the whole data set.
        missing: Numbers of missing samples and shards.
        existing_bytes: Size of the finished shards in bytes.
        bytes_to_make: Estimated size of the missing shards in bytes.
        free: Free space of the output in bytes; None if unknown.
        limit: Maximum size of all shards in bytes; None for no limit.
        core_seconds: Estimated CPU time of the missing shards; None if it is unknown.
    """

    plan: Plan
    missing: Missing
    existing_bytes: int
    bytes_to_make: int
    free: int | None
    limit: float | None
    core_seconds: float | None = None

    def facts(self) -> dict[str, Any]:
        """Return the result as a dictionary of JSON values."""
        return {
            **self.plan.facts(),
            "shards": self.plan.shards,
            "shards_before": self.plan.shards - self.missing.shards,
            "shards_to_make": self.missing.shards,
            "samples_to_make": dict(self.missing.by_transform()),
            "bytes_before": self.existing_bytes,
            "bytes_to_make": self.bytes_to_make,
            "core_hours_to_make": None if self.core_seconds is None else self.core_seconds / 3600,
            "bytes_free": self.free,
            "warnings": list(self.warnings()),
        }

    def summary(self) -> Iterator[str]:
        """Yield lines of text that describe the result."""
        plan, missing = self.plan, self.missing
        yield f"{plan.recipe.name}: {plan.images:,} images, {plan.samples:,} samples in {plan.shards:,} {plan.unit}s"
        if plan.labels:
            yield f"labels: {plan.labels}"
        yield f"finished: {plan.shards - missing.shards:,} {plan.unit}s, {decimal(self.existing_bytes)}"
        yield (
            f"to make: {missing.shards:,} {plan.unit}s, {missing.samples.total():,} samples, "
            f"about {decimal(self.bytes_to_make)}"
            + ("" if self.core_seconds is None else f" and {duration(self.core_seconds)} on one core")
            + "".join(f"\n    {name}: {count:,}" for name, count in missing.by_transform().items())
        )
        yield "nothing was written"

    def warnings(self) -> Iterator[str]:
        """Yield warnings about the source, and about problems that would stop the build before its end."""
        yield from self.plan.warnings
        if self.free is not None and self.bytes_to_make > self.free:
            yield f"the missing shards need about {decimal(self.bytes_to_make)}, but only {decimal(self.free)} are free"
        if self.limit is not None and self.existing_bytes + self.bytes_to_make > self.limit:
            total = decimal(self.existing_bytes + self.bytes_to_make)
            yield f"all shards together need about {total}, more than the {decimal(int(self.limit))} of --max-bytes"


def dry_run(asked: BuildSettings | MirrorSettings, watcher: Preparing) -> DryRun:
    """Run all checks of a build and estimate its work. Raise UserError if the build would, before its work."""
    plan, source = prepare(asked, watcher)
    store = open_store(asked.out)
    store.check_exclusive()
    _, missing = find_missing(store, plan, source, asked.retry_failed)
    known = shard_sizes(plan, store)
    samples = {str(condition): count for condition, count in missing.samples.items()}
    measured = measured_sizes(plan, source, samples, known, asked.frost_folder)
    bytes_to_make = estimated_bytes(samples, known, measured)
    seconds = None
    if samples and measured.seconds.keys() >= samples.keys():
        seconds = sum(count * measured.seconds[name] / measured.samples[name] for name, count in samples.items())
    plan = with_size_warning(plan, lambda: known.bytes.total() + bytes_to_make)
    return DryRun(plan, missing, known.bytes.total(), bytes_to_make, store.free(), asked.max_bytes, seconds)
