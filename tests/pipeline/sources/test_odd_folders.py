"""Unusual folders and lists: system folders, special characters, broken links, ambiguous lists."""

import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.sources.base import identifier
from pipeline.sources.files import SYSTEM_FOLDERS, is_hidden, is_system_folder
from pipeline.sources.kinds import open_source
from pipeline.storage import READERS
from pipeline.storage.local import LocalStore
from tests.factories.image_folders import listed, make
from tests.factories.layouts import LAYOUTS

SYSTEM = ("__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information", "#recycle", "@Recycle")


@pytest.mark.parametrize("name", SYSTEM)
def test_system_folders_are_not_classes(tmp_path: Path, name: str) -> None:
    source = open_source("imagefolder", str(make(tmp_path, f"{name}/0.jpg", "a/1.jpg", f"a/{name}/2.jpg", "b/3.jpg")))
    assert [(image.id, image.label) for image in source] == [("a/1", 0), ("b/3", 1)]
    assert source.ignored == {f"{name}/": 2}


def test_system_folders_beside_unlabelled_images_are_counted_once(tmp_path: Path) -> None:
    source = open_source("imagefolder", str(make(tmp_path, "@eaDir/0.jpg", "1.jpg", "notes.txt")))
    assert [image.id for image in source] == ["1"]
    assert source.ignored == {"@eaDir/": 1, ".txt": 1}


def test_few_class_folders_are_listed_in_advance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source("imagefolder", str(make(tmp_path, *(f"{number:03}/x.jpg" for number in range(100)))))
    listed_folders: list[str] = []
    walk = LocalStore.walk

    def recorded(store: LocalStore, folder: str, skipped: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
        listed_folders.append(folder)
        return walk(store, folder, skipped)

    monkeypatch.setattr(LocalStore, "walk", recorded)
    images = iter(source)
    next(images)
    assert len(listed_folders) <= 2 * READERS + 1
    assert len([*images]) == 99
    assert sorted(listed_folders) == [f"{number:03}" for number in range(100)]


def test_system_folders_are_recognised_in_any_case() -> None:
    assert all(name == name.casefold() for name in SYSTEM_FOLDERS)
    assert is_system_folder("$Recycle.Bin")
    assert not is_system_folder("macosx")
    assert is_hidden("a/@EADIR/x.jpg")
    assert is_hidden("a/.x.jpg")
    assert not is_hidden("./a/lost+found.jpg")


def test_an_unreadable_system_folder_is_skipped(tmp_path: Path) -> None:
    make(tmp_path, "lost+found/x.jpg", "a/1.jpg")
    (tmp_path / "lost+found").chmod(0)
    try:
        assert listed(tmp_path) == [("a/1", 0, "a")]
    finally:
        (tmp_path / "lost+found").chmod(0o700)


CHARACTERS = ("\u202f", "\u3000", "\u00a0", "\u200d", "\ufeff", "\U000e0001", "\ue000", "\u0378")


@pytest.mark.parametrize(
    ("files", "ids", "labels"),
    [
        *(([f"a/10.15{each}AM.png"], [f"a/10_15{each}AM"], [0]) for each in CHARACTERS),
        (["a/1.jpg", "b/1.jpg"], ["a/1", "b/1"], [0, 1]),
        (["__a/1.jpg", "a__/__b__/2.jpg", "_c_/__3__.jpg"], ["__a/1", "_c_/__3__", "a__/__b__/2"], [0, 1, 2]),
        ([f"a/{'n' * 251}.jpg"], [f"a/{'n' * 251}"], [0]),
        (["a./x..jpg", "a./ y .jpg", "a./-z.jpg"], ["a_/ y ", "a_/-z", "a_/x_"], [0, 0, 0]),
        (["a/1.jpg", "b/notes.txt", "c/1.jpg"], ["a/1", "c/1"], [0, 2]),
        (["train/1.jpg", "tram/1.jpg"], ["train/1", "tram/1"], [0, 1]),  # a class with the name of a split
        (["val/1.jpg", "val/a/2.jpg"], ["val/1", "val/a/2"], [0, 0]),
    ],
)
def test_odd_names_are_read(tmp_path: Path, files: list[str], ids: list[str], labels: list[int]) -> None:
    found = listed(make(tmp_path, *files))
    assert [(id_, label) for id_, label, _ in found] == list(zip(ids, labels, strict=True))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *(([f"{each}/1.jpg", "b/1.jpg"], f"'{each}': WebDataset skips .*rename it") for each in ("__a__", "____")),
        *(
            ([f"{name}/1.jpg" for name in names], r"differ only in case or Unicode normalisation.*rename or merge")
            for names in (("Cat", "cat"), ("ß", "SS"), [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")])
        ),
        (["a/1.jpg", "2.jpg"], r"both images .*2\.jpg.*move"),
        # otherwise all images of a split would get the same label
        (["train/a/1.jpg", "val/a/1.jpg"], "contains the splits train, val instead of class folders: give one of them"),
        (["val/a/1.jpg", "val/b/1.jpg"], r"contains the splits .*val instead of class folders: give one .*/val"),
        (["meta/1.jpg", "train/a/1.jpg", "val/b/1.jpg"], "contains the splits .*val instead of class folders"),
    ],
)
def test_ambiguous_folders_raise(tmp_path: Path, files: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        listed(make(tmp_path, *files))


@pytest.mark.parametrize(
    ("character", "what"),
    [
        ("\n", "control character U\\+000A"),
        ("\x7f", "control character U\\+007F"),
        ("\x85", "control character U\\+0085"),
        ("\u2028", "line separator U\\+2028"),
        ("\u2029", "paragraph separator U\\+2029"),
        ("\0", "control character U\\+0000"),
    ],
)
def test_names_with_control_characters_raise(character: str, what: str) -> None:
    with pytest.raises(UserError, match=rf"contains the {what}: rename"):
        identifier(f"a/x{character}y.jpg")


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_location_can_contain_parent_references(tmp_path: Path, kind: str) -> None:
    place = LAYOUTS[kind](tmp_path / "source")
    assert len(list(open_source("auto", f"{place.parent}/../{place.parent.name}//./{place.name}"))) == 5


@pytest.mark.parametrize("make_source", LAYOUTS.values(), ids=LAYOUTS)
def test_files_can_be_links_out_of_the_source(
    tmp_path: Path, make_source: Callable[[Path], Path], request: pytest.FixtureRequest
) -> None:
    """Download caches and data sets shared by several users contain such links."""
    kind = request.node.callspec.id
    place = make_source(tmp_path / "source")
    expected = [(image.id, image.label) for image in open_source(kind, str(place))]
    for index, path in enumerate(path for path in sorted((tmp_path / "source").rglob("*")) if path.is_file()):
        path.rename(tmp_path / f"blob-{index}")
        path.symlink_to(tmp_path / f"blob-{index}")
    source = open_source(kind, str(place))
    assert [(image.id, image.label) for image in source] == expected
    assert all(len(source.read(image)) for image in source)


@pytest.mark.parametrize("name", ["b", "a/b"])
def test_a_broken_link_that_could_be_a_class_raises(tmp_path: Path, name: str) -> None:
    make(tmp_path, "a/1.jpg", "c/1.jpg")
    (tmp_path / name).symlink_to(tmp_path / "unmounted")
    with pytest.raises(UserError, match=rf"/{name} is a broken link .*change the labels; repair or remove it"):
        listed(tmp_path)


def test_a_special_file_fails_alone(tmp_path: Path) -> None:
    make(tmp_path, "a/5.jpg")
    os.mkfifo(tmp_path / "a" / "1.jpg")
    (tmp_path / "a" / "2.jpg").symlink_to("/dev/zero")
    (tmp_path / "a" / "3.jpg").symlink_to(tmp_path / "nowhere")
    with open(tmp_path / "a" / "4.jpg", "wb") as file:
        file.truncate(3 * 2**30)
    source = open_source("imagefolder", str(tmp_path))
    for image, reason in zip(source, ("a pipe", "a device", "No such file", "3221225472 bytes"), strict=False):
        with pytest.raises(OSError, match=reason):
            source.read(image)


def test_a_special_file_at_a_url_raises(tmp_path: Path) -> None:
    make(tmp_path, "a/1.jpg")
    os.mkfifo(tmp_path / "a" / "2.jpg")
    with pytest.raises(UserError, match=r"a/2\.jpg is neither a file nor a folder.*remove it"):
        list(open_source("imagefolder", f"file://{tmp_path}"))


@pytest.mark.parametrize("location", ["", "  ", "a\0b", "x" * 5000])
def test_invalid_locations_raise(location: str) -> None:
    with pytest.raises(UserError):
        open_source("auto", location)


def listed_ids(root: Path, content: bytes) -> list[str]:
    (root / "ids.txt").write_bytes(content)
    return [image.id for image in open_source("imagefolder", str(root / "data"), str(root / "ids.txt"))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: write one"),
        (b"\n \n", "is empty: write one"),
        (b"a/1\na/1\n", r"lists 'a/1' twice \(first as 'a/1'\)"),
        (b"a/1.jpg\na/1\n", "lists 'a/1' twice"),
        (b"a/1\na/1.png\n", r"lists 'a/1.png' twice"),
        (b"1\n", "lists '1', which matches a/1 and b/1"),
        (b"a/2\n2\n", "lists a/2 twice, as 2 and a/2"),
        (b"\xff\xfea\0/\x001\0", "is UTF-16 text: save it as UTF-8"),
        (b"\x89PNG\r\n\x1a\n\xff", r"is not UTF-8 text \(invalid byte 0\)"),
        (b"a/1\0\n", "contains NUL bytes"),
        *((line, "lists 1 images that are not in") for line in (b"a/9\n", b"a/1.jpg 0", b"a/1.jpg,cat", b"a/1.xml")),
    ],
)
def test_invalid_lists_raise(tmp_path: Path, content: bytes, message: str) -> None:
    make(tmp_path / "data", "a/1.jpg", "a/2.jpg", "b/1.jpg")
    with pytest.raises(UserError, match=message):
        listed_ids(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (b"\xef\xbb\xbf2.jpg\r\nb/1\r\n", ["a/2", "b/1"]),
        *((line, ["a/1_5"]) for line in (b"a/1.5", b"a/1.5.jpg", b"./a/1.5.jpg", b"1.5.jpg", b"a/1_5")),
    ],
)
def test_lists_can_contain_ids_paths_and_file_names(tmp_path: Path, content: bytes, ids: list[str]) -> None:
    """Only known image suffixes are removed from a listed name."""
    make(tmp_path / "data", "a/1.jpg", "a/2.jpg", "a/1.5.jpg", "b/1.jpg")
    assert listed_ids(tmp_path, content) == ids


def test_a_list_that_is_not_a_regular_file_raises(tmp_path: Path) -> None:
    make(tmp_path / "data", "a/1.jpg")
    with pytest.raises(UserError, match="is not a file: give a text file"):
        open_source("imagefolder", str(tmp_path / "data"), str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"pipe"):
        open_source("imagefolder", str(tmp_path / "data"), str(tmp_path / "pipe"))
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(2**31)
    with pytest.raises(UserError, match=r"huge: .*larger than 67108864 bytes"):
        open_source("imagefolder", str(tmp_path / "data"), str(tmp_path / "huge"))
