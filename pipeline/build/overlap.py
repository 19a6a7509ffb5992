"""Source and output of a build must not be inside each other."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.build.compatibility import FOLDERS
from pipeline.errors import UserError
from pipeline.storage import is_url, local_path

_LOCAL = frozenset({"file", "local"})
"""Protocols of fsspec that name a path of this machine."""


_SAME = {"s3a": "s3", "gcs": "gs"}
"""Protocols with two names."""


def check_overlap(source: str, output: str) -> None:
    """Check that the output is not inside the source, nor the source in what a build writes. Links are followed.

    The next run would list what is written as a class of its own.

    Args:
        source: Path or URL of the photographs.
        output: Path or URL of the data set.

    Raises:
        UserError: They overlap.
    """
    if _inside(output, source):
        raise UserError(
            f"the output {output} is in the source {source}: the next run would take it for photographs; "
            "choose a folder outside the source"
        )
    for name in FOLDERS:
        if _inside(source, f"{output.rstrip('/')}/{name}"):
            raise UserError(
                f"the source {source} is in {name}/ of the output {output}, where the build writes; "
                "choose another output folder"
            )


def _inside(location: str, folder: str) -> bool:
    """Return whether a location is a folder or below it, as far as can be known. All links are followed."""
    if _is_local(location) and _is_local(folder):
        return _inside_path(_path(location), _path(folder))
    if _is_local(location) or _is_local(folder):
        return False
    here, there = _url_parts(location), _url_parts(folder)
    return here[: len(there)] == there


def _inside_path(path: Path, folder: Path) -> bool:
    path, place = _resolved(path), _resolved(folder)
    if place == path or place in path.parents:
        return True
    try:
        wanted = place.stat()
        linked = (
            [Path(each.path) for each in os.scandir(place) if each.is_symlink() and each.is_dir()]
            if place.is_dir()
            else []
        )
    except OSError:
        return False
    if place.is_dir() and any(_same(each, wanted) for each in (path, *path.parents)):  # mounted twice, say
        return True
    return any(target == path or target in path.parents for target in map(_resolved, linked))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} cannot be used: {error}") from error


def _same(path: Path, other: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), other)
    except OSError:
        return False


def _is_local(location: str) -> bool:
    return not is_url(location) or urlsplit(location).scheme in _LOCAL


def _path(location: str) -> Path:
    return Path(location.partition("://")[2]) if is_url(location) else local_path(location)


def _url_parts(url: str) -> list[str]:
    """Return protocol, host and the names of the path."""
    protocol, _, rest = url.partition("://")
    return [_SAME.get(protocol.lower(), protocol.lower()), *(part for part in rest.split("/") if part)]
