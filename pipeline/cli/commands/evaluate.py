"""``robustshards evaluate``."""

from pipeline.cli.console import CONTINUE
from pipeline.cli.options import Job, command
from pipeline.evaluate.predict.request import EvaluationRequest


@command(CONTINUE)
def evaluate(request: EvaluationRequest, job: Job) -> None:
    """Run an image classifier on a data set and write its predictions.

    Run the same command again to continue after an interruption.
    """
    from pipeline.evaluate.predict.requirements import set_up_process

    set_up_process()
    from pipeline.evaluate.predict import evaluate as evaluation

    with job.watcher() as watcher:
        result = evaluation.evaluate(request, watcher)
    job.show_result(result, request.out)
