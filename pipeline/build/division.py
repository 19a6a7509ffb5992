"""How what is missing of a plan is divided among workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipeline.build.committed import Committed
from pipeline.build.plan import WorkItem

SHARED, SHARED_OF_SEQUENCES = 3, 0
"""Reading, decoding and preparing a photograph takes as long as making so many outputs of it (docs/benchmark.md)."""


def pieces_of_a_block(blocks: int, workers: int, tasks: int, shared: int = SHARED) -> int:
    """Into how few pieces to split each block of so many tasks, for all to be done soonest.

    More pieces keep more workers busy to the end, but each decodes the block's photographs again (``shared``).
    """

    def reckoned(pieces: int) -> int:
        return -(-blocks * pieces // workers) * (shared + -(-tasks // pieces))

    return min(range(1, tasks + 1), key=reckoned)


def missing_blocks(blocks: Iterator[WorkItem], there: Committed) -> Iterator[WorkItem]:
    """The blocks with the tasks that are not done; blocks without any are left out."""
    for block in blocks:
        tasks = tuple(task for task in block.tasks if task.digest not in there.done)
        if tasks:
            yield replace(block, tasks=tasks)
