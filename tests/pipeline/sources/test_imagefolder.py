from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED
from pipeline.sources.files import warnings_of_unread
from pipeline.sources.kinds import open_source
from tests.factories.image_folders import listed, make


def test_order_labels_ids_and_suffixes(tmp_path: Path) -> None:
    make(tmp_path, "b/2.JPEG", "b/10.jpg", "a/x.PNG", "a/deep/er/y.webp", "a/notes.txt", "c/z.1.tif", ".hidden/q.jpg")
    (tmp_path / "aa-empty").mkdir()
    assert listed(tmp_path) == [
        ("a/deep/er/y", 0, "a"),
        ("a/x", 0, "a"),
        ("b/10", 2, "b"),
        ("b/2", 2, "b"),
        ("c/z_1", 3, "c"),
    ]


def test_other_files_are_counted_and_images_that_are_not_read_are_warned_of(tmp_path: Path) -> None:
    names = ("a/1.jpg", "a/2.AVIF", "a/3.avif", "a/4.gif", "a/5.jxl", "a/notes.txt", "a/more.TXT", "a/README", "6.heic")
    source = open_source("imagefolder", str(make(tmp_path, *names)))
    assert [image.id for image in source] == ["a/1", "a/4"]
    assert source.ignored == {".txt": 2, "no suffix": 1, ".avif": 2, ".jxl": 1, ".heic": 1}
    assert warnings_of_unread(source.ignored) == (
        "4 images skipped in formats that are not read: 2 .avif, 1 .heic, 1 .jxl; convert them to PNG",
    )


def test_read_returns_the_bytes_of_the_listed_file(tmp_path: Path) -> None:
    source = open_source("imagefolder", str(make(tmp_path, "a/1.jpg")))
    (image,) = source
    assert source.read(image) == b"a/1.jpg"
    assert (image.origin, image.size) == ("a/1.jpg", 7)


def test_images_of_a_folder_without_classes_are_unlabelled(tmp_path: Path) -> None:
    assert listed(make(tmp_path, "2.jpg", "1.jpg")) == [("1", UNLABELLED, ""), ("2", UNLABELLED, "")]
    assert open_source("imagefolder", str(tmp_path)).labels is None


@pytest.mark.parametrize(
    "names", [("a/1.jpg", "a/1.png"), ("a/x.y.jpg", "a/x_y.jpg"), ("a.b/1.jpg", "a_b/1.jpg"), ("a/1.jpg", "a/1.JPG")]
)
def test_files_with_the_same_id_raise(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=r"same id .*rename or remove") as raised:
        listed(make(tmp_path, *names))
    for name in names:
        assert name.split("/")[0] in str(raised.value)


def test_missing_folder_file_and_unknown_kind_raise(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        open_source("imagefolder", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="not a folder"):
        open_source("imagefolder", str(make(tmp_path, "file.jpg") / "file.jpg"))
    with pytest.raises(UserError, match="allowed: imagefolder"):
        open_source("cloud", str(tmp_path))


def test_linked_folders_are_followed(tmp_path: Path) -> None:
    make(tmp_path / "elsewhere", "1.jpg")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").symlink_to(tmp_path / "elsewhere")
    assert listed(tmp_path / "root") == [("a/1", 0, "a")]


def test_names_that_a_shard_cannot_store_raise(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"control character U\+000A: rename"):
        listed(make(tmp_path / "one", "a/new\nline.jpg"))
    (tmp_path / "two/a").mkdir(parents=True)
    with open(bytes(tmp_path / "two/a") + b"/\xff.jpg", "wb"):
        pass
    with pytest.raises(UserError, match="UTF-8"):
        listed(tmp_path / "two")
