"""The steps that build and evaluate share: claim the output, commit missing parts one by one, merge them last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from pipeline.execution.base import Pool
from pipeline.execution.work import Counts, Event, Tally, Work
from pipeline.storage import Store


class ResumableJob(Protocol[Work, Counts]):
    """The steps of a job, in the order in which they run."""

    @property
    def merged(self) -> str:
        """Return the name of the merged file, which exists only if all parts are committed."""

    def claim(self) -> None:
        """Check that the output is empty or belongs to this job, and mark it as such. Raises UserError."""

    def find_missing(self) -> bool:
        """Find the parts that are not committed, and return whether there are any."""

    def open_pool(self) -> AbstractContextManager[Pool[Work, Counts]]:
        """Open the pool of workers."""

    def rounds(self, workers: int) -> Iterator[Iterator[Work]]:
        """Yield rounds of missing work items; a round is finished before the next is requested."""

    def handle(self, event: Event[Counts, Work], tally: Tally[Counts]) -> None:
        """Handle an event of the pool; ``tally`` already includes it."""

    def kept(self, done: Counts) -> str:
        """Return what an interruption keeps, for a message, given the sum of the work done; empty if unknown."""

    def finish(self, done: Counts) -> bool:
        """Store the sum of the work done, and return whether every part is committed."""

    def merge(self) -> None:
        """Write the merged file unless it exists and is complete."""

    def record(self) -> None:
        """Record facts about this run."""


def run_resumable(store: Store, job: ResumableJob[Work, Counts], tally: Tally[Counts]) -> None:
    """Make the missing parts of a job, then merge all parts.

    After an interruption, the same call continues: parts are committed one by one, and the merged file, which marks a
    complete output, is removed before the work and written after it.

    Args:
        store: The output; locked against other runs.
        job: The steps of the job.
        tally: Sum of the work done; updated with each event.

    Raises:
        UserError: The output contains something else, or another run is writing to it.
        KeyboardInterrupt: The work was interrupted; the message says what is kept.
    """

    def handle(events: Iterator[Event[Counts, Work]]) -> None:
        for event in events:
            tally.add(event)
            job.handle(event, tally)

    with store.exclusive():
        job.claim()
        if job.find_missing():
            with job.open_pool() as pool:
                store.remove(job.merged)  # not earlier: if no worker can start, the file is kept
                try:
                    for items in job.rounds(pool.workers):
                        handle(pool.run(items))
                except KeyboardInterrupt as interruption:
                    handle(pool.drain())
                    raise KeyboardInterrupt(job.kept(tally.total())) from interruption
        if job.finish(tally.total()):
            job.merge()
        job.record()
