"""Finished data sets behind URLs: read, verified, shown, exported and evaluated without a folder of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.errors import UserError
from pipeline.storage import UrlStore, open_store
from pipeline.verify import verify
from tests.conftest import ROOT, Run


def test_all_readers_take_them(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    url = f"file://{built_once}"
    done = robustshards("verify", url)
    assert (done.returncode, "24 samples in 8 shards: no faults" in done.stdout) == (0, True), done.stderr
    assert robustshards("preview", url, "--out", tmp_path / "page.html").returncode == 0
    assert robustshards("export", url, "--to", "imagefolder", "--out", tmp_path / "folders").returncode == 0
    assert len(list((tmp_path / "folders").rglob("*.JPEG"))) == 24
    command = ("--model", "tests.small_models:tiny", "--batch-size", 4)
    for data, out in ((url, "far"), (built_once, "near")):
        done = robustshards("evaluate", data, *command, "--out", tmp_path / out, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    near, far = (pq.read_table(tmp_path / out / "predictions.parquet") for out in ("near", "far"))
    assert near.equals(far)


def test_damage_is_found_there_too(built: Path) -> None:
    shard = next(built.rglob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:-1024] + bytes(1024 - 1) + b"x")
    (fault,) = verify(f"file://{built}").faults
    assert shard.name in str(fault)
    shard.unlink()
    assert any("is missing" in str(fault) for fault in verify(f"file://{built}").faults)


def test_what_is_not_there(tmp_path: Path, robustshards: Run) -> None:
    done = robustshards("verify", f"file://{tmp_path}/none")
    assert (done.returncode, "is no data set: it has no recipe.toml" in done.stderr) == (2, True)
    done = robustshards("verify", "nowhere://bucket/data")
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True)
    done = robustshards("build", "imagenet-c", "--source", tmp_path, "--out", "s3://bucket/data")
    assert done.returncode == 2


def test_names_do_not_lead_out(built_once: Path) -> None:
    store = open_store(f"file://{built_once}/shards")
    assert isinstance(store, UrlStore)
    for name in ("../recipe.toml", "contrast/../../recipe.toml"):
        with pytest.raises(UserError, match="leads out of"):
            store.path(name)
        with pytest.raises(UserError, match="leads out of"):
            store.open(name)
