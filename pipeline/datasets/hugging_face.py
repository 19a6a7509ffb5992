"""Data sets as iterable data sets of Hugging Face's package ``datasets``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.datasets.base import Chunk, DataSet, Location
from pipeline.datasets.findings import DamagedShardError
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample
from pipeline.errors import UserError
from pipeline.images.encoders import Jpeg, Png, encode_members

if TYPE_CHECKING:
    import datasets

_IMAGE, _FRAMES = "image", "frames"
"""Column with the image, or with the frames of a sequence."""


def iterable_dataset(data_set: DataSet, transform: str | None, level: int | None) -> datasets.IterableDataset:
    """Return the samples of a data set, see ``DataSet.to_hf``."""
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{error.name} is not installed: pip install datasets") from error
    is_sequence = data_set.family.sequences
    image = {_FRAMES: datasets.List(datasets.Image())} if is_sequence else {_IMAGE: datasets.Image()}
    integer, text = datasets.Value("int64"), datasets.Value("string")
    columns = {"label": integer, "transform": text, "level": integer, "source_id": text}
    chunks = list(data_set.chunks_of(transform, level))
    # The package distributes the members of the only list over processes.
    return datasets.IterableDataset.from_generator(
        _examples,
        features=datasets.Features({**image, **columns}),
        gen_kwargs={"location": data_set.location, "chunks": chunks},
        split=datasets.Split.TEST,
    )


def _examples(location: Location, chunks: Sequence[Chunk]) -> Iterator[dict[str, Any]]:
    """Yield the samples of chunks as examples."""
    data_set = open_data_set(*location)
    for chunk in chunks:
        try:
            for sample in data_set.intact_samples(data_set.rows_of(chunk)):
                row, images = sample.row, [{"bytes": data, "path": None} for data in _image_files(sample)]
                content = {_FRAMES: images} if data_set.family.sequences else {_IMAGE: images[0]}
                columns = {"label": row.label, "transform": row.transform, "level": row.level}
                yield {**content, **columns, "source_id": row.source_id}
        except (DamagedShardError, OSError, ValueError) as error:
            raise UserError(f"{data_set.store.root} is damaged: {error}; run robustshards verify") from error


def _image_files(sample: Sample) -> list[bytes]:
    """Return the frames as image files: the payload if it is JPEG or PNG, else PNG with the same pixels."""
    if isinstance(sample.encoder, Jpeg | Png):
        return list(sample.members.values())
    return list(encode_members(Png(), sample.pixels()).values())
