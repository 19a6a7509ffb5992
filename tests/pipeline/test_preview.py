"""The contact sheet: each picture on it is the one in the shards."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.dataset import open_data_set
from tests.conftest import Run
from tests.pipeline.test_exports import exported, rows_of


def pictures(page: Path) -> dict[str, bytes]:
    """Caption -> picture."""
    found = re.findall(r'alt="([^"]*)" src="data:image/[a-z]+;base64,([^"]*)"', page.read_text())
    return {caption: base64.b64decode(data) for caption, data in found}


def test_images_stand_there_as_they_were_built(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    page = tmp_path / "page.html"
    done = robustshards("preview", built_once, "--out", page, "--images", 2)
    assert done.returncode == 0, done.stderr
    assert "wrote 8 pictures" in done.stdout
    data_set, text = open_data_set(str(built_once)), page.read_text()
    rows = {row.key: row for row in rows_of(built_once)}
    sample = data_set.pick(rows["class0/image0-contrast-1"])
    shown = [base64.b64decode(data) for data in re.findall(r"base64,([^\"]*)", text)]
    assert shown.count(sample.payload()) == 1
    assert len(shown) == 8
    assert text.index("<h2>gaussian_noise</h2>") < text.index("<h2>contrast</h2>")
    assert "http" not in text


def test_sequences_show_frames_from_the_first_to_the_last(sequences: Path, tmp_path: Path, robustshards: Run) -> None:
    page = tmp_path / "page.html"
    assert robustshards("preview", sequences, "--out", page, "--images", 1).returncode == 0
    shown = pictures(page)
    assert [caption for caption in shown if caption.startswith("image0 rotate 1, frame")][0::6] == [
        "image0 rotate 1, frame 0",
        "image0 rotate 1, frame 30",
    ]
    row = next(row for row in rows_of(sequences) if row.transform == "rotate")
    pixels = open_data_set(str(sequences)).pick(row).pixels()
    found = np.asarray(Image.open(io.BytesIO(shown["image0 rotate 1, frame 15"]))).astype(int)
    assert np.abs(found - pixels[15]).mean() < 6


def test_indexed_data_sets_too(cifar_c: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, cifar_c, "cifar-npy", tmp_path / "theirs")
    assert robustshards("index", tmp_path / "theirs", "--out", tmp_path / "index").returncode == 0
    page = tmp_path / "page.html"
    assert robustshards("preview", tmp_path / "index", "--out", page, "--images", 1).returncode == 0
    found = np.asarray(Image.open(io.BytesIO(pictures(page)["image_000000 fog 2"])))
    fog = np.load(tmp_path / "theirs" / "fog.npy")
    np.testing.assert_array_equal(found, fog[len(fog) // 5])


def test_a_damaged_sample_stops_it(built: Path, tmp_path: Path, robustshards: Run) -> None:
    row = rows_of(built)[0]
    content = bytearray((built / row.shard).read_bytes())
    content[(row.offset or 0) + 300] ^= 1
    (built / row.shard).write_bytes(content)
    done = robustshards("preview", built, "--out", tmp_path / "page.html")
    assert done.returncode == 2
    assert f"{row.key} in {row.shard} is not what was built: run robustshards verify" in done.stderr
