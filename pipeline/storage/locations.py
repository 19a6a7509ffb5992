"""Checks of the locations that users enter: local paths and URLs."""

from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import UserError

WRAPPERS = frozenset(
    {
        *("asynclocal", "asyncwrapper", "blockcache", "cached", "data", "dask", "dir", "filecache", "generic", "git"),
        *("jupyter", "jlab", "lakefs", "libarchive", "reference", "simplecache", "tar", "zip"),
    }
)
"""Protocols of fsspec that wrap another store, follow references in a file, or contain their data in the URL."""

CHAIN = "::"
"""Separator between chained protocols in fsspec."""


def is_url(location: str) -> bool:
    """Return whether a location is a URL rather than a path."""
    return "://" in location


def local_path(location: str) -> Path:
    """Return the path that a user entered, with ``~`` expanded. Raise UserError if it is not a valid path."""
    if not location.strip():
        raise UserError("a path is empty: give a folder or file; use '.' for the current folder")
    if "\0" in location:
        raise UserError(f"invalid path {location!r}: paths cannot contain NUL bytes")
    try:
        return Path(location).expanduser()
    except RuntimeError:
        raise UserError(f"invalid path {location!r}: that user has no home folder; give the absolute path") from None


def check_url(url: str) -> None:
    """Raise UserError if a URL contains credentials, chains protocols, or uses a protocol that wraps another."""
    parts = urlsplit(url)
    if CHAIN in url or parts.scheme in WRAPPERS:
        raise UserError(
            f"invalid URL {url!r}: chained protocols and protocols that wrap another are not allowed, because they can "
            "run code from a file; give the location itself, for example s3://bucket/folder"
        )
    if parts.password or parts.query:
        raise UserError(
            f"the URL {parts.scheme}://{parts.hostname}... contains credentials, which would be written to files: set "
            "them as the provider documents, for example by environment variables or a configuration file"
        )
