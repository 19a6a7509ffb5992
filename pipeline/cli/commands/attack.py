"""``robustshards attack``."""

from __future__ import annotations

from pipeline.attack.request import AttackRequest
from pipeline.cli.console import CONTINUE
from pipeline.cli.options import MakingJob, command


@command(CONTINUE)
def attack(request: AttackRequest, job: MakingJob) -> None:
    """Attack a model, and write the adversarial images as a data set that any model can be evaluated on.

    Finished shards are kept: run the same command again to continue after an interruption. To add to a finished data
    set, run it with more attacks, larger budgets or a larger --limit.
    """
    from pipeline.evaluate.predict.requirements import set_up_process

    set_up_process()
    from pipeline.attack.attack import run_attack
    from pipeline.cli.event_log import BuildLog
    from pipeline.cli.progress import Display

    watcher = BuildLog() if job.log == "json" else Display()
    with watcher:
        result = run_attack(request, watcher)
    job.finish(result, result.built.failed, request.out)
