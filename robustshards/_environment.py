"""The environment variables of the calling process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def preserve_environment() -> Iterator[None]:
    """Restore the environment variables that Ray and OpenCV set."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
