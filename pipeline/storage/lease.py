"""One build at a time where there are no kernel locks: tickets and signs of life as files.

A build leaves a ticket and renews a sign of life. Who finds the ticket of another that lives gives way. Writing before
looking is what makes this safe: of two builds at least one sees the other. When tickets were left does not decide (a
store may show a ticket later than the time that it notes for it, and by then another build has looked); it only tells
builds of the same moment, which may have seen each other, from those that came later. A build that was killed shows no
sign of life any more, and its ticket is cleared away.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from pipeline.errors import UnreachableError, UserError

RENEW_S = 5.0
DEAD_AFTER_S = 20.0
"""Without a sign of life for so long, a build is taken for dead."""

TIE_WAIT_S = 5.0
"""At most so long do builds that began in the same moment wait, before each tries a second time."""

_FOLDER, _TICKET, _LIFE = ".lock", ".ticket", ".alive"


class Files(Protocol):
    """What a lease needs of a store."""

    root: str

    def publish_bytes(self, data: bytes, name: str) -> None:
        """Write a small file at once."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    def listing(self, folder: str, suffix: str) -> dict[str, int]:
        """Return the files below a folder."""

    def modified(self, name: str) -> datetime | None:
        """When a file was last written, by the store's own clock; None where there is none."""


@contextmanager
def lease(files: Files) -> Iterator[None]:
    """Hold the store for as long as the block runs. Raises UserError where another build holds it."""
    for attempt in (1, 2):
        with _ticket(files) as own:
            others = [ticket for ticket in _tickets(files) if ticket != own]
            if attempt == 2 or _came_last(files, own, others):
                _refuse_if_alive(files, others)
                for other in others:
                    _clear(files, other)
                yield
                return
        time.sleep(random.uniform(0, TIE_WAIT_S))


def check_lease(files: Files) -> None:
    """Raise UserError where another build holds the store; writes nothing."""
    _refuse_if_alive(files, _tickets(files))


def _refuse_if_alive(files: Files, others: Iterable[str]) -> None:
    if any(_lives(files, other) for other in others):
        raise UserError(f"another build is writing to {files.root}; wait for it or choose another folder")


def _tickets(files: Files) -> list[str]:
    return [name.removesuffix(_TICKET) for name in files.listing(_FOLDER, _TICKET)]


@contextmanager
def _ticket(files: Files) -> Iterator[str]:
    """Leave a ticket of our own, with signs of life until the block ends. Gives its name."""
    own = f"{_FOLDER}/{uuid.uuid4().hex}"
    files.publish_bytes(b"", own + _LIFE)
    files.publish_bytes(b"", own + _TICKET)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(files, own, ended), daemon=True)
    renewing.start()
    try:
        yield own
    finally:
        ended.set()
        renewing.join()
        _clear(files, own)


def _renew(files: Files, own: str, ended: threading.Event) -> None:
    while not ended.wait(RENEW_S):
        try:
            files.publish_bytes(b"", own + _LIFE)
        except (OSError, UnreachableError):
            continue  # the work itself will tell; the next sign of life may get through


def _came_last(files: Files, own: str, others: Iterable[str]) -> bool:
    """Whether all the tickets of others were left before ours."""
    ours = files.modified(own + _TICKET)
    if ours is None:
        raise UnreachableError(f"{files.root} does not keep what is written to it")
    times = (files.modified(other + _TICKET) for other in others)
    return all(left is None or left < ours for left in times)


def _lives(files: Files, other: str) -> bool:
    """Whether a ticket's owner shows a sign of life while we watch."""
    last, until = files.modified(other + _LIFE), time.monotonic() + DEAD_AFTER_S
    while time.monotonic() < until:
        time.sleep(1.0)
        if files.modified(other + _TICKET) is None:
            return False
        if files.modified(other + _LIFE) != last:
            return True
    return False


def _clear(files: Files, ticket: str) -> None:
    files.remove(ticket + _TICKET)
    files.remove(ticket + _LIFE)
