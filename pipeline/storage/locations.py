"""What a user writes for a place: a path of this machine, or a URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import UserError

WRAPPERS = frozenset(
    {
        *("asynclocal", "asyncwrapper", "blockcache", "cached", "data", "dask", "dir", "filecache", "generic", "git"),
        *("jupyter", "jlab", "lakefs", "libarchive", "reference", "simplecache", "tar", "zip"),
    }
)
"""Protocols of fsspec that read what another file names, wrap another store, or hold their content themselves."""

CHAIN = "::"
"""What fsspec puts between chained protocols."""


def is_url(location: str) -> bool:
    """Whether a location is a URL, and not a path."""
    return "://" in location


def local_path(location: str) -> Path:
    """Return the path that a user wrote, ``~`` expanded. Raises UserError for what cannot be a path."""
    if not location.strip():
        raise UserError("a path is empty: name a folder or file; '.' is the current folder")
    if "\0" in location:
        raise UserError(f"the path {location!r} holds a NUL byte: no file can have that name")
    try:
        return Path(location).expanduser()
    except RuntimeError:
        raise UserError(f"{location!r} names the home folder of a user who has none: write the whole path") from None


def check_url(url: str) -> None:
    """Raise UserError for a URL that holds credentials, chains protocols, or names one that wraps another."""
    parts = urlsplit(url)
    if CHAIN in url or parts.scheme in WRAPPERS:
        raise UserError(
            f"the URL {url!r} is refused: protocols that are chained or wrap another can run what a file says; "
            "name the place itself, for example s3://bucket/folder"
        )
    if parts.password or parts.query:
        raise UserError(
            f"the URL {parts.scheme}://{parts.hostname}... holds credentials, which would be recorded: give them "
            "as the provider's own tools take them (environment, configuration file, role of the machine)"
        )
