"""``verify --quick`` finds damage from file names, file sizes and the manifest, without reading payloads."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import manifests
from manifests import Row
from pipeline.datasets import stored
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from tests.conftest import Run
from tests.factories.data_sets import SHARD, change_row, rewrite

OTHER = SHARD.replace("000000", "000001")


def faults(folder: Path) -> list[str]:
    return [str(fault) for fault in verify(str(folder), quick=True).faults]


@pytest.mark.parametrize("name", ["built_once", "cifar_c", "sequences"])
def test_an_undamaged_data_set_has_no_faults_and_is_not_read(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = request.getfixturevalue(name)
    kind = type(open_data_set(str(folder)))
    for method in ("read", "pick"):
        monkeypatch.setattr(kind, method, lambda *_: pytest.fail("a payload was read"))
    found = verify(str(folder), quick=True)
    rows = list(manifests.read_rows(folder / "manifest.parquet"))
    assert (found.shards, found.samples, found.failed) == (len({row.shard for row in rows}), len(rows), 0)
    assert found.faults == []


def test_missing_truncated_longer_and_extra_shards_are_faults(built: Path) -> None:
    length = (built / SHARD).stat().st_size
    (built / SHARD).write_bytes((built / SHARD).read_bytes()[:-1])
    assert faults(built) == [f"{SHARD}: has {length - 1} bytes; {length} expected from the manifest"]
    (built / SHARD).write_bytes(bytes(length + 10240))
    assert faults(built) == [f"{SHARD}: has {length + 10240} bytes; {length} expected from the manifest"]
    (built / SHARD).unlink()
    assert faults(built) == [f"{SHARD}: is missing"]
    shutil.move(built / OTHER, built / OTHER.replace("000001", "000009"))
    assert faults(built) == [
        f"{SHARD}: is missing",
        f"{OTHER}: is missing",
        f"{OTHER.replace('000001', '000009')}: is not in the manifest: delete it, it belongs to another build",
    ]


def test_changed_bytes_of_the_same_size_are_not_found(built: Path) -> None:
    (built / SHARD).write_bytes(bytes((built / SHARD).stat().st_size))
    assert faults(built) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"label": 1}, "has other images or labels than gaussian_noise-1"),
        ({"class_name": "class9"}, "has other images or labels than gaussian_noise-1"),
        ({"key": "other"}, "other: does not belong in"),
        ({"level": 2}, "gaussian_noise-2 is not in the recipe"),
        ({"shard": "shards/gaussian_noise/1/other.tar"}, "shards/gaussian_noise/1/other.tar: is missing"),
    ],
)
def test_changed_manifest_columns_are_faults(built: Path, change: dict[str, Any], named: str) -> None:
    change_row(built, **change)
    assert any(named in fault for fault in faults(built)), faults(built)


def test_shards_of_unexpected_size_are_faults(built: Path) -> None:
    def longer(rows: list[Row]) -> list[Row]:
        last = max(index for index, row in enumerate(rows) if row.shard == SHARD)
        return [row._replace(size=(row.size or 0) + 10240 * (index == last)) for index, row in enumerate(rows)]

    rewrite(built, longer)
    assert [fault.partition(":")[0] for fault in faults(built)] == [SHARD]


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (lambda rows: rows[1:], ["has 3 rows in the manifest; the recipe has 4 in a shard", "has other images"]),
        (lambda rows: rows[:-1], ["contrast-3: has other images or labels than"]),
        (lambda rows: rows[6:], ["manifest.parquet: has no rows of"]),
        (lambda rows: [row for row in rows if row.shard != SHARD], [f"{SHARD}: is not in the manifest"]),
        (lambda rows: [*rows, *rows[:6]], ["not consecutive", "is listed twice in the manifest"]),
        (lambda rows: [rows[0], *rows], ["-1: is listed twice in the manifest", "has 5 rows in the manifest"]),
    ],
)
def test_missing_and_duplicate_rows_are_faults(
    built: Path, rows: Callable[[list[Row]], list[Row]], named: list[str]
) -> None:
    rewrite(built, rows)
    found = faults(built)
    assert all(any(text in fault for fault in found) for text in named), found


def test_sizes_of_shards_with_failed_samples_are_correct(built: Path, robustshards: Run) -> None:
    """The size of a tar follows from its last ``ok`` sample; a tar without samples has only an end marker."""

    def failed(rows: list[Row]) -> list[Row]:
        payload = {"offset": None, "size": None, "payload_sha256": None, "pixel_sha256": None}
        return [
            row._replace(status=manifests.FAILED, error="torn", **payload) if row.shard == OTHER else row
            for row in rows
        ]

    rewrite(built, failed)
    length = (built / OTHER).stat().st_size
    assert faults(built) == [f"{OTHER}: has {length} bytes; 10240 expected from the manifest"]
    (built / OTHER).write_bytes(bytes(10240))
    done = robustshards("verify", built, "--quick", "--json")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["failed"], facts["fault_count"]) == (0, 2, 0)


def test_exit_codes(built: Path, robustshards: Run) -> None:
    done = robustshards("verify", built, "--quick")
    assert (done.returncode, done.stdout) == (0, "compared the names and sizes of 24 samples in 8 files: no faults\n")
    (built / SHARD).unlink()
    done = robustshards("verify", built, "--quick")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, f"FAULT {SHARD}: is missing")
    done = robustshards("verify", built, "--quick", "--deep")
    assert (done.returncode, "--quick" in done.stderr, "--deep" in done.stderr) == (2, True, True)
    (built / "manifest.parquet").unlink()
    assert "is not finished" in robustshards.refuse("verify", built, "--quick")


def test_an_unsorted_manifest_is_refused(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MAX_CONDITIONS", 8)
    rewrite(built, lambda rows: sorted(rows, key=lambda row: row.source_id))
    with pytest.raises(UserError, match="it is damaged"):
        verify(str(built), quick=True)


@pytest.fixture(params=["folders", "tars", "arrays"])
def indexed(
    request: pytest.FixtureRequest, tmp_path: Path, built_once: Path, cifar_c: Path, robustshards: Run
) -> tuple[Path, Path]:
    """Return an index beside its data, and the first of the indexed files."""
    data, out = tmp_path / "theirs", tmp_path / "index"
    if request.param == "tars":
        data.mkdir()
        shutil.copy(built_once / SHARD, data / "fog-3.tar")
    else:
        layout = {"folders": "imagefolder", "arrays": "cifar-npy"}[request.param]
        source = built_once if request.param == "folders" else cifar_c
        assert robustshards("export", source, "--to", layout, "--out", data).returncode == 0
    robustshards.succeed("index", data, "--out", out)
    return out, data / next(iter(manifests.read_rows(out / "manifest.parquet"))).shard


def test_files_of_an_index_are_checked(indexed: tuple[Path, Path]) -> None:
    index, file = indexed
    found = verify(str(index), quick=True)
    assert (found.count, found.shards > 0, found.samples > 0) == (0, True, True)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    (fault,) = faults(index)
    assert f"{file.name}: has {len(content) // 2} bytes; " in fault
    file.unlink()
    (fault,) = faults(index)
    assert fault.endswith(f"{file.name}: is missing")
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    assert {fault.rpartition(": ")[2] for fault in faults(index)} == {"is missing"}
