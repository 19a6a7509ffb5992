"""Pickles of data sets are loaded without executing code from them."""

import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UserError
from pipeline.sources import pickles
from pipeline.sources.pickles import Content


class Attack:
    """An object that runs a command when it is unpickled."""

    def __init__(self, function, *arguments: object) -> None:
        self._reduced = function, arguments

    def __reduce__(self):
        return self._reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("bytes_keys", [True, False])
def test_content_of_data_sets_is_loaded(protocol: int, bytes_keys: bool) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 12)
    content = {"data": array, "labels": [3, 4], "names": [b"a", "b"], "n": np.array([1, 2])}
    keyed = {key.encode(): value for key, value in content.items()} if bytes_keys else content
    loaded = pickles.load(pickle.dumps(keyed, protocol=protocol), "x.pkl")
    np.testing.assert_array_equal(Content(loaded, "x.pkl").pixels("data"), array)
    assert Content(loaded, "x.pkl").labels("labels", 2) == [3, 4]
    assert Content(loaded, "x.pkl").labels("n", 2) == [1, 2]


def test_a_pickle_of_python_2_is_loaded() -> None:
    """CIFAR's files have byte strings as keys and data, and arrays from ``numpy.core.multiarray``."""
    data = (
        b"(dp0\nS'data'\np1\ncnumpy.core.multiarray\n_reconstruct\np2\n(cnumpy\nndarray\np3\n(I0\ntp4\nS'b'\np5\ntp6\nRp7\n"
        b"(I1\n(I1\nI3\ntp8\ncnumpy\ndtype\np9\n(S'u1'\np10\nI0\nI1\ntp11\nRp12\n(I3\nS'|'\np13\nNNNI-1\nI-1\nI0\ntp14\n"
        b"bI00\nS'\\x00\\xff\\x80'\np15\ntp16\nbsS'labels'\np17\n(lp18\nI7\nas."
    )
    loaded = pickles.load(data, "x.pkl")
    assert Content(loaded, "x.pkl").pixels("data").tolist() == [[0, 255, 128]]
    assert Content(loaded, "x.pkl").labels("labels", 1) == [7]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_content_saved_by_other_tools_is_loaded(protocol: int) -> None:
    """Other tools write ordered dictionaries, tuples, and lists of NumPy scalars."""
    content = OrderedDict(labels=list(np.array([3, 4])), coarse=(1, 2), data=np.zeros((2, 12), np.uint8))
    loaded = pickles.load(pickle.dumps(content, protocol=protocol), "x.pkl")
    assert Content(loaded, "x.pkl").labels("labels", 2) == [3, 4]
    assert Content(loaded, "x.pkl").labels("coarse", 2) == [1, 2]
    assert Content(loaded, "x.pkl").pixels("data").shape == (2, 12)


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("nested", [False, True])
def test_exploits_execute_nothing(tmp_path: Path, protocol: int, nested: bool) -> None:
    marker = tmp_path / "ran"
    attacks = [
        Attack(os.system, f"touch {marker}"),
        Attack(eval, f"open({str(marker)!r}, 'w')"),
        Attack(open, str(marker), "w"),
        Attack(getattr, "text", "upper"),
        Attack(np.load, str(marker)),
        Attack(np.fromfile, str(marker)),
    ]
    for attack in attacks:
        content = {"data": np.array([attack], dtype=object)} if nested else {"data": attack}
        with pytest.raises(
            UserError, match=r"x\.pkl is .*UnpicklingError: it refers to .*, which data sets do not need"
        ):
            pickles.load(pickle.dumps(content, protocol=protocol), "x.pkl")
    assert not marker.exists()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_texts_are_loaded_from_lists_and_arrays(protocol: int) -> None:
    words = ["ab", "c", "\u00e9"]
    content = {
        "list": words,
        "array": np.array(words),
        "bytes": np.array([b"ab", b"c"]),
        "objects": np.array(words, dtype=object),
        "scalars": list(np.array(words)),
        "numbers": np.array([1, 20]),
    }
    loaded = pickles.load(pickle.dumps(content, protocol=protocol), "x.pkl")
    for key in ("list", "array", "objects", "scalars"):
        assert Content(loaded, "x.pkl").texts(key, 3) == words
    assert Content(loaded, "x.pkl").texts("bytes", 2) == ["ab", "c"]
    assert Content(loaded, "x.pkl").texts("numbers", 2) == ["1", "20"]
    for key, count in (("list", 2), ("missing", 3)):
        with pytest.raises(UserError, match=rf"'{key}' in x\.pkl must be {count} texts"):
            Content(loaded, "x.pkl").texts(key, count)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_a_dictionary_that_numpy_saved_is_loaded(tmp_path: Path, version: tuple[int, int]) -> None:
    content = {"labels": [3, 4], "data": np.zeros((2, 12), np.uint8)}
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.array(content, dtype=object), version)
    loaded = pickles.load((tmp_path / "x.npy").read_bytes(), "x.npy")
    assert Content(loaded, "x.npy").labels("labels", 2) == [3, 4]


def array_of_objects(shape: str, items: str) -> bytes:
    """Return the pickle of an array of objects with a shape and items, as lines of protocol 0."""
    text = (
        "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n"
        f"{shape}cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI63\ntbI00\n{items}tb."
    )
    return text.encode()


@pytest.mark.parametrize(
    ("shape", "items", "message"),
    [
        ("(t", "(lI1\naI2\na", "array of objects with an invalid shape"),
        ("(I3\nt", "(lI1\na", "array of objects with an invalid shape"),
        ("(I1\nI1\nt", "(lI1\na", "array of objects with an invalid shape"),
        ("I1\n", "(lI1\na", "array of objects with an invalid shape"),
        ("(t", "S'bytes'\n", "array of objects with an invalid shape"),
        ("(t", "(lI1\na", "contains a int; expected a dictionary"),
        ("(t", "(lp1\ng1\na", "contains a list; expected a dictionary"),
    ],
)
def test_invalid_arrays_of_objects_are_refused(shape: str, items: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pickles.load(array_of_objects(shape, items), "x.npy")


def test_arrays_of_texts_are_as_long_as_their_data() -> None:
    whole = pickle.dumps({"style": np.array(["ab", "cd"])}, protocol=2)
    pickles.load(whole, "x.pkl")
    for changed in (whole.replace(b"U2", b"U9"), whole.replace(b"U2", b"U0"), whole.replace(b"U2", b"V2")):
        with pytest.raises(UserError, match=r"x\.pkl is damaged or unsafe"):
            pickles.load(changed, "x.pkl")
    surrogates = pickle.dumps({"style": np.frombuffer(b"\xff\xff\xff\x7f", "<U1")}, protocol=4)
    with pytest.raises(UserError, match=r"x\.pkl is damaged or unsafe"):
        pickles.load(surrogates, "x.pkl")


@pytest.mark.parametrize(
    "data", [b"", b"junk", b"\x80\x04.", b"\x80\x04Nr\xff\xff\xff\x7f.", pickle.dumps([1]), pickle.dumps({"a": 1})[:-3]]
)
def test_damaged_and_unrelated_pickles_raise(data: bytes) -> None:
    with pytest.raises(UserError, match=r"x\.pkl"):
        pickles.load(data, "x.pkl")


def test_wrong_content_raises_with_its_key() -> None:
    content = {"data": np.zeros((2, 3)), "labels": [1]}
    with pytest.raises(UserError, match=r"'data' in x\.pkl .* is not a uint8 array"):
        Content(content, "x.pkl").pixels("data")
    with pytest.raises(UserError, match=r"'labels' in x\.pkl must be 2 labels"):
        Content(content, "x.pkl").labels("labels", 2)
