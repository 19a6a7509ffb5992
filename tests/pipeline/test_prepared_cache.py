"""The cache of prepared photographs: used, limited, and checked against changes by others."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.datasets.opening import open_data_set
from pipeline.datasets.rendered import Rendered
from pipeline.errors import UserError
from pipeline.render import prepared_cache
from pipeline.render.prepared_cache import DIGESTS_FILE, PIXELS_FILE
from tests.conftest import Run
from tests.pipeline.test_rendered import render


def cached(data: Path, cache: Path) -> Rendered:
    opened = open_data_set(str(data), cache=str(cache))
    assert isinstance(opened, Rendered)
    return opened


def pixels_of(data: Rendered) -> list[bytes]:
    return [sample.pixels().tobytes() for sample in data.samples()]


def test_readers_close_the_files_of_the_cache(rendered_once: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        pixels_of(cached(rendered_once, tmp_path))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_cache_states_its_size_and_holds_prepared_photographs(rendered_once: Path, tmp_path: Path) -> None:
    data = cached(rendered_once, tmp_path)
    text = data.prepare_cache()
    assert "6 prepared photographs, up to 0.9 MB, in" in text
    assert str(tmp_path) in text
    expected = pixels_of(data)
    (file,) = tmp_path.rglob(PIXELS_FILE)
    assert file.stat().st_size == 6 * 37 * 4096
    assert file.parent.parent.stat().st_mode & 0o077 == 0
    assert pixels_of(cached(rendered_once, tmp_path)) == expected


def damage(file: Path) -> None:
    with open(file, "r+b") as opened:
        opened.seek(37 * 4096 + 1000)
        opened.write(b"damaged")


def exchange(file: Path) -> None:
    """Exchange pixels and digests of two photographs together."""
    for path, size in ((file, 37 * 4096), (file.with_name(DIGESTS_FILE), 32)):
        content = path.read_bytes()
        path.write_bytes(content[size : 2 * size] + content[:size] + content[2 * size :])


@pytest.mark.parametrize("change", [damage, exchange])
def test_changed_entries_of_the_cache_are_made_again(
    change: Callable[[Path], None], rendered_once: Path, tmp_path: Path
) -> None:
    expected = pixels_of(cached(rendered_once, tmp_path))
    (file,) = tmp_path.rglob(PIXELS_FILE)
    before = file.read_bytes()
    change(file)
    assert pixels_of(cached(rendered_once, tmp_path)) == expected
    assert file.read_bytes() == before


def test_cache_is_not_written_through_a_link(rendered_once: Path, tmp_path: Path) -> None:
    expected = pixels_of(cached(rendered_once, tmp_path / "cache"))
    (file,) = tmp_path.rglob(PIXELS_FILE)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    data = cached(rendered_once, tmp_path / "cache")
    assert "Too many levels of symbolic links" in data.prepare_cache()
    assert pixels_of(data) == expected


def test_cache_at_a_url_is_refused(rendered_once: Path) -> None:
    with pytest.raises(UserError, match="invalid --cache s3://bucket/cache: use a folder of this machine"):
        open_data_set(str(rendered_once), cache="s3://bucket/cache").prepare_cache()


def test_cache_is_used_instead_of_decoding(
    rendered_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = pixels_of(cached(rendered_once, tmp_path))
    monkeypatch.setattr("pipeline.render.renderer.Renderer.decode", None)
    assert pixels_of(cached(rendered_once, tmp_path)) == expected


def test_full_cache_keeps_the_first_photographs(
    rendered_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_cache, "LIMIT_BYTES", 2 * 37 * 4096)
    data = cached(rendered_once, tmp_path)
    assert "2 prepared photographs" in data.prepare_cache()
    assert pixels_of(data) == pixels_of(cached(rendered_once, tmp_path))
    (file,) = tmp_path.rglob(PIXELS_FILE)
    assert file.stat().st_size == 2 * 37 * 4096


@pytest.mark.parametrize("name", [PIXELS_FILE, DIGESTS_FILE])
def test_cache_that_cannot_be_written_is_left_out(name: str, rendered_once: Path, tmp_path: Path) -> None:
    expected = pixels_of(cached(rendered_once, tmp_path / "cache"))
    (file,) = tmp_path.rglob(name)
    file.unlink()
    file.mkdir()  # any error of the file system, for example a full disk
    data = cached(rendered_once, tmp_path / "cache")
    text = data.prepare_cache()
    assert text == f"no cache of prepared photographs (cannot write {file.parent}: Is a directory)"
    assert pixels_of(data) == expected


def test_caches_of_other_preparations_make_room(
    rendered_once: Path, own_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robustshards: Run
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr(prepared_cache, "LIMIT_BYTES", 8 * 37 * 4096)
    pixels_of(cached(rendered_once, cache))
    (own_source / "class0" / "image0.png").unlink()
    other = cached(render(own_source, tmp_path / "data", robustshards), cache)
    other.prepare_cache()
    pixels_of(other)
    (file,) = cache.rglob(PIXELS_FILE)
    assert file.stat().st_size == 5 * 37 * 4096


def test_cache_that_others_can_write_is_refused(rendered_once: Path, tmp_path: Path) -> None:
    cached(rendered_once, tmp_path).prepare_cache()
    (folder,) = tmp_path.iterdir()
    folder.chmod(0o777)
    with pytest.raises(UserError, match=r"can be written by other users.*--cache off"):
        cached(rendered_once, tmp_path).prepare_cache()
