"""Why a sample failed, in words that do not depend on machine or run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import SampleError

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_PATH = re.compile(r"(?<![\w.:/~-])/(?:[^\s/'\":,;()]+/)+([^\s/'\":,;()]+)")
"""An absolute path; the group is the file's name."""


@dataclass(frozen=True)
class Failure:
    """What stands in place of an image, an output or a payload that could not be made.

    ``reason``: the text of the manifest's column ``error``.
    """

    reason: str


def failure_reason(error: BaseException, roots: Sequence[str]) -> str:
    """Return an error's text without what differs between machines and runs.

    Args:
        error: What a reader, a transform or an encoder raised.
        roots: Folders and URLs of source and output, the longest first; they are cut off where they start a path.

    Returns:
        The text, without ``roots``, folders of other absolute paths, and object addresses.
    """
    if isinstance(error, SampleError):
        text = str(error)
    else:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        text = f"{type(error).__name__}: {message or 'no reason was given'}"
    for root in roots:
        text = text.replace(f"{root}/", "")
    return _PATH.sub(r"\1", _ADDRESS.sub("", text))
