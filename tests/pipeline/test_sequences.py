"""Perturbation sequences through the command line: built, verified, damaged, read."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import manifests
import perturbations
from pipeline.images.encoders import decode_members
from pipeline.recipes import library
from pipeline.transforms.seeds import sample_seed
from tests.conftest import Run

SELECTION = ("--only", "gaussian_noise,rotate", "--shard-size", 2, "--set", "profile=tiny")
SMALL = ("--set", 'prepare.steps=[["square", 64]]')


def member_data(shard: Path, name: str) -> bytes:
    with tarfile.open(shard) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


@pytest.fixture(scope="module")
def sequences_once(tmp_path_factory: pytest.TempPathFactory, small_source: Path, robustshards: Run) -> Path:
    """Build 3 images x (2 difficulties of noise, rotation) as PNG frames. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("sequences") / "data"
    command = ("build", "imagenet-p", "--source", small_source, "--out", folder, *SELECTION, *SMALL, "--limit", 3)
    robustshards.succeed(*command, "--difficulty", "1,2", "--encoder", "png", "--workers", 2)
    return folder


def test_rows_have_frame_counts_and_frames_equal_perturb(sequences_once: Path, small_source: Path) -> None:
    rows = list(manifests.read_rows(sequences_once / "manifest.parquet"))
    assert [(row.transform, row.level) for row in rows[::3]] == [
        ("gaussian_noise", 1),
        ("gaussian_noise", 2),
        ("rotate", 1),
    ]
    recipe = library.parse((sequences_once / "recipe.toml").read_text(), "recipe.toml")
    for row in rows:
        assert (row.frames, row.height, row.width, row.encoder) == (31, 64, 64, "png compression=3")
        shard = sequences_once / row.shard
        with tarfile.open(shard) as tar:
            frames = [name for name in tar.getnames() if name.startswith(row.key) and name.endswith(".png")]
        members = {name.removeprefix(row.key): member_data(shard, name) for name in frames}
        with Image.open(small_source / row.origin) as image:
            views = perturbations.make_views(np.asarray(image.convert("RGB")), [("square", 64)])
        seed = sample_seed(0, row.source_id, row.transform, row.level)
        expected = perturbations.perturber(row.transform, profile="tiny", difficulty=row.level)(views, seed)
        assert list(members) == [f".{index:03d}.png" for index in range(31)]
        np.testing.assert_array_equal(decode_members(recipe.encoder, members), expected)


def test_offset_and_size_span_all_frames(sequences_once: Path) -> None:
    row = next(manifests.read_rows(sequences_once / "manifest.parquet"))
    with tarfile.open(sequences_once / row.shard) as tar:
        frames = [member for member in tar if member.name.startswith(row.key) and member.name.endswith(".png")]
    assert row.offset == frames[0].offset_data
    assert row.offset + (row.size or 0) == frames[-1].offset_data + frames[-1].size


def test_verify_names_a_changed_frame(sequences_once: Path, tmp_path: Path, robustshards: Run) -> None:
    data = shutil.copytree(sequences_once, tmp_path / "data")
    rows = list(manifests.read_rows(data / "manifest.parquet"))
    shard = data / rows[0].shard
    with tarfile.open(shard) as tar:
        frame = tar.getmember(f"{rows[0].key}.017.png")
    content = bytearray(shard.read_bytes())
    content[frame.offset_data + frame.size // 2] ^= 1
    shard.write_bytes(content)
    done = robustshards("verify", data)
    assert done.returncode == 1
    assert f"{rows[0].key}: has a payload that was changed" in done.stdout
    assert f"{rows[0].shard}: sha256 is" in done.stdout


def test_verify_names_a_missing_frame(sequences_once: Path, tmp_path: Path, robustshards: Run) -> None:
    data = shutil.copytree(sequences_once, tmp_path / "data")
    row = next(manifests.read_rows(data / "manifest.parquet"))
    shard = data / row.shard
    with tarfile.open(shard) as tar:
        kept = [(member, member_data(shard, member.name)) for member in tar if not member.name.endswith(".005.png")]
    with tarfile.open(shard, "w") as tar:
        for member, payload in kept:
            tar.addfile(member, io.BytesIO(payload))
    done = robustshards("verify", data)
    assert done.returncode == 1
    assert f"has {row.key}.006.png instead of {row.key}.005.png" in done.stdout


def test_webdataset_reads_frames(sequences_once: Path) -> None:
    import webdataset

    urls = sorted(map(str, (sequences_once / "shards" / "rotate").rglob("*.tar")))
    samples = list(webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8"))
    assert len(samples) == 3
    for sample in samples:
        frames = np.stack([sample[f"{index:03d}.png"] for index in range(31)])
        assert frames.shape == (31, 64, 64, 3)
        assert sample["json"]["transform"] == "rotate"


@pytest.mark.parametrize(("encoder", "member"), [("jpeg", ".030.jpg"), ("npy", ".npy"), ("mp4", ".mp4")])
def test_sequences_of_every_encoder_can_be_rebuilt(
    small_source: Path, tmp_path: Path, robustshards: Run, encoder: str, member: str
) -> None:
    size = ("--limit", 2, "--shard-size", 1)
    command = ("build", "imagenet-p", "--source", small_source, *SELECTION, *SMALL, "--encoder", encoder, *size)
    robustshards.succeed(*command, "--out", tmp_path)
    facts = json.loads(robustshards("verify", tmp_path, "--deep", "--samples", 4, "--json").stdout)
    assert (facts["regenerated"], facts["faults"], facts["deep_faults"]) == (4, [], [])
    row = next(manifests.read_rows(tmp_path / "manifest.parquet"))
    with tarfile.open(tmp_path / row.shard) as tar:
        assert row.key + member in tar.getnames()
    assert row.frames == 31


def test_sequences_of_more_pixels_than_a_manifest_has_are_refused(
    small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    selection = ("--only", "rotate", "--set", 'prepare.steps=[["square", 1500]]')
    error = robustshards.refuse("build", "imagenet-p", "--source", small_source, "--out", tmp_path / "data", *selection)
    assert "cannot make samples of rotate: 69,750,000 pixels in a sample, but at most 67,108,864" in error


def test_the_clean_companion_equals_frame_0_of_the_noises(
    sequences_once: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    command = ("build", "imagenet-p-clean", "--source", small_source, "--out", tmp_path, *SMALL, "--encoder", "png")
    robustshards.succeed(*command, "--limit", 3, "--set", "profile=tiny")
    clean = {row.source_id: row.payload_sha256 for row in manifests.read_rows(tmp_path / "manifest.parquet")}
    noises = [row for row in manifests.read_rows(sequences_once / "manifest.parquet") if row.transform != "rotate"]
    for row in noises:
        first = member_data(sequences_once / row.shard, f"{row.key}.000.png")
        assert hashlib.sha256(first).hexdigest() == clean[row.source_id]
