"""Tars from other tools: every header is checked, no member is lost silently, and reading always ends."""

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from pipeline.datasets.shards import ShardWriter
from pipeline.errors import UserError
from pipeline.sources.kinds import open_source
from pipeline.storage import LocalStore, tars
from pipeline.storage.tars import BLOCK, UnsafeTarError, safe_members
from tests.factories.layouts import ilsvrc_val_tar, png, write, write_tar
from tests.factories.layouts import webdataset as webdataset_tars

END = bytes(2 * BLOCK)


def header(name: str | bytes = "a.jpg", size: int | bytes = 0, kind: bytes = b"0", **fields: bytes) -> bytes:
    """Return a header with a valid checksum and arbitrary fields."""
    message = name.encode() if isinstance(name, str) else name
    sized = b"%011o\0" % size if isinstance(size, int) else size
    block = message.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + sized + b"00000000000\0" + b" " * 8 + kind
    block = (block + fields.get("link", b"").ljust(100, b"\0") + b"ustar\0" + b"00").ljust(345, b"\0")
    block = (block + fields.get("prefix", b"")).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length += 1
    return str(length).encode() + body


def extended(*records: bytes, kind: bytes = b"x") -> bytes:
    content = b"".join(records)
    return header("pax", len(content), kind) + padded(content)


def names(content: bytes) -> list[str]:
    return [member.name for member in safe_members(io.BytesIO(content))]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tars_written_by_tarfile_are_read(form: int) -> None:
    expected = {"a/b.jpg": b"x" * 700, "./c d.cls": b"", "ä/ü.png": b"1", "long/" + "n" * 90 + "/x.jpg": b"y" * 512}
    expected |= {} if form == tarfile.USTAR_FORMAT else {"l" * 240 + ".jpg": b"z"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in expected.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    found = list(safe_members(buffer))
    content = buffer.getvalue()
    assert {each.name: content[each.offset : each.offset + each.size] for each in found} == expected


def test_our_own_shards_are_read(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "a.tar")
    offsets = writer.add({"x" * 250 + "-gaussian_noise-5.jpg": b"1" * 600, "ü.cls": b"3"})
    writer.finish()
    with open(tmp_path / "a.tar", "rb") as file:
        found = list(safe_members(file))
    assert [each.offset for each in found] == offsets
    assert [each.size for each in found] == [600, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is truncated"),
        (header(size=3) + padded(b"abc"), "is truncated: it ends at byte 1024 without the zeros"),
        (header(size=3) + padded(b"abc") + header("b.jpg")[:300], "is truncated"),
        (header(size=5000) + padded(b"abc") + END, r"'a.jpg' has 5000 bytes at 512, but the file ends at 2048"),
        (header(size=b"-0000001000\0") + END, "not a number|instead of a number"),
        (header(size=b"\xff" * 12) + END, "not a number|instead of a number"),
        (header(size=b"\x80" + b"\xff" * 11) + END, "is truncated or damaged"),
        (header(size=b"0x10_000000\0") + END, "not a number|instead of a number"),
        (header()[:200] + b"!" + header()[201:] + END, "invalid checksum"),
        (b"no tar at all".ljust(BLOCK) + END, "is not a tar or is damaged"),
        (gzip.compress(header() + END, mtime=0), r"is compressed \(gzip\): decompress it"),
        (header() + END + header("b.jpg") + END, "has data after its end"),
        (header(kind=b"2", link=b"/etc/passwd") + END, "is a link or a device"),
        (header(kind=b"S", size=0) + END, "is a link or a device"),
        (header("../a.jpg") + END, "is outside of"),
        (header("a.jpg", prefix=b"/etc") + END, "is outside of"),
        (header(b"\xff.jpg") + END, "not valid UTF-8"),
        (header("") + END, "has a name of 0 bytes"),
        (extended(record("path", "a\0b.jpg")) + header() + END, "without NUL"),
        (extended(record("path", "é" * 2500)) + header() + END, "has a name of 5000 bytes"),
        (extended(record("size", "0")) + header(size=3) + padded(b"abc") + END, "the sizes 3 and 0"),
        (extended(record("size", "-512")) + header() + END, "not a number|instead of a number"),
        (extended(record("size", "9" * 5000)) + header() + END, "not a number|instead of a number"),
        (extended(record("GNU.sparse.size", "9")) + header() + END, "sparse files and recoded names"),
        (extended(record("path", "b"), kind=b"g") + header() + END, "a global header sets path"),
        (extended(b"7 path=abcdef\n") + header() + END, "an extended header is invalid"),
        (extended(b"1" * 60000) + header() + END, "extended header"),
        (header("l", 2**17, b"L") + bytes(2**17) + END, "an extended header of 131072 bytes .maximum: 65536"),
        (extended(record("path", "b.jpg")) + END, "it ends after an extended header"),
    ],
)
def test_invalid_tars_raise(content: bytes, message: str) -> None:
    with pytest.raises(UnsafeTarError, match=message):
        names(content)


def test_negative_sizes_do_not_hang(tmp_path: Path) -> None:
    """CVE-2025-8194: a negative size makes tarfile read the same header forever."""
    (tmp_path / "a.tar").write_bytes(extended(record("size", "-1024")) + header() + END)
    with pytest.raises(UserError, match="instead of a number"):
        list(open_source("webdataset", str(tmp_path)))


def test_many_extended_headers_do_not_recurse(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = extended(record("comment", "x")) * 5000
    assert names(chain + header() + END) == ["a.jpg"]
    monkeypatch.setattr(tars, "MAX_MEMBERS", 100)
    with pytest.raises(UnsafeTarError, match="more than 100 members"):
        names(chain + header() + END)


def webdataset(folder: Path, members: dict[str, bytes]) -> list[tuple[str, int, str]]:
    write_tar(folder / "a.tar", members)
    return [(image.id, image.label, image.class_name) for image in open_source("webdataset", str(folder))]


def test_a_repeated_member_raises(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes((header("a.jpg", 3) + padded(b"abc")) * 2 + END)
    with pytest.raises(UserError, match=r"has the member 'a.jpg' twice"):
        list(open_source("webdataset", str(tmp_path)))


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"cls": b""}, "invalid label b''"),
        ({"cls": b"1.0"}, r"invalid label b'1\.0': labels are integers"),
        ({"cls": b"9" * 5000}, "invalid label b'999.*: labels are integers"),
        ({"cls": b"1000000000"}, "invalid label 1000000000: labels are integers from 0 to 1000000"),
        ({"cls": b"-2"}, "invalid label -2"),
        ({"json": b'{"label": true}'}, "invalid label True"),
        ({"json": b'{"label": 2.5}'}, r"invalid label 2\.5"),
        ({"json": b'{"label": NaN}'}, "invalid label nan"),
        ({"json": b'{"label": [1]}'}, r"invalid label \(list\)"),
        ({"json": b'{"label": "\\ud800"}'}, "invalid label b'.*: labels are integers"),
        ({"json": b'{"label": ' + b"9" * 5000 + b"}"}, "is damaged"),
        ({"json": b"[" * 100_000}, "is damaged"),
        ({"json": b'{"label": 1, "a": ' + b"[" * 100_000}, "is damaged"),
        ({"json": b"\xff\xfe"}, "is damaged"),
        ({"json": b"[1]"}, "is not an object"),
        ({"json": b'{"label": 1, "class_name": ["a"]}'}, "class_name in its .json must be a string"),
        ({"json": b'{"label": 1, "class_name": "\\ud800"}'}, "class_name in its .json must be a string"),
        ({"cls": b"1", "json": b'{"label": "2"}'}, r"label 1 in its .cls differs from 2 in its .json"),
        ({"cls": b"1", "json": b'{"label": 2}'}, r"label 1 in its .cls differs from 2 in its .json"),
        ({"json": b'{"label": 1, "x": "' + b"y" * 2**20 + b'"}'}, r"a.json has 1048\d+ bytes; the maximum is 1048576"),
        ({"jpg": b"", "JPG": b""}, r"has .jpg twice"),
    ],
)
def test_invalid_labels_raise(tmp_path: Path, side: dict[str, bytes], message: str) -> None:
    with pytest.raises(UserError, match=message):
        webdataset(tmp_path, {"a.png": png(0)} | {f"a.{each}": data for each, data in side.items()})


@pytest.mark.parametrize("first", [True, False])
def test_a_missing_label_names_the_sample(tmp_path: Path, first: bool) -> None:
    labelled, unlabelled = ("a", "b") if first else ("b", "a")
    members = {"a.png": png(0), "b.png": png(1)}
    members = {name: data for name, data in members.items() if name[0] != labelled} | members
    samples = {"a": {"a.png": png(0)}, "b": {"b.png": png(1)}}
    samples[labelled][f"{labelled}.cls"] = b"1"
    with pytest.raises(
        UserError, match=f"the sample '{unlabelled}' has no label, but '{labelled}' has one: add a label"
    ):
        webdataset(tmp_path, samples["a"] | samples["b"])


def test_labels_and_class_names_are_read(tmp_path: Path) -> None:
    fields = json.dumps({"label": "7", "class_name": "cow"}).encode()
    members = {"a.png": png(0), "a.cls": b" 3\n", "b.png": png(1), "b.json": fields, "c.png": png(2), "c.cls": b"-1"}
    assert webdataset(tmp_path / "x", members) == [("a", 3, "3"), ("b", 7, "cow"), ("c", -1, "")]
    assert webdataset(tmp_path / "y", {"a.png": png(0), "a.txt": b"a cow"}) == [("a", -1, "")]


def test_labels_are_read_with_the_index_unless_they_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = json.dumps({"label": 1, "text": "x" * tars.KEPT_MEMBER}).encode()
    members = {"a.png": png(0), "a.cls": b"3", "b.png": png(1), "b.json": large, "c.png": png(2), "c.cls": b"10"}
    expected = [("a", 3, "3"), ("b", 1, "1"), ("c", 10, "10")]
    for room, reads in ((tars.KEPT_TAR, 1), (2, 2), (0, 3)):
        monkeypatch.setattr(tars, "KEPT_TAR", room)
        with monkeypatch.context() as patch:
            read = Mock(wraps=LocalStore.read)
            patch.setattr(LocalStore, "read", lambda *given, read=read: read(*given))
            assert webdataset(tmp_path / str(room), members) == expected
        assert read.call_count == reads


def test_members_that_are_not_samples_are_skipped(tmp_path: Path) -> None:
    """A key with neither an image nor a label is not a sample."""
    members = {"README": b"x", "x/Thumbs.db": b"x", "info.txt": b"x", "__meta__.json": b"{}", "a.png": png(0)}
    write_tar(tmp_path / "x.tar", members)
    write(tmp_path / "x.idx", "0")
    source = open_source("webdataset", str(tmp_path))
    assert [image.id for image in source] == ["a"]
    assert source.ignored == {"no suffix": 1, ".db": 1, ".txt": 1, ".json": 1, ".idx": 1}


@pytest.mark.parametrize("member", ["b.cls", "b.json"])
def test_a_label_without_an_image_raises(tmp_path: Path, member: str) -> None:
    with pytest.raises(UserError, match="the sample 'b' has 0 images; expected one"):
        webdataset(tmp_path, {"a.png": png(0), "a.cls": b"1", member: b"1"})


@pytest.mark.parametrize("name", ["b.tar.gz", "b.tgz", "b.TAR.ZST"])
def test_a_compressed_tar_among_others_raises(tmp_path: Path, name: str) -> None:
    write_tar(tmp_path / "a.tar", {"a.png": png(0)})
    write(tmp_path / name, "x")
    with pytest.raises(UserError, match=f"{name} is compressed: decompress it"):
        open_source("webdataset", str(tmp_path))


def test_tar_suffixes_can_be_in_upper_case(tmp_path: Path) -> None:
    for name in ("a.tar", "b.TAR"):
        write_tar(tmp_path / name, {f"{name[0]}.png": png(0)})
    assert [image.id for image in open_source("auto", str(tmp_path))] == ["a", "b"]
    assert [image.id for image in open_source("auto", str(tmp_path / "b.TAR"))] == ["b"]


def test_hidden_and_system_members_are_skipped(tmp_path: Path) -> None:
    members = {"x/a.png": png(0), "x/._a.png": b"mac", "__MACOSX/x/._a.png": b"mac", "x/@eaDir/a.png": b"thumbnail"}
    assert webdataset(tmp_path, members) == [("x/a", -1, "")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("__meta__/a.png", "WebDataset skips"),
        ("x/./a.png", r"has an empty part or '\.'"),
        ("x//a.png", "has an empty part"),
        ("x/a\x1b.png", r"control character U\+001B"),
    ],
)
def test_keys_that_webdataset_skips_raise(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        webdataset(tmp_path, {name: png(0)})


def test_keys_with_and_without_leading_dot_are_the_same(tmp_path: Path) -> None:
    assert webdataset(tmp_path / "one", {"./x/a.png": png(0)}) == [("./x/a", -1, "")]
    with pytest.raises(UserError, match="repeats the key 'x/a'"):
        webdataset(tmp_path / "two", {"./x/a.png": png(0), "x/a.png": png(1)})


def test_tars_of_several_splits_raise(tmp_path: Path) -> None:
    for name in ("train-000000", "val-000000"):
        write_tar(tmp_path / f"{name}.tar", {f"{name}.png": png(0)})
    with pytest.raises(UserError, match=r"more than one split: train .*, validation .*pattern"):
        open_source("webdataset", str(tmp_path))
    assert [image.id for image in open_source("auto", str(tmp_path / "val-*"))] == ["val-000000"]


def test_a_tar_with_a_hash_in_its_name_is_read(tmp_path: Path) -> None:
    write_tar(tmp_path / "a#1.tar", {"x#2.png": png(0)})
    source = open_source("webdataset", str(tmp_path))
    assert [source.read(image) for image in source] == [png(0)]


def test_names_that_start_like_a_compressed_file_are_read(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"BZh1.png": png(0), "BZh2.png": png(1)})
    source = open_source("webdataset", str(tmp_path))
    assert {image.id: source.read(image) for image in source} == {"BZh1": png(0), "BZh2": png(1)}


def test_reading_from_a_tar_truncated_later_fails(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"a.png": png(0)})
    source = open_source("webdataset", str(tmp_path))
    (image,) = source
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:1000])
    with pytest.raises(OSError, match="was truncated"):
        source.read(image)


@pytest.mark.parametrize(
    "other",
    [{"a.png": png(0) + b"more"}, {"first.txt": b"", "a.png": png(0)}, {"a.png": b"x" * len(png(0)) * 5}],
    ids=["another size", "another position", "no header there"],
)
def test_reading_from_a_tar_replaced_later_fails(tmp_path: Path, other: dict[str, bytes]) -> None:
    write_tar(tmp_path / "a.tar", {"before.txt": b"x" * 600, "a.png": png(0)})
    source = open_source("webdataset", str(tmp_path))
    (image,) = source
    write_tar(tmp_path / "a.tar", other | {"end.txt": bytes(5000)})
    with pytest.raises(OSError, match=r"a\.tar was replaced while in use: a\.png is not at byte 2048 any more"):
        source.read(image)


@pytest.mark.parametrize(("kind", "layout"), [("webdataset", webdataset_tars), ("ilsvrc2012-val-tar", ilsvrc_val_tar)])
def test_listed_images_are_read_without_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, layout: Callable[[Path], Path]
) -> None:
    location = str(layout(tmp_path))
    source = open_source(kind, location)
    listed = {image: source.read(image) for image in source}
    unknown = {image: source.read(replace(image, offset=None)) for image in listed}
    assert listed == unknown
    read = Mock(side_effect=safe_members)
    monkeypatch.setattr(tars, "safe_members", read)
    assert {image: open_source(kind, location).read(image) for image in listed} == listed
    read.assert_not_called()
    another = open_source(kind, location)
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda image: another.read(replace(image, offset=None)), listed)
    assert list(found) == list(listed.values())
    assert read.call_count == len({image.origin.partition("#")[0] for image in listed if "#" in image.origin} or {1})


def test_sizes_of_eight_gigabytes_and_more_are_read(tmp_path: Path) -> None:
    """The file is sparse, so the member takes no disk space."""
    size = 8 * 2**30
    start = header("a.jpg", b"\x80" + struct.pack(">q", size).rjust(11, b"\0"))
    with open(tmp_path / "a.tar", "wb") as file:
        file.write(start)
        file.truncate(len(start) + size + len(END))
    (image,) = open_source("webdataset", str(tmp_path))
    assert image.size == size
    with pytest.raises(OSError, match="the maximum is 268435456"):
        open_source("webdataset", str(tmp_path)).read(image)
