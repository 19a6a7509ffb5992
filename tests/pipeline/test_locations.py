"""Locations in the files of a data set are opened only if the user confirmed them."""

import json
from pathlib import Path

import pytest
import tomli_w

from pipeline.builder.regenerate import last_source
from pipeline.datasets.base import DataSet
from pipeline.datasets.indexed import Indexed
from pipeline.datasets.opening import open_built, open_data_set
from pipeline.errors import UserError
from pipeline.storage import trusted_locations

pytestmark = pytest.mark.usefixtures("own_cache")


def indexed(folder: Path, location: object) -> Path:
    """Write an index with this location of its files."""
    folder.mkdir(parents=True, exist_ok=True)
    table = {"name": "theirs", "family": "corruptions", "layout": "folders", "location": str(location), "manifest": ""}
    (folder / "index.toml").write_text(tomli_w.dumps(table))
    return folder


def files_of(data_set: DataSet) -> Path:
    assert isinstance(data_set, Indexed)
    return Path(data_set.files.root).resolve()


@pytest.mark.parametrize("location", [".", "files", "files/../files", "link"])
def test_files_in_the_folder_of_the_index_are_read(tmp_path: Path, location: str) -> None:
    folder = indexed(tmp_path / "index", location)
    (folder / "files").mkdir()
    (folder / "link").symlink_to("files")
    assert files_of(open_data_set(str(folder))) == (folder / location).resolve()
    assert files_of(open_data_set(str(indexed(folder, folder / "files")))) == folder / "files"


@pytest.mark.parametrize(
    "location",
    [
        *("/etc", "..", "../other", "files/../../other", "out", "~", "s3://bucket/data", "http://127.0.0.1:1/x"),
        *("memory://x", "reference://::data:application/json,{}", "simplecache::file:///etc", "file:///etc"),
    ],
)
def test_locations_from_an_index_are_refused(tmp_path: Path, location: str) -> None:
    folder = indexed(tmp_path / "index", location)
    (tmp_path / "other").mkdir()
    (folder / "files").mkdir()
    (folder / "out").symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match=r"--data PATH") as refused:
        open_data_set(str(folder))
    assert repr(location) in str(refused.value)


@pytest.mark.parametrize("location", ["", "\0", "files\0", "~nobody-of-that-name/x", "x" * 10_000, "\x1b[2Jx"])
def test_invalid_locations_are_refused_in_a_short_line(tmp_path: Path, location: str) -> None:
    with pytest.raises(UserError) as refused:
        open_data_set(str(indexed(tmp_path / "index", location)))
    assert len(str(refused.value)) < 1000
    assert str(refused.value).isprintable()


def test_the_user_can_give_the_location(tmp_path: Path) -> None:
    folder = indexed(tmp_path / "index", "reference://::data:{}")
    (tmp_path / "mine").mkdir()
    assert files_of(open_data_set(str(folder), str(tmp_path / "mine"))) == tmp_path / "mine"
    with pytest.raises(UserError, match=r"--data .*gone is not a folder"):
        open_data_set(str(folder), str(tmp_path / "gone"))
    with pytest.raises(UserError, match="chained"):
        open_data_set(str(folder), "reference://::data:{}")


def test_an_index_that_this_user_made_is_trusted(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    folder = indexed(tmp_path / "index", files)
    with pytest.raises(UserError, match="--data PATH"):
        open_data_set(str(folder))
    trusted_locations.remember(str(folder), "data", str(files))
    assert files_of(open_data_set(str(folder))) == files
    with pytest.raises(UserError, match="--data PATH"):  # the location is trusted, not the folder
        open_data_set(str(indexed(folder, "/etc")))
    indexed(folder, files)
    files.rmdir()
    with pytest.raises(UserError, match="not a folder: give --data PATH"):
        open_data_set(str(folder))


def test_a_built_data_set_refuses_the_data_option(tmp_path: Path, built_once: Path) -> None:
    with pytest.raises(UserError, match="omit --data"):
        open_data_set(str(built_once), str(tmp_path))
    with pytest.raises(UserError, match="has no recipe"):
        open_built(str(indexed(tmp_path / "index", "/etc")))


@pytest.mark.parametrize("recorded", [{"source": "s3://theirs/x\x1b[2J"}, {}, [], "x", {"source": "y" * 10_000}])
def test_the_source_in_a_run_record_is_not_trusted(tmp_path: Path, recorded: object) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "1.json").write_text(json.dumps(recorded))
    with pytest.raises(UserError, match="--source PATH") as refused:
        last_source(str(tmp_path))
    assert len(str(refused.value)) < 1000
    assert str(refused.value).isprintable()
    trusted_locations.remember(str(tmp_path), "source", "photographs")
    assert last_source(str(tmp_path)) == str(Path("photographs").resolve())


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff\xfe", b"{", b"1" * 5_000])
def test_a_damaged_run_record_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "1.json").write_bytes(content)
    with pytest.raises(UserError, match="--source PATH"):
        last_source(str(tmp_path))
