"""Evaluations of small models, run in this process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.evaluate.predict.evaluate import evaluate
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.execution.resumable import SilentWatcher


def evaluated(data: Path, out: Path, /, model: str = "tiny", batch: int = 4, **options: Any) -> dict[str, Any]:
    """Evaluate a model, and return the facts about the evaluation."""
    request = EvaluationRequest(
        str(data), f"tests.factories.small_models:{model}", str(out), batch_size=batch, **options
    )
    return evaluate(request, SilentWatcher()).facts()


def content(out: Path) -> bytes:
    """Return the bytes of the predictions."""
    return (out / "predictions.parquet").read_bytes()


def outcome(data: Path, out: Path, **options: Any) -> EvaluationResult:
    """Evaluate the model ``tiny``, and return the result."""
    request = EvaluationRequest(str(data), "tests.factories.small_models:tiny", str(out), batch_size=4)
    return evaluate(replace(request, **options), SilentWatcher())
