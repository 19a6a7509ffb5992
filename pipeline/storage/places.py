"""Where the source of a build or the files of an index are, as their user once said: remembered on this machine.

A data set may come from anybody, and so may the places that its own files name: opening those could send requests or
read what the user never meant. So they are only believed where this user, on this machine, has named the same place.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Literal

from corruptions.cache import user_cache
from pipeline.storage import is_url, local_path

Role = Literal["source", "data"]
"""What a place is to a data set: the photographs of a build, or the files of an index."""


def remember(folder: str, role: Role, location: str) -> None:
    """Note the place that a user has named for a data set. Where nothing can be written, nothing is remembered."""
    note = _note(folder, role)
    content = {"data_set": absolute(folder), "role": role, "location": absolute(location)}
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        aside = note.with_suffix(f".{uuid.uuid4().hex}")
        aside.write_text(json.dumps(content), encoding="utf-8")
        os.replace(aside, note)


def recall(folder: str, role: Role) -> str | None:
    """Return the place that a user of this machine has named for a data set; None where none has."""
    try:
        content = json.loads(_note(folder, role).read_text(encoding="utf-8"))
        return str(content["location"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def absolute(location: str) -> str:
    """Return a URL as it is, and a path from the root of the file system, its links followed."""
    return location.rstrip("/") if is_url(location) else str(local_path(location).resolve())


def _note(folder: str, role: Role) -> Path:
    name = hashlib.sha256(f"{role}\n{absolute(folder)}".encode("utf-8", "surrogateescape")).hexdigest()
    return user_cache() / "places" / f"{name[:32]}.json"
