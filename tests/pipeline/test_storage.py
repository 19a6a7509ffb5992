"""Error handling of stores: failed networks, damaged uploads, and concurrent or killed builds."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier, Event
from typing import Any
from unittest.mock import patch

import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UnreachableError, UserError
from pipeline.storage import READERS, LocalStore, UrlStore, find_place, lease, read_groups_ahead
from pipeline.storage.retry import MAX_ATTEMPTS, with_retries
from pipeline.storage.temporary import temporary_folder


@pytest.fixture
def recorded_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waited.append)
    return waited


@pytest.fixture
def store(tmp_path: Path) -> UrlStore:
    return UrlStore(f"file://{tmp_path}/data")


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [error] * times

    def call() -> str:
        if left:
            raise left.pop()
        return "done"

    return call


def test_slow_attempts_are_limited_in_time(recorded_waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries wait in each attempt too; an error must still be raised within a minute."""
    clock = count(step=31.0)
    monkeypatch.setattr("tenacity.time.monotonic", lambda: next(clock))
    with pytest.raises(UnreachableError, match="after 3 attempts: OSError: cut off"):
        with_retries("read it", failing(MAX_ATTEMPTS, OSError("cut off")))


def test_failures_are_retried_with_growing_waits(recorded_waits: list[float]) -> None:
    assert with_retries("try", failing(MAX_ATTEMPTS - 1, OSError("cut off"))) == "done"
    assert len(recorded_waits) == MAX_ATTEMPTS - 1
    longest = [0.25, 0.5, 1, 2, 4, 8, 8]
    assert all(most / 2 <= waited <= most for waited, most in zip(recorded_waits, longest, strict=True)), recorded_waits


def test_the_last_failed_attempt_raises_unreachable(recorded_waits: list[float]) -> None:
    with pytest.raises(UnreachableError, match=f"cannot read it after {MAX_ATTEMPTS} attempts: OSError: cut off"):
        with_retries("read it", failing(MAX_ATTEMPTS, OSError("cut off")))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (FileNotFoundError("x"), FileNotFoundError),
        (PermissionError("x"), UnreachableError),
        (type("NoCredentialsError", (Exception,), {})("x"), UserError),
        (type("HfUriError", (ValueError,), {})("x"), UserError),
        (TypeError("x"), TypeError),
    ],
)
def test_permanent_errors_are_not_retried(
    recorded_waits: list[float], error: Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        with_retries("read it", failing(1, error))
    assert recorded_waits == []


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"X" + data[1:]], ids=["cut", "changed"])
def test_a_damaged_upload_is_retried(
    store: UrlStore, recorded_waits: list[float], monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    put, sent = LocalFileSystem.put_file, list[str]()

    def unreliable(self: Any, local: str, remote: str, **options: Any) -> None:
        put(self, local, remote, **options)
        sent.append(remote)
        if len(sent) <= 2:
            Path(remote).write_bytes(damage(Path(remote).read_bytes()))

    monkeypatch.setattr(LocalFileSystem, "put_file", unreliable)
    store.publish_bytes(b"all of it", "a/x.txt")
    assert len(sent) == 3
    assert store.read("a/x.txt") == b"all of it"
    assert store.listing("a", "") == {"a/x.txt": 9}


def test_a_damaged_upload_is_not_published(
    store: UrlStore, recorded_waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFileSystem, "put_file", lambda self, local, remote: Path(remote).write_bytes(b"half"))
    with pytest.raises(UnreachableError, match="has 4 of 9 bytes"):
        store.publish_bytes(b"all of it", "a/x.txt")
    assert store.size("a/x.txt") == -1


def test_a_failed_listing_of_a_subfolder_is_an_error(
    store: UrlStore, recorded_waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a/b/x.txt", "a/c/d/y.txt", "a/z.txt"]
    for name in names:
        store.publish_bytes(b"data", name)
    listed, asked = LocalFileSystem.ls, list[str]()

    def unreliable(self: Any, path: str, **options: Any) -> Any:
        asked.append(path)
        if asked.count(path) == 1:
            raise OSError("cut off")
        return listed(self, path, **options)

    monkeypatch.setattr(LocalFileSystem, "ls", unreliable)
    assert list(store.listing("a", ".txt")) == names
    assert len(asked) == 8
    monkeypatch.setattr(LocalFileSystem, "ls", lambda self, path, **options: 1 / 0)
    with pytest.raises(UnreachableError, match="cannot list"):
        store.listing("a", ".txt")


def test_names_below_a_file_and_names_that_are_too_long_do_not_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert LocalStore(str(tmp_path / "file")).size("recipe.toml") == -1
    assert LocalStore(str(tmp_path)).size("x" * 300) == -1
    for place, reason in (
        ("file", "it is a file"),
        ("file/x", "a part of the path"),
        ("x" * 300, "File name too long"),
    ):
        store = LocalStore(str(tmp_path / place))
        for check in (store.check_exclusive, store.exclusive().__enter__):
            with pytest.raises(UserError, match=f"cannot write to .*: {reason}"):
                check()


def test_a_folder_without_permission_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a/b/x.txt", "a/c/y.txt"]
    store = LocalStore(str(tmp_path))
    for name in names:
        store.publish_bytes(b"data", name)
    assert store.listing("a", ".txt") == dict.fromkeys(names, 4)
    assert store.listing("nothing", ".txt") == {}
    scan = os.scandir

    def refused(place: str) -> Any:
        if place.endswith("c"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)
        return scan(place)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(UserError, match=f"cannot list the folder {tmp_path}/a/c: Permission denied"):
        store.listing("a", ".txt")


class Echo(LocalStore):
    """A store in which the content of a file is its name."""

    def read(self, name: str, offset: int = 0, size: int | None = None, limit: int | None = None) -> bytes:
        return name.encode()


@pytest.mark.slow
@given(st.lists(st.integers(0, 40), max_size=12))
def test_groups_are_read_ahead_in_order(sizes: list[int]) -> None:
    groups = [[f"{group}/{name}" for name in range(size)] for group, size in enumerate(sizes)]
    asked, taken = list[str](), list[list[str]]()

    def asking() -> Iterator[list[str]]:
        for group in groups:
            asked.extend(group)
            yield group

    for group in read_groups_ahead(Echo("nowhere"), asking()):
        taken.append([])
        for name, content in group:
            assert content == name.encode()
            assert len(asked) >= min(sum(map(len, taken)) + 2 * READERS, sum(sizes))
            taken[-1].append(name)
    assert taken == groups


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the intervals of the lease."""
    temporary_folder()  # starts a process, which threads must not try with --quick
    monkeypatch.setattr(lease, "RENEWAL_S", 0.3)
    monkeypatch.setattr(lease, "TIMEOUT_S", 6.0)


WITHOUT_LOCKS = """
import errno, fcntl, os
def flock(file, kind):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = flock
"""
"""Program that makes file systems behave as without kernel locks."""


@pytest.fixture(params=["URL", "folder without kernel locks"])
def leased(
    request: pytest.FixtureRequest, store: UrlStore, short_timeouts: None, monkeypatch: pytest.MonkeyPatch
) -> UrlStore | LocalStore:
    """Return a store that a lease locks."""
    if request.param == "URL":
        return store
    monkeypatch.setattr(fcntl, "flock", fcntl.flock)  # restores it
    exec(WITHOUT_LOCKS, {})
    return LocalStore(store.root.removeprefix("file://"))


def test_a_second_build_is_refused_until_the_first_ends(leased: UrlStore | LocalStore) -> None:
    leased.check_exclusive()
    with leased.exclusive(), pytest.raises(UserError, match="another run is writing"), leased.exclusive():
        pass
    with leased.exclusive():
        assert list(leased.listing(".lease", "")) == [".lease/1"]
        with pytest.raises(UserError, match="another run is writing"):
            leased.check_exclusive()
    assert leased.listing(".lease", "") == {}


def builds_at_once(store: UrlStore | LocalStore) -> list[int]:
    """Start four builds together. Return those that got the lease; the others were refused."""
    together, others_refused = Barrier(4), Event()
    inside: list[int] = []
    refused: list[int] = []

    def build(number: int) -> None:
        together.wait()
        try:
            with store.exclusive():
                inside.append(number)
                others_refused.wait(60)
        except UserError:
            refused.append(number)
            if len(refused) == 3:
                others_refused.set()

    with ThreadPoolExecutor(4) as pool:
        for tried in [pool.submit(build, number) for number in range(4)]:
            tried.result(timeout=60)
    assert sorted(inside + refused) == [0, 1, 2, 3]
    return inside


def test_one_of_simultaneous_builds_gets_the_lease(leased: UrlStore | LocalStore) -> None:
    assert len(builds_at_once(leased)) == 1


def test_a_store_that_overwrites_gives_the_lease_to_at_most_one_build(
    store: UrlStore, short_timeouts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwrite(self: UrlStore, data: bytes, name: str) -> bool:
        self.publish_bytes(data, name)
        return True

    monkeypatch.setattr(UrlStore, "create", overwrite)
    assert len(builds_at_once(store)) <= 1
    with store.exclusive(), pytest.raises(UserError, match="another run is writing"), store.exclusive():
        pass


def test_a_file_is_created_once(leased: UrlStore | LocalStore) -> None:
    assert leased.create(b"first", "a/x")
    assert not leased.create(b"second", "a/x")
    assert leased.create(b"first", "a/x"), "an earlier attempt wrote it"
    assert leased.read("a/x") == b"first"


HOLDER = """
import sys, time
from pipeline.storage import open_store
store = open_store(sys.argv[1])
with store.exclusive():
    print(store.scratch().parent, flush=True)
    time.sleep(600)
"""


def test_the_lease_of_a_killed_build_expires(store: UrlStore, short_timeouts: None) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, store.root], stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    scratch = Path(holder.stdout.readline().strip())
    assert (scratch / ".alive").exists()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with store.exclusive():
        pass
    program = "import sys; from pipeline.storage.temporary import temporary_folder; print(temporary_folder())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not scratch.exists(), "what a killed process wrote aside was left behind"
    assert not Path(done.stdout.strip()).exists(), "a process that ended left its folder behind"


@pytest.mark.slow
def test_the_lease_of_a_killed_build_on_a_folder_expires(tmp_path: Path, short_timeouts: None) -> None:
    """The folder is on a file system without kernel locks."""
    store = LocalStore(str(tmp_path))
    program = f"{WITHOUT_LOCKS}{HOLDER}"
    holder = subprocess.Popen([sys.executable, "-c", program, store.root], stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    scratch = tmp_path / ".partial"
    assert holder.stdout.readline() == f"{scratch}\n"
    (scratch / "unfinished").touch()
    with patch("fcntl.flock", side_effect=OSError(errno.ENOLCK, "No locks available")):
        with pytest.raises(UserError, match="another run is writing"), store.exclusive():
            pass
        holder.kill()
        holder.communicate()
        with store.exclusive():
            assert not scratch.exists()
    assert store.listing(".lease", "") == {}


def test_a_location_that_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match=r"cannot read .*loop: Too many levels of symbolic links"):
        find_place(str(tmp_path / "loop"))
    assert find_place(str(tmp_path / "none")) is None
