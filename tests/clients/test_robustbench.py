"""RobustBench and torchvision read what we export, and give back our pixels and labels."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

import manifests
from tests.clients.environment import clients, run_client
from tests.conftest import Run
from tests.factories.layouts import png, write, write_pickle

__all__ = ["clients"]

CIFAR_IMAGES = 10_000
"""RobustBench finds a severity by its place among so many."""

LOAD_CIFAR = """
from robustbench.data import load_cifar10c
import numpy
for severity in (1, 5):
    images, labels = load_cifar10c(10000, severity, sys.argv[1], False, ["contrast"])
    levels = (images.permute(0, 2, 3, 1).numpy() * 255).round().astype(numpy.uint8)
    numpy.savez(f"{sys.argv[2]}/{severity}.npz", levels=levels, labels=labels.numpy())
"""

LOAD_IMAGENET = """
from robustbench.data import load_imagenetc
from torchvision import datasets, transforms
import numpy
images, labels = load_imagenetc(20, 5, sys.argv[1], False, ["brightness"], transforms.ToTensor())
levels = (images.permute(0, 2, 3, 1).numpy() * 255).round().astype(numpy.uint8)
numpy.savez(f"{sys.argv[2]}/robustbench.npz", levels=levels, labels=labels.numpy())
folder = datasets.ImageFolder(sys.argv[1] + "/ImageNet-C/brightness/5", allow_empty=True)
print(len(folder), len(folder.classes))
"""

LIST_IMAGES = """
import robustbench, pathlib
helper = pathlib.Path(robustbench.__file__).parent / "helper_files"
print((helper / "imagenet_test_image_ids.txt").read_text())
print("--")
print((helper / "imagenet_class_to_id_map.json").read_text())
"""


def test_cifar_10_c(clients: Path, tmp_path: Path, robustshards: Run) -> None:
    """The whole size of CIFAR-10's test set, which RobustBench counts on."""
    rows = np.random.default_rng(1).integers(0, 256, (CIFAR_IMAGES, 3072)).astype(np.uint8)
    labels = [index * 7 % 10 for index in range(CIFAR_IMAGES)]
    write_pickle(tmp_path / "cifar-10-batches-py" / "test_batch", {"data": rows, "labels": labels})
    write_pickle(tmp_path / "cifar-10-batches-py" / "batches.meta", {"label_names": [b"x"] * 10})
    command = ("build", "cifar-10-c", "--source", tmp_path / "cifar-10-batches-py", "--out", tmp_path / "data")
    done = robustshards(*command, "--only", "contrast")
    assert done.returncode == 0, done.stderr
    done = robustshards("export", tmp_path / "data", "--to", "cifar-npy", "--out", tmp_path / "CIFAR-10-C")
    assert done.returncode == 0, done.stderr
    run_client(clients, LOAD_CIFAR, tmp_path, tmp_path)
    exported = np.load(tmp_path / "CIFAR-10-C" / "contrast.npy", mmap_mode="r")
    assert exported.shape == (5 * CIFAR_IMAGES, 32, 32, 3)
    for severity in (1, 5):
        with np.load(tmp_path / f"{severity}.npz") as read:
            first = (severity - 1) * CIFAR_IMAGES
            np.testing.assert_array_equal(read["levels"], exported[first : first + CIFAR_IMAGES])
            assert read["labels"].tolist() == labels


def test_imagenet_c(clients: Path, tmp_path: Path, robustshards: Run) -> None:
    """Twenty images of its list; labels are right only where all thousand class folders are there."""
    listed, _, mapping = run_client(clients, LIST_IMAGES).partition("--")
    images, classes = listed.split()[:20], json.loads(mapping)
    for index, name in enumerate(images):
        write(tmp_path / "source" / name, png(index, 64))
    (tmp_path / "classes.txt").write_text("\n".join(classes))
    command = ("build", "imagenet-c", "--source", tmp_path / "source", "--out", tmp_path / "data")
    done = robustshards(*command, "--only", "brightness", "--severities", "5")
    assert done.returncode == 0, done.stderr
    more = ("--to", "imagefolder", "--out", tmp_path / "ImageNet-C", "--classes", tmp_path / "classes.txt")
    done = robustshards("export", tmp_path / "data", *more)
    assert done.returncode == 0, done.stderr
    counted = run_client(clients, LOAD_IMAGENET, tmp_path, tmp_path).split()
    assert counted == ["20", "1000"]
    rows = {row.source_id: row for row in manifests.read_rows(tmp_path / "data" / "manifest.parquet")}
    with np.load(tmp_path / "robustbench.npz") as read:
        for name, levels, label in zip(images, read["levels"], read["labels"], strict=True):
            row = rows[name.removesuffix(".JPEG")]
            with tarfile.open(tmp_path / "data" / row.shard) as tar:
                payload = tar.extractfile(f"{row.key}.jpg")
                assert payload is not None
                np.testing.assert_array_equal(levels, np.asarray(Image.open(io.BytesIO(payload.read()))))
            assert label == sorted(classes).index(name.split("/")[0])
