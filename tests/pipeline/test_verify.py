"""Full verification reports every kind of damage to a finished data set."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manifests
from manifests import Row
from pipeline.datasets.samples import described_columns, side_members
from pipeline.datasets.shards import ShardWriter
from pipeline.datasets.verify import verify
from pipeline.images.encoders import Jpeg
from tests.conftest import Run
from tests.factories.data_sets import SHARD, change_row, rewrite


def faults(folder: Path) -> list[str]:
    return [str(fault) for fault in verify(str(folder)).faults]


def rewrite_shard(folder: Path, members: Callable[[Row, bytes], dict[str, bytes]]) -> None:
    """Rewrite SHARD with other members, and update its digest and offsets in the manifest."""
    data = (folder / SHARD).read_bytes()
    rows = list(manifests.read_rows(folder / "manifest.parquet"))
    writer, offsets = ShardWriter(folder / SHARD), dict[str, int]()
    for row in rows:
        if row.shard == SHARD:
            assert row.offset is not None
            assert row.size is not None
            added = members(row, data[row.offset : row.offset + row.size])
            offsets |= dict(zip(added, writer.add(added), strict=True))
    sha256, _ = writer.finish()

    def mended(row: Row) -> Row:
        if row.shard != SHARD:
            return row
        return row._replace(shard_sha256=sha256, offset=offsets.get(row.key + ".jpg", row.offset))

    rewrite(folder, lambda rows: [mended(row) for row in rows])


def test_an_undamaged_data_set_has_no_faults(built_once: Path) -> None:
    found = verify(str(built_once), threads=2)
    assert (found.shards, found.samples, found.failed, found.decoder_changed) == (8, 24, 0, 0)
    assert found.faults == []


def test_verify_names_the_sample_with_a_flipped_bit(built: Path) -> None:
    rows = [row for row in manifests.read_rows(built / "manifest.parquet") if row.shard == SHARD]
    data = bytearray((built / SHARD).read_bytes())
    data[rows[1].offset + 100] ^= 1  # type: ignore[operator]
    (built / SHARD).write_bytes(data)
    shard, sample = faults(built)
    assert shard.startswith(f"{SHARD}: sha256 is")
    assert sample == f"{rows[1].key}: has a payload that was changed: its sha256 differs from the manifest"


def test_verify_finds_missing_truncated_and_extra_shards(built: Path) -> None:
    (built / SHARD).unlink()
    assert faults(built) == [f"{SHARD}: is missing"]
    other = SHARD.replace("000000", "000001")
    data = (built / other).read_bytes()
    (built / other).write_bytes(data[: len(data) // 2])
    assert any(fault.startswith(f"{other}: sha256") for fault in faults(built))
    (built / "shards/contrast/3/contrast-3-000009.tar").write_bytes(b"")
    assert any("contrast-3-000009.tar: is not in the manifest" in fault for fault in faults(built))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"payload_sha256": "0" * 64}, "its sha256 differs"),
        ({"shard_sha256": "0" * 64}, "sha256 is"),
        ({"label": 1}, "does not match the manifest"),
        ({"label": 1}, "has another class name than the label 1"),
        ({"class_name": "class9"}, "class9"),
        ({"key": "other-contrast-1"}, "does not belong in"),
        ({"offset": 513}, "bytes at offset 512; the manifest has"),
        ({"size": 3}, "the manifest has 3 at"),
        ({"height": 3}, "the manifest has (3, 224)"),
        ({"level": 2}, "does not belong in"),
        ({"source_sha256": "0" * 64}, "has other images or labels than gaussian_noise-1"),
        ({"status": manifests.FAILED}, "instead of"),
    ],
)
def test_verify_finds_changed_manifest_columns(built: Path, change: dict[str, object], named: str) -> None:
    change_row(built, **change)
    assert any(named in fault for fault in faults(built)), faults(built)


def test_a_different_pixel_digest_warns_of_a_changed_decoder(built: Path, robustshards: Run) -> None:
    change_row(built, pixel_sha256="0" * 64)
    done = robustshards.succeed("verify", built)
    assert "WARNING 1 intact payloads decode to other pixels" in done.stdout


def test_verify_finds_missing_duplicate_and_extra_rows(built: Path) -> None:
    rewrite(built, lambda rows: rows[1:])
    assert any("has contrast" not in fault and "instead of" in fault for fault in faults(built))
    rewrite(built, lambda rows: [row for row in rows if row.transform == "contrast"])
    assert "manifest.parquet: has no rows of gaussian_noise-1" in faults(built)
    rewrite(built, lambda rows: [*rows, *rows])
    assert "manifest.parquet: has rows of contrast-3 that are not consecutive" in faults(built)
    rewrite(built, lambda rows: [row for row in rows if row.shard == SHARD])
    rewrite(built, lambda rows: [*rows, *rows])
    assert any("-contrast-3: is listed twice in the manifest" in fault for fault in faults(built))


def test_verify_finds_extra_members_without_extracting_them(built: Path) -> None:
    def with_escape(row: Row, payload: bytes) -> dict[str, bytes]:
        return {"../../escaped.jpg": payload, row.key + ".jpg": payload, **side_members_of(row)}

    rewrite_shard(built, with_escape)
    assert any("its member '../../escaped.jpg' is outside of" in fault for fault in faults(built))


def test_verify_finds_payloads_that_cannot_be_decoded(built: Path) -> None:
    def broken(row: Row, payload: bytes) -> dict[str, bytes]:
        return {row.key + ".jpg": b"x" * len(payload), **side_members_of(row)}

    rewrite_shard(built, broken)
    digest = hashlib.sha256
    rewrite(
        built,
        lambda rows: [
            row._replace(payload_sha256=digest(b"x" * (row.size or 0)).hexdigest()) if row.shard == SHARD else row
            for row in rows
        ],
    )
    assert sum("cannot be decoded" in fault for fault in faults(built)) == 4


def side_members_of(row: Row) -> dict[str, bytes]:
    return {row.key + suffix: data for suffix, data in side_members(described_columns(row)).items()}


def test_deep_regenerates_samples(built_once: Path, robustshards: Run) -> None:
    facts = robustshards.facts("verify", built_once, "--deep", "--samples", 24)
    assert (facts["regenerated"], facts["deep_faults"]) == (24, [])


def test_deep_finds_damage_with_matching_digests(
    built: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    """The shard and the manifest match, but not the recipe; and a source image was changed."""
    other = Jpeg()

    def brighter(row: Row, payload: bytes) -> dict[str, bytes]:
        return {row.key + ".jpg": other.encode(other.decode(payload) // 2), **side_members_of(row)}

    rewrite_shard(built, brighter)

    def agree(row: Row) -> Row:
        if row.shard != SHARD:
            return row
        data = (built / SHARD).read_bytes()
        end = data.index(b"\xff\xd9", row.offset) + 2
        payload = data[row.offset : end]
        digest = hashlib.sha256(payload).hexdigest()
        pixels = hashlib.sha256(other.decode(payload).data).hexdigest()
        return row._replace(size=len(payload), payload_sha256=digest, pixel_sha256=pixels)

    rewrite(built, lambda rows: [agree(row) for row in rows])
    assert faults(built) == []
    assert f"give --source PATH with the source images (the latest run used '{small_source}')" in robustshards.refuse(
        "verify", built, "--deep", "--samples", 24
    )
    done = robustshards("verify", built, "--deep", "--samples", 24, "--source", small_source)
    assert done.returncode == 1
    assert done.stdout.count("the rebuilt sample differs") == 4

    changed = shutil.copytree(small_source, tmp_path / "changed")
    (changed / "class0" / "image0.png").write_bytes((changed / "class0" / "image2.png").read_bytes())
    (changed / "class0" / "image2.png").unlink()
    done = robustshards("verify", built, "--deep", "--samples", 24, "--source", changed)
    assert "source image class0/image0.png has changed since the build" in done.stdout
    assert f"source image class0/image2.png is not in {changed}" in done.stdout


def test_deep_chooses_samples_by_seed(built_once: Path, robustshards: Run) -> None:
    command = ("verify", built_once, "--deep", "--samples", 3, "--source", "/nowhere-at-all", "--sample-seed", 5)
    assert "does not exist" in robustshards.refuse(*command)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("recipe.toml", None, "is not a data set: it has no recipe.toml"),
        ("manifest.parquet", None, "is not finished"),
        ("manifest.parquet", b"PAR1 nothing PAR1", "cannot read the manifest"),
    ],
)
def test_verify_refuses_unfinished_and_damaged_folders(
    built: Path, robustshards: Run, name: str, content: bytes | None, named: str
) -> None:
    (built / name).write_bytes(content) if content else (built / name).unlink()
    assert named in robustshards.refuse("verify", built)


@pytest.mark.parametrize(("encoder", "faults"), [("cifar_c", 1), ("built", 0)])
def test_changed_pixels_of_arrays_are_faults(
    encoder: str, faults: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Decoders may give different pixels for a JPEG, but not for an array."""
    folder = shutil.copytree(request.getfixturevalue(encoder), tmp_path / "copy")
    path = folder / "manifest.parquet"
    table = pq.read_table(path)
    digests = table["pixel_sha256"].to_pylist()
    digests[0] = "0" * 64
    place = table.schema.get_field_index("pixel_sha256")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(digests)), path)
    found = verify(str(folder))
    assert (len(found.faults), found.decoder_changed) == (faults, 1 - faults)
