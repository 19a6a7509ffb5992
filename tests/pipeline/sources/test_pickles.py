"""Pickles: what data sets hold is read, and nothing else gets to run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.sources import pickles


class Attack:
    """Runs a command when it is unpickled."""

    def __init__(self, function, *arguments: object) -> None:
        self._reduced = function, arguments

    def __reduce__(self):
        return self._reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("bytes_keys", [True, False])
def test_what_data_sets_hold_is_read(protocol: int, bytes_keys: bool) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 12)
    content = {"data": array, "labels": [3, 4], "names": [b"a", "b"], "n": np.array([1, 2])}
    keyed = {key.encode(): value for key, value in content.items()} if bytes_keys else content
    loaded = pickles.load(pickle.dumps(keyed, protocol=protocol), "here")
    np.testing.assert_array_equal(pickles.pixels(loaded, "data", "here"), array)
    assert pickles.labels(loaded, "labels", 2, "here") == [3, 4]
    assert pickles.labels(loaded, "n", 2, "here") == [1, 2]


def test_a_pickle_of_python_2_is_read() -> None:
    """As CIFAR's files are: byte strings for keys and data, array rebuilt from ``numpy.core.multiarray``."""
    data = (
        b"(dp0\nS'data'\np1\ncnumpy.core.multiarray\n_reconstruct\np2\n(cnumpy\nndarray\np3\n(I0\ntp4\nS'b'\np5\ntp6\nRp7\n"
        b"(I1\n(I1\nI3\ntp8\ncnumpy\ndtype\np9\n(S'u1'\np10\nI0\nI1\ntp11\nRp12\n(I3\nS'|'\np13\nNNNI-1\nI-1\nI0\ntp14\n"
        b"bI00\nS'\\x00\\xff\\x80'\np15\ntp16\nbsS'labels'\np17\n(lp18\nI7\nas."
    )
    loaded = pickles.load(data, "here")
    assert pickles.pixels(loaded, "data", "here").tolist() == [[0, 255, 128]]
    assert pickles.labels(loaded, "labels", 1, "here") == [7]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_was_saved_again_is_read(protocol: int) -> None:
    """Other tools make ordered dictionaries, tuples, and lists of NumPy's own numbers."""
    content = OrderedDict(labels=list(np.array([3, 4])), coarse=(1, 2), data=np.zeros((2, 12), np.uint8))
    loaded = pickles.load(pickle.dumps(content, protocol=protocol), "here")
    assert pickles.labels(loaded, "labels", 2, "here") == [3, 4]
    assert pickles.labels(loaded, "coarse", 2, "here") == [1, 2]
    assert pickles.pixels(loaded, "data", "here").shape == (2, 12)


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("nested", [False, True])
def test_an_exploit_runs_nothing(tmp_path: Path, protocol: int, nested: bool) -> None:
    mark = tmp_path / "ran"
    attacks = [
        Attack(os.system, f"touch {mark}"),
        Attack(eval, f"open({str(mark)!r}, 'w')"),
        Attack(open, str(mark), "w"),
        Attack(getattr, "text", "upper"),
        Attack(np.load, str(mark)),
        Attack(np.fromfile, str(mark)),
    ]
    for attack in attacks:
        content = {"data": np.array([attack], dtype=object)} if nested else {"data": attack}
        with pytest.raises(
            UserError, match=r"here is refused: UnpicklingError: it asks for .*, which no such data set"
        ):
            pickles.load(pickle.dumps(content, protocol=protocol), "here")
    assert not mark.exists()


@pytest.mark.parametrize("data", [b"", b"junk", b"\x80\x04.", pickle.dumps([1]), pickle.dumps({"a": 1})[:-3]])
def test_damaged_and_foreign_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="here"):
        pickles.load(data, "here")


def test_an_array_cannot_announce_memory() -> None:
    bomb = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(L1000000000000L\ntS'b'\ntR."
    with pytest.raises(UserError, match="an array begins with"):
        pickles.load(bomb, "here")


def test_wrong_content_is_named() -> None:
    content = {"data": np.zeros((2, 3)), "labels": [1]}
    with pytest.raises(UserError, match="here has no uint8 array of rows under 'data'"):
        pickles.pixels(content, "data", "here")
    with pytest.raises(UserError, match="here does not have 2 whole numbers under 'labels'"):
        pickles.labels(content, "labels", 2, "here")


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04Nr\xff\xff\xff\x7f.",  # a memo with two thousand million places
        b"\x80\x05\x96\x00\x00\x00\x00\x10\x00\x00\x00.",  # a bytearray of 64 GiB
        b"\x80\x04\x8e\x00\x00\x00\x00\x10\x00\x00\x00.",  # bytes of 64 GiB
    ],
)
def test_a_few_bytes_take_little_memory(data: bytes) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from pipeline.errors import UserError; from pipeline.sources import pickles\n"
        f"try: pickles.load({data!r}, 'here')\n"
        "except UserError as error: print(error)"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "here" in done.stdout
    assert "MemoryError" not in done.stdout
