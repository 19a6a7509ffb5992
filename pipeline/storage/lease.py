"""One build at a time where there are no kernel locks: tickets and signs of life as files.

A build leaves a ticket, whose time the store itself notes, and renews a sign of life. Who finds a ticket that is no
younger than its own, and whose owner lives, gives way. Writing before looking is what makes this safe: of two builds at
least one sees the other. A build that was killed shows no sign of life any more, and its ticket is cleared away.
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
        """The files below a folder."""

    def modified(self, name: str) -> datetime | None:
        """When a file was last written, by the store's own clock; None where there is none."""


@contextmanager
def lease(files: Files) -> Iterator[None]:
    """Hold the store for as long as the block runs. Raises UserError where another build holds it."""
    for attempt in (1, 2):
        with _ticket(files) as own:
            before = _no_younger(files, own)
            tied = files.modified(own + _TICKET) in before.values()
            if not tied or attempt == 2:
                _refuse_if_alive(files, before)
                for other in before:
                    _clear(files, other)
                yield
                return
        time.sleep(random.uniform(0, TIE_WAIT_S))


def check_lease(files: Files) -> None:
    """Raises UserError where another build holds the store; writes nothing."""
    _refuse_if_alive(files, _tickets(files))


def _refuse_if_alive(files: Files, others: Iterable[str]) -> None:
    if any(_lives(files, other) for other in others):
        raise UserError(f"another build is writing to {files.root}; wait for it or choose another folder")


def _tickets(files: Files) -> list[str]:
    return [name.removesuffix(_TICKET) for name in files.listing(_FOLDER, _TICKET)]


@contextmanager
def _ticket(files: Files) -> Iterator[str]:
    """A ticket of our own, with signs of life until the block ends."""
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


def _no_younger(files: Files, own: str) -> dict[str, datetime]:
    """The tickets of others that were left before ours or in the same moment, and when."""
    ours = files.modified(own + _TICKET)
    if ours is None:
        raise UnreachableError(f"{files.root} does not keep what is written to it")
    times = {other: files.modified(other + _TICKET) for other in _tickets(files) if other != own}
    return {other: left for other, left in times.items() if left is not None and left <= ours}


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
