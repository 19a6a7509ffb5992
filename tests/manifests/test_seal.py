"""Any change of a part's bytes is noticed before its rows are merged."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manifests
from manifests import SCHEMA
from tests.factories.manifest_rows import FAILED, ROW, repeated


def part_of(folder: Path) -> bytes:
    path = folder / "sound.parquet"
    manifests.write_part([ROW, FAILED] * 20, {"task": "sha256:" + "a" * 64, "failed": "20"}, path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return part_of(tmp_path_factory.mktemp("part"))


def merged(content: bytes, folder: Path) -> manifests.Merged:
    return manifests.merge([[("part", content)]], {}, folder / "merged", summed=["failed"])


def test_a_part_says_what_it_was_given(part: bytes, tmp_path: Path) -> None:
    assert manifests.is_sealed(part)
    assert manifests.part_facts(("part", part)) == {"task": "sha256:" + "a" * 64, "failed": "20"}
    assert merged(part, tmp_path) == (40, {"failed": "20"})
    assert part_of(tmp_path) == part


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_flipped_bit_is_noticed_at_the_merge(part: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 8 * len(part) - 1))
    damaged = bytearray(part)
    damaged[place // 8] ^= 1 << place % 8
    assert manifests.part_facts(("part", bytes(damaged))) == {}
    with pytest.raises(manifests.MergeError, match="part is damaged"):
        manifests.merge([[("part", bytes(damaged))]], {}, Path("/dev/null"))


@pytest.mark.parametrize("change", ["empty", "cut", "longer", "doubled", "swapped", "other magic"])
def test_any_other_bytes_are_noticed(part: bytes, tmp_path: Path, change: str) -> None:
    half = len(part) // 2
    content = {
        "empty": b"",
        "cut": part[:-1],
        "longer": part + b"\0",
        "doubled": part + part[4:],
        "swapped": part[:4] + part[half:-4] + part[4:half] + part[-4:],
        "other magic": part[:-1] + b"E",
    }[change]
    path = tmp_path / "part"
    path.write_bytes(content)
    for each in (path, ("part", content)):
        assert manifests.part_facts(each) == {}
        with pytest.raises(manifests.MergeError, match="part"):
            manifests.merge([[each]], {}, tmp_path / "merged")


def test_a_part_without_a_seal_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([ROW._asdict()], manifests.SCHEMA.with_metadata({"failed": "0"})), content)
    assert manifests.part_facts(("part", content.getvalue())) == {}
    with pytest.raises(manifests.MergeError, match="part is damaged, or from a version without digests"):
        merged(content.getvalue(), tmp_path)


@pytest.mark.parametrize("told", ["-1", "1.5", "", "x", "1" * 5000, "\u0663", " 1", "1_0"])
def test_only_whole_numbers_are_summed(tmp_path: Path, told: str) -> None:
    manifests.write_part([ROW], {"failed": told}, tmp_path / "part")
    with pytest.raises(manifests.MergeError, match=r"part has .* as failed, no whole number") as refused:
        manifests.merge([[tmp_path / "part"]], {}, tmp_path / "merged", summed=["failed"])
    assert len(str(refused.value)) < 300


def test_parts_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    with pq.ParquetWriter(content, SCHEMA, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(repeated(2_700, ROW._replace(class_name="x" * 100_000)))
        writer.add_key_value_metadata(manifests.with_blank_seal({}))
    with pytest.raises(manifests.MergeError, match=r"part announces a row group of 27\d+ bytes: at most"):
        manifests.merge([[("part", manifests.seal(content.getvalue()))]], {}, tmp_path / "merged")


def test_reasons_of_failures_are_cut(tmp_path: Path) -> None:
    manifests.write_part([FAILED._replace(error="\u00e4" * 100_000)], {}, tmp_path / "part")
    (row,) = manifests.read_rows(tmp_path / "part")
    assert row.error == "\u00e4" * 2048
