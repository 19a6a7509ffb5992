"""Reasons of failed samples, as text that does not depend on the machine or the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import SampleError

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_PATH = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\":,;()]+/)+([^\s/'\":,;()]+)")
"""An absolute path; the group is the name of the file."""


@dataclass(frozen=True)
class Failure:
    """A failure in place of an image, an output or a payload.

    Attributes:
        reason: Text for the manifest column ``error``.
    """

    reason: str


def failure_reason(error: BaseException, roots: Sequence[str]) -> str:
    """Return the text of an error, without parts that depend on the machine or the run.

    Args:
        error: Exception of a reader, a transform or an encoder.
        roots: Folders and URLs of source and output, the longest first. They are removed from the start of paths.

    Returns:
        The text, without ``roots``, the folders of other absolute paths, and object addresses.
    """
    if isinstance(error, SampleError):
        text = str(error)
    else:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        text = f"{type(error).__name__}: {message or 'no reason was given'}"
    for root in roots:
        text = text.replace(f"{root}/", "")
    return _PATH.sub(r"\1", _ADDRESS.sub("", text))
