"""Tests of ``--trust-model``, which is required to load files that can run code."""

import hashlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from pipeline.datasets.base import Location
from pipeline.errors import UserError
from pipeline.evaluate.predict.evaluate import evaluate
from pipeline.evaluate.predict.predictor import EvaluationJob, Predictor
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.results.folder import read_table
from pipeline.execution.resumable import SilentWatcher
from pipeline.storage import open_store
from tests.conftest import Run
from tests.factories import small_models
from tests.factories.evaluator import content, evaluated

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*")


def write(path: Path, seed: int = 0) -> None:
    torch.jit.script(small_models.tiny(seed=seed)).save(path)


def outcome(data: Path, out: Path, model: Path, trust: bool = True) -> bool:
    request = EvaluationRequest(str(data), str(model), str(out), batch_size=4, trust_model=trust)
    return evaluate(request, SilentWatcher()).complete


def test_a_trusted_file_gives_the_predictions_of_its_module(built_once: Path, tmp_path: Path) -> None:
    write(tmp_path / "model.pt")
    assert outcome(built_once, tmp_path / "file", tmp_path / "model.pt")
    evaluated(built_once, tmp_path / "module")
    columns = ("key", "top5", "label_rank")
    file, module = (rows(tmp_path / name, columns) for name in ("file", "module"))
    assert file == module


def rows(folder: Path, columns: tuple[str, ...]) -> list[dict[str, object]]:
    return pq.read_table(folder / "predictions.parquet", columns=list(columns)).to_pylist()


def test_the_digest_of_a_trusted_file_is_part_of_the_evaluation(built_once: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.pt", tmp_path / "r"
    write(model)
    assert outcome(built_once, out, model)
    before, found = content(out), tomllib.loads((out / "evaluation.toml").read_text())
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert found["model"]["digest"] == digest
    assert outcome(built_once, out, model)
    assert content(out) == before
    write(model, seed=1)
    with pytest.raises(UserError, match=f"another evaluation .*model.digest is {digest}"):
        outcome(built_once, out, model)


def test_workers_load_untrusted_files_only_with_trust_model(built_once: Path, tmp_path: Path) -> None:
    write(tmp_path / "model.pt")
    assert outcome(built_once, tmp_path / "r", tmp_path / "model.pt")
    table = read_table(open_store(str(tmp_path / "r")))
    job = EvaluationJob(table, Location(str(built_once)), str(tmp_path / "r"), 0)
    with pytest.raises(UserError, match="--trust-model"):
        Predictor(job)
    Predictor(replace(job, trust_model=True))


def test_the_command_rejects_an_untrusted_file_in_one_line(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    write(tmp_path / "model.pt")
    message = robustshards.refuse("evaluate", built_once, "--model", tmp_path / "model.pt", "--out", tmp_path / "r")
    *before, line = message.splitlines()
    assert line.startswith("error: ")
    assert "model.pt is a TorchScript file, which can run code: add --trust-model if you trust its origin" in line
    assert not any("Traceback" in each for each in before)
    assert not (tmp_path / "r").exists()
