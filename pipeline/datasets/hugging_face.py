"""Data sets as iterable data sets of Hugging Face's package ``datasets``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.images.encoders import Jpeg, Png, encode_members

if TYPE_CHECKING:
    import datasets

_IMAGE, _FRAMES = "image", "frames"
"""Column with the image, or with the frames of a sequence."""


def iterable_dataset(
    read: Callable[[Sequence[Any]], Iterator[Sample]], chunks: Sequence[Any], sequences: bool
) -> datasets.IterableDataset:
    """Return the samples of a data set, see ``DataSet.to_hf``.

    Args:
        read: Function of some chunks that returns their samples. Processes get a copy.
        chunks: The chunks, which the package ``datasets`` distributes over processes.
        sequences: Whether the samples are sequences of frames.
    """
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{error.name} is not installed: pip install datasets") from error
    image = {_FRAMES: datasets.List(datasets.Image())} if sequences else {_IMAGE: datasets.Image()}
    integer, text = datasets.Value("int64"), datasets.Value("string")
    columns = {"label": integer, "transform": text, "level": integer, "source_id": text}
    return datasets.IterableDataset.from_generator(
        _examples,
        features=datasets.Features({**image, **columns}),
        gen_kwargs={"read": read, "chunks": chunks, "sequences": sequences},  # its only list is distributed
        split=datasets.Split.TEST,
    )


def _examples(
    read: Callable[[Sequence[Any]], Iterator[Sample]], chunks: Sequence[Any], sequences: bool
) -> Iterator[dict[str, Any]]:
    """Yield the samples of chunks as examples."""
    for sample in read(chunks):
        row, images = sample.row, [{"bytes": data, "path": None} for data in _image_files(sample)]
        content = {_FRAMES: images} if sequences else {_IMAGE: images[0]}
        columns = {"label": row.label, "transform": row.transform, "level": row.level}
        yield {**content, **columns, "source_id": row.source_id}


def _image_files(sample: Sample) -> list[bytes]:
    """Return the frames as image files: the payload if it is JPEG or PNG, else PNG with the same pixels."""
    if isinstance(sample.encoder, Jpeg | Png):
        return list(sample.members.values())
    return list(encode_members(Png(), sample.pixels()).values())
