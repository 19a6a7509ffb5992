"""Tests of loading state dicts: formats, mismatches, exploits and memory limits."""

import struct
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.errors import UserError
from pipeline.evaluate.models.checkpoints import read_checkpoint
from pipeline.evaluate.models.loading import load_model
from pipeline.storage import pickles as unpickling
from tests.factories.models import Attack, Small, change, images


def trained() -> dict[str, Any]:
    """Return the state dict of an optimizer after one step."""
    module = Small(9)
    optimizer = torch.optim.AdamW(module.parameters())
    module(images()).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


def test_every_checkpoint_layout_is_loaded(factories: str, tmp_path: Path) -> None:
    module = Small(9).eval()
    state = module.state_dict()
    prefixed = {f"module.{name}": value for name, value in state.items()}
    compiled = {f"module._orig_mod.{name}": value for name, value in state.items()}
    outermost = {f"_orig_mod.module.{name}": value for name, value in state.items()}
    contents = [
        state,
        {"state_dict": state, "epoch": 3},
        {"model": prefixed, "best": 0.5},
        {"model_state_dict": compiled},
        outermost,
        {"state_dict": state, "optimizer": trained(), "milestones": Counter([3, 3, 5]), "classes": {1, 2}},
    ]
    digests = {load_model(f"{factories}:plain").digest}
    for number, content in enumerate(contents):
        for legacy in (False, True):
            path = tmp_path / f"{number}{legacy}.pth"
            torch.save(content, path, _use_new_zipfile_serialization=not legacy)
            model = load_model(f"{factories}:plain", str(path))
            torch.testing.assert_close(model.module(images()), module(images()))
            digests.add(model.digest)
    assert len(digests) == 2


def test_mismatched_weights_are_named(factories: str, tmp_path: Path) -> None:
    state = Small(9, classes=7).state_dict()
    state["extra"] = state.pop("conv.weight")
    torch.save(state, tmp_path / "w.pth")
    mismatch = (
        r"w.pth does not fit .*: 1 missing \(conv.weight\); 1 unexpected \(extra\); 2 with another shape \(head.bia"
    )
    with pytest.raises(UserError, match=mismatch):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))
    torch.save({f"blocks.{name}": value for name, value in state.items()}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"9 missing \(conv.bias, conv.weight, head.bias \.\.\.\); 9 unexpected"):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))


def test_complex_weights_are_rejected_for_a_real_model(factories: str, tmp_path: Path) -> None:
    state = Small(9).state_dict()
    torch.save({**state, "head.bias": state["head.bias"].to(torch.complex64)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"1 with complex instead of real values \(head.bias\)"):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))


def test_files_without_a_state_dict_are_rejected(factories: str, tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    for content, message in (
        (
            {"epoch": 3, "net": Small().state_dict()},
            "contains epoch, net instead of a state dict: save the state dict alone",
        ),
        (torch.zeros(3), "contains Tensor instead of a state dict"),
        ({1: torch.zeros(3)}, "contains 1 instead of a state dict"),
        (Small(), "refers to .*Small, which weights do not need; save only the state dict"),
    ):
        torch.save(content, path)
        with pytest.raises(UserError, match=message):
            load_model(f"{factories}:plain", str(path))
    for data in (b"", b"junk", b"PK\x03\x04 and no more", torch.serialization.MAGIC_NUMBER.to_bytes(10, "little")):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"w\.pth was rejected"):
            load_model(f"{factories}:plain", str(path))
    with pytest.raises(UserError, match=r"file not found: .*absent\.pth; give a file with the state dict"):
        load_model(f"{factories}:plain", str(tmp_path / "absent.pth"))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_exploit_in_weights_is_not_run(
    factories: str, tmp_path: Path, mark: Path, legacy: bool, wrapped: bool
) -> None:
    path = tmp_path / "w.pth"
    state = Small().state_dict()
    state["extra"] = Attack(mark)
    torch.save({"state_dict": state} if wrapped else state, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(UserError, match=r"w\.pth was rejected: .* refers to posix.system, which weights do not need"):
        load_model(f"{factories}:plain", str(path))
    assert not mark.exists()
    torch.load(path, weights_only=False)
    assert mark.exists(), "the exploit does not work"


def tensor_pickle(
    count: int, size: int, offset: int = 0, stride: int = 1, item: bytes = b"ctorch\nFloatStorage\n"
) -> bytes:
    """Return a pickle of {"w": tensor} in the format of torch.save, with the given sizes."""
    long = [b"\x8a\x08" + struct.pack("<q", number) for number in (count, offset, size, stride)]
    storage = b"(X\x07\x00\x00\x00storage" + item + b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + long[0] + b"tQ"
    rest = long[1] + long[2] + b"\x85" + long[3] + b"\x85" + b"\x89ccollections\nOrderedDict\n)Rt"
    return b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"Rs."


COPYING = ("collections\nOrderedDict", "collections\nCounter", "__builtin__\nset", "torch\nSize")


def copies(name: str) -> bytes:
    """Return a pickle of a dictionary with five copies of a list of a thousand numbers."""
    numbers = b"\x80\x02](" + b"K\x01" * 1000 + b"eq\x000"
    copy = b"c" + name.encode() + b"\nh\x00\x85R"
    return numbers + b"}" + b"".join(b"X\x01\x00\x00\x00%d" % number + copy + b"s" for number in range(5)) + b"."


def forged(data: bytes) -> dict[str, bytes]:
    """Return the records of an archive with a pickle, and a storage of four numbers."""
    return {"data.pkl": data, "data/0": b"\0" * 16}


HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "storage": (forged(tensor_pickle(5, 4)), "declares 20 bytes of data/0, but the file has fewer: 16"),
    "huge storage": (forged(tensor_pickle(2**61, 4)), "the file has fewer: 16"),
    "size": (forged(tensor_pickle(4, 5)), "out of bounds for storage of size 16"),
    "offset": (forged(tensor_pickle(4, 4, offset=1)), "out of bounds for storage of size 16"),
    "stride": (forged(tensor_pickle(4, 2, stride=4)), "out of bounds for storage of size 16"),
    "negative stride": (forged(tensor_pickle(4, 2, stride=-1)), "Negative strides are not supported"),
    "negative offset": (forged(tensor_pickle(4, 2, offset=-1)), "invalid storage offset -1"),
    "reference": (forged(tensor_pickle(2**40, 4, item=b"K\x00")), "contains an invalid reference to a storage"),
    "no storage": (forged(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(]K\0K\0K\0tR."), "with an invalid storage"),
    "allocation": (
        forged(b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\x00\x08\x85R."),
        "refers to builtins.bytearray, which weights do not need",
    ),
    "item of a tensor": (forged(tensor_pickle(4, 4)[:-2] + b"K\x00K\x01ss."), "w.pth was rejected"),
    "memo": (forged(b"\x80\x02}r\xff\xff\xff\x7f."), "does not fit"),
    "length": (forged(b"\x80\x02X\xff\xff\xff\x7fshort."), "it is truncated"),
    "number": (forged(b"\x80\x02K\x01K\x02\x85R."), "it calls a value that is not callable"),
    "endless": (forged(b"\x80\x02" + b"]" * 2**20 + b"."), "more than 1000 opcodes"),
    **{name: (forged(copies(name)), "contains 0, 1, 2, 3, 4 instead of a state dict") for name in COPYING},
    "compressed numbers": ({"data/0": b"\0" * 2**20}, "its record data/0 is compressed"),
    "others": ({f"extra/{number}": b"\n" * 2**25 for number in range(3)}, "decompresses to 100663296 bytes"),
    "pickle": ({"data.pkl": b"\x80\x02" + b"]" * 2**25 + b"."}, "33554435 bytes; the maximum is 16777216"),
    "version": ({"version": b"3" * 2**25}, "decompresses to 33554432 bytes; the maximum is 16777216"),
    "same name": ({"DATA.pkl": b""}, "its members overlap or have the same name"),
    "byte order": ({"byteorder": b"big"}, "its numbers are not little-endian"),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_archives_are_rejected(
    factories: str, tmp_path: Path, hostile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpickling, "MAX_OPERATIONS", 1000 if hostile == "endless" else 10**5)
    path = tmp_path / "w.pth"
    torch.save(Small().state_dict(), path)
    records, message = HOSTILE[hostile]
    bombs = tuple(name for name, data in records.items() if len(data) >= 2**20)
    change(path, records, compress=bombs)
    assert path.stat().st_size < 2**20
    with pytest.raises(UserError, match=message):
        load_model(f"{factories}:plain", str(path))


def test_a_long_pickle_is_not_read(factories: str, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "w.pth")
    change(tmp_path / "w.pth", {"data.pkl": b"\x80\x02" + b"]" * 2**24 + b"."})
    with pytest.raises(UserError, match=r"data\.pkl has 16777219 bytes; the limit is 16777216"):
        load_model(f"{factories}:plain", str(tmp_path / "w.pth"))


@pytest.mark.parametrize(
    ("start", "value", "message"),
    [
        (-4, b"", "is truncated or has another size than declared"),
        (-28, struct.pack("<q", 2**40), "has another size than declared"),
        (-28, struct.pack("<q", -1), "has another size than declared"),
        (5, b"\0", "neither a zip archive nor a file of an older torch"),
    ],
)
def test_damaged_files_of_older_torch_are_rejected(
    factories: str, tmp_path: Path, start: int, value: bytes, message: str
) -> None:
    path = tmp_path / "w.pth"
    torch.save({"w": torch.zeros(5)}, path, _use_new_zipfile_serialization=False)
    data = bytearray(path.read_bytes())
    data[start : (start + len(value)) or None if value else None] = value
    path.write_bytes(data)
    with pytest.raises(UserError, match=message):
        load_model(f"{factories}:plain", str(path))


def test_storages_of_older_torch_are_not_larger_than_the_file(factories: str, tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    torch.save({"w": torch.zeros(5)}, path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    assert data.count(b"K\x05N") == 1  # the number of elements in the reference to the storage
    path.write_bytes(data.replace(b"K\x05N", b"\x8a\x06\0\0\0\0\0\x01N"))
    with pytest.raises(UserError, match="declares more bytes of tensors than the file has"):
        load_model(f"{factories}:plain", str(path))


@pytest.mark.parametrize("legacy", [False, True])
def test_shared_and_partial_storages_are_loaded(tmp_path: Path, legacy: bool) -> None:
    """Every dtype, views of one storage with strides and offsets, empty tensors, and parameters."""
    whole = torch.arange(24.0).reshape(4, 6)
    kinds = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8)
    content = {
        **{str(kind): torch.arange(5).to(kind) for kind in (*kinds, torch.uint8, torch.bool, torch.complex64)},
        "turned": whole.T,
        "part": whole[1:, 2:4],
        "empty": whole[:0],
        "scalar": torch.tensor(3.0),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(content, tmp_path / "w.pth", _use_new_zipfile_serialization=not legacy)
    loaded = read_checkpoint(tmp_path / "w.pth")
    assert loaded.keys() == content.keys()
    for name, value in content.items():
        torch.testing.assert_close(loaded[name], value.detach(), rtol=0, atol=0)
    assert loaded["turned"].untyped_storage().data_ptr() == loaded["part"].untyped_storage().data_ptr()


def test_records_that_overlap_are_rejected(factories: str, tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    torch.save(Small().state_dict(), path)
    _overlap(path)
    with pytest.raises(UserError, match="its members overlap or have the same name"):
        load_model(f"{factories}:plain", str(path))


def _overlap(path: Path) -> None:
    """Add many directory entries that refer to the bytes of one record."""
    with zipfile.ZipFile(path) as archive:
        stored = [info for info in archive.infolist() if info.compress_type == zipfile.ZIP_STORED]
    largest = max(stored, key=lambda info: info.file_size)
    data = path.read_bytes()
    end = data.rindex(b"PK\x05\x06")
    size, start = struct.unpack("<LL", data[end + 12 : end + 20])
    entries = data[start : start + size]
    place = entries.index(largest.filename.encode()) - 46
    length = len(largest.filename)
    for number in range(1000):
        entries += entries[place : place + 46] + f"{number:{length}d}".encode()
    count = struct.unpack("<H", data[end + 10 : end + 12])[0] + 1000
    tail = data[end : end + 8] + struct.pack("<HHLL", count, count, len(entries), start) + data[end + 20 :]
    path.write_bytes(data[:start] + entries + tail)
