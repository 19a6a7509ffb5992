"""Every script in examples/ runs with small input."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.clients.environment import clients, run_client
from tests.conftest import ROOT
from tests.docs.test_examples import IMAGENET_VAL
from tests.factories.layouts import cifar_10
from tests.photographs import write_photographs

pytestmark = pytest.mark.large

__all__ = ["clients"]

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
MAX_LINES = 100

WITH_TIMM = """
import runpy, timm
torch.save(timm.create_model("resnet10t").state_dict(), "weights.pth")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Save weights, since none can be downloaded, and run a script."""


def run(name: str, folder: Path, *arguments: object) -> str:
    """Run a script in a folder and return what it prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HOME": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data set ``imagenet-c`` that build_and_look.py made of four photographs."""
    folder = tmp_path_factory.mktemp("examples")
    write_photographs(folder / "imagenet-val", IMAGENET_VAL)
    printed = run("build_and_look.py", folder, "--source", "imagenet-val", "--only", "fog,contrast", "--limit", 4)
    assert "complete = True, failed samples = 0" in printed
    return folder


def test_build_and_look_draws_a_row_per_corruption(folder: Path) -> None:
    assert Image.open(folder / "sheet.png").size == (5 * 224, 2 * 224)


def test_evaluate_timm_reports_the_model(folder: Path, clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    options = ("--model", "resnet10t", "--weights", "weights.pth", "--device", "cpu")
    printed = run_client(clients, WITH_TIMM, EXAMPLES / "evaluate_timm.py", *options, modules=ROOT)
    assert "timm:resnet10t" in printed
    assert len(json.loads((folder / "results" / "report" / "report.json").read_text())["results"]) == 1


def test_evaluate_own_model_reports_clean_and_corrupted(small_source: Path, tmp_path: Path) -> None:
    printed = run("evaluate_own_model.py", tmp_path, "--source", small_source, "--only", "contrast", "--epochs", 2)
    assert "clean error" in printed
    assert (tmp_path / "own-model" / "report" / "report.html").exists()


def test_cifar10_c_arrays_have_five_severities(tmp_path: Path) -> None:
    printed = run("cifar10_c_arrays.py", tmp_path, "--source", cifar_10(tmp_path), "--only", "contrast")
    assert "contrast, severity 5: 5 images" in printed


def test_read_shards_reads_the_same_number_with_both_packages(folder: Path) -> None:
    printed = run("read_shards.py", folder)
    assert "webdataset: 4 images, 4 classes" in printed
    assert "datasets: 4 images, 4 classes" in printed


def test_build_on_ray_builds_on_the_cluster(small_source: Path, ray_address: str, tmp_path: Path) -> None:
    options = ("--address", ray_address, "--source", small_source, "--only", "contrast", "--workers", 1)
    assert "built 5 shards, 0 existed before, 0 samples failed" in run("build_on_ray.py", tmp_path, *options)


def test_tent_reports_three_methods_over_time(folder: Path) -> None:
    (folder / "nets.py").write_text(NETWORK)
    options = ("--model", "nets:network", "--protocol", "temporal", "--batch-size", 2)
    printed = run("tent.py", folder, *options)
    assert [line.partition(":")[0] for line in printed.splitlines()[:3]] == ["none", "BN", "Tent"]
    rows = json.loads((folder / "tent" / "report.json").read_text())["results"]
    assert [each["model"] for each in rows if each["family"] == "streams"] == ["none", "BN", "Tent"]


def test_tta_loader_is_called_as_its_code_base_does(built_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("tta_loader")
    seen: dict[str, list[tuple[list[int], list[str]]]] = {}
    for setting in ("continual", "mixed_domains", "correlated"):
        loader = module.get_test_loader(
            setting=setting,
            adaptation="tent",
            dataset_name="imagenet_c",
            preprocess=to_tensor,
            data_root_dir=str(built_once),
            domain_name="contrast",
            domain_names_all=["contrast", "gaussian_noise"],
            severity=3,
            num_examples=4 if setting == "continual" else -1,
            rng_seed=1,
            use_clip=False,
            n_views=2 if setting == "correlated" else 1,
            delta_dirichlet=0.0,
            batch_size=4,
            shuffle=False,
            workers=0,
        )
        assert loader.dataset.transform is to_tensor
        batches = list(loader)
        images = batches[0][0]
        assert [len(views) for views in images] == [4, 4] if setting == "correlated" else images.shape[1:] == (3, 8, 8)
        seen[setting] = [(data[1].tolist(), data[2]) for data in batches]
    assert [len(labels) for labels, _ in seen["continual"]] == [4]
    assert {name for _, names in seen["mixed_domains"] for name in names} == {"contrast", "gaussian_noise"}
    labels = [label for batch, _ in seen["correlated"] for label in batch]
    assert labels == sorted(labels)
    assert len(labels) == 6


def test_robustbench_loader_returns_a_random_subset(built_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    load = importlib.import_module("robustbench_loader").load_corrupted
    corruptions = ["contrast", "gaussian_noise"]
    for shuffle, prepr in ((False, None), (True, to_tensor)):
        images, labels = load(
            n_examples=7, severity=3, data_dir=str(built_once), shuffle=shuffle, corruptions=corruptions, prepr=prepr
        )
        assert (len(images), len(labels), images.dtype) == (7, 7, torch.float32)
        assert 0 <= images.min() < images.max() <= 1
    with pytest.raises(ValueError, match="n_examples 13 needs 7 images of each corruption: there are 6"):
        load(13, 3, str(built_once), False, corruptions)


def to_tensor(image: Image.Image) -> torch.Tensor:
    """Return a small image as a tensor, as preprocessing of torchvision does."""
    return torch.from_numpy(np.array(image.resize((8, 8)))).permute(2, 0, 1) / 255


NETWORK = """
import torch


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 7, stride=4), torch.nn.BatchNorm2d(8), torch.nn.AdaptiveAvgPool2d(1)]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(8, 1000))
"""
"""A module of the user, with a network of 1,000 classes."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_short_and_described(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert len(text.splitlines()) < MAX_LINES
    assert f"({name})" in (EXAMPLES / "README.md").read_text()
    tests = Path(__file__).read_text() + (ROOT / "tests" / "face" / "test_detection.py").read_text()
    assert f"def test_{name.removesuffix('.py')}_" in tests
