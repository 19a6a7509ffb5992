"""Arrays and their labels, indexed: invalid, hostile and odd ones."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import UserError
from tests.factories.data_sets import rows_of
from tests.factories.indexed_sets import found, write_arrays

FIVE = np.zeros((5, 4, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (np.array([0.0]), r"float64 .*use integers"),
        (np.array([np.nan]), "use integers"),
        (np.array(["cat"]), "use integers"),
        (np.array([True]), "bool"),
        (np.array([[0]]), r"int64 of shape \(1, 1\): use integers"),
        (np.array(0), r"\(\): use integers"),
        (np.array([0, 1, 2]), "3 labels, but fog.npy has 5 images"),
        (np.array([], np.int64), "0 labels"),
        (np.array([-2]), "label -2: use 0 to 1000000"),
        (np.array([2**63], np.uint64), "label 9223372036854775808"),
        (np.array([10**7]), "label 10000000"),
    ],
)
def test_invalid_labels_of_arrays_are_refused(tmp_path: Path, labels: np.ndarray, named: str) -> None:
    data = write_arrays(tmp_path / "data", labels, fog=FIVE)
    with pytest.raises(UserError, match=named) as told:
        found(data, tmp_path / "index")
    assert "labels.npy" in str(told.value)


def npy(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + header + data


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "cannot read the array"),
        (b"\x93NUMPY", "cannot read the array"),
        (b"PK\x03\x04" + bytes(100), "cannot read the array"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (10000000000, 32, 32, 3), }\n"), "truncated"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-5, 2, 2, 3), }\n", bytes(60)), "-5"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 2, True), }\n", bytes(60)), "True"),
        (npy(b"{'descr': '|u1', 'fortran_order': True, 'shape': (5, 2, 2, 3), }\n", bytes(60)), "Fortran order"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(59)), "truncated"),
        (
            npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(61)),
            "truncated or damaged",
        ),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (5, 0, 2, 3), }\n"), "at least 1 pixel"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 2, 2, 3), }\n"), "at least 1 pixel"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(480)), "objects"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(240)), "float32 .*uint8"),
        (
            npy(b"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (5, 2, 2, 3), }\n", bytes(60)),
            "cannot read",
        ),
        (npy(b"(" * 400 + b")" * 400), "cannot read the array"),
        (npy(b"[" * 60000), "cannot read the array"),
        (npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': " + b"-" * 900 + b"1}\n"), "cannot read the array"),
        (npy(b"\xff" * 64), "cannot read the array"),
        (npy(b"{}", version=b"\x03\x00"), r"version \(3, 0\)"),
        (npy(b"{}", version=b"\x09\x09"), "cannot read the array"),
    ],
)
def test_invalid_arrays_are_refused(tmp_path: Path, content: bytes, named: str) -> None:
    data = write_arrays(tmp_path / "data")
    (data / "fog.npy").write_bytes(content)
    with pytest.raises(UserError, match=named) as told:
        found(data, tmp_path / "index")
    assert "fog.npy" in str(told.value)
    assert not (tmp_path / "index").exists()


def test_arrays_of_version_2_are_read(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "data", np.arange(5).astype(">i4"))
    with open(data / "fog.npy", "wb") as file:
        np.lib.format.write_array(file, FIVE, version=(2, 0))
    assert found(data, tmp_path / "index")["samples"] == 5
    assert [row.label for row in rows_of(tmp_path / "index")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("levels", [(), (1, 1), (-1,), (501,), (1, 10**30)])
def test_invalid_levels_are_refused(tmp_path: Path, levels: tuple[int, ...]) -> None:
    data = write_arrays(tmp_path / "data", fog=FIVE)
    with pytest.raises(UserError, match=r"invalid severities \[.*: give each once, from 0 to 500"):
        found(data, tmp_path / "index", levels=levels)


def test_labels_beyond_the_list_of_classes_are_refused(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "data", np.array([7]), fog=FIVE)
    with pytest.raises(UserError, match="the label 7, but --classes has 2 names"):
        found(data, tmp_path / "index", classes=["a", "b"])
    with pytest.raises(UserError, match="lists 'a' 2 times"):
        found(data, tmp_path / "index", classes=["a", "b", "a"])


def test_damaged_sequences_do_not_change_the_family(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "data" / "rotate" / "cat")
    np.save(data / "a.npy", np.zeros((3, 4, 4, 3), np.uint8))
    (data / "b.npy").write_bytes(b"damaged")
    facts = found(tmp_path / "data", tmp_path / "index")
    assert (facts["family"], facts["samples"], facts["failed"]) == ("perturbations", 2, 1)
