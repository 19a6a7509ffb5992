"""A check that source and output of a build are not inside each other."""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.builder.compatibility import FOLDERS
from pipeline.errors import UserError
from pipeline.storage import is_url, local_path

_LOCAL = frozenset({"file", "local"})
"""fsspec protocols of local paths."""

_ALIASES = {"s3a": "s3", "gcs": "gs"}
"""Protocol with two names -> the name that is compared."""


def check_overlap(source: str, output: str, folders: Iterable[str] = FOLDERS) -> None:
    """Check that the output is not inside the source, and the source not inside a folder that the build writes to.

    Otherwise, the next run would list the written files as source images. Links are followed.

    Args:
        source: Path or URL of the source images.
        output: Path or URL of the data set.
        folders: Folders in the output that the build writes to.

    Raises:
        UserError: They overlap.
    """
    if _inside(output, source):
        raise UserError(
            f"the output {output} is inside the source {source}, so the next build would use its files as images: "
            "use a folder outside the source"
        )
    for name in folders:
        if _inside(source, f"{output.rstrip('/')}/{name}"):
            raise UserError(
                f"the source {source} is inside {name}/ of the output {output}, where the build writes: "
                "use another output folder"
            )


def _inside(location: str, folder: str) -> bool:
    """Return whether a location is a folder or below it. Links are followed; False if it cannot be determined."""
    if _is_local(location) and _is_local(folder):
        return _inside_path(_path(location), _path(folder))
    if _is_local(location) or _is_local(folder):
        return False
    parts, folder_parts = _url_parts(location), _url_parts(folder)
    return parts[: len(folder_parts)] == folder_parts


def _inside_path(path: Path, folder: Path) -> bool:
    path, folder = _resolved(path), _resolved(folder)
    if folder == path or folder in path.parents:
        return True
    try:
        folder_stat = folder.stat()
        linked = (
            [Path(each.path) for each in os.scandir(folder) if each.is_symlink() and each.is_dir()]
            if folder.is_dir()
            else []
        )
    except OSError:
        return False
    # Compare files, not only paths: a folder may be mounted twice.
    if folder.is_dir() and any(_same(each, folder_stat) for each in (path, *path.parents)):
        return True
    return any(target == path or target in path.parents for target in map(_resolved, linked))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"cannot resolve {path}: {error}") from error


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
    """Return the protocol, the host and the parts of the path."""
    protocol, _, rest = url.partition("://")
    return [_ALIASES.get(protocol.lower(), protocol.lower()), *(part for part in rest.split("/") if part)]
