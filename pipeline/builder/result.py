"""The result of a build, as numbers, as text, and as a record of the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import datetime
from typing import Any

from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import Plan, WorkItem
from pipeline.builder.quota import Withheld
from pipeline.datasets.paths import MANIFEST_FILE, RUNS
from pipeline.execution.work import Lost
from pipeline.software import host_facts, versions
from pipeline.storage import Store
from pipeline.storage.trusted_locations import absolute
from pipeline.text import counted, printable, rate

LONGEST_LINE = 200
"""Maximum number of characters with which the summary names a failed image and its reason."""


@dataclass(repr=False)
class BuildResult:
    """The result of a build.

    Attributes:
        plan: The plan of the whole data set: recipe, images, samples, shards.
        shards_before: Number of shards that were finished before this run.
        failed: Number of failed samples in the whole data set. Only known if the data set is complete.
        failures: Path -> reason of the first images that failed, at most five.
        done: Counts of the work of this run.
        lost: Work items that were given up after several attempts, with the reasons.
        withheld: Shards that were not made because of ``max_bytes``; None if there are none.
        copied: Number of clean files that a mirror has in place of failed ones.
        kept: Files that the build did not overwrite because they were edited.
        workers: Number of workers; 0 if no shards were missing.
        seconds: Duration in seconds.
        warnings: What to know about an attacked model.
    """

    plan: Plan
    _: KW_ONLY
    shards_before: int = 0
    failed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    done: BuildCounts = field(default_factory=BuildCounts)
    lost: list[Lost[WorkItem]] = field(default_factory=list)
    withheld: Withheld | None = None
    copied: int = 0
    kept: list[str] = field(default_factory=list)
    workers: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the data set, what this run made of it, and whether it is complete."""
        made, state = counted(self.done.samples.total(), "image"), "complete" if self.complete else "unfinished"
        return f"<BuildResult of {self.plan.recipe.name!r}: {made} made, {self.failed:,} failed, {state}>"

    @property
    def complete(self) -> bool:
        """Return whether every shard is finished."""
        return not self.lost and not self.withheld

    def facts(self) -> dict[str, Any]:
        """Return the result as a dictionary of JSON values."""
        return {
            **self.plan.facts(),
            "warnings": [*self.plan.warnings, *self.warnings],
            "shards": self.plan.shards,
            "shards_before": self.shards_before,
            "shards_made": self.done.shards,
            "samples_made": self.done.samples.total(),
            "failed": self.failed,
            "failures": self.failures,
            "complete": self.complete,
            "withheld": asdict(self.withheld) if self.withheld else None,
            "lost": [{"images": len(each.work.images), "reason": each.reason} for each in self.lost],
            "copied": self.copied,
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
        }

    def summary(self, output: str) -> Iterator[str]:
        """Yield lines of text that describe the result; ``output`` is the folder as the user gave it."""
        made = self.done.samples.total()
        yield from (f"warning: {text}" for text in self.warnings)
        yield from self.plan.notes()
        if self.done.shards:
            shards, images = counted(self.done.shards, self.plan.unit), counted(made, "image")
            yield f"made {shards}, {images}, in {self.seconds:.1f} s ({rate(made, self.seconds)})"
        elif self.complete:
            yield f"nothing to do: all {self.plan.shards:,} {self.plan.unit}s are finished"
        for each in self.lost:
            names = f"{each.work.tasks[0].name} to {each.work.tasks[-1].name}"
            yield f"gave up after several attempts: {names}: {each.reason}"
        if self.failed:
            copies = " and --copy-failed copies the clean files" * (self.plan.recipe.is_mirror and not self.copied)
            yield (
                f"{self.failed:,} of {self.plan.samples:,} samples failed; the manifest lists all reasons "
                f"(status = 'failed'). --retry-failed tries them again, --allow-failures accepts them{copies}"
            )
            yield from (f"failed: {printable(f'{path}: {why}', LONGEST_LINE)}" for path, why in self.failures.items())
        if self.copied:
            yield f"copied {counted(self.copied, 'clean file')} in place of failed ones"
        for name in self.kept:
            yield f"not overwritten: {name}, because it was edited. Remove it to write it again"
        if self.withheld:
            yield str(self.withheld)
        elif self.lost:
            yield "unfinished: fix the problems above, then run the same command again"
        else:
            yield f"manifest: {output}/{MANIFEST_FILE}; to check the data set: robustshards verify {output}"


def publish_record(result: BuildResult, source: str, start_time: datetime, store: Store) -> None:
    """Write the record of a run into the folder of runs."""
    done = result.done
    host = host_facts()
    record = {
        "begun": start_time.isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 3),
        "source": absolute(source),
        "workers": result.workers,
        "software": versions(),
        "decoders": result.plan.recipe.decoders,
        "resizers": result.plan.recipe.resizers,
        **host,
        "shards": done.shards,
        "samples": dict(done.samples),
        "failed": done.failed,
        "lost_blocks": len(result.lost),
        "payload_bytes": done.payload_bytes,
        "worker_seconds": {stage: round(spent, 3) for stage, spent in sorted(done.seconds.items())},
    }
    name = f"{RUNS}/{start_time:%Y%m%dT%H%M%S.%fZ}-{host['host']}.json"
    store.publish_bytes(json.dumps(record, indent=1).encode(), name)
