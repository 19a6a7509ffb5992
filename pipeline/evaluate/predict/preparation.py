"""Images that are not prepared yet: the steps that prepare them, and which of them can be prepared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

import manifests
from corruptions.preparation import STEPS, centre_window, size_after
from corruptions.registry import unknown
from pipeline.datasets.base import Chunk, DataSet
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.evaluate.results.folder import InputTable
from pipeline.images.decoders import Image, decode
from pipeline.images.fingerprints import decoder_fingerprint, same_pixels
from pipeline.images.resizers import OPERATORS, prepare
from pipeline.tasks.schema import Steps
from pipeline.text import counted, shown

DECODER = "pillow"
"""Decoder of images that are not prepared yet."""

RESIZE = "pillow-bilinear"
"""Default resize operator."""

CROP = "center_crop"
"""Step whose value is replaced by the side that a model requires."""

NO_STEPS = "none"
"""Value of ``--steps`` that uses images as they are."""

_STEPS = TypeAdapter(Steps)


@dataclass(frozen=True)
class Preparation:
    """How the images of a data set are prepared before the model gets them.

    Attributes:
        steps: Pairs of step name and value, in order.
        resize: Name of the resize operator.
    """

    steps: Steps
    resize: str

    def __str__(self) -> str:
        """Return the steps as ``--steps`` takes them."""
        return ",".join(f"{name}={value:g}" for name, value in self.steps)

    def size(self, height: int, width: int) -> tuple[int, int] | None:
        """Return the (height, width) of a prepared image; None if a crop is larger than its input."""
        try:
            for step in self.steps:
                size = size_after(height, width, step)
                if STEPS[step[0]].crops:
                    centre_window(height, width, *size)
                height, width = size
        except ValueError:
            return None
        return (height, width) if height and width else None

    def pixels(self, sample: Sample) -> Image:
        """Return a prepared image, uint8 (H, W, 3). Raise SampleError or ValueError if it cannot be read."""
        image = sample.pixels() if sample.encoder.bare else decode(sample.payload(), DECODER)
        if image.shape[:2] != (sample.row.height, sample.row.width):
            raise ValueError(
                f"{sample.row.key} is {image.shape[1]} x {image.shape[0]} instead of {sample.row.width} x "
                f"{sample.row.height}"
            )
        return prepare(image, self.steps, self.resize)


@dataclass(frozen=True)
class EvaluatedImages:
    """The images of an evaluation.

    Attributes:
        data_set: Their data set.
        chunks: All chunks. Images that cannot be prepared count as failed.
        preparation: How they are prepared. None if they are used as they are.
        unprepared: Number of images that cannot be prepared, because they are smaller than a crop.
    """

    data_set: DataSet
    chunks: Sequence[Chunk]
    preparation: Preparation | None = None
    unprepared: int = 0

    @property
    def fullest(self) -> int:
        """The number of images in the largest chunk, the most that a model can get at once."""
        return max(chunk.frames for chunk in self.chunks)

    @property
    def first(self) -> Chunk:
        """The first chunk with images. Raises UserError if there is none."""
        for chunk in self.chunks:
            if chunk.frames:
                return chunk
        raise UserError(
            f"{self.data_set.name} has no samples to evaluate, since all of them failed in the build: build it again"
        )

    def size(self) -> tuple[int, int]:
        """Return the (height, width) of the images of the first chunk, after preparation.

        Raises:
            UserError: There are no images, or they have different sizes.
        """
        rows = [row for row in self.data_set.rows_of(self.first) if row.status == manifests.OK]
        sizes = dict.fromkeys(prepared_size(self.preparation, row) for row in rows)
        found = [size for size in sizes if size]
        if len(found) > 1:
            raise UserError(f"{self.data_set.name} has {different_sizes(found)}")
        return found[0]


def prepared_size(preparation: Preparation | None, row: manifests.Row) -> tuple[int, int] | None:
    """Return the (height, width) of an image as the model gets it; None if it cannot be prepared."""
    height, width = row.height or 0, row.width or 0
    return preparation.size(height, width) if preparation else (height, width)


def different_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """Return the description of images of different sizes (height, width), and what to do."""
    (height, width), (other_height, other_width), *_ = sizes
    return (
        f"images of different sizes, for example {width} x {height} and {other_width} x {other_height}: prepare them "
        "with --steps, for example shorter_side=256,center_crop=224, or index them with a --task"
    )


def current_decoder(recorded: str | None) -> str:
    """Return the fingerprint of this machine's decoder, or the recorded one if both give the same pixels."""
    current = decoder_fingerprint(DECODER)
    return recorded if recorded and same_pixels(recorded, current) else current


def recorded_preparation(table: InputTable) -> Preparation | None:
    """Return the preparation that an evaluation has recorded."""
    return None if table.steps is None else Preparation(table.steps, table.resize or RESIZE)


def parsed_steps(steps: Any) -> Steps:
    """Return preparation steps: as text, NAME=VALUE,... or none, or as pairs of a name in ``STEPS`` and its value.

    Raises:
        UserError: A name is unknown, or a value is not a number above 0 and up to 8192.
    """
    try:
        pairs: Any = () if steps == NO_STEPS else steps
        if isinstance(pairs, str):
            pairs = tuple(part.strip().partition("=")[::2] for part in pairs.split(","))
        if any(isinstance(value, bool) for pair in pairs for value in pair):
            raise TypeError
        return _STEPS.validate_python(tuple(map(tuple, pairs)))
    except (ValidationError, TypeError) as error:
        raise UserError(
            f"invalid steps {shown(str(steps))}: use pairs of a name and a value above 0 and up to 8192, for example "
            f"shorter_side=256,center_crop=224; names: {', '.join(STEPS)}"
        ) from error


def choose_preparation(
    data_set: DataSet, steps: Steps | None, resize: str | None, side: int | None
) -> Preparation | None:
    """Return how the images of a data set are prepared; None if they are used as they are.

    Args:
        data_set: The data set, whose task may have steps.
        steps: Steps of the user. None uses those of the task.
        resize: Resize operator of the user. None uses that of the task.
        side: Side in pixels that the model requires. None or 0 if it accepts the size of the steps.

    Raises:
        UserError: The resize operator is unknown or has no steps, or the data set consists of sequences.
    """
    task = data_set.task
    if resize is not None and resize not in OPERATORS:
        raise UserError(unknown("resize operator", resize, allowed=OPERATORS))
    chosen = steps if steps is not None else task.steps if task else ()
    if not chosen:
        if resize is not None:
            raise UserError(f"--resize {resize} has no effect without steps: give --steps too, or omit --resize")
        return None
    if data_set.attack:
        raise UserError(f"{data_set.name} has adversarial images, whose size is that of the attack: omit --steps")
    if data_set.family.sequences:
        raise UserError(f"{data_set.name} consists of sequences, which cannot be prepared by steps: omit --steps")
    return Preparation(_for_side(chosen, side or 0), resize or (task.resize if task else RESIZE))


def images_of(data_set: DataSet, chunks: Sequence[Chunk], preparation: Preparation | None) -> EvaluatedImages:
    """Return the images of all chunks of a data set. Those that cannot be prepared count as failed.

    Raises:
        UserError: No image can be prepared, or prepared images have different sizes.
    """
    if preparation is None:
        return EvaluatedImages(data_set, chunks)
    sound, sizes = _sizes(data_set)
    distinct, kind = np.unique(sizes[sound], axis=0, return_inverse=True)
    results = [preparation.size(height, width) for height, width in distinct.tolist()]
    found = list(dict.fromkeys(size for size in results if size))
    if results and not found:
        height, width = distinct[0]
        raise UserError(
            f"the steps {preparation} can prepare none of the {counted(len(kind), 'image')} of {data_set.name}, for "
            f"example of {width} x {height}: resize before a crop, or crop less"
        )
    if len(found) > 1:
        raise UserError(
            f"the steps {preparation} prepare {data_set.name} to {different_sizes(found)}; the last step must be "
            f"{CROP} or square"
        )
    fits = np.zeros(len(sound), np.int64)
    fits[sound] = np.array([size is not None for size in results], bool)[kind.ravel()]
    before = np.concatenate([[0], np.cumsum(fits)])
    samples = [int(before[chunk.first + chunk.count] - before[chunk.first]) for chunk in chunks]
    prepared = [replace(chunk, samples=count, frames=count) for chunk, count in zip(chunks, samples, strict=True)]
    return EvaluatedImages(data_set, prepared, preparation, int(sound.sum() - fits.sum()))


def _for_side(steps: Steps, side: int) -> Steps:
    """Return steps whose last central crop is ``side``, with the last resize before it in proportion.

    Steps that do not resize before a central crop at their end are returned unchanged; 0 changes nothing.
    """
    name, crop = steps[-1]
    resizes = [position for position, step in enumerate(steps[:-1]) if not STEPS[step[0]].crops]
    if name != CROP or not resizes or side in (0, crop):
        return steps
    last = resizes[-1]
    resize = (steps[last][0], float(int(steps[last][1] * side / crop)))
    return (*steps[:last], resize, *steps[last + 1 : -1], (CROP, float(side)))


def _sizes(data_set: DataSet) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return, for each row of the manifest, whether it is ok, and its height and width."""
    sound, sizes = [np.zeros(0, bool)], [np.zeros((0, 2), np.int64)]
    for table in data_set.tables(("status", "height", "width")):
        sound.append(pc.equal(table["status"].cast(pa.string()), manifests.OK).to_numpy())
        sides = (pc.fill_null(table[name], 0).to_numpy() for name in ("height", "width"))
        sizes.append(np.stack([*sides], axis=1).astype(np.int64))
    return np.concatenate(sound), np.concatenate(sizes)
