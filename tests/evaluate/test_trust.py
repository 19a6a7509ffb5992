"""Tests of the checks of an evaluation: labels, payloads, predictions parts, and the output folder."""

import io
import shutil
import sys
import tarfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import manifests
from pipeline.datasets.base import Location
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.evaluate.predict.loader_processes import load
from pipeline.evaluate.predict.stream import FrameStream
from tests.factories.evaluator import content, evaluated, outcome

SHARD = "shards/contrast/3/contrast-3-000000.tar"
CHUNK = "contrast-3-000000"


def change_manifest(data: Path, change: Callable[[manifests.Row], manifests.Row]) -> None:
    path = data / "manifest.parquet"
    facts = manifests.read_facts(path)
    manifests.write_part([change(row) for row in manifests.read_rows(path)], facts, path)


def rewrite(path: Path, change: Callable[[str, bytes], bytes]) -> None:
    """Change the content of tar members. Their names and order stay the same."""
    with tarfile.open(path) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in members:
            changed = change(member.name, data)
            member.size = len(changed)
            tar.addfile(member, io.BytesIO(changed))


# Shards


def test_labels_changed_in_the_manifest_are_detected(built: Path, tmp_path: Path) -> None:
    change_manifest(built, lambda row: row._replace(label=1 - row.label) if row.shard == SHARD else row)
    result = outcome(built, tmp_path / "r")
    ((name, reason),) = result.done.broken
    assert name == CHUNK
    assert ".cls: does not match the manifest: run robustshards verify" in reason
    assert not (tmp_path / "r/predictions.parquet").exists()
    *_, last = result.summary("r")
    assert ("1 of 8 shards cannot be read" in last, "robustshards verify" in last) == (True, True)
    assert "run the same command again" not in last


def test_payloads_swapped_within_a_shard_are_detected(built: Path, tmp_path: Path) -> None:
    with tarfile.open(built / SHARD) as tar:
        images = {name: tar.extractfile(name).read() for name in tar.getnames() if name.endswith(".jpg")}  # type: ignore[union-attr]
    (first, one), (second, two), *_ = images.items()
    longest = max(len(one), len(two))
    swapped = {first: two.ljust(longest, b"\0"), second: one.ljust(longest, b"\0")}
    rewrite(built / SHARD, swapped.get)
    offsets: dict[str, tuple[int, int]] = {}
    with tarfile.open(built / SHARD) as tar:
        offsets = {member.name: (member.offset_data, member.size) for member in tar}
    change_manifest(
        built,
        lambda row: (
            row._replace(**dict(zip(("offset", "size"), offsets[f"{row.key}.jpg"], strict=True)))
            if row.shard == SHARD
            else row
        ),
    )
    ((name, reason),) = outcome(built, tmp_path / "r").done.broken
    assert (name, "its payload in" in reason, "does not match the manifest" in reason) == (CHUNK, True, True)


def test_a_changed_json_member_is_detected(built: Path, tmp_path: Path) -> None:
    rewrite(built / SHARD, lambda name, data: data.replace(b"contrast", b"brokrast") if ".json" in name else data)
    ((name, reason),) = outcome(built, tmp_path / "r").done.broken
    assert (name, ".json: does not match the manifest" in reason) == (CHUNK, True)


def test_a_died_loader_process_is_reported_with_its_chunk(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        import os\n"
        "        if name == 'simplejpeg': os.kill(os.getpid(), 11)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}")
    monkeypatch.setitem(sys.modules, "sitecustomize", None)
    chunks = FrameStream(Location(str(built)), list(open_data_set(str(built)).chunks()), 4)
    with pytest.raises(
        UserError, match=r"died while reading one of gaussian_noise-1-000000.*robustshards verify.*--loaders"
    ):
        list(load(chunks, 1))


# Resuming


def test_damaged_predictions_are_merged_again(built_once: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    evaluated(built_once, out)
    valid = content(out)
    for damaged in (valid[:-200], valid[:400] + b"\xff" + valid[401:], b""):
        (out / "predictions.parquet").write_bytes(damaged)
        facts = evaluated(built_once, out)
        assert (facts["frames_made"], facts["complete"]) == (0, True)
        assert content(out) == valid


def test_damaged_parts_are_predicted_again(built_once: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    evaluated(built_once, out)
    valid = content(out)
    part, other = out / f"parts/{CHUNK}.parquet", out / "parts/contrast-1-000000.parquet"
    data = bytearray(part.read_bytes())
    data[40] ^= 1
    for damaged in (bytes(data), other.read_bytes(), b""):
        part.write_bytes(damaged)
        (out / "predictions.parquet").unlink()
        facts = evaluated(built_once, out)
        assert (facts["shards_before"], facts["complete"]) == (7, True)
        assert content(out) == valid


def test_another_library_version_is_rejected_as_another_evaluation(built_once: Path, tmp_path: Path) -> None:
    evaluated(built_once, tmp_path / "r")
    file = tmp_path / "r/evaluation.toml"
    file.write_text(file.read_text().replace(f'torch = "{version("torch")}"', 'torch = "2.1.0"'))
    with pytest.raises(UserError, match=r"software.torch is 2.1.0, but 2\..* was requested"):
        evaluated(built_once, tmp_path / "r")


@pytest.mark.parametrize("name", ["predictions.parquet", "chunks.txt", "parts/mine.parquet"])
def test_unknown_files_are_not_overwritten(built_once: Path, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "r" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(
        UserError, match=f"contains {name.partition('/')[0]}.* but no evaluation.toml.*use an empty folder"
    ):
        evaluated(built_once, tmp_path / "r")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("inside", ["", "shards", "shards/contrast/3/r", "manifest"])
def test_an_output_inside_the_data_set_is_rejected(built: Path, inside: str) -> None:
    before = sorted(built.rglob("*"))
    with pytest.raises(UserError, match="which contains the data set: choose another folder"):
        evaluated(built, built / inside)
    assert sorted(built.rglob("*")) == before


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"a=" + b"[" * 10**5, b"a=" + b"9" * 10**4, b"[model]\nname=3\n"])
def test_a_damaged_evaluation_toml_is_rejected(built_once: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/evaluation.toml").write_bytes(content)
    with pytest.raises(UserError, match=r"evaluation.toml is not valid"):
        evaluated(built_once, tmp_path / "r")


def test_predictions_without_a_seal_are_rejected(built_once: Path, tmp_path: Path) -> None:
    from pipeline.evaluate.results.folder import require_finished
    from pipeline.storage import open_store

    evaluated(built_once, tmp_path / "r")
    require_finished(open_store(str(tmp_path / "r")))
    shutil.copytree(tmp_path / "r", tmp_path / "copy")
    path = tmp_path / "copy/predictions.parquet"
    pq.write_table(pq.read_table(path), path)
    with pytest.raises(UserError, match=r"predictions.parquet is damaged.*run the same evaluate command again"):
        require_finished(open_store(str(tmp_path / "copy")))
