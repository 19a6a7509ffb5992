"""``robustshards.evaluate`` and ``robustshards.report``."""

import gc
import json
import random
import subprocess
import sys
import weakref
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import distributed

import robustshards as rs
from tests.conftest import Run
from tests.factories.commands import python

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.pool, self.drop, self.head = torch.nn.AdaptiveAvgPool2d(4), torch.nn.Dropout(), torch.nn.Linear(48, 7)
        with torch.no_grad():
            self.head.weight.copy_(torch.randn(7, 48, generator=generator))
            self.head.bias.zero_()

    def forward(self, images):
        return self.head(self.drop(self.pool(images).flatten(1)))
"""

SCRIPT = (
    MODEL
    + """
import os, signal, sys
import robustshards as rs

def state():
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    return dict(os.environ), handlers, os.getcwd()

before = state()
evaluation = rs.evaluate(Net(), sys.argv[1], "results", loaders=1)
report = rs.report([evaluation, ], out="report")
assert evaluation.complete and evaluation.done.frames == 24
assert report.facts()["results"][0]["model"] == "Net"
after = state()
assert after == before, (before, after)
"""
)
"""A script without ``if __name__ == "__main__"``: a loader process that imported it would start another evaluation."""


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    namespace: dict[str, Any] = {"__name__": "tests.face.mine"}
    exec(MODEL, namespace)
    made: torch.nn.Module = namespace["Net"]()
    return made


def predictions(folder: str | Path) -> dict[str, list[Any]]:
    return pq.read_table(Path(folder) / "predictions.parquet").to_pydict()


def test_script_without_main_guard_evaluates_silently_and_changes_nothing(data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python("script.py", data_folder, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "report").glob("report.*")} == {
        *("report.html", "report.md", "report.csv", "report.parquet", "report.json")
    }


def test_model_in_memory_gives_the_same_predictions_as_the_command(
    model: torch.nn.Module, data_folder: Path, robustshards: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    done = robustshards("evaluate", data_folder, "--model", "mine:Net", "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    evaluation = rs.evaluate(model, data_folder)
    assert predictions(evaluation.output) == predictions(tmp_path / "out")
    assert len(predictions(evaluation.output)["key"]) == 24


def test_model_in_memory_is_not_modified(data_folder: Path, model: torch.nn.Module) -> None:
    model.train()
    rs.evaluate(model, data_folder, batch_size=8)
    assert model.training
    assert all(part.training for part in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


def process_state() -> list[Any]:
    cudnn: Any = torch.backends.cudnn
    generators = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    return [
        *generators,
        cudnn.deterministic,
        cudnn.benchmark,
        cudnn.allow_tf32,
        cv2.getNumThreads(),
        gc.get_freeze_count(),
    ]


@pytest.mark.parametrize(("error", "raised"), [(None, None), (ValueError, rs.UserError), (KeyboardInterrupt,) * 2])
def test_evaluation_restores_the_process_and_keeps_no_model(
    error: type[BaseException] | None, raised: type[BaseException], data_folder: Path, model: torch.nn.Module
) -> None:
    models: list[weakref.ref[torch.nn.Module]] = []

    class Drawing(type(model)):  # type: ignore[misc]
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            models.append(weakref.ref(self))
            if error and len(models) > 2:
                raise error
            return super().forward(images) + torch.rand(7) + random.random() + np.random.rand()

    torch.backends.cudnn.benchmark = True
    cv2.setNumThreads(3)
    gc.unfreeze()  # what the tests froze, since the count would fall with each of these objects that goes
    try:
        for _ in range(3):
            mine = Drawing()
            before = process_state()
            with pytest.raises(raised) if error else nullcontext():
                rs.evaluate(mine, data_folder)
            assert process_state() == before
            del mine
    finally:
        torch.backends.cudnn.benchmark = False
        cv2.setNumThreads(-1)
    gc.collect()
    assert len(models) >= 5
    assert not [each for each in models if each()]
    gc.freeze()


def test_temporary_predictions_are_deleted_with_the_result(data_folder: Path, model: torch.nn.Module) -> None:
    evaluation = rs.evaluate(model, rs.open(data_folder), batch_size=8)
    folder = Path(evaluation.output)
    assert (folder / "predictions.parquet").exists()
    del evaluation
    gc.collect()
    assert not folder.exists()


def test_second_call_computes_no_prediction(data_folder: Path, model: torch.nn.Module, tmp_path: Path) -> None:
    first, second = (rs.evaluate(model, data_folder, tmp_path / "out", name="mine") for _ in range(2))
    assert (first.done.frames, second.done.frames) == (24, 0)
    assert (second.output, second.complete, second.chunks_before) == (str(tmp_path / "out"), True, 4)
    assert second.table.model.name == "mine"


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"workers": 2}, "workers cannot be used with a model in memory"),
        ({"address": "127.0.0.1:6379"}, "address cannot be used with a model in memory"),
        ({"weights": "weights.pt"}, "weights cannot be used with a model in memory"),
        ({"executor": "slurm"}, "'slurm'"),
        ({"loaders": 1.5}, "invalid loaders 1.5"),
        ({"mean": (0.5, 0.5)}, r"invalid mean \(0.5, 0.5\)"),
        ({"mean": 0.5}, "invalid mean 0.5"),
        ({"name": 3}, "invalid name 3"),
        ({"precision": "fp8"}, "'fp8'"),
        ({"data": "/nowhere"}, "/nowhere is not a data set"),
        ({"data": torch.nn.Linear(2, 2)}, "invalid data of type Linear: pass a path or URL"),
        ({"model": 3}, "the model is of type int"),
        ({"model": "resnet50"}, "invalid model 'resnet50': use timm:NAME"),
        ({"out": 3}, "invalid out 3"),
    ],
)
def test_invalid_options_raise_user_error(
    options: dict[str, Any], value: str, data_folder: Path, model: torch.nn.Module, tmp_path: Path
) -> None:
    with pytest.raises(rs.UserError, match=value):
        rs.evaluate(**{"model": model, "data": data_folder, "out": tmp_path / "out", **options})


SECOND_RANK = """
import sys
from torch import distributed
distributed.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
sys.stdin.read()
"""


def test_ranks_of_a_process_group_are_refused(data_folder: Path, model: torch.nn.Module, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/group"
    second = subprocess.Popen([sys.executable, "-c", SECOND_RANK, place], stdin=subprocess.PIPE)
    try:
        limit = timedelta(seconds=100)
        distributed.init_process_group("gloo", init_method=place, rank=0, world_size=2, timeout=limit)
        with pytest.raises(
            rs.UserError, match=r"group of 2 ranks, .* run the command .* or .*torch\.Stream\(data, rank="
        ):
            rs.evaluate(model, data_folder)
    finally:
        second.kill()
        second.communicate()
        if distributed.is_initialized():
            distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("options", "rank", "device"),
    [
        ({}, "1", "cuda:1"),
        ({"workers": 1}, "0", "cuda:0"),
        ({}, "", "auto"),
        ({}, "2", "auto"),
        ({"workers": 2}, "1", "auto"),
        ({"executor": "ray"}, "1", "auto"),
        ({"device": "cpu"}, "1", "cpu"),
        ({"device": "cuda"}, "1", "cuda"),
    ],
)
def test_auto_is_the_gpu_of_the_local_rank(
    options: dict[str, Any], rank: str, device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requested = []
    monkeypatch.setattr(
        "pipeline.evaluate.predict.evaluate.evaluate", lambda request, _: requested.append(request.device)
    )
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", rank)
    rs.evaluate("timm:resnet50", "data", tmp_path, **options)
    assert requested == [device]


def test_failed_call_leaves_no_temporary_folder(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(rs.UserError, match="nothing_here"):
        rs.evaluate("nothing_here:model", data_folder)
    assert list(tmp_path.iterdir()) == []


def test_report_of_folders_and_results_equals_the_command(
    data_folder: Path, model: torch.nn.Module, robustshards: Run, tmp_path: Path
) -> None:
    first = rs.evaluate(model, data_folder, tmp_path / "first", name="first")
    rs.evaluate(model, data_folder, tmp_path / "second", name="second", input_size=112)
    report = rs.report([first, tmp_path / "second"], title="Both", out=tmp_path / "report")
    done = robustshards("report", tmp_path / "first", tmp_path / "second", "--json")
    assert done.returncode == 0, done.stderr
    facts, printed = json.loads(json.dumps(report.facts())), json.loads(done.stdout)
    assert "--json" in printed["provenance"].pop("command")
    assert facts == printed
    assert [each["model"] for each in facts["results"]] == ["first", "second"]
    assert report.markdown().startswith("# Both\n")
    assert list(report.warnings) == report.facts()["warnings"]
    assert (tmp_path / "report" / "report.md").read_text().startswith(report.markdown())


def test_warnings_call_a_temporary_folder_by_its_content(
    data_folder: Path, small_source: Path, model: torch.nn.Module, tmp_path: Path
) -> None:
    evaluation = rs.evaluate(model, data_folder, batch_size=8, input_size=64)
    images = rs.render("imagenet-c-clean", small_source)
    clean = rs.evaluate(model, images, tmp_path / "robustshards-mine", batch_size=8)  # a folder of the user's
    (warning,) = (each for each in rs.report([evaluation, clean]).warnings if "different settings" in each)
    name = f"{evaluation.table.model.name} on imagenet-c"
    assert warning.startswith(f"{name} and its clean images, {clean.output}, were evaluated")


def test_one_evaluation_needs_no_list(data_folder: Path, model: torch.nn.Module) -> None:
    evaluation = rs.evaluate(model, data_folder, batch_size=8)
    assert rs.report(evaluation).facts() == rs.report([evaluation.output]).facts()


@pytest.mark.parametrize(
    ("evaluations", "value"), [([], "at least one"), (["/nowhere"], "/nowhere"), (3, r"invalid evaluations \[?3")]
)
def test_report_rejects_invalid_evaluations(evaluations: Any, value: str) -> None:
    with pytest.raises(rs.UserError, match=value):
        rs.report(evaluations)
