"""Locations that the user has confirmed for the source of a build or the files of an index, stored on this machine.

The files of a downloaded data set may contain any location. Opening it could send requests or read private files.
Therefore such a location is used only if this user has entered the same one for this data set on this machine.
"""

import hashlib
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from corruptions.cache import user_cache
from pipeline.storage import is_url, local_path

Role = Literal["source", "data", "frost"]
"""Purpose of a location: the source images of a build, the files of an index, or the frost textures."""


def remember(folder: str, role: Role, location: str) -> None:
    """Store the location that the user entered for a data set. Do nothing if the cache folder is not writable."""
    record = _record_file(folder, role)
    content = {"data_set": absolute(folder), "role": role, "location": absolute(location)}
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary = record.with_suffix(f".{uuid.uuid4().hex}")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        os.replace(temporary, record)


def move(folder: str, target: str) -> None:
    """Move what is stored for a data set to its new folder."""
    for role in get_args(Role):
        if (location := recall(folder, role)) is not None:
            remember(target, role, location)
            _record_file(folder, role).unlink(missing_ok=True)


def recall(folder: str, role: Role) -> str | None:
    """Return the location that the user entered for a data set, or None if none is stored."""
    try:
        content = json.loads(_record_file(folder, role).read_text(encoding="utf-8"))
        return str(content["location"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def absolute(location: str) -> str:
    """Return a URL unchanged, or the absolute path of a local location with its links resolved."""
    return location.rstrip("/") if is_url(location) else str(local_path(location).resolve())


def _record_file(folder: str, role: Role) -> Path:
    name = hashlib.sha256(f"{role}\n{absolute(folder)}".encode("utf-8", "surrogateescape")).hexdigest()
    return user_cache() / "places" / f"{name[:32]}.json"
