"""Images: values, order, choices, loader processes and errors."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, default_collate

import robustshards as rs
from robustshards.torch import Images
from tests.factories.data_sets import SHARD, change_row
from tests.factories.indexed_sets import change_rows, index_of, write_folders, write_image
from tests.loaders.loading import half, keys, kill_process, loaded, pixels_of


def assert_equals_samples(images: Images, data: rs.DataSet, *condition: object) -> None:
    samples = list(data.samples(*condition))
    assert len(images) == len(samples)
    for index, sample in enumerate(samples):
        image, label = images[index]
        np.testing.assert_array_equal(image.numpy(), np.moveaxis(sample.pixels(), -1, -3))
        assert (image.dtype, label, images.row(index).key) == (torch.uint8, sample.row.label, sample.row.key)


@pytest.mark.parametrize("condition", [(), ("contrast",), (None, 3), ("gaussian_noise", 1)])
def test_images_equal_the_samples_in_manifest_order(built_once: Path, condition: tuple[object, ...]) -> None:
    assert_equals_samples(Images(built_once, *condition), rs.open(built_once), *condition)


def test_labels_are_those_of_the_images(built_once: Path) -> None:
    images = Images(built_once, "contrast", 1)
    assert images.labels.tolist() == [images[index][1] for index in range(len(images))] == [0, 0, 0, 1, 1, 1]


def test_rendered_data_sets_are_read(rendered: rs.DataSet, built_once: Path) -> None:
    cv2.setNumThreads(3)
    images = Images(replace(rendered), "gaussian_noise")
    assert_equals_samples(images, replace(rendered), "gaussian_noise")
    assert cv2.getNumThreads() == 3
    cv2.setNumThreads(-1)
    assert_equals_samples(images, rs.open(built_once), "gaussian_noise")


def test_indexed_data_sets_are_read(tmp_path: Path) -> None:
    index = index_of(write_folders(tmp_path / "data", ["a", "b"]))
    assert_equals_samples(Images(str(index), "fog", 2), rs.open(index), "fog", 2)


def test_sequences_are_stacked_frames(sequences: Path) -> None:
    assert_equals_samples(Images(sequences), rs.open(sequences))
    image, _ = Images(sequences, "rotate", input_transform=half)[0]
    expected = next(rs.open(sequences).samples("rotate")).pixels()
    np.testing.assert_array_equal(image.numpy(), expected.transpose(0, 3, 1, 2) // 2)
    with pytest.raises(rs.UserError, match="contains sequences, which are no PIL images: use as_='tensor' or 'array'"):
        Images(sequences, as_="pil")


def test_negative_indices_count_from_the_end(built_once: Path) -> None:
    images = Images(built_once)
    assert images.row(-1) == images.row(len(images) - 1) == images.row(np.int64(len(images) - 1))
    assert torch.equal(images[-len(images)][0], images[torch.tensor(0)][0])
    for index in (len(images), -len(images) - 1):
        with pytest.raises(IndexError, match=rf"index {index} is out of range: there are 24 samples"):
            images[index]
    for invalid in ("0", True):
        with pytest.raises(TypeError, match="index must be an integer"):
            images[invalid]


def test_forms_have_equal_pixels(built_once: Path) -> None:
    tensor, array, pil = (Images(built_once, as_=form)[5][0] for form in ("tensor", "array", "pil"))
    expected = list(pixels_of(built_once).values())[5]
    np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(np.asarray(pil), expected)
    np.testing.assert_array_equal(tensor.permute(1, 2, 0).numpy(), expected)
    assert pil.mode == "RGB"
    assert tensor.is_contiguous()
    array[0, 0, 0] += 1  # writable, and a copy of its own
    np.testing.assert_array_equal(Images(built_once)[5][0].permute(1, 2, 0).numpy(), expected)


def test_input_transform_gets_pil_images_unless_another_form_is_requested(built_once: Path) -> None:
    original = Images(built_once)[0][0]
    assert Images(built_once, input_transform=lambda image: image.size)[0] == ((224, 224), 0)
    assert Images(built_once, input_transform=type)[0][0] is Image.Image
    assert torch.equal(Images(built_once, input_transform=half, as_="tensor")[0][0], original // 2)


def test_ids_select_source_images(built_once: Path) -> None:
    images = Images(built_once, "contrast", 3, ids=["class1/image3", "class0/image2"], columns="source_id")
    assert [images[index][2]["source_id"] for index in range(2)] == ["class0/image2", "class1/image3"]
    with pytest.raises(
        rs.UserError, match=r"no samples of 1 of the 2 ids, for example 'image2': use values of the col"
    ):
        Images(built_once, ids=["class0/image2", "image2"])


def test_columns_are_a_third_value(built_once: Path) -> None:
    _, label, columns = Images(built_once, "contrast", 3, columns=["transform", "level", "class_name"])[-1]
    assert (label, columns) == (1, {"transform": "contrast", "level": 3, "class_name": "class1"})


def test_loader_processes_read_equal_batches(built_once: Path) -> None:
    images = Images(built_once, columns=["key"])
    expected = [images[index] for index in range(len(images))]
    for processes in (0, 2):
        batches = list(DataLoader(images, batch_size=5, num_workers=processes))
        assert [key for _, _, columns in batches for key in columns["key"]] == keys(expected)
        assert torch.equal(
            torch.cat([batch for batch, _, _ in batches]), torch.stack([image for image, *_ in expected])
        )
        assert torch.cat([labels for _, labels, _ in batches]).tolist() == [label for _, label, _ in expected]


def test_loader_processes_of_a_process_with_threads_of_opencv_do_not_hang(rendered: rs.DataSet) -> None:
    script = """
import sys
import cv2, numpy
from torch.utils.data import DataLoader
import robustshards as rs
from robustshards.torch import Images

images = Images(rs.open(sys.argv[1]), "contrast", 1)
images[0]
cv2.setNumThreads(4)
cv2.GaussianBlur(numpy.zeros((1000, 1000, 3), numpy.uint8), (31, 31), 5)
print(len(list(DataLoader(images, num_workers=1, multiprocessing_context="fork"))), cv2.getNumThreads())
"""
    arguments = [sys.executable, "-c", script, rendered.location.folder]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "6 4\n"


def test_batches_are_decoded_into_one_tensor_unless_items_are_mixed(built_once: Path) -> None:
    images = Images(built_once, columns=["key"])
    expected = default_collate([images[index] for index in (7, 3, 3)])
    items = images.__getitems__([7, 3, 3])
    batch, labels, columns = default_collate(items)
    assert batch.data_ptr() == items[0][0].data_ptr()  # not copied
    assert torch.equal(batch, expected[0])
    assert (labels.tolist(), columns) == (expected[1].tolist(), expected[2])
    for mixed in (items[::-1], items[:2], pickle.loads(pickle.dumps(items)), [*items[:2], images[3]]):
        assert torch.equal(default_collate(mixed)[0], torch.stack([image for image, *_ in mixed]))
    floats = next(iter(DataLoader(Images(built_once, as_="float"), batch_size=2)))[0]
    assert torch.equal(floats, torch.stack([Images(built_once, as_="float")[index][0] for index in range(2)]))
    arrays = next(iter(DataLoader(Images(built_once, as_="array"), batch_size=2)))[0]
    assert arrays.shape == (2, 224, 224, 3)


def test_spawned_processes_read_a_pickled_data_set(built_once: Path) -> None:
    images = Images(built_once, "contrast", input_transform=half, as_="tensor")
    assert len(pickle.dumps(images)) < 1000  # without rows
    copy = pickle.loads(pickle.dumps(images))
    assert torch.equal(copy[3][0], images[3][0])
    spawned = loaded(images, 1, multiprocessing_context="spawn")
    assert len(spawned) == len(images)
    assert all(torch.equal(image, images[index][0]) for index, (image, _) in enumerate(spawned))


def test_pickled_data_set_is_read_in_another_working_directory(
    built_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(built_once.parent)
    images = Images(built_once.name, "contrast")
    expected, state = images[0][0], pickle.dumps(images)
    monkeypatch.chdir(tmp_path)
    assert torch.equal(pickle.loads(state)[0][0], expected)


def test_killed_loader_process_raises(built_once: Path) -> None:
    images = Images(built_once, input_transform=kill_process, as_="tensor")
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        loaded(images, 1)


def test_failed_samples_are_left_out(built: Path) -> None:
    key = Images(built).row(0).key
    change_row(built, status="failed", error="damaged", offset=None, size=None)
    images = Images(built)
    assert len(images) == 23
    assert key not in [images.row(index).key for index in range(23)]


def test_damaged_payload_is_named(built: Path) -> None:
    images = Images(built, "contrast", 3)
    row = images.row(1)
    shard = bytearray((built / SHARD).read_bytes())
    assert row.shard == SHARD
    shard[(row.offset or 0) + (row.size or 0) // 2] ^= 1
    (built / SHARD).write_bytes(shard)
    assert images[0][1] == row.label
    with pytest.raises(rs.UserError, match=f"{row.key} in {SHARD} was changed: .*run robustshards verify"):
        images[1]
    try:
        images[1]
    except rs.UserError:
        sent = ExceptionWrapper(where="in a loader process")  # a loader process itself would take five seconds to end
    with pytest.raises(rs.UserError, match=f"(?s)in a loader process.*{row.key} in {SHARD} was changed"):
        sent.reraise()


def test_unfinished_data_set_is_refused(built: Path) -> None:
    (built / "manifest.parquet").unlink()
    with pytest.raises(rs.UserError, match="not finished; run the same build command again"):
        Images(built)


def test_unlabelled_images_need_consent(tmp_path: Path) -> None:
    write_image(tmp_path / "data" / "fog" / "1" / "a" / "image.png")
    index = change_rows(index_of(tmp_path / "data"), label=lambda position, row: -1)
    with pytest.raises(rs.UserError, match=r"1 image without labels, .*: pass unlabelled=True to get -1"):
        Images(index)
    assert Images(index, unlabelled=True)[0][1] == -1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"transform": "fog"},
            "imagenet-c has no samples of fog; it has gaussian_noise-1, gaussian_noise-3, contrast-1",
        ),
        ({"transform": "contrast", "level": 5}, "no samples of contrast 5; it has gaussian_noise-1"),
        ({"level": 2}, "no samples of 2; it has"),
        ({"transform": np.asarray}, "pass a function of an image as input_transform"),
        ({"transform": ["contrast"]}, r"invalid transform \['contrast'\] or level None: pass one name and one integer"),
        ({"transform": "contrast", "level": (1, 3)}, r"invalid transform 'contrast' or level \(1, 3\)"),
        ({"transform": "contrast", "level": "1"}, "invalid transform 'contrast' or level '1'"),
        ({"transform": "contrast", "level": True}, "invalid transform 'contrast' or level True"),
        ({"as_": "numpy"}, "invalid as_ 'numpy': use 'pil', 'tensor', 'array'"),
        ({"columns": ["label", "corruption"]}, r"invalid columns \['corruption'\]: use names among key, shard"),
        ({"columns": ["payload_sha256"]}, "invalid columns"),
        ({"input_transform": "resize"}, "invalid input_transform 'resize': pass a function of an image"),
        ({"ids": []}, "invalid ids .*: pass the values of source_id to use, at least one"),
        ({"ids": [1]}, "invalid ids"),
    ],
)
def test_invalid_arguments_are_refused(built_once: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(rs.UserError, match=message):
        Images(built_once, **options)


def test_location_without_a_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rs.UserError, match=r"no recipe.toml; .* robustshards render \(rs.render\) of photographs"):
        Images(tmp_path)
    with pytest.raises(rs.UserError, match="invalid data 3: pass the folder or URL of a data set"):
        Images(3)
