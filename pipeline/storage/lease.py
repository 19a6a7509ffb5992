"""A lock for stores without kernel locks, made of ticket and heartbeat files.

Each build writes a ticket and updates a heartbeat file. A build that finds another live build's ticket backs off. Each
build writes its ticket before listing, so at least one of two sees the other. Ticket times cannot decide which build
came first, because a store may show a ticket later than its time and another build may have listed in between. They
only show whether two builds started at the same time: these may have seen each other, so both wait and try again. The
heartbeat of a killed build stops, and the next build deletes its ticket.
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
from pipeline.storage.base import Store

HEARTBEAT_S = 5.0
TIMEOUT_S = 20.0
"""Seconds without a heartbeat after which a build is considered dead."""

TIE_WAIT_S = 5.0
"""Longest random wait in seconds before builds that started at the same time try again."""

_FOLDER, _TICKET, _HEARTBEAT = ".lock", ".ticket", ".alive"


class Files(Store, Protocol):
    """A store whose files have times."""

    def modified(self, name: str) -> datetime | None:
        """Return when a file was last written, by the clock of the store, or None if it does not exist."""


@contextmanager
def lease(files: Files) -> Iterator[None]:
    """Lock the store while the block runs. Raise UserError if another build holds the lock."""
    for attempt in (1, 2):
        with _ticket(files) as own:
            others = [ticket for ticket in _tickets(files) if ticket != own]
            if attempt == 2 or _is_newest(files, own, others):
                _refuse_if_alive(files, others)
                for other in others:
                    _delete(files, other)
                yield
                return
        time.sleep(random.uniform(0, TIE_WAIT_S))


def check_lease(files: Files) -> None:
    """Raise UserError if another build holds the lock. Write nothing."""
    _refuse_if_alive(files, _tickets(files))


def _refuse_if_alive(files: Files, others: Iterable[str]) -> None:
    if any(_is_alive(files, other) for other in others):
        raise UserError(f"another build is writing to {files.root}: wait for it to finish, or choose another folder")


def _tickets(files: Files) -> list[str]:
    return [name.removesuffix(_TICKET) for name in files.listing(_FOLDER, _TICKET)]


@contextmanager
def _ticket(files: Files) -> Iterator[str]:
    """Write a ticket and send heartbeats until the block ends. Yield the name of the ticket."""
    own = f"{_FOLDER}/{uuid.uuid4().hex}"
    files.publish_bytes(b"", own + _HEARTBEAT)
    files.publish_bytes(b"", own + _TICKET)
    ended = threading.Event()
    heartbeats = threading.Thread(target=_send_heartbeats, args=(files, own, ended), daemon=True)
    heartbeats.start()
    answers = True
    try:
        yield own
    except UnreachableError:  # deleting the ticket would wait for the store once more; it expires
        answers = False
        raise
    finally:
        ended.set()
        if answers:
            heartbeats.join()
            _delete(files, own)


def _send_heartbeats(files: Files, own: str, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_S):
        try:
            files.publish_bytes(b"", own + _HEARTBEAT)
        except (OSError, UnreachableError):
            continue  # the build itself reports such errors; the next heartbeat may succeed


def _is_newest(files: Files, own: str, others: Iterable[str]) -> bool:
    """Return whether all other tickets are older than this one."""
    own_time = files.modified(own + _TICKET)
    if own_time is None:
        raise UnreachableError(f"{files.root} lost a file that was just written to it")
    times = (files.modified(other + _TICKET) for other in others)
    return all(written is None or written < own_time for written in times)


def _is_alive(files: Files, other: str) -> bool:
    """Return whether the owner of a ticket sends a heartbeat within the timeout."""
    last, until = files.modified(other + _HEARTBEAT), time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        time.sleep(1.0)
        if files.modified(other + _TICKET) is None:
            return False
        if files.modified(other + _HEARTBEAT) != last:
            return True
    return False


def _delete(files: Files, ticket: str) -> None:
    files.remove(ticket + _TICKET)
    files.remove(ticket + _HEARTBEAT)
