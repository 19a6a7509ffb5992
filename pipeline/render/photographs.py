"""The photographs of a source as inputs of transforms, compared with the digests of a listing."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.render.prepared_cache import PreparedCache
from pipeline.render.renderer import Image, Renderer, source_digest
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.threads import ReadAhead


class Photographs:
    """Photographs that are read, checked and prepared on demand.

    The first time that a process uses a photograph, its bytes are compared with the listing, even if the prepared one
    is in the cache.

    Args:
        source: The opened source.
        renderer: The recipe as functions.
        cache: Prepared photographs.
        count: Number of images in the listing.
    """

    def __init__(self, source: Source, renderer: Renderer, cache: PreparedCache, count: int) -> None:
        self._source, self._renderer, self._cache = ReadAhead(source), renderer, cache
        self._checked = np.zeros(count, bool)
        self._latest: Mapping[int, Any] = {}

    def expecting(self, images: Iterable[tuple[int, SourceImage]]) -> AbstractContextManager[None]:
        """Read these photographs in advance, given their indices, as far as they are needed, until the block ends."""
        return self._source.expecting(
            image for index, image in images if not (self._checked[index] and self._cache.has(index))
        )

    def prepared(self, index: int, image: SourceImage, sha256: str) -> Any:
        """Return the input of the transforms for one photograph, given its index and digest in the listing.

        Raises:
            UserError: It has changed since it was listed, or cannot be read.
            SampleError: It cannot be decoded or prepared.
        """
        if index not in self._latest:
            self._latest = {index: self._prepared(index, image, sha256)}
        return self._latest[index]

    def _prepared(self, index: int, image: SourceImage, sha256: str) -> Any:
        data = None
        if not self._checked[index]:
            data = self._read(image, sha256)
            self._checked[index] = True
        cached = self._cache.get(index, sha256)
        if cached is not None:
            return cached
        if data is None:
            data = self._read(image, sha256)
        prepared = self._renderer.prepare(self._renderer.decode(data, image.box))
        if plain_size(prepared):
            self._cache.store(index, sha256, prepared)
        return prepared

    def _read(self, image: SourceImage, sha256: str) -> bytes | Image:
        try:
            data = self._source.read(image)
        except OSError as error:
            raise UserError(
                f"cannot read the source image {image.origin}: {error.strerror or error}; restore it, or render again"
            ) from error
        if (found := source_digest(data)) != sha256:
            raise UserError(
                f"the source image {image.origin} has changed since the data set was rendered (sha256 {found[:12]} "
                f"instead of {sha256[:12]}): restore it, or render the data set again"
            )
        return data


def plain_size(prepared: object) -> tuple[int, int] | None:
    """Return height and width of the input of the transforms; None if it is not an image, uint8 (H, W, 3)."""
    is_plain = isinstance(prepared, np.ndarray) and prepared.dtype == np.uint8 and prepared.ndim == 3
    return prepared.shape[:2] if is_plain else None  # type: ignore[attr-defined]
