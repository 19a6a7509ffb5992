"""What stands for the samples of a rendered data set: tables of ``rendered.toml``, and images of the listing."""

from functools import cached_property
from typing import Annotated

import tomli_w
from pydantic import Field, model_validator

from manifests import ListedImage
from manifests.limits import MAX_SAMPLE_PIXELS
from pipeline.config import StrictTable
from pipeline.sources.base import SourceImage
from pipeline.transforms.family import Condition

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Side = Annotated[int, Field(ge=1, le=MAX_SAMPLE_PIXELS)]


class OutputTable(StrictTable):
    """One of the tables ``[[outputs]]``: the samples of a condition, and the digests of that of the first image."""

    transform: str
    level: int
    frames: Annotated[int, Field(ge=1, le=1000)]
    height: Side
    width: Side
    payload_sha256: Digest
    pixel_sha256: Digest

    @model_validator(mode="after")
    def _is_small(self) -> "OutputTable":
        if (pixels := self.frames * self.height * self.width) > MAX_SAMPLE_PIXELS:
            raise ValueError(f"frames x height x width is {pixels}: at most {MAX_SAMPLE_PIXELS} are allowed")
        return self

    @cached_property
    def condition(self) -> Condition:
        """Transform and level."""
        return Condition(self.transform, self.level)


class RenderedTable(StrictTable):
    """The content of ``rendered.toml``: what stands for the samples of a rendered data set.

    Attributes:
        location: Folder or URL of the source images.
        listing: SHA-256 of the listing.
        images: Number of images in the listing.
        prepared: Height and width of a prepared photograph. None if the family does not prepare plain images.
        outputs: The samples of each condition, in the order of the recipe.
    """

    location: str
    listing: Digest
    images: Annotated[int, Field(ge=1)]
    prepared: tuple[Side, Side] | None = None
    outputs: tuple[OutputTable, ...]

    def to_toml(self) -> str:
        """Return the content of rendered.toml."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


BOX = ("left", "top", "right", "bottom")
"""Columns of a listing with the box of an image."""


def source_image(image: ListedImage) -> SourceImage:
    """Return the reference to a listed image."""
    edges = (image.left, image.top, image.right, image.bottom)
    box = None if image.left is None else edges
    return SourceImage(image.source_id, image.label, image.class_name, image.origin, image.length, box)  # type: ignore[arg-type]
