"""Pickles and archives of arrays that are made to take memory, to mislead NumPy, or are merely odd."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.lib import format as npy

from pipeline.errors import UserError
from pipeline.sources import pickles
from pipeline.sources.kinds import open_source
from tests.factories.layouts import cifar_10, rows_of, write, write_pickle

U1 = b"cnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"


def array(shape: bytes = b"(I1\nI3\nt", dtype: bytes = U1, raw: bytes = b"S'abc'\n", start: bytes = b"(I0\nt") -> bytes:
    """A pickle of protocol 0 with one array, of which anything may be forged."""
    begun = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + start + b"S'b'\ntR"
    return b"(dS'data'\n" + begun + b"(I1\n" + shape + dtype + b"I00\n" + raw + b"tbs."


def test_the_array_that_is_forged_below_is_sound() -> None:
    assert pickles.load(array(), "here")["data"].tolist() == [[97, 98, 99]]


FORGED_FIELDS = (
    b"cnumpy\ndtype\n(S'V3'\nI0\nI1\ntR(I3\nS'|'\nN(S'a'\nt(dS'a'\n(cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR"
    b"I-1000000\ntsI3\nI1\nI0\ntb"
)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (array(dtype=FORGED_FIELDS), "it has an array of 'V3'; little-endian numbers are allowed"),
        (array(dtype=U1.replace(b"'u1'", b"'O8'"), raw=b"(lI1\na"), "it has an array of objects"),
        (array(dtype=U1.replace(b"'|'", b"'>'")), "little-endian numbers are allowed"),
        (array(dtype=U1.replace(b"I0\ntb", b"(lI1\natb")), "little-endian numbers are allowed"),
        (array(dtype=b"N"), "array of objects, or one without bytes"),
        (array(shape=b"(I1\nI4\nt"), r"an array of \(1, 4\) in 3 bytes"),
        (array(shape=b"(I1\nI30000000000\nt"), "one of them too long"),
        (array(shape=b"(I4611686018427387904\nI0\nt", raw=b"S''\n"), "one of them too long"),
        (array(shape=b"(I-1\nI-3\nt"), "an array without a shape"),
        (array(shape=b"(I01\nI3\nt"), "an array without a shape"),
        (array(shape=b"N"), "an array without a shape"),
        (array(start=b"(I1000000000000\nt"), "an array begins with a shape of its own"),
        (array(raw=b"(lI1\na"), "array of objects, or one without bytes"),
        (b"(dS'a'\ncnumpy\nndarray\n(I1000000\ntRs.", "it calls something that is no part of an array"),
        (b"(dS'a'\ncnumpy\nndarray\n(lI1\nbs.", "describes something that is no part of an array"),
        (b"\x80\x02}}b.", "describes something that is no part of an array"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "opcode 0x81, which no such data set needs"),
        (b"(S'x'\nios\nsystem\n.", "opcode 0x69"),
        (b"\x80\x02\x82\x01.", "opcode 0x82"),
        (b"c_codecs\nencode\n(Vabc\nVrot13\ntR.", "encoded otherwise than in latin1"),
        (b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.", "dictionary whose keys are no names"),
        (b"\x80\x02" + b"}" * 100_000 + b".", "more than the 50000 steps allowed"),
        (b"\x80\x02X" + struct.pack("<I", 2**17 + 4) + b"a" * 2**17 + "😀".encode() + b".", "beyond Latin-1"),
        (b"V" + b"a" * 2**17 + b"\\U0001F600\n.", "beyond Latin-1"),
        (b"(dS'a'\nL" + b"9" * 100_000 + b"L\ns.", "Exceeds the limit"),
        (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"}.", "it is cut short"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".", "it is cut short"),
    ],
)
def test_forged_pickles_are_refused(monkeypatch: pytest.MonkeyPatch, data: bytes, named: str) -> None:
    monkeypatch.setattr(pickles, "MAX_OPERATIONS", 50_000 if b"}" * 9 in data else pickles.MAX_OPERATIONS)
    monkeypatch.setattr(pickles, "WIDE_TEXT", 2**16)
    with pytest.raises(UserError, match=f"here is refused: .*{named}"):
        pickles.load(data, "here")


def test_numpy_never_sees_a_pickled_state() -> None:
    """What ended the process: a type with an offset of its own, which NumPy's reconstruction believed."""
    program = (
        "from pipeline.errors import UserError; from pipeline.sources import pickles\n"
        f"try: print(pickles.load({array(dtype=FORGED_FIELDS)!r}, 'here')['data'].tolist())\n"
        "except UserError as error: print('refused', error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:7]) == (0, "refused"), done.stderr


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
def test_orders_and_kinds_of_numbers_are_kept(protocol: int, order: Literal["C", "F"]) -> None:
    content = {kind: np.asarray(np.arange(6).reshape(2, 3), kind, order=order) for kind in ("u1", "<i4", "<i8", "<f4")}
    loaded = pickles.load(pickle.dumps(content, protocol=protocol), "here")
    for kind, values in content.items():
        np.testing.assert_array_equal(loaded[kind], values)
        assert loaded[kind].dtype == values.dtype


def test_what_holds_itself_is_no_trouble() -> None:
    assert list(pickles.load(b"\x80\x02}q\x00U\x01ah\x00s.", "here")) == ["a"]


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ([1.0, 2], "image 0 has the label 1.0: labels are whole numbers from 0 to 1000000"),
        ([0, True], "image 1 has the label True"),
        ([0, 10**7], "image 1 has the label 10000000"),
        ([0, -2], "image 1 has the label -2"),
        ([0, 10**5000], r"image 1 has the label \(a number of 16610 bits\)"),
        ([0, "1"], "image 1 has the label '1'"),
        ([0, [1]], r"image 1 has the label \(list\)"),
        ([1], "does not have 2 whole numbers under 'labels': it has 1"),
        (None, "it has a NoneType"),
        (np.array([[1], [2]]), r"it has an array of int64 \(2, 1\)"),
        (np.array([0, np.nan]), "image 0 has the label 0.0"),
    ],
)
def test_labels_that_are_none_are_named(tmp_path: Path, labels: object, named: str) -> None:
    write_pickle(tmp_path / "test_batch", {"data": rows_of(32, 2), "labels": labels})
    with pytest.raises(UserError, match=named):
        list(open_source("cifar-10", str(tmp_path / "test_batch")))


def test_a_label_beyond_the_names_is_an_error(tmp_path: Path) -> None:
    folder = cifar_10(tmp_path)
    write_pickle(folder / "batches.meta", {"label_names": [b"airplane", b"automobile"]})
    with pytest.raises(UserError, match="image 2, has the label 2, but there are names for 2 classes"):
        list(open_source("auto", str(folder)))
    write_pickle(folder / "batches.meta", {"label_names": 3})
    with pytest.raises(UserError, match="has no list of names under 'label_names'"):
        list(open_source("auto", str(folder)))


def test_odd_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_batch").mkdir()
    with pytest.raises(UserError, match=r"test_batch cannot be read: .*a folder"):
        list(open_source("cifar-10", str(tmp_path)))
    write(tmp_path / "b", pickle.dumps({"data": np.zeros((2, 0), np.uint8), "labels": [0, 1]}, 4))
    with pytest.raises(UserError, match="rows of 0 bytes: no square RGB images"):
        list(open_source("cifar-10", str(tmp_path / "b")))
    with open(tmp_path / "c", "wb") as file:
        file.truncate(2**31)
    with pytest.raises(UserError, match="2147483648 bytes; 1073741824 are allowed"):
        list(open_source("cifar-10", str(tmp_path / "c")))


def npz(path: Path, data: bytes | np.ndarray, labels: bytes | np.ndarray, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in {"data": data, "labels": labels}.items():
            archive.writestr(f"{name}.npy", content if isinstance(content, bytes) else stored(content))
    return path


def stored(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def announced(shape: tuple[int, ...], content: bytes, descr: str = "|u1") -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + content


PIXELS, LABELS = np.zeros((2, 12), np.uint8), np.array([1, 2])


@pytest.mark.parametrize(
    ("data", "labels", "named"),
    [
        (announced((70_000, 12_288), b"x"), LABELS, r"says that it has \(70000, 12288\) numbers of uint8 in 1 bytes"),
        (stored(PIXELS)[:-3], LABELS, "in 21 bytes"),
        (b"junk", LABELS, "no array of NumPy"),
        (b"\x93NUMPY\2\0" + b"\xff" * 4, LABELS, "header of data.npy has 4294967295 bytes"),
        (b"\x93NUMPY\1\0\x10\0" + b"(" * 16, LABELS, "holds something else; whole numbers are allowed"),
        (np.array([None, 1]), LABELS, r"data.npy holds '\|O'"),
        (PIXELS, np.array([1.0, np.nan]), "labels.npy holds '<f8'; whole numbers are allowed"),
        (PIXELS, np.array(["1", "2"]), "labels.npy holds '<U1'"),
        (
            PIXELS,
            np.array([[1], [2]]),
            r"does not have 2 whole numbers under 'labels': it has an array of int64 \(2, 1\)",
        ),
        (PIXELS, np.array([1]), r"it has an array of int64 \(1,\)"),
        (PIXELS, np.array([1, 0]), "image 1, has the label 0: its labels count from 1"),
        (PIXELS, np.array([1, 2**62]), "image 1 has the label 4611686018427387904"),
        (PIXELS.astype(np.int64), LABELS, "no uint8 array of rows"),
    ],
)
def test_archives_that_mislead_are_refused(tmp_path: Path, data: bytes, labels: bytes, named: str) -> None:
    with pytest.raises(UserError, match=named):
        list(open_source("imagenet64", str(npz(tmp_path / "val_data.npz", data, labels))))


def test_an_archive_of_four_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    path = npz(tmp_path / "val_data.npz", stored(PIXELS), LABELS)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\1\2")
    content[place + 24 : place + 28] = struct.pack("<L", 2**32 - 2**20)
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"unfolds to 42939\d+ bytes; 805306368 are allowed"):
        list(open_source("imagenet64", str(path)))


def test_an_archive_unfolds_to_no_more_than_it_announces(tmp_path: Path) -> None:
    """The directory and the header say 24 bytes, what is packed goes on."""
    path = npz(tmp_path / "val_data.npz", stored(PIXELS) + bytes(10**6), LABELS)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\1\2")
    content[place + 24 : place + 28] = struct.pack("<L", len(stored(PIXELS)))
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"Bad CRC-32|is cut short"):
        list(open_source("imagenet64", str(path)))


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\5\6" + bytes(18), os.urandom(1000)])
def test_damaged_archives_are_refused(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "val_data.npz", content)
    with pytest.raises(UserError, match=r"val_data\.npz is (refused|no readable)"):
        list(open_source("imagenet64", str(tmp_path)))


def test_a_long_directory_is_refused_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "val_data.npz", "w") as archive:
        for number in range(2000):
            archive.writestr(f"{number}.npy", b"")
    with pytest.raises(UserError, match="list of members has more than the 65536 bytes allowed"):
        list(open_source("imagenet64", str(tmp_path)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_sound_archives_are_read(tmp_path: Path, order: Literal["C", "F"], save) -> None:
    rows = rows_of(16, 3)
    save(tmp_path / "val_data.npz", data=np.asarray(rows, order=order), labels=np.array([3, 1, 2], np.uint8))
    source = open_source("imagenet64", str(tmp_path))
    images = list(source)
    assert [image.label for image in images] == [2, 0, 1]
    np.testing.assert_array_equal(source.read(images[1]), rows[1].reshape(3, 16, 16).transpose(1, 2, 0))
