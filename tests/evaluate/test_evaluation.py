"""Tests of evaluations: predictions, workers, interruptions, failed shards, settings and errors."""

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import manifests
from manifests import Row
from pipeline.errors import UserError
from pipeline.evaluate.report.load import open_evaluation
from tests.conftest import ROOT, Run
from tests.factories import small_models
from tests.factories.commands import PROGRAM
from tests.factories.data_sets import rows_of
from tests.factories.evaluator import content, evaluated
from tests.factories.processes import wait_until

IMAGENET_MEAN, IMAGENET_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def predictions(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "predictions.parquet").to_pylist()


def images_of(data: Path, row: Row, suffix: str = ".jpg") -> np.ndarray:
    """Return a sample decoded by Pillow."""
    with tarfile.open(data / row.shard) as tar:
        file = tar.extractfile(row.key + suffix)
        assert file is not None
        return np.asarray(Image.open(io.BytesIO(file.read())))


def expected(
    network: torch.nn.Module, images: list[np.ndarray], mean: Any = IMAGENET_MEAN, std: Any = IMAGENET_STD
) -> np.ndarray:
    """Return the logits of images, normalised by NumPy and predicted one at a time."""
    with torch.inference_mode():
        values = [torch.from_numpy((image / 255 - mean) / std).permute(2, 0, 1)[None].float() for image in images]
        return np.concatenate([network(value).numpy() for value in values])


def test_predictions_equal_the_outputs_of_the_model(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    facts = evaluated(built_once, tmp_path / "r")
    assert (facts["complete"], facts["frames_made"], facts["shards"]) == (True, 24, 8)
    assert (facts["pixels_checked"], facts["pixels_changed"]) == (24, 0)
    rows, records = rows_of(built_once), predictions(tmp_path / "r")
    assert [each["key"] for each in records] == [row.key for row in rows]
    logits = expected(small_models.tiny(), [images_of(built_once, row) for row in rows])
    order = np.argsort(-logits, axis=1, kind="stable")
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for row, each, ranked, probability in zip(rows, records, order, probabilities, strict=True):
        assert (each["source_id"], each["label"], each["frame"]) == (row.source_id, row.label, 0)
        assert (each["transform"], each["level"]) == (row.transform, row.level)
        assert each["top5"] == ranked[:5].tolist()
        assert each["top1"] == ranked[0]
        assert each["label_rank"] == 1 + ranked.tolist().index(row.label)
        assert each["label_probability"] == pytest.approx(probability[row.label], abs=1e-5)
        assert each["confidence"] == pytest.approx(probability.max(), abs=1e-5)


def test_predictions_do_not_depend_on_workers_and_loaders(
    built_once: Path, tmp_path: Path, robustshards: Run, ray_address: str
) -> None:
    evaluated(built_once, tmp_path / "one")
    evaluated(built_once, tmp_path / "loaders", loaders=2)
    assert content(tmp_path / "loaders") == content(tmp_path / "one")
    # Use commands, because leaving the cluster in this process, which started it, would stop it.
    command = ("evaluate", built_once, "--model", "tests.factories.small_models:tiny", "--batch-size", 4)
    for engine in (("--executor", "local", "--workers", 2), ("--address", ray_address, "--workers", 1)):
        robustshards.succeed(*command, "--out", tmp_path / engine[0], *engine, cwd=ROOT)
        assert content(tmp_path / engine[0]) == content(tmp_path / "one")


def test_a_killed_evaluation_continues_where_it_stopped(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    """The predictions equal those of an uninterrupted run, and finished chunks are not predicted again."""
    evaluated(built_once, tmp_path / "whole", model="slow")
    options = ("--model", "tests.factories.small_models:slow", "--batch-size", "4", "--out", str(tmp_path / "killed"))
    process = subprocess.Popen([PROGRAM, "evaluate", built_once, *options], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list((tmp_path / "killed" / "parts").glob("*.parquet"))) >= 2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(300)
    assert not (tmp_path / "killed" / "predictions.parquet").exists()
    predicted = len(list((tmp_path / "killed" / "parts").glob("*.parquet")))
    assert 2 <= predicted < 8
    done = robustshards("report", tmp_path / "killed")
    assert done.returncode == 3
    assert f"{8 - predicted} of 8 shards are missing" in done.stderr
    facts = evaluated(built_once, tmp_path / "killed", model="slow")
    assert facts["shards_before"] == predicted
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    facts = evaluated(built_once, tmp_path / "killed", model="slow")
    assert (facts["shards_before"], facts["frames_made"], facts["complete"]) == (8, 0, True)


def test_an_unreadable_shard_is_named_and_the_others_are_predicted(
    built: Path, tmp_path: Path, robustshards: Run
) -> None:
    shard = built / "shards/contrast/3/contrast-3-000000.tar"
    content = shard.read_bytes()
    shard.unlink()
    facts = evaluated(built, tmp_path / "r")
    (lost,) = facts["lost"]
    assert lost["shard"] == "contrast-3-000000"
    assert "contrast-3-000000.tar" in lost["reason"]
    done = robustshards("report", tmp_path / "r")
    assert (done.returncode, "1 of 8 shards are missing: contrast-3-000000" in done.stderr) == (3, True)
    shard.write_bytes(content[:-20000])
    facts = evaluated(built, tmp_path / "r")
    assert facts["shards_before"] == 7
    shard.write_bytes(content)
    facts = evaluated(built, tmp_path / "r")
    assert (facts["complete"], facts["shards_before"]) == (True, 7)
    assert [each["key"] for each in predictions(tmp_path / "r")] == [row.key for row in rows_of(built)]


def test_changed_pixels_give_a_warning(built: Path, tmp_path: Path, robustshards: Run) -> None:
    path = built / "manifest.parquet"
    rows = [row._replace(pixel_sha256="0" * 64) for row in rows_of(built)[:1]] + rows_of(built)[1:]
    facts = {key: value for key, value in manifests.read_facts(path).items() if not key.startswith("ARROW")}
    manifests.write_part(rows, facts, path)
    records = evaluated(built, tmp_path / "r")
    assert (records["pixels_checked"], records["pixels_changed"]) == (24, 1)
    done = robustshards("report", tmp_path / "r")
    assert re.search("1 of 24 .*other pixels", done.stderr)


def test_failed_samples_are_not_counted_as_wrong(
    built: Path, tmp_path: Path, robustshards: Run, small_source: Path
) -> None:
    source = shutil.copytree(small_source, tmp_path / "source")
    (source / "class0" / "image0.png").write_bytes(b"no image")
    chosen = ("--only", "contrast", "--severities", 1)
    robustshards.succeed("build", "imagenet-c", "--source", source, "--out", tmp_path / "o", *chosen, code=1)
    facts = evaluated(tmp_path / "o", tmp_path / "r")
    assert (facts["samples"], facts["frames_made"]) == (5, 5)
    done = robustshards.succeed("report", tmp_path / "r")
    assert "1 samples of the data set failed" in done.stderr


def test_frames_of_sequences_are_predicted_in_order(sequences: Path, tmp_path: Path, robustshards: Run) -> None:
    """Batches span several sequences, and frames stay in the order of the manifest."""
    facts = evaluated(sequences, tmp_path / "r", batch=10)
    rows = rows_of(sequences)
    assert facts["frames_made"] == sum(row.frames or 0 for row in rows) == 186
    records = predictions(tmp_path / "r")
    assert [(each["key"], each["frame"]) for each in records] == [
        (row.key, frame) for row in rows for frame in range(row.frames or 0)
    ]
    row = rows[-1]
    images = [images_of(sequences, row, f".{frame:03d}.jpg") for frame in (0, 17, 30)]
    order = np.argsort(-expected(small_models.tiny(), images), axis=1, kind="stable")
    last = records[-31:]
    assert [last[frame]["top5"] for frame in (0, 17, 30)] == order[:, :5].tolist()


def test_an_indexed_data_set_gives_the_same_predictions_as_its_shards(
    cifar_c: Path, tmp_path: Path, robustshards: Run
) -> None:
    assert robustshards("export", cifar_c, "--to", "cifar-npy", "--out", tmp_path / "theirs").returncode == 0
    assert robustshards("index", tmp_path / "theirs", "--out", tmp_path / "index").returncode == 0
    evaluated(cifar_c, tmp_path / "ours", model="three")
    evaluated(tmp_path / "index", tmp_path / "indexed", model="three", data=str(tmp_path / "theirs"), loaders=1)
    ours, theirs = predictions(tmp_path / "ours"), predictions(tmp_path / "indexed")
    columns = ("transform", "level", "label", "top5", "label_rank")
    assert [[each[name] for name in columns] for each in ours] == [[each[name] for name in columns] for each in theirs]


def test_input_options_override_the_input_of_the_model(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    evaluated(built_once, tmp_path / "configured", model="configured")
    text = (tmp_path / "configured" / "evaluation.toml").read_text()
    assert "size = 96" in text
    row = rows_of(built_once)[0]
    image = torch.from_numpy(images_of(built_once, row) / 255).permute(2, 0, 1)[None].float()
    mean, std = torch.tensor([0.1, 0.2, 0.3])[:, None, None], torch.tensor([0.4, 0.5, 0.6])[:, None, None]
    small = torch.nn.functional.interpolate((image - mean) / std, (96, 96), mode="bilinear", antialias=True)
    logits = small_models.configured()(small).detach().numpy()[0]
    assert predictions(tmp_path / "configured")[0]["top5"] == np.argsort(-logits, kind="stable")[:5].tolist()
    options = ("--batch-size", 4, "--input-size", 0, "--mean", "0,0,0", "--std", "1,1,1")
    model = "tests.factories.small_models:configured"
    robustshards.succeed("evaluate", built_once, "--model", model, "--out", tmp_path / "given", *options, cwd=ROOT)
    logits = expected(small_models.configured(), [images_of(built_once, row)], mean=0, std=1)[0]
    assert predictions(tmp_path / "given")[0]["top5"] == np.argsort(-logits, kind="stable")[:5].tolist()


def test_options_that_change_predictions_are_rejected_for_an_existing_output(
    built_once: Path, tmp_path: Path, robustshards: Run
) -> None:
    evaluated(built_once, tmp_path / "r", batch=0)  # the default batch size
    facts = evaluated(built_once, tmp_path / "r", batch=0)
    assert (facts["frames_made"], facts["batch"]) == (0, 4)
    with pytest.raises(UserError, match=r"run\.precision is fp32, but bf16 was requested"):
        evaluated(built_once, tmp_path / "r", precision="bf16")
    with pytest.raises(UserError, match=r"model\.digest"):
        evaluated(built_once, tmp_path / "r", model="other")


@pytest.mark.parametrize(
    ("options", "most"), [({"precision": "bf16"}, 0.01), ({"channels_last": True}, 0), ({"channels_last": False}, 1e-5)]
)
def test_precision_and_layout_change_little(
    built_once: Path, tmp_path: Path, options: dict[str, Any], most: float
) -> None:
    evaluated(built_once, tmp_path / "plain", batch=8)
    evaluated(built_once, tmp_path / "other", batch=8, **options)
    plain, other = predictions(tmp_path / "plain"), predictions(tmp_path / "other")
    assert [each["confidence"] for each in other] == pytest.approx([each["confidence"] for each in plain], abs=most)


def test_a_model_that_requires_channels_first_gets_them(built_once: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second call continues
        evaluated(built_once, tmp_path / "first", model="viewing")
    evaluated(built_once, tmp_path / "tiny")
    evaluated(built_once, tmp_path / "foreign", model="threads")  # without weights, as a file that torch does not run
    for name, channels_last in (("first", False), ("tiny", True), ("foreign", False)):
        assert open_evaluation(str(tmp_path / name)).table.run.channels_last is channels_last
    first, tiny = predictions(tmp_path / "first"), predictions(tmp_path / "tiny")
    assert [each["confidence"] for each in first] == pytest.approx([each["confidence"] for each in tiny], abs=1e-5)
    with pytest.raises(UserError, match=r"view size is not compatible.*; try --no-channels-last, --input-size N"):
        evaluated(built_once, tmp_path / "refused", model="viewing", channels_last=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_share_the_threads_of_this_process(built_once: Path, tmp_path: Path, workers: int) -> None:
    evaluated(built_once, tmp_path / "r", model="threads", executor="local", workers=workers)
    each = max(torch.get_num_threads() // workers, 1)
    assert {row["top1"] for row in predictions(tmp_path / "r")} == {each % 7}


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("few_classes", {}, "the model has 1 output, but the labels are 7 class folders"),
        ("not_a_number", {}, "returns NaN"),
        ("no_classifier", {}, "returns logits: numbers of shape .images, classes."),
        ("tiny", {"device": "cuda:7"}, "the device 'cuda:7' is not available"),
        ("tiny", {"input_size": 3}, "try --input-size N"),
        ("half", {}, r"its weights are float16 .*: call .float\(\) in the factory, and use --precision"),
    ],
)
def test_unusable_models_and_options_are_rejected_with_the_remedy(
    built_once: Path, tmp_path: Path, model: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        evaluated(built_once, tmp_path / "r", model=model, **options)


def test_unfinished_data_sets_and_other_folders_are_rejected(built: Path, tmp_path: Path, robustshards: Run) -> None:
    (built / "manifest.parquet").unlink()
    assert "is not finished" in robustshards.refuse(
        "evaluate", built, "--model", "tests.factories.small_models:tiny", "--out", tmp_path / "r", cwd=ROOT
    )
    assert "is not an evaluation" in robustshards.refuse("report", built)


def test_a_loader_that_is_killed_while_the_model_computes_is_not_the_fault_of_the_model(
    built_once: Path, tmp_path: Path, robustshards: Run
) -> None:
    """Linux kills a loader, and not the command, if memory runs out. PyTorch then interrupts the main thread."""
    options = ("--model", "tests.factories.small_models:loader_killer", "--batch-size", 1, "--loaders", 1)
    done = robustshards("evaluate", built_once, *options, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert re.search(
        r"^error: a loader process died while reading one of \w+-\d-000000: an image may crash the decoder "
        r"\(run robustshards verify\), or memory may be too small \(reduce --loaders\)$",
        done.stderr,
        re.MULTILINE,
    ), done.stderr
