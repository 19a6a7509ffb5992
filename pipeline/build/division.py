"""Division of the missing shards of a plan among workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipeline.build.committed import Committed
from pipeline.build.plan import WorkItem

SHARED_COST, SHARED_COST_OF_SEQUENCES = 3, 0
"""Estimated time to read, decode and prepare an image, as a multiple of the time of one output (docs/benchmark.md).
The second value is for recipes that make sequences."""

MANY_WORKERS, SLOWDOWN = 50, 3
"""From this number of workers on, some are assumed to be slow, and to take this many times as long as the others."""


def pieces_per_block(blocks: int, workers: int, tasks: int, shared: int = SHARED_COST) -> int:
    """Return the number of pieces per block with the shortest estimated build time; the smallest if there are several.

    More pieces keep more workers busy until the end, but each piece decodes the images of its block again. With many
    workers, the estimate assumes that a slow worker finishes last.

    Args:
        blocks: Number of blocks.
        workers: Number of workers.
        tasks: Number of tasks per block.
        shared: Time to decode the images of a block, as a multiple of the time of one task.
    """

    def estimated(pieces: int) -> int:
        rounds = -(-blocks * pieces // workers)
        if workers >= MANY_WORKERS:
            rounds = SLOWDOWN * -(-rounds // SLOWDOWN)
        return rounds * (shared + -(-tasks // pieces))

    return min(range(1, tasks + 1), key=estimated)


def missing_blocks(blocks: Iterator[WorkItem], committed: Committed) -> Iterator[WorkItem]:
    """Yield the blocks with their missing tasks; skip finished blocks.

    Args:
        blocks: All blocks of the plan.
        committed: The finished shards.
    """
    for block in blocks:
        tasks = tuple(task for task in block.tasks if task.digest not in committed.done)
        if tasks:
            yield replace(block, tasks=tasks)
