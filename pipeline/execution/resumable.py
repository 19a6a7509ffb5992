"""What build and evaluate have in common: an output that is claimed, filled part by part, and merged last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from pipeline.execution.base import Pool
from pipeline.execution.work import Counts, Event, Tally, Work
from pipeline.storage import Store


class ResumableJob(Protocol[Work, Counts]):
    """The steps of a job, in the order in which they are called."""

    @property
    def merged(self) -> str:
        """Return the name of the file that stands for the whole output."""

    def claim(self) -> None:
        """Check that the output is free or this job's, and mark it as this job's. Raises UserError."""

    def find_missing(self) -> bool:
        """Find the parts that are not committed; return whether there are any."""

    def open_pool(self) -> AbstractContextManager[Pool[Work, Counts]]:
        """Open the workers that make what is missing."""

    def rounds(self, workers: int) -> Iterator[Iterator[Work]]:
        """Yield the missing work items; each round is run before the next is asked for."""

    def take(self, event: Event[Counts, Work], tally: Tally[Counts]) -> None:
        """Take in what has become of a work item; ``tally`` has it already."""

    def ran(self, done: Counts) -> bool:
        """Take in the sum of what was done; return whether every part is committed."""

    def merge(self) -> None:
        """Write the merged file, unless it is there and whole."""

    def record(self) -> None:
        """Write down facts about this run."""


def run_resumable(store: Store, job: ResumableJob[Work, Counts], tally: Tally[Counts]) -> None:
    """Do what is missing of a job, then merge its parts.

    The same call continues after any interruption: parts are committed one by one, and the merged file, which says
    that all is there, is removed before the work and written after it.

    Args:
        store: The output, which is locked against other runs.
        job: The steps.
        tally: Sums up what is done.

    Raises:
        UserError: The output holds something else, or another run is writing there.
    """
    with store.exclusive():
        job.claim()
        if job.find_missing():
            with job.open_pool() as pool:
                store.remove(job.merged)  # only now: where no worker can start, it stays
                for items in job.rounds(pool.workers):
                    for event in pool.run(items):
                        tally.take(event)
                        job.take(event, tally)
        if job.ran(tally.total()):
            job.merge()
        job.record()
