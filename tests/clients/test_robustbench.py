"""Tests that RobustBench and torchvision read exported data sets with the right pixels and labels."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

import manifests
from pipeline.evaluate.report.real_labels import SHA256
from pipeline.tasks.lists import IMAGENET
from tests.clients.environment import clients, run_client
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.layouts import png, write, write_pickle

__all__ = ["clients"]

CIFAR_IMAGES = 10_000
"""Images per severity. RobustBench uses this number to find the images of a severity."""

LOAD = """
from robustbench.data import load_cifar10c, load_imagenetc
from torchvision import datasets, transforms
import numpy
def save(name, images, labels):
    levels = (images.permute(0, 2, 3, 1).numpy() * 255).round().astype(numpy.uint8)
    numpy.savez(f"{sys.argv[1]}/{name}.npz", levels=levels, labels=labels.numpy())
for severity in (1, 5):
    save(f"cifar-{severity}", *load_cifar10c(10000, severity, sys.argv[1], False, ["contrast"]))
save("imagenet", *load_imagenetc(20, 5, sys.argv[1], False, ["brightness"], transforms.ToTensor()))
folder = datasets.ImageFolder(sys.argv[1] + "/ImageNet-C/brightness/5", allow_empty=True)
print(len(folder), len(folder.classes))
"""


IDS = "robustbench/helper_files/imagenet_test_image_ids.txt"
"""RobustBench's list of 5,000 validation images."""

REAL_LABELS = "timm/data/_info/imagenet_real_labels.json"


def installed(python: Path, name: str) -> Path:
    """Return a file of a package in the environment."""
    (path,) = python.parents[1].glob(f"lib/python*/site-packages/{name}")
    return path


def test_the_list_of_images_of_robustbench_selects_a_subset(clients: Path, tmp_path: Path, robustshards: Run) -> None:
    """The list is used as it is in the package. The source has one image more."""
    listed, payload = installed(clients, IDS).read_text().split(), png(1, 64)
    assert len(listed) == 5000
    source = tmp_path / "source"
    for name in (*listed, "n01440764/ILSVRC2012_val_00000293.JPEG"):
        write(source / name, payload)
    options = ("--source", source, "--ids", installed(clients, IDS))
    done = robustshards.succeed("plan", "imagenet-c", *options)
    assert "5,000 in 997 classes" in done.stdout
    limits = ("--only", "fog", "--severities", "1", "--limit", "2")
    run_all(robustshards, ("build", "imagenet-c", *options, *limits, "--out", tmp_path / "out"))
    found = [row.source_id for row in manifests.read_rows(tmp_path / "out" / "manifest.parquet")]
    assert found == [name.removesuffix(".JPEG") for name in sorted(listed)[:2]]


def test_original_labels_of_the_images_of_robustbench_have_a_known_accuracy(
    clients: Path, tmp_path: Path, robustshards: Run
) -> None:
    """The model predicts the original label of each image. 322 images have no reassessed label."""
    listed = installed(clients, IDS).read_text().split()
    labels = [IMAGENET.index(name.partition("/")[0]) for name in listed]
    names = [name.removesuffix(".JPEG") for name in listed]
    logits = {("none", 0): votes(labels, len(IMAGENET)).astype(np.float32)}
    folder = write_evaluation(tmp_path / "clean", logits, labels, family="none", names=names)
    robustshards.succeed("report", folder, "--real", installed(clients, REAL_LABELS), "--out", tmp_path / "out")
    (found,) = json.loads((tmp_path / "out" / "report.json").read_text())["results"]
    values = {row["metric"]: row["value"] for row in found["measures"]}
    assert (values["images"], values["images (ReaL)"]) == (5000, 4678)
    assert values["accuracy (ReaL)"] == 4233 / 4678
    assert values["top-1 error"] == 0
    markdown = (tmp_path / "out" / "report.md").read_text()
    assert "| images | 5,000 of 50,000 |" in markdown
    assert hashlib.sha256(installed(clients, REAL_LABELS).read_bytes()).hexdigest() == SHA256


def test_robustbench_reads_exported_cifar_10_c_and_imagenet_c(clients: Path, tmp_path: Path, robustshards: Run) -> None:
    """One process reads both data sets, since importing RobustBench takes seconds."""
    (lists,) = clients.parents[1].glob("lib/python*/site-packages/robustbench/helper_files")
    images = (lists / "imagenet_test_image_ids.txt").read_text().split()[:20]
    classes = json.loads((lists / "imagenet_class_to_id_map.json").read_text())
    labels = export_cifar_10_c(tmp_path, robustshards)
    export_imagenet_c(tmp_path, robustshards, images, classes)
    assert run_client(clients, LOAD, tmp_path).split() == ["20", "1000"]

    exported = np.load(tmp_path / "CIFAR-10-C" / "contrast.npy", mmap_mode="r")
    assert exported.shape == (5 * CIFAR_IMAGES, 32, 32, 3)
    for severity in (1, 5):
        with np.load(tmp_path / f"cifar-{severity}.npz") as read:
            first = (severity - 1) * CIFAR_IMAGES
            np.testing.assert_array_equal(read["levels"], exported[first : first + CIFAR_IMAGES])
            assert read["labels"].tolist() == labels

    rows = {row.source_id: row for row in manifests.read_rows(tmp_path / "imagenet" / "manifest.parquet")}
    with np.load(tmp_path / "imagenet.npz") as read:
        for name, levels, label in zip(images, read["levels"], read["labels"], strict=True):
            row = rows[name.removesuffix(".JPEG")]
            with tarfile.open(tmp_path / "imagenet" / row.shard) as tar:
                payload = tar.extractfile(f"{row.key}.jpg")
                assert payload is not None
                np.testing.assert_array_equal(levels, np.asarray(Image.open(io.BytesIO(payload.read()))))
            assert label == sorted(classes).index(name.split("/")[0])


def export_cifar_10_c(folder: Path, robustshards: Run) -> list[int]:
    """Export a data set of the full size of the CIFAR-10 test set, which RobustBench requires. Return its labels."""
    rows = np.random.default_rng(1).integers(0, 256, (CIFAR_IMAGES, 3072)).astype(np.uint8)
    labels = [index * 7 % 10 for index in range(CIFAR_IMAGES)]
    source = folder / "cifar-10-batches-py"
    write_pickle(source / "test_batch", {"data": rows, "labels": labels})
    write_pickle(source / "batches.meta", {"label_names": [b"x"] * 10})
    built = ("build", "cifar-10-c", "--source", source, "--out", folder / "cifar", "--only", "contrast")
    exported = ("export", folder / "cifar", "--to", "cifar-npy", "--out", folder / "CIFAR-10-C")
    run_all(robustshards, built, exported)
    return labels


def export_imagenet_c(folder: Path, robustshards: Run, images: list[str], classes: list[str]) -> None:
    """Export a few images with all 1,000 class folders, which determine the labels."""
    for index, name in enumerate(images):
        write(folder / "source" / name, png(index, 64))
    (folder / "classes.txt").write_text("\n".join(classes))
    built = ("build", "imagenet-c", "--source", folder / "source", "--out", folder / "imagenet")
    exported = ("export", folder / "imagenet", "--to", "imagefolder", "--out", folder / "ImageNet-C")
    chosen = ("--only", "brightness", "--severities", "5")
    run_all(robustshards, (*built, *chosen), (*exported, "--classes", folder / "classes.txt"))


def run_all(robustshards: Run, *commands: tuple[object, ...]) -> None:
    """Run commands in order. Fail the test if one fails."""
    for command in commands:
        robustshards.succeed(*command)
