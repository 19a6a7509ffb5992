"""All that a build checks before it works, and what it would make; nothing is written to the output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.filesize import decimal

from pipeline.build.committed import find_committed
from pipeline.build.compatibility import check_claim
from pipeline.build.content import checked_blocks
from pipeline.build.division import missing_blocks
from pipeline.build.estimate import measured_sizes, shard_sizes
from pipeline.build.plan import Missing, Plan, count_missing, make_blocks
from pipeline.build.quota import estimated_bytes
from pipeline.build.run import BuildRequest, BuildWatcher, prepare
from pipeline.storage import open_store


@dataclass(frozen=True)
class DryRun:
    """What a build would make. Bytes are those of shards; ``to_make`` is reckoned, ``free`` None if unknown."""

    plan: Plan
    missing: Missing
    there: int
    to_make: int
    free: int | None
    limit: float

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "recipe": self.plan.recipe.name,
            "images": self.plan.images,
            "samples": self.plan.samples,
            "shards": self.plan.shards,
            "shards_before": self.plan.shards - self.missing.shards,
            "shards_to_make": self.missing.shards,
            "samples_to_make": dict(self.missing.by_transform()),
            "bytes_before": self.there,
            "bytes_to_make": self.to_make,
            "bytes_free": self.free,
            "warnings": list(self.warnings()),
        }

    def summary(self) -> Iterator[str]:
        """For people: a few lines."""
        plan, missing = self.plan, self.missing
        yield f"{plan.recipe.name}: {plan.images:,} images, {plan.samples:,} samples in {plan.shards:,} shards"
        yield f"there: {plan.shards - missing.shards:,} shards, {decimal(self.there)}"
        yield (
            f"to make: {missing.shards:,} shards, {missing.samples.total():,} samples, about {decimal(self.to_make)}"
            + "".join(f"\n    {name}: {count:,}" for name, count in missing.by_transform().items())
        )
        yield "nothing was written"

    def warnings(self) -> Iterator[str]:
        """What would stop the build on the way."""
        if self.free is not None and self.to_make > self.free:
            yield f"about {decimal(self.to_make)} are to be made, and the disk has {decimal(self.free)} left"
        if self.there + self.to_make > self.limit:
            all_ = decimal(self.there + self.to_make)
            yield f"about {all_} in all are more than the {decimal(int(self.limit))} of --max-bytes"


def dry_run(request: BuildRequest, watcher: BuildWatcher) -> DryRun:
    """What a build would make. Raises UserError for all that would stop the build before its work."""
    plan, source = prepare(request, watcher)
    store = open_store(request.output)
    store.check_exclusive()
    check_claim(store, plan.recipe)
    there = find_committed(store, plan, request.retry_failed)
    missing = count_missing(missing_blocks(checked_blocks(make_blocks(plan, source), there, store, source), there))
    known = shard_sizes(plan, store)
    samples = {str(condition): count for condition, count in missing.samples.items()}
    measured = measured_sizes(plan, source, samples, known, request.frost_folder)
    to_make = estimated_bytes(samples, known, measured)
    return DryRun(plan, missing, known.bytes.total(), to_make, store.free(), request.max_bytes)
