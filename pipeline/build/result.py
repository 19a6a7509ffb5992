"""The result of a build, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from pipeline.build.counts import BuildCounts
from pipeline.build.plan import Plan, WorkItem
from pipeline.build.quota import Withheld
from pipeline.datasets.paths import MANIFEST_FILE
from pipeline.execution.work import Lost


@dataclass
class BuildResult:
    """The result of a build.

    Attributes:
        plan: What the whole data set is: recipe, images, samples, shards.
        shards_before: Shards that were there before.
        failed: Failed samples of the whole data set, known once it is complete.
        done: What this run has made.
        lost: Work items that were given up after several attempts, and why.
        withheld: What was left out to stay within ``max_bytes``; None if nothing was.
        kept: Files that the build did not overwrite, since somebody has changed them.
        workers: Workers that were used; 0 if nothing was missing.
        seconds: Duration.
    """

    plan: Plan
    _: KW_ONLY
    shards_before: int = 0
    failed: int = 0
    done: BuildCounts = field(default_factory=BuildCounts)
    lost: list[Lost[WorkItem]] = field(default_factory=list)
    withheld: Withheld | None = None
    kept: list[str] = field(default_factory=list)
    workers: int = 0
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every shard is finished."""
        return not self.lost and not self.withheld

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "recipe": self.plan.recipe.name,
            "images": self.plan.images,
            "samples": self.plan.samples,
            "shards": self.plan.shards,
            "shards_before": self.shards_before,
            "shards_made": self.done.shards,
            "samples_made": self.done.samples.total(),
            "failed": self.failed,
            "complete": self.complete,
            "withheld": asdict(self.withheld) if self.withheld else None,
            "lost": [{"images": len(each.work.images), "reason": each.reason} for each in self.lost],
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
        }

    def summary(self, output: str) -> Iterator[str]:
        """Yield a few lines that describe the result."""
        made, rate = self.done.samples.total(), self.done.samples.total() / max(self.seconds, 1e-9)
        if self.done.shards:
            yield f"made {self.done.shards:,} shards, {made:,} images, in {self.seconds:.1f} s ({rate:,.0f} images/s)"
        elif self.complete:
            yield f"nothing to do: all {self.plan.shards:,} shards are there"
        for each in self.lost:
            names = f"{each.work.tasks[0].name} to {each.work.tasks[-1].name}"
            yield f"given up after several attempts: {names}: {each.reason}"
        if self.failed:
            yield (
                f"{self.failed:,} of {self.plan.samples:,} samples failed; their reasons stand in the manifest "
                "(status = 'failed'); --retry-failed tries them again, --allow-failures accepts them"
            )
        for name in self.kept:
            yield f"left as it is: {name}, which somebody has changed; remove it to have it written anew"
        if self.withheld:
            yield str(self.withheld)
        elif self.lost:
            yield "unfinished: once what is named above is mended, run the same command again"
        else:
            yield f"manifest: {output}/{MANIFEST_FILE}   check it: robustshards verify {output}"
