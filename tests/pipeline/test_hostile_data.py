"""Untrusted data sets: damaged or malicious files end in an error that names the file."""

import gzip
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w

import manifests
from manifests import Row
from pipeline.builder.regenerate import regenerate
from pipeline.datasets import base as dataset
from pipeline.datasets import findings as finding
from pipeline.datasets import stored
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import file_digest
from pipeline.datasets.samples import described_columns, payload_digest, pixel_digest, side_members
from pipeline.datasets.shards import ShardWriter
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from pipeline.images.encoders import Npy, Png
from pipeline.render.renderer import Renderer
from tests.factories.manifest_rows import ROW, repeated

RECIPE = {
    "name": "small",
    "profile": "tiny",
    "source": {"kind": "imagefolder"},
    "prepare": {"steps": [["shorter_side", 64.0]]},
    "transforms": {"family": "corruptions", "only": ["fog"], "levels": [1]},
    "encoder": {"name": "png"},
    "shards": {"size": 1000},
}
SHARD = "shards/fog/1/fog-1-000000.tar"
IMAGES = [np.full((8, 8, 3), value, np.uint8) for value in (10, 20, 30)]


def row_of(index: int, payload: bytes, offset: int) -> Row:
    id_ = f"class{index % 2}/image{index}"
    return ROW._replace(
        key=f"{id_}-fog-1",
        shard=SHARD,
        offset=offset,
        size=len(payload),
        source_id=id_,
        origin=f"{id_}.png",
        label=index % 2,
        class_name=f"class{index % 2}",
        level=1,
        profile="tiny",
        height=8,
        width=8,
        encoder="png compression=3",
        payload_sha256=payload_digest([payload]),
        pixel_sha256=pixel_digest(IMAGES[index]),
    )


def write_rows(folder: Path, rows: list[Row]) -> None:
    manifests.write_part(rows, {}, folder / "part")
    manifests.merge([[folder / "part"]], {}, folder / "manifest.parquet")
    (folder / "part").unlink()
    if (folder / "index.toml").exists():
        sha256 = file_digest(folder / "manifest.parquet")
        table = {"name": "theirs", "family": "corruptions", "layout": "arrays", "location": ".", "manifest": sha256}
        (folder / "index.toml").write_text(tomli_w.dumps(table))


def rewrite(folder: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    write_rows(folder, change(list(manifests.read_rows(folder / "manifest.parquet"))))


def replace_shard(folder: Path, content: bytes) -> None:
    """Replace the shard, and update its digest in the manifest."""
    (folder / SHARD).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    rewrite(folder, lambda rows: [row._replace(shard_sha256=digest) for row in rows])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return an undamaged data set of three images in one shard."""
    folder = tmp_path / "data"
    (folder / SHARD).parent.mkdir(parents=True)
    (folder / "recipe.toml").write_text(tomli_w.dumps(RECIPE))
    writer, rows = ShardWriter(folder / SHARD), []
    for index, image in enumerate(IMAGES):
        payload = Png().encode(image)
        row = row_of(index, payload, 0)
        sides = {row.key + suffix: content for suffix, content in side_members(described_columns(row)).items()}
        offset, *_ = writer.add({row.key + ".png": payload, **sides})
        rows.append(row._replace(offset=offset))
    sha256, _ = writer.finish()
    write_rows(folder, [row._replace(shard_sha256=sha256) for row in rows])
    return folder


def faults(folder: Path) -> list[str]:
    found = [str(fault) for fault in verify(str(folder)).faults]
    assert not any("run the same" in fault for fault in found)
    return found


def pax(size: int) -> bytes:
    """Return the header block of a PAX extension with this size."""
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 0
    block = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = (
        b"\x80" + size.to_bytes(11, "big", signed=True)
        if size >= 0
        else b"\xff" * 4 + (size.to_bytes(8, "big", signed=True))
    )
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def link_to(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("class0/image0-fog-1.png")
        member.type, member.linkname = tarfile.SYMTYPE, name
        tar.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "shard",
    [
        b"",
        b"\0" * 10240,
        b"x" * 10240,
        pax(-512) * 3,  # a negative size points back to this header: CVE-2025-8194
        pax(2**62),
        pax(0) * 50,
        gzip.compress(b"\0" * 10240),
        link_to("/etc/passwd"),
    ],
    ids=["empty", "zeros", "noise", "loop", "huge", "endless", "gzip", "link"],
)
def test_hostile_shards_are_faults(data: Path, shard: bytes) -> None:
    replace_shard(data, shard)
    (fault,) = faults(data)
    assert fault.startswith(SHARD)
    data_set = open_data_set(str(data))
    for row in data_set.rows():
        with pytest.raises(UserError, match="robustshards verify"):
            data_set.pick(row)


@pytest.mark.parametrize("kind", ["folder", "fifo", "link out", "link in a circle", "missing", "dangling", "device"])
def test_pipes_folders_and_links_instead_of_shards_are_faults(data: Path, kind: str, tmp_path: Path) -> None:
    shard = data / SHARD
    shutil.copy(shard, tmp_path / "outside.tar")
    shard.unlink()
    make: dict[str, Callable[[], object]] = {
        "folder": shard.mkdir,
        "fifo": lambda: os.mkfifo(shard),
        "link out": lambda: shard.symlink_to(tmp_path / "outside.tar"),
        "link in a circle": lambda: shard.symlink_to(shard),
        "missing": lambda: None,
        "dangling": lambda: shard.symlink_to("nowhere.tar"),
        "device": lambda: shard.symlink_to("/dev/zero"),
    }
    make[kind]()
    (fault,) = faults(data)
    assert fault.startswith(SHARD)


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "empty", "binary"])
@pytest.mark.parametrize("name", ["manifest.parquet", "recipe.toml"])
def test_pipes_folders_and_links_instead_of_settings_are_errors(data: Path, name: str, kind: str) -> None:
    path = data / name
    path.unlink()
    make: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "empty": path.touch,
        "binary": lambda: path.write_bytes(bytes(range(256)) * 20),
    }
    make[kind]()
    with pytest.raises(UserError) as refused:
        verify(str(data))
    assert name in str(refused.value)
    assert "same" not in str(refused.value)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe" + "name = 'x'".encode("utf-16-le"), b"x = " + b"[" * 50_000, b"x = " + b"1" * 5_000, b"\0"]
)
@pytest.mark.parametrize("name", ["recipe.toml", "index.toml"])
def test_invalid_settings_are_errors(data: Path, name: str, content: bytes) -> None:
    (data / name).write_bytes(content)
    with pytest.raises(UserError, match=name):
        verify(str(data))


def test_large_settings_are_not_read(data: Path) -> None:
    with open(data / "recipe.toml", "wb") as file:
        file.truncate(2**33)
    with pytest.raises(UserError, match=r"cannot read .*recipe.toml: .*larger than"):
        verify(str(data))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"offset": 0}, "at 0"),
        ({"offset": 511}, "at 511"),
        ({"offset": 2**49}, "at 562949953421312"),
        ({"size": 2**28}, "268435456 at"),
        ({"size": 1}, "1 at"),
    ],
)
def test_invalid_offsets_and_sizes_are_faults(data: Path, change: dict[str, int], named: str) -> None:
    rewrite(data, lambda rows: [rows[0]._replace(**change), *rows[1:]])
    assert any(named in fault for fault in faults(data))
    data_set = open_data_set(str(data))
    if change != {"size": 1}:
        with pytest.raises(UserError, match="robustshards verify"):
            data_set.pick(next(data_set.rows()))


def test_shards_with_too_many_rows_are_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "MAX_SHARD_SIZE", 2)
    with pytest.raises(UserError, match=f"manifest.parquet has more than 2 rows for '{SHARD}'"):
        list(open_data_set(str(data)).chunks())
    monkeypatch.setattr(stored, "MAX_SHARD_SIZE", 2)
    with pytest.raises(UserError, match=f"more than 2 rows for '{SHARD}'"):
        verify(str(data))


def test_data_sets_with_too_many_shards_are_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(data, lambda rows: [row._replace(shard=f"{index}.tar") for index, row in enumerate(rows)])
    assert len(list(open_data_set(str(data)).chunks())) == 3
    monkeypatch.setattr(dataset, "MAX_CHUNKS", 2)
    with pytest.raises(UserError, match="lists more than 2 shards"):
        list(open_data_set(str(data)).chunks())


def test_only_the_first_faults_are_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_FAULTS", 4)
    rewrite(data, lambda rows: [row._replace(label=1 - row.label) for row in rows])
    found = verify(str(data))
    assert (len(found.faults), found.further, found.count) == (4, 2, 6)
    *_, more, last = found.lines()
    assert more == "FAULT ... and 2 more"
    assert last == "checked 3 samples in 1 file: 6 faults"
    assert found.facts()["fault_count"] == 6


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """Return an index of one array with 2,500 images of one colour each."""
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "index.toml").touch()
    pixels = np.repeat(np.arange(2500, dtype=np.uint32).astype(np.uint8), 4 * 4 * 3).reshape(-1, 4, 4, 3)
    (folder / "fog.bin").write_bytes(pixels.tobytes())
    digest, encoder = hashlib.sha256(pixels.tobytes()).hexdigest(), Npy()
    rows = [
        row_of(0, b"", 0)._replace(
            key=f"image_{index:06d}-fog-1",
            source_id=f"image_{index:06d}",
            shard="fog.bin",
            shard_sha256=digest,
            offset=index * 48,
            size=48,
            encoder="pixels",
            height=4,
            width=4,
            payload_sha256=payload_digest([encoder.encode(image)]),
            pixel_sha256=pixel_digest(image),
        )
        for index, image in enumerate(pixels)
    ]
    write_rows(folder, rows)
    return folder


def test_an_array_of_several_chunks_has_one_digest(indexed: Path) -> None:
    found = verify(str(indexed))
    assert (found.shards, found.samples, found.count) == (1, 2500, 0)
    rewrite(indexed, lambda rows: [*rows[:-1], rows[-1]._replace(shard_sha256="0" * 64)])
    (fault,) = faults(indexed)
    assert fault.startswith("fog.bin: sha256 is")


def test_an_unknown_encoder_of_an_index_is_a_fault(indexed: Path) -> None:
    rewrite(indexed, lambda rows: [rows[0]._replace(encoder="gif"), *rows[1:]])
    assert (
        "has the unknown encoder 'gif' in the manifest; allowed: jpeg, png, npy, own, mp4, original, pixels"
        in faults(indexed)[0]
    )
    data_set = open_data_set(str(indexed))
    with pytest.raises(UserError, match="allowed: jpeg"):
        data_set.pick(next(data_set.rows()))


def test_a_missing_manifest_of_an_index_suggests_index(indexed: Path) -> None:
    (indexed / "manifest.parquet").unlink()
    with pytest.raises(UserError, match="run index again"):
        verify(str(indexed))


def test_a_manifest_with_many_rows_in_few_bytes_is_refused(data: Path) -> None:
    with pq.ParquetWriter(data / "manifest.parquet", manifests.SCHEMA, compression="zstd") as writer:
        for _ in range(2):
            writer.write_table(repeated(550_000))
    with pytest.raises(UserError, match=r"declares 1100000 rows in \d+ bytes: at most 1048576 are allowed"):
        verify(str(data))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for index in range(3):
        path = tmp_path / "source" / f"class{index % 2}" / f"image{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Png().encode(np.full((70, 70, 3), 10 * index, np.uint8)))
    return tmp_path / "source"


def test_recipes_of_huge_images_are_not_regenerated(data: Path, source: Path) -> None:
    huge = {**RECIPE, "prepare": {"steps": [["square", 8192.0]]}}
    (data / "recipe.toml").write_text(tomli_w.dumps(huge))
    with pytest.raises(UserError, match=r"prepare.steps of 8192 pixels, and at most 2048"):
        regenerate(str(data), str(source), 3, 0)


def test_any_exception_of_a_transform_is_a_fault(data: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("no memory for this image")

    monkeypatch.setattr(Renderer, "members", broken)
    rewrite(data, lambda rows: [row._replace(source_sha256=None) for row in rows])
    found = regenerate(str(data), str(source), 3, 0)
    assert sum("cannot be rebuilt: MemoryError: no memory" in str(fault) for fault in found.faults) == 3
