"""``robustshards evaluate``."""

from __future__ import annotations

from pipeline.cli.console import CONTINUE, print_result
from pipeline.cli.options import Job, command
from pipeline.evaluate.predict.request import EvaluationRequest


@command(CONTINUE)
def evaluate(request: EvaluationRequest, job: Job) -> None:
    """Run an image classifier on a data set and write its predictions.

    Run the same command again to continue after an interruption.
    """
    from pipeline.cli.event_log import EvaluationLog
    from pipeline.cli.progress import FrameCount
    from pipeline.evaluate.predict.requirements import set_up_process

    set_up_process()
    from pipeline.evaluate.predict import evaluate as evaluation

    watcher = EvaluationLog() if job.log == "json" else FrameCount()
    with watcher:
        result = evaluation.evaluate(request, watcher)
    print_result(result, job.as_json, request.out)
