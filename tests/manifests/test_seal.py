"""Any changed byte of a manifest part is detected when parts are merged."""

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
    path = folder / "intact.parquet"
    manifests.write_part([ROW, FAILED] * 20, {"task": "sha256:" + "a" * 64, "failed": "20"}, path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return part_of(tmp_path_factory.mktemp("part"))


def merged(content: bytes, folder: Path) -> manifests.Merged:
    return manifests.merge([[("part", content)]], {}, folder / "merged", summed=["failed"])


def test_intact_part_keeps_its_rows_and_facts(part: bytes, tmp_path: Path) -> None:
    assert manifests.is_sealed(part)
    assert manifests.part_facts(("part", part)) == {"task": "sha256:" + "a" * 64, "failed": "20"}
    assert merged(part, tmp_path) == (40, {"failed": "20"})
    assert part_of(tmp_path) == part


@settings(max_examples=300)
@given(st.data())
def test_merge_detects_any_flipped_bit(part: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(part) - 1))
    damaged = bytearray(part)
    damaged[bit // 8] ^= 1 << bit % 8
    assert manifests.part_facts(("part", bytes(damaged))) == {}
    with pytest.raises(manifests.MergeError, match="part is damaged"):
        manifests.merge([[("part", bytes(damaged))]], {}, Path("/dev/null"))


@pytest.mark.parametrize("change", ["empty", "cut", "longer", "doubled", "swapped", "other magic"])
def test_merge_detects_other_damage(part: bytes, tmp_path: Path, change: str) -> None:
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


def test_merge_rejects_a_part_without_a_seal(tmp_path: Path) -> None:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([ROW._asdict()], manifests.SCHEMA.with_metadata({"failed": "0"})), content)
    assert manifests.part_facts(("part", content.getvalue())) == {}
    with pytest.raises(manifests.MergeError, match="part is damaged, or from a version without digests"):
        merged(content.getvalue(), tmp_path)


@pytest.mark.parametrize("value", ["-1", "1.5", "", "x", "1" * 5000, "\u0663", " 1", "1_0"])
def test_merge_sums_only_integers(tmp_path: Path, value: str) -> None:
    manifests.write_part([ROW], {"failed": value}, tmp_path / "part")
    with pytest.raises(
        manifests.MergeError, match=r"part has the metadata value failed = .* instead of an integer"
    ) as raised:
        manifests.merge([[tmp_path / "part"]], {}, tmp_path / "merged", summed=["failed"])
    assert len(str(raised.value)) < 300


def test_merge_rejects_parts_that_would_fill_the_memory(tmp_path: Path) -> None:
    content = io.BytesIO()
    with pq.ParquetWriter(content, SCHEMA, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(repeated(2_700, ROW._replace(class_name="x" * 100_000)))
        writer.add_key_value_metadata(manifests.with_blank_seal({}))
    with pytest.raises(manifests.MergeError, match=r"part declares a row group of 27\d+ bytes: at most"):
        manifests.merge([[("part", manifests.seal(content.getvalue()))]], {}, tmp_path / "merged")


def test_long_errors_are_shortened(tmp_path: Path) -> None:
    manifests.write_part([FAILED._replace(error="\u00e4" * 100_000)], {}, tmp_path / "part")
    (row,) = manifests.read_rows(tmp_path / "part")
    assert row.error == "\u00e4" * 2048
