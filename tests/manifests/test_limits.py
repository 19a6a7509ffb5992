"""Readers check the declared sizes and the values of manifests, which may come from untrusted sources."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manifests
from manifests import SCHEMA, Row
from tests.factories.manifest_rows import FAILED, ROW, repeated

NAMES = ("transform", "level", "shard", "status", "frames")

READERS: dict[str, Callable[[Path], Any]] = {
    "rows": lambda path: list(manifests.read_rows(path)),
    "slice": lambda path: manifests.read_slice(path, 0, 10),
    "columns": lambda path: list(manifests.read_columns(path, manifests.COLUMNS)),
}


def written(path: Path, table: pa.Table, groups: int = 1, **options: Any) -> Path:
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", **options) as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=table.num_rows)
    return path


def dictionary_encoded(row: Row, count: int, longest: int) -> bytes:
    """Return a part, or manifest, whose rows share one long text by a dictionary. It has a placeholder for a seal."""
    table = repeated(count, row)
    column = SCHEMA.get_field_index("class_name")
    texts = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()).take(pa.repeat(0, count)), ["x" * longest])
    table = table.set_column(column, pa.field("class_name", texts.type, nullable=False), texts)
    content = io.BytesIO()
    with pq.ParquetWriter(content, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(manifests.with_blank_seal({}))
    return content.getvalue()


def refused(path: Path, message: str) -> None:
    """Check that every reader refuses a file with a short message that names it."""
    for read in READERS.values():
        with pytest.raises(ValueError, match=message) as raised:
            read(path)
        assert str(path) in str(raised.value)
        assert len(str(raised.value)) < 500


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decompression bombs: small files that expand to large tables, or declare that they do."""
    folder = tmp_path_factory.mktemp("bombs")
    written(folder / "rows", repeated(550_000), 2)
    (folder / "texts in a dictionary").write_bytes(dictionary_encoded(ROW, 500_000, 900_000))
    written(folder / "plain texts", repeated(2_700, ROW._replace(class_name="x" * 100_000)), use_dictionary=False)
    with pq.ParquetWriter(folder / "footer", SCHEMA) as writer:
        writer.write_table(repeated(1))
        writer.add_key_value_metadata({"text": "x" * 9_000_000})
    content = (folder / "rows").read_bytes()
    assert all(path.stat().st_size < 20_000_000 for path in folder.iterdir())
    (folder / "length").write_bytes(content[:-8] + b"\xff\xff\xff\x7f" + content[-4:])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows", r"declares 1100000 rows in \d+ bytes: at most 1048576 are allowed"),
        ("texts in a dictionary", "class_name has a text of 900000 bytes: at most 8192 are allowed"),
        ("plain texts", r"declares a row group of 27\d+ bytes: at most 268435456 are allowed"),
        ("footer", r"a footer of \d+ bytes: at most 8388608 are allowed"),
        ("length", "cut short"),
    ],
)
def test_every_reader_rejects_bombs(bombs: Path, name: str, message: str) -> None:
    refused(bombs / name, message)


@pytest.mark.large
def test_a_manifest_of_a_whole_fourier_map_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "map", repeated(1), 1_985)
    assert sum(1 for _ in manifests.read_rows(path)) == 1_985


@pytest.mark.slow
def test_bombs_do_not_fill_the_memory(bombs: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
import manifests
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(Path(sys.argv[1]).iterdir()):
    for read in (manifests.read_rows, lambda path: manifests.read_slice(path, 0, 10), manifests.read_facts):
        try:
            list(read(path))
        except ValueError:
            pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", program, bombs], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 700_000  # KiB


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 10**9}, "label is 1000000000: use -1 to 1048576"),
        ({"label": -2}, "label is -2"),
        ({"level": -1}, "level is -1: use 0 to 1048576"),
        ({"level": 2**20 + 1}, "level is 1048577"),
        ({"version": -(2**62)}, "version is -4611686018427387904"),
        ({"frames": 400_000_000}, "frames is 400000000: use 1 to 1000"),
        ({"frames": 0}, "frames is 0"),
        ({"height": 40_000, "width": 40_000}, "frames x height x width is 1600000000: at most 67108864"),
        ({"height": 2**26, "width": 2**26, "frames": 1000}, "frames x height x width is"),
        ({"frames": 1000, "height": 8192, "width": 8192}, "frames x height x width is"),
        ({"height": -1, "width": -1}, "height is -1"),
        ({"width": 0}, "width is 0"),
        ({"size": 0}, "size is 0: use 1 to 268435456"),
        ({"size": -5}, "size is -5"),
        ({"size": 2**28 + 1}, "size is 268435457"),
        ({"offset": -1}, "offset is -1"),
        ({"offset": 2**62}, "offset is 4611686018427387904"),
        *(
            ({name: None}, f"{name} is empty in a row with the status ok")
            for name in ("offset", "size", "frames", "height")
        ),
        *(({name: None}, f"{name} is empty in a row with the status ok") for name in ("width", "payload_sha256")),
        ({"pixel_sha256": None}, "pixel_sha256 is empty"),
        ({"payload_sha256": ""}, "payload_sha256 is empty in a row with the status ok"),
        ({"payload_sha256": "ab"}, "payload_sha256 is 'ab': use 64 hexadecimal digits"),
        ({"shard_sha256": "zz" * 32}, "shard_sha256 is 'zzzz"),
        ({"pixel_sha256": "\u00e4" * 32}, "pixel_sha256 is "),
        ({"source_sha256": "a" * 65}, "source_sha256 is 'aaa"),
        ({"status": "maybe"}, "status is 'maybe': use ok or failed"),
        ({"status": ""}, "status is ''"),
        ({"shard": "../../etc/passwd"}, "shard is '../../etc/passwd': use a path inside of the data set"),
        ({"shard": "/etc/passwd"}, "shard is '/etc/passwd'"),
        ({"shard": "shards/../../x"}, "shard is 'shards/../../x'"),
        ({"shard": "shards/.."}, "shard is 'shards/..'"),
        ({"shard": "x\0.tar"}, r"shard is 'x\\x00.tar'"),
        ({"shard": ""}, "shard is ''"),
        ({"key": "k" * 8193}, "key has a text of 8193 bytes: at most 8192"),
    ],
)
def test_every_reader_rejects_invalid_values(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    rows = [ROW, FAILED, ROW._replace(**change), ROW]
    table = pa.Table.from_pylist([row._asdict() for row in rows], SCHEMA)
    for dictionary in (True, False):
        refused(written(tmp_path / "manifest", table, use_dictionary=dictionary), message)


def test_payload_columns_of_failed_rows_are_not_checked(tmp_path: Path) -> None:
    """An index records the sizes of files that it rejected."""
    row = FAILED._replace(size=2**40, frames=0, height=40_000, width=40_000, payload_sha256=None, shard_sha256="")
    path = written(tmp_path / "manifest", pa.Table.from_pylist([row._asdict(), ROW._asdict()], SCHEMA))
    assert list(manifests.read_rows(path)) == manifests.read_slice(path, 0, 2) == [row, ROW]


@pytest.mark.parametrize("shard", ["a..b/c", "..a", ".hidden", "a/.b", "...", "a b\u00e4/\u202f.tar"])
def test_unusual_shard_names_are_allowed(tmp_path: Path, shard: str) -> None:
    path = written(tmp_path / "manifest", pa.Table.from_pylist([ROW._replace(shard=shard)._asdict()], SCHEMA))
    assert next(manifests.read_rows(path)).shard == shard


def test_text_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    table, path = pa.Table.from_pylist([ROW._replace(origin="QQQQ")._asdict()], SCHEMA), tmp_path / "plain"
    with pq.ParquetWriter(path, SCHEMA, compression="none", use_dictionary=False) as writer:
        writer.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"QQQQ", b"\xff\xfe\xff\xfe"))
    refused(path, "plain")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 3, b"\0" * 100, b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_files_of_other_formats_are_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest").write_bytes(content)
    refused(tmp_path / "manifest", "manifest")
    assert manifests.read_facts(tmp_path / "manifest") == {}


def test_folders_and_missing_files_raise(tmp_path: Path) -> None:
    manifests.write_part([ROW], {}, tmp_path / "part.parquet")
    refused(tmp_path, "not a regular file")
    for read in READERS.values():
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "missing")
    assert manifests.read_facts(tmp_path) == {}


@pytest.mark.slow
def test_any_damage_raises_an_error_that_names_the_file(tmp_path: Path) -> None:
    """No changed byte may cause another error. A merged manifest contains no digest of itself."""
    manifests.write_part([ROW, FAILED] * 50, {}, tmp_path / "part")
    manifests.merge([[tmp_path / "part"]], {"plan": "x"}, tmp_path / "manifest")
    intact = (tmp_path / "manifest").read_bytes()
    for offset in range(0, len(intact), 31):  # a prime number, so that all fields are hit
        damaged = bytearray(intact)
        damaged[offset] ^= 0xFF
        path = tmp_path / str(offset)
        path.write_bytes(damaged)
        for read in READERS.values():
            try:
                read(path)
            except ValueError as error:
                assert str(path) in str(error)  # noqa: PT017 - not every byte matters
        manifests.read_facts(path)
        path.unlink()
