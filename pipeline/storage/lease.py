"""A lock for stores without kernel locks, in a bucket or a folder: a ticket, which only one run writes and renews.

A run lists the tickets. If one of them is renewed while it waits, another run is alive, and it stops. Otherwise it
writes the ticket with the next number, by a write that fails if the file exists: of runs that start together, one
succeeds. It lists once more, and stops if there is a ticket that it did not see at first: each run writes before this
listing, so at least one of two sees the other. Then it deletes the tickets of runs that were killed.

Some stores overwrite a file where they should fail. A second write shows this; there, tickets have unique names, and
runs that start together may all stop.
"""

import threading
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from pipeline.errors import UnreachableError, UserError
from pipeline.storage.base import Store

RENEWAL_S = 5.0
TIMEOUT_S = 20.0
"""Seconds without a renewal after which a run is considered dead."""

_FOLDER = ".lease"


class Files(Store, Protocol):
    """A store whose files have times."""

    def modified(self, name: str) -> datetime | None:
        """Return when a file was last written, by the clock of the store, or None if it does not exist."""

    def create(self, data: bytes, name: str) -> bool:
        """Write a small file unless it exists. Return whether its content is ``data`` now."""


@contextmanager
def lease(files: Files) -> Iterator[None]:
    """Lock the store while the block runs. Raise UserError if another run holds the lock."""
    dead = set(check_lease(files))
    with _ticket(files, dead) as own:
        if set(files.listing(_FOLDER, "")) - dead - {own}:
            raise another_run(files.root)
        for ticket in dead:
            files.remove(ticket)
        yield


def check_lease(files: Files) -> Collection[str]:
    """Return the tickets of runs that were killed. Raise UserError if a run holds the lock. Write nothing."""
    tickets = files.listing(_FOLDER, "")
    if any(_is_alive(files, ticket) for ticket in tickets):
        raise another_run(files.root)
    return tickets


@contextmanager
def _ticket(files: Files, others: Collection[str]) -> Iterator[str]:
    """Write the next ticket, and renew it until the block ends. Yield its name. Raise UserError if it is taken."""
    own = _written(files, others)
    ended = threading.Event()
    renewals = threading.Thread(target=_renew, args=(files, own, ended), daemon=True)
    renewals.start()
    answers = True
    try:
        yield own
    except UnreachableError:  # deleting the ticket would wait for the store once more; it expires
        answers = False
        raise
    finally:
        ended.set()
        if answers:
            renewals.join()
            files.remove(own)


def _written(files: Files, others: Collection[str]) -> str:
    numbers = (other.removeprefix(f"{_FOLDER}/").partition("-")[0] for other in others)
    own = f"{_FOLDER}/{1 + max((int(number) for number in numbers if number.isdecimal()), default=0)}"
    name = uuid.uuid4().hex
    if not files.create(name.encode(), own):
        raise another_run(files.root)
    if not files.create(b"overwritten", own):
        return own
    files.publish_bytes(b"unique", f"{own}-{name}")
    files.remove(own)
    return f"{own}-{name}"


def _renew(files: Files, own: str, ended: threading.Event) -> None:
    while not ended.wait(RENEWAL_S):
        try:
            files.publish_bytes(b"renewed", own)
        except (OSError, UnreachableError):
            continue  # the run itself reports such errors; the next renewal may succeed


def _is_alive(files: Files, ticket: str) -> bool:
    """Return whether the owner of a ticket renews it within the timeout."""
    last, until = files.modified(ticket), time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        time.sleep(1.0)
        if (now := files.modified(ticket)) != last:
            return now is not None
    return False


def another_run(root: str) -> UserError:
    """Return the error if another run holds the lock of a store."""
    return UserError(f"another run is writing to {root}: wait for it to finish, or choose another folder")
