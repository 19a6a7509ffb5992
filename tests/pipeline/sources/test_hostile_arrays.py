"""Pickles and archives that try to exhaust memory or crash NumPy, or that are damaged or unusual."""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.lib import format as npy

from pipeline.errors import UserError
from pipeline.sources import pickles
from pipeline.sources.kinds import open_source
from pipeline.storage import pickles as unpickling
from pipeline.storage import zips
from tests.factories.layouts import cifar_10, rows_of, write, write_pickle

U1 = b"cnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"


def array(shape: bytes = b"(I1\nI3\nt", dtype: bytes = U1, raw: bytes = b"S'abc'\n", start: bytes = b"(I0\nt") -> bytes:
    """Return a pickle of protocol 0 with one array, any part of which can be forged."""
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + start + b"S'b'\ntR"
    return b"(dS'data'\n" + empty + b"(I1\n" + shape + dtype + b"I00\n" + raw + b"tbs."


def test_the_template_of_the_forged_pickles_is_valid() -> None:
    assert pickles.load(array(), "x.pkl")["data"].tolist() == [[97, 98, 99]]


# A structured dtype with a forged offset crashed the process in NumPy's own unpickling.
FORGED_FIELDS = (
    b"cnumpy\ndtype\n(S'V3'\nI0\nI1\ntR(I3\nS'|'\nN(S'a'\nt(dS'a'\n(cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR"
    b"I-1000000\ntsI3\nI1\nI0\ntb"
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (array(dtype=FORGED_FIELDS), "unsupported dtype 'V3'; supported dtypes"),
        (array(dtype=U1.replace(b"'u1'", b"'O8'"), raw=b"(lI1\na"), "it has an array of objects"),
        (array(dtype=U1.replace(b"'|'", b"'>'")), r"supported dtypes \(little-endian\)"),
        (array(dtype=U1.replace(b"I0\ntb", b"(lI1\natb")), "supported dtypes"),
        (array(dtype=b"N"), "an array without data"),
        (array(shape=b"(I1\nI4\nt"), r"shape \(1, 4\) and dtype uint8 in 3 bytes"),
        (array(shape=b"(I1\nI30000000000\nt"), "shape of 2 dimensions that is too large"),
        (array(shape=b"(I4611686018427387904\nI0\nt", raw=b"S''\n"), "shape of 2 dimensions that is too large"),
        (array(shape=b"(I-1\nI-3\nt"), "an array with an invalid shape"),
        (array(shape=b"(I01\nI3\nt"), "an array with an invalid shape"),
        (array(shape=b"N"), "an array with an invalid shape"),
        (array(start=b"(I1000000000000\nt"), "an array with an invalid initial shape"),
        (array(raw=b"(lI1\na"), "an array without data"),
        (b"(dS'a'\ncnumpy\nndarray\n(I1000000\ntRs.", "it calls a value that is not callable"),
        (b"(dS'a'\ncnumpy\nndarray\n(lI1\nbs.", "sets the state of a value that has no state"),
        (b"\x80\x02}}b.", "sets the state of a value that has no state"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "unsupported opcode 0x81"),
        (b"(S'x'\nios\nsystem\n.", "opcode 0x69"),
        (b"\x80\x02\x82\x01.", "opcode 0x82"),
        (b"c_codecs\nencode\n(Vabc\nVrot13\ntR.", "an encoding other than latin1"),
        (b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.", "dictionary with a key that is not a string"),
        (b"\x80\x02" + b"}" * 100_000 + b".", "more than 50000 opcodes"),
        (b"\x80\x02X" + struct.pack("<I", 2**17 + 4) + b"a" * 2**17 + "😀".encode() + b".", "beyond Latin-1"),
        (b"V" + b"a" * 2**17 + b"\\U0001F600\n.", "beyond Latin-1"),
        (b"(dS'a'\nL" + b"9" * 100_000 + b"L\ns.", "Exceeds the limit"),
        (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"}.", "it is truncated"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".", "it is truncated"),
        (b"\x80\x05\x96" + struct.pack("<Q", 2**36) + b".", "it is truncated"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**36) + b".", "it is truncated"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(L1000000000000L\ntS'b'\ntR.", "initial shape"),
    ],
)
def test_forged_pickles_raise(monkeypatch: pytest.MonkeyPatch, data: bytes, message: str) -> None:
    monkeypatch.setattr(unpickling, "MAX_OPERATIONS", 50_000 if b"}" * 9 in data else unpickling.MAX_OPERATIONS)
    monkeypatch.setattr(unpickling, "WIDE_TEXT", 2**16)
    with pytest.raises(UserError, match=rf"x\.pkl is damaged or unsafe: .*{message}"):
        pickles.load(data, "x.pkl")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
def test_orders_and_dtypes_are_kept(protocol: int, order: Literal["C", "F"]) -> None:
    content = {kind: np.asarray(np.arange(6).reshape(2, 3), kind, order=order) for kind in ("u1", "<i4", "<i8", "<f4")}
    loaded = pickles.load(pickle.dumps(content, protocol=protocol), "x.pkl")
    for kind, values in content.items():
        np.testing.assert_array_equal(loaded[kind], values)
        assert loaded[kind].dtype == values.dtype


def test_a_recursive_list_is_loaded() -> None:
    assert list(pickles.load(b"\x80\x02}q\x00U\x01ah\x00s.", "x.pkl")) == ["a"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, 2], "image 0, has the invalid label 1.0: labels are integers from 0 to 1000000"),
        ([0, True], "image 1, has the invalid label True"),
        ([0, 10**7], "image 1, has the invalid label 10000000"),
        ([0, -2], "image 1, has the invalid label -2"),
        ([0, 10**5000], r"image 1, has the invalid label \(an integer of 16610 bits\)"),
        ([0, "1"], "image 1, has the invalid label '1'"),
        ([0, [1]], r"image 1, has the invalid label \(list\)"),
        ([1], "'labels' in .* must be 2 labels, one per image; it is a list of length 1"),
        (None, "it is missing"),
        (np.array([[1], [2]]), r"it is an array of shape \(2, 1\)"),
        (np.array([0, np.nan]), "image 0, has the invalid label 0.0"),
    ],
)
def test_invalid_labels_raise(tmp_path: Path, labels: object, message: str) -> None:
    write_pickle(tmp_path / "test_batch", {"data": rows_of(32, 2), "labels": labels})
    with pytest.raises(UserError, match=message):
        list(open_source("cifar-10", str(tmp_path / "test_batch")))


def test_a_label_without_a_class_name_raises(tmp_path: Path) -> None:
    folder = cifar_10(tmp_path)
    write_pickle(folder / "batches.meta", {"label_names": [b"airplane", b"automobile"]})
    with pytest.raises(UserError, match="image 2, has the label 2, but only 2 classes have names"):
        list(open_source("auto", str(folder)))
    write_pickle(folder / "batches.meta", {"label_names": 3})
    with pytest.raises(UserError, match=r"'label_names' in .* is not a list of names"):
        list(open_source("auto", str(folder)))


def test_invalid_files_raise(tmp_path: Path) -> None:
    (tmp_path / "test_batch").mkdir()
    with pytest.raises(UserError, match=r"cannot read .*test_batch: .*a folder"):
        list(open_source("cifar-10", str(tmp_path)))
    write(tmp_path / "b", pickle.dumps({"data": np.zeros((2, 0), np.uint8), "labels": [0, 1]}, 4))
    with pytest.raises(UserError, match="rows of 0 bytes, which are not square RGB images"):
        list(open_source("cifar-10", str(tmp_path / "b")))
    with open(tmp_path / "c", "wb") as file:
        file.truncate(2**31)
    with pytest.raises(UserError, match="2147483648 bytes; the maximum is 1073741824"):
        list(open_source("cifar-10", str(tmp_path / "c")))


def npz(path: Path, data: bytes | np.ndarray, labels: bytes | np.ndarray, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in {"data": data, "labels": labels}.items():
            archive.writestr(f"{name}.npy", content if isinstance(content, bytes) else npy_bytes(content))
    return path


def npy_bytes(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def declared(shape: tuple[int, ...], content: bytes, descr: str = "|u1") -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + content


PIXELS, LABELS = np.zeros((2, 12), np.uint8), np.array([1, 2])


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (declared((70_000, 12_288), b"x"), LABELS, "has 129 bytes instead of 860160128"),
        (npy_bytes(PIXELS)[:-3], LABELS, "data.npy: it has 149 bytes instead of 152"),
        (b"junk", LABELS, "data.npy: its header is invalid"),
        (b"\x93NUMPY\2\0" + b"\xff" * 4, LABELS, "expected 4294967295 bytes got 0"),
        (b"\x93NUMPY\1\0\x10\0" + b"(" * 16, LABELS, "data.npy: its header is invalid"),
        (np.array([None, 1]), LABELS, r"data.npy: it contains Python objects"),
        (PIXELS, np.array([1.0, np.nan]), "labels.npy has the unsupported dtype '<f8'; use integers"),
        (PIXELS, np.array(["1", "2"]), "labels.npy has the unsupported dtype '<U1'"),
        (PIXELS, np.array([[1], [2]]), r"must be 2 labels, one per image; it is an array of shape \(2, 1\)"),
        (PIXELS, np.array([1]), r"it is an array of shape \(1,\)"),
        (PIXELS, np.array([1, 0]), "image 1, has the label 0: labels in this file start at 1"),
        (PIXELS, np.array([1, 2**62]), "image 1, has the invalid label 4611686018427387904"),
        (PIXELS.astype(np.int64), LABELS, "'data' in .* is not a uint8 array"),
    ],
)
def test_archives_with_wrong_declarations_raise(tmp_path: Path, data: bytes, labels: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(open_source("imagenet64", str(npz(tmp_path / "val_data.npz", data, labels))))


def test_an_archive_of_four_gigabytes_raises_before_it_is_read(tmp_path: Path) -> None:
    path = npz(tmp_path / "val_data.npz", npy_bytes(PIXELS), LABELS)
    content = bytearray(path.read_bytes())
    position = content.index(b"PK\1\2")
    content[position + 24 : position + 28] = struct.pack("<L", 2**32 - 2**20)
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"decompresses to 42939\d+ bytes; the maximum is 805306368"):
        list(open_source("imagenet64", str(path)))


def test_an_archive_with_more_data_than_declared_raises(tmp_path: Path) -> None:
    """The zip directory and the header declare 24 bytes; the compressed data contains more."""
    path = npz(tmp_path / "val_data.npz", npy_bytes(PIXELS) + bytes(10**6), LABELS)
    content = bytearray(path.read_bytes())
    position = content.index(b"PK\1\2")
    content[position + 24 : position + 28] = struct.pack("<L", len(npy_bytes(PIXELS)))
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"Bad CRC-32|is truncated or too long"):
        list(open_source("imagenet64", str(path)))


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\5\6" + bytes(18), os.urandom(1000)])
def test_damaged_archives_raise(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "val_data.npz", content)
    with pytest.raises(UserError, match=r"val_data\.npz is (damaged|not a valid)"):
        list(open_source("imagenet64", str(tmp_path)))


def test_a_large_zip_directory_raises_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zips, "MAX_DIRECTORY", 2**16 + 100)
    with zipfile.ZipFile(tmp_path / "val_data.npz", "w") as archive:
        for number in range(2000):
            archive.writestr(f"{number}.npy", b"")
    with pytest.raises(UserError, match="zip directory exceeds the maximum of 65636 bytes"):
        list(open_source("imagenet64", str(tmp_path)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_valid_archives_are_read(tmp_path: Path, order: Literal["C", "F"], save) -> None:
    rows = rows_of(16, 3)
    save(tmp_path / "val_data.npz", data=np.asarray(rows, order=order), labels=np.array([3, 1, 2], np.uint8))
    source = open_source("imagenet64", str(tmp_path))
    images = list(source)
    assert [image.label for image in images] == [2, 0, 1]
    np.testing.assert_array_equal(source.read(images[1]), rows[1].reshape(3, 16, 16).transpose(1, 2, 0))
