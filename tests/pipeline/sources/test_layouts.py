"""Order, ids, labels, class names, pixels and detection of every layout, and its errors."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import UserError
from pipeline.sources.base import Source
from pipeline.sources.kinds import KINDS, detect, open_source
from tests.factories.layouts import (
    LABELS,
    LAYOUTS,
    WNIDS,
    imagenet64_npz,
    imagenet_boxes,
    pixels,
    png,
    validation_names,
    write,
    write_tar,
)

EXPECTED = {
    "imagefolder": [
        ("n01000000/1", 0, "n01000000", 1),
        ("n01000000/4", 0, "n01000000", 4),
        ("n02000000/0", 1, "n02000000", 0),
        ("n02000000/3", 1, "n02000000", 3),
        ("n03000000/2", 2, "n03000000", 2),
    ],
    "hf-parquet": [
        ("validation-00000-of-00002_000000", 0, "ant", 0),
        ("validation-00000-of-00002_000001", 1, "bee", 1),
        ("validation-00000-of-00002_000002", 2, "cow", 2),
        ("validation-00001-of-00002_000000", 0, "ant", 3),
        ("validation-00001-of-00002_000001", 1, "bee", 4),
    ],
    "cifar-10": [(f"test_batch_{i:06d}", i % 3, ("airplane", "automobile", "bird")[i % 3], i) for i in range(5)],
    "cifar-100": [(f"test_{i:06d}", i % 3, ("apple", "aquarium_fish", "baby")[i % 3], i) for i in range(5)],
    "imagenet64": [(f"val_data_{i:06d}", i % 3, str(i % 3), i) for i in range(5)],
    "webdataset": [(f"x/{i}", i % 3, str(i % 3), i) for i in range(5)],
    "tiny-imagenet": [(f"{WNIDS[i % 3]}/val_{i}", LABELS[WNIDS[i % 3]], WNIDS[i % 3], i) for i in range(5)],
    **{
        kind: [
            (f"{WNIDS[i % 3]}/{name}", LABELS[WNIDS[i % 3]], WNIDS[i % 3], i)
            for i, name in enumerate(validation_names())
        ]
        for kind in ("ilsvrc2012-val", "ilsvrc2012-val-tar")
    },
}
"""Kind -> id, label, class name, and index of the generated picture."""

SIDES = {"tiny-imagenet": 64, "imagenet64": 64}


def decoded(source: Source, image) -> np.ndarray:
    data = source.read(image)
    return np.asarray(Image.open(io.BytesIO(data))) if isinstance(data, bytes) else data


@pytest.mark.parametrize("kind", LAYOUTS)
def test_images_have_the_expected_order_labels_names_and_pixels(tmp_path: Path, kind: str) -> None:
    location = LAYOUTS[kind](tmp_path)
    assert detect(str(location)) == kind
    source = open_source("auto", str(location))
    images = list(source)
    assert [(image.id, image.label, image.class_name) for image in images] == [each[:3] for each in EXPECTED[kind]]
    for image, expected in zip(images, EXPECTED[kind], strict=True):
        np.testing.assert_array_equal(decoded(source, image), pixels(expected[3], SIDES.get(kind, 32)))
        data = source.read(image)
        assert image.size == (len(data) if isinstance(data, bytes) else data.size)
    assert list(source) == images
    assert list(open_source(kind, str(location))) == images


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_subset_keeps_the_order(tmp_path: Path, kind: str) -> None:
    location = LAYOUTS[kind](tmp_path / "data")
    images = list(open_source(kind, str(location)))
    (tmp_path / "ids.txt").write_text(f"{images[3].id}\n{images[1].id}\n\n")
    assert list(open_source(kind, str(location), str(tmp_path / "ids.txt"))) == [images[1], images[3]]
    (tmp_path / "ids.txt").write_text(f"{images[3].id}\nno/such/image.JPEG\n")
    with pytest.raises(UserError, match=r"lists 1 images that are not in .*no/such/image"):
        list(open_source(kind, str(location), str(tmp_path / "ids.txt")))


def test_boxes_are_read_for_images_of_listed_classes(tmp_path: Path) -> None:
    source = open_source("imagenet-boxes", str(imagenet_boxes(tmp_path)))
    images = list(source)
    assert [(image.id.rpartition("_")[2], image.label, image.box) for image in images] == [
        ("00000001", 1, (0, 2, 20, 30)),
        ("00000002", 0, (1, 2, 20, 30)),
        ("00000004", 1, (3, 2, 20, 30)),
        ("00000005", 0, (4, 2, 20, 30)),
    ]


def test_coarse_kind_gives_coarse_labels(tmp_path: Path) -> None:
    location = LAYOUTS["cifar-100"](tmp_path)
    labels = [(image.label, image.class_name) for image in open_source("cifar-100-coarse", str(location))]
    assert labels == [(0, "fruit"), (1, "fish"), (0, "fruit"), (1, "fish"), (0, "fruit")]


def test_npz_of_downsampled_imagenet_is_read(tmp_path: Path) -> None:
    source = open_source("auto", str(imagenet64_npz(tmp_path)))
    assert [image.label for image in source] == [0, 1, 2, 0, 1]
    np.testing.assert_array_equal(decoded(source, list(source)[4]), pixels(4, 64))


def test_class_numbers_without_their_wnids_raise(tmp_path: Path) -> None:
    """Its class numbers are not in the order of the wnids, so they would give wrong labels."""
    location = LAYOUTS["ilsvrc2012-val"](tmp_path)
    (tmp_path / "LOC_val_solution.csv").unlink()
    with pytest.raises(UserError, match=r"has no labels: put one of LOC_val_solution\.csv"):
        open_source("auto", str(location))
    write(tmp_path / "ILSVRC2012_validation_ground_truth.txt", "1\n2\n3\n1\n2\n")
    with pytest.raises(
        UserError, match=r"not in the order of the wnids: put the kit's map_clsloc\.txt into the same folder"
    ):
        open_source("auto", str(location))
    lines = "".join(f"{wnid} {number} name\n" for number, wnid in enumerate(WNIDS, start=1))
    write(tmp_path / "map_clsloc.txt", lines)
    assert [image.label for image in open_source("auto", str(location))] == [1, 0, 2, 1, 0]


@pytest.mark.parametrize("name", ["/etc/passwd.jpg", "../out.jpg", "a/../../out.jpg"])
@pytest.mark.parametrize("kind", ["webdataset", "ilsvrc2012-val-tar"])
def test_members_outside_the_tar_raise(tmp_path: Path, name: str, kind: str) -> None:
    location = LAYOUTS[kind](tmp_path)
    tar = location if location.is_file() else location / "a-000001.tar"
    write_tar(tar, {name: png(0)})
    with pytest.raises(UserError, match="is outside of"):
        list(open_source(kind, str(location)))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_raise(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member = tarfile.TarInfo("x.jpg")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(UserError, match="is a link or a device"):
        list(open_source("webdataset", str(tmp_path)))


def test_annotations_with_entities_raise(tmp_path: Path) -> None:
    folder = imagenet_boxes(tmp_path)
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;">]><annotation>&c;</annotation>'
    write(tmp_path / "Annotation" / "CLS-LOC" / "val" / "ILSVRC2012_val_00000001.xml", bomb)
    with pytest.raises(UserError, match="declares document types or entities"):
        list(open_source("imagenet-boxes", str(folder)))
    write(tmp_path / "Annotation" / "CLS-LOC" / "val" / "ILSVRC2012_val_00000001.xml", "<annotation/>")
    with pytest.raises(UserError, match="has no bounding box"):
        list(open_source("imagenet-boxes", str(folder)))


def test_a_repeated_key_raises(tmp_path: Path) -> None:
    location = LAYOUTS["webdataset"](tmp_path)
    write_tar(location / "b.tar", {"x/1.png": png(1), "x/1.cls": b"1"})
    with pytest.raises(UserError, match="repeats the key 'x/1'"):
        list(open_source("webdataset", str(location)))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.png": png(0), "a.jpg": png(0)}, "has 2 images; expected one"),
        ({"a.cls": b"1"}, "has 0 images; expected one"),
        ({"a.png": png(0), "a.cls": b"cat"}, "invalid label b'cat'"),
    ],
)
def test_invalid_samples_raise(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    write_tar(tmp_path / "a.tar", members)
    with pytest.raises(UserError, match=message):
        list(open_source("webdataset", str(tmp_path)))


def test_an_ambiguous_or_unknown_layout_asks_for_the_kind(tmp_path: Path) -> None:
    LAYOUTS["cifar-10"](tmp_path)
    LAYOUTS["hf-parquet"](tmp_path / "cifar-10-batches-py")
    folder = tmp_path / "cifar-10-batches-py"
    (folder / "data" / "validation-00000-of-00002.parquet").rename(folder / "x.parquet")
    with pytest.raises(UserError, match="could be hf-parquet or cifar-10: set --source-kind"):
        detect(str(folder))
    (tmp_path / "note.txt").write_text("nothing")
    with pytest.raises(UserError, match=r"note\.txt has an unknown layout: set --source-kind"):
        detect(str(tmp_path / "note.txt"))
    with pytest.raises(UserError, match="does not exist"):
        detect(str(tmp_path / "nowhere"))


def test_every_kind_has_a_description() -> None:
    assert all(kind.description for kind in KINDS.values())
    assert set(LAYOUTS) | {"files", "imagenet-boxes", "cifar-100-coarse", "cifar-100-subclass", "icons-50"} == set(
        KINDS
    )
