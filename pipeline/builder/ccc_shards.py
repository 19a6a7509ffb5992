"""A stored part of a stream of CCC: tars with the members of the published ones."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context

import cv2

from corruptions import ccc
from corruptions.catalogue import Image
from pipeline.datasets.paths import content_of
from pipeline.datasets.shards import ShardWriter
from pipeline.execution.resumable import JobFolder
from pipeline.images.encoders import Jpeg
from pipeline.render.ccc import CCCImages, Place
from pipeline.storage import SMALL_FILE, open_store

SHARD_IMAGES = 25_000
"""A shard is complete with the step that reaches this number of images."""

TOGETHER = 32
"""Number of images that a worker makes at a time."""

ABOUT = "ccc.json"
"""File of a stored stream that says what it holds."""

STREAM = JobFolder("stream or number of images", ABOUT)
"""The output of a stored stream."""


def write_shards(made: CCCImages, out: str, workers: int, progress: Callable[[int], None]) -> int:
    """Write the images of a stream as the published tars, and return the number of tars.

    Tars that an earlier run has finished are kept.

    Args:
        made: The images.
        out: Folder or URL.
        workers: Processes.
        progress: Called with the number of images of each finished tar.

    Raises:
        UserError: The folder holds something else, or a source image cannot be read.
    """
    store = open_store(out)
    facts = json.dumps({"stream": str(made.stream), "images": made.length, "digest": made.digest}, indent=1).encode()

    def conflicts() -> list[str]:
        return [] if store.read(ABOUT, limit=SMALL_FILE) == facts else [f"its {ABOUT} differs"]

    speed, shards = made.stream.speed, 0
    per_shard = -(-SHARD_IMAGES // speed)
    with store.exclusive(), ProcessPoolExecutor(workers, get_context("spawn"), _start, (made,)) as pool:
        STREAM.claim(store, content_of, conflicts)
        store.publish_bytes(facts, ABOUT)
        for shard, start in enumerate(range(0, len(made.steps), per_shard)):
            name, stop = f"shards/ccc-{shard:06d}.tar", min((start + per_shard) * speed, made.length)
            shards += 1
            if store.size(name) < 0:
                path = store.scratch()
                writer = ShardWriter(path)
                groups = [range(first, min(first + TOGETHER, stop)) for first in range(start * speed, stop, TOGETHER)]
                for members in chain.from_iterable(pool.map(_members, groups)):
                    writer.add(members)
                writer.finish()
                store.publish(path, name)
            progress(stop - start * speed)
    return shards


_IN_WORKER: list[CCCImages] = []
"""What a worker process makes."""


def _start(made: CCCImages) -> None:
    cv2.setNumThreads(1)
    _IN_WORKER[:] = [made]


def _members(numbers: Sequence[int]) -> list[dict[str, bytes]]:
    """Return the members of images of the stream: name -> content for each image."""
    places = [_IN_WORKER[0].at(number) for number in numbers]
    images = _IN_WORKER[0].rendered(places)
    return [_sample(*each) for each in zip(numbers, places, images, strict=True)]


def _sample(number: int, place: Place, pixels: Image) -> dict[str, bytes]:
    _, step, image = place
    folder, _, file = image.origin.rpartition("/")
    first, second = (ccc.SHORT.get(name, name) for name in (step.first, step.second))
    info = (
        f"++dir++{image.class_name or folder}++name++{file}++n1++{first}++s1++{step.first_severity}"
        f"++n2++{second}++s2++{step.second_severity}"
    )
    members = {"input.jpg": Jpeg().encode(pixels), "output.cls": str(image.label).encode(), "info": info.encode()}
    return {f"sample_{number}.{suffix}": data for suffix, data in members.items()}
