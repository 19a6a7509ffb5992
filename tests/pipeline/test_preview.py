"""The contact sheet shows exactly the pictures of the shards."""

import base64
import hashlib
import io
import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets.export import export
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.preview import preview
from pipeline.errors import UnfinishedError, UserError
from tests.conftest import Run
from tests.factories.data_sets import exported, rows_of
from tests.factories.indexed_sets import change_rows, index_of, write_folders


def pictures(page: Path) -> dict[str, bytes]:
    """Return caption -> picture."""
    found = re.findall(r'alt="([^"]*)" src="data:image/[a-z]+;base64,([^"]*)"', page.read_text())
    return {caption: base64.b64decode(data) for caption, data in found}


def test_the_page_shows_the_images_of_the_shards(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    page = tmp_path / "page.html"
    done = robustshards.succeed("preview", built_once, "--out", page, "--images", 2)
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


def test_the_page_shows_indexed_data_sets(cifar_c: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, cifar_c, "cifar-npy", tmp_path / "theirs")
    assert robustshards("index", tmp_path / "theirs", "--out", tmp_path / "index").returncode == 0
    page = tmp_path / "page.html"
    assert robustshards("preview", tmp_path / "index", "--out", page, "--images", 1).returncode == 0
    found = np.asarray(Image.open(io.BytesIO(pictures(page)["image_000000 fog 2"])))
    fog = np.load(tmp_path / "theirs" / "fog.npy")
    np.testing.assert_array_equal(found, fog[len(fog) // 5])


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"]))
    page, other = tmp_path / "page.html", tmp_path / "other.html"
    assert preview(str(data), str(page)) == preview(str(data), str(page)) == 4
    other.write_text("<html>")
    with pytest.raises(UserError, match="exists and is not a preview page: choose another name"):
        preview(str(data), str(other))
    assert other.read_text() == "<html>"
    for name in ("manifest.parquet", "index.toml", "images"):
        with pytest.raises(UserError, match=f"browsers need .html at its end, as in .*{name}.html"):
            preview(str(data), str(data / name))
    with pytest.raises(UserError, match="is a folder: give the name of the page"):
        preview(str(data), str(tmp_path))
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "device.html").symlink_to("/dev/null")
    for place, named in (("pipe.html", "this is a pipe"), ("device.html", "this is a device")):
        with pytest.raises(UserError, match=named):
            preview(str(data), str(tmp_path / place))
    with pytest.raises(UserError, match="a path is empty"):
        preview(str(data), "")
    with pytest.raises(UserError, match=r"cannot write the page .*nowhere/page.html: No such file or directory"):
        preview(str(data), str(tmp_path / "nowhere" / "page.html"))
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_leaves_no_partial_page(tmp_path: Path, small_disk: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"], side=200))
    with pytest.raises(UnfinishedError, match="No space left on device; free disk space, then run the same command"):
        preview(str(data), str(small_disk / "page.html"))
    assert list(small_disk.iterdir()) == []


def test_pages_have_a_maximum_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat", "dog"]))
    monkeypatch.setattr("pipeline.datasets.preview.MAX_PAGE", 3000)
    with pytest.raises(UserError, match=r"larger than 3000 bytes, the maximum: show fewer images"):
        preview(str(data), str(tmp_path / "page.html"), 100)
    assert not (tmp_path / "page.html").exists()
    monkeypatch.setattr("pipeline.datasets.preview.MAX_ROWS", 3)
    change_rows(data, source_id=lambda place, row: "one")
    with pytest.raises(UserError, match="fog has more than 3 samples"):
        preview(str(data), str(tmp_path / "page.html"))


def test_names_are_escaped_on_the_page(tmp_path: Path) -> None:
    script = "<script>alert('&')</script>"
    data = index_of(write_folders(tmp_path / "data", ["cat"], ["fog/1"]))
    change_rows(
        data,
        key=lambda place, row: f'cat/"onload="x{place}-{script}-1',
        transform=lambda place, row: script,
        source_id=lambda place, row: f'cat/"onload="x{place}',
        status=lambda place, row: ["ok", "failed"][place],
        error=lambda place, row: [None, script][place],
    )
    preview(str(data), str(tmp_path / "page.html"))
    text = (tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert 'alt="&quot;onload=&quot;x0 &lt;script&gt;' in text
    assert "failed: &lt;script&gt;" in text


def test_captions_of_short_transform_names_are_complete(tmp_path: Path) -> None:
    data = change_rows(index_of(write_folders(tmp_path / "data", ["cat"], ["e/1"])), transform=lambda place, row: "e")
    preview(str(data), str(tmp_path / "page.html"))
    assert "<figcaption>image0 1</figcaption>" in (tmp_path / "page.html").read_text()


def test_a_sample_that_cannot_be_decoded_is_an_error(tmp_path: Path) -> None:
    data = index_of(write_folders(tmp_path / "data", ["cat"], ["fog/1"]))
    digest = hashlib.sha256(b"damaged").hexdigest()
    for path in (tmp_path / "data").rglob("*.png"):
        path.write_bytes(b"damaged")
    changed = {"size": 7, "payload_sha256": digest, "shard_sha256": digest, "encoder": "npy"}
    change_rows(data, **{name: partial(lambda value, place, row: value, value) for name, value in changed.items()})
    with pytest.raises(UserError, match=r"cannot decode .*: run robustshards verify"):
        preview(str(data), str(tmp_path / "page.html"))
    with pytest.raises(UserError, match=r"cannot decode .*: run robustshards verify"):
        export(str(data), "imagefolder", str(tmp_path / "out"))


def test_rows_that_do_not_match_their_keys_are_an_error(tmp_path: Path) -> None:
    data = change_rows(index_of(write_folders(tmp_path / "data", ["cat"])), transform=lambda place, row: "fOg")
    with pytest.raises(
        UserError, match=r"cat/image0-fog-1 .* does not match its manifest row: run robustshards verify"
    ):
        preview(str(data), str(tmp_path / "page.html"))
