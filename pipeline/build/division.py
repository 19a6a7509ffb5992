"""How what is missing of a plan is divided among workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipeline.build.committed import Committed
from pipeline.build.plan import WorkItem

SHARED_COST, SHARED_COST_OF_SEQUENCES = 3, 0
"""Reading, decoding and preparing a photograph takes as long as making so many outputs of it (docs/benchmark.md)."""

MANY_WORKERS, SLOWDOWN = 50, 3
"""Of so many workers some are expected to be slow: to take so many times as long as the others."""


def pieces_per_block(blocks: int, workers: int, tasks: int, shared: int = SHARED_COST) -> int:
    """Return the least number of pieces of each block with which the build is estimated to be done soonest.

    More pieces keep more workers busy to the end, but each decodes the block's photographs again. Among many workers
    the build ends with a slow one, which takes its pieces for whole multiples of its slowness.

    Args:
        blocks: Number of blocks.
        workers: Number of workers.
        tasks: Number of tasks of each block.
        shared: Time for decoding a block's photographs, in times of a task.
    """

    def estimated(pieces: int) -> int:
        rounds = -(-blocks * pieces // workers)
        if workers >= MANY_WORKERS:
            rounds = SLOWDOWN * -(-rounds // SLOWDOWN)
        return rounds * (shared + -(-tasks // pieces))

    return min(range(1, tasks + 1), key=estimated)


def missing_blocks(blocks: Iterator[WorkItem], there: Committed) -> Iterator[WorkItem]:
    """The blocks with the tasks that are not done; blocks without any are left out."""
    for block in blocks:
        tasks = tuple(task for task in block.tasks if task.digest not in there.done)
        if tasks:
            yield replace(block, tasks=tasks)
