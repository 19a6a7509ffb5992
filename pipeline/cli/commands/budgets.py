"""``robustshards budgets``."""

from __future__ import annotations

from pipeline.attack.request import AttackRequest, SearchSettings
from pipeline.cli.console import CONTINUE
from pipeline.cli.options import MakingJob, command


@command(CONTINUE)
def budgets(settings: SearchSettings, job: MakingJob) -> None:
    """Find the smallest budget at which an attack succeeds on each image, for curves of accuracy against budget.

    Finished parts are kept: run the same command again to continue after an interruption.
    """
    from pipeline.evaluate.predict.requirements import set_up_process

    set_up_process()
    from pipeline.attack import attack_recipe
    from pipeline.attack.budgets import run_budgets
    from pipeline.cli.event_log import EvaluationLog
    from pipeline.cli.progress import FrameCount
    from pipeline.recipes.attacks import parse_budget
    from pipeline.transforms.adversarial import ATTACKS

    attack_recipe.check_name(settings.attack)
    budget = parse_budget(settings.largest, ATTACKS[settings.attack].norm)
    request = AttackRequest.of(vars(settings), attacks=attack_recipe.named([settings.attack], [settings.largest]))
    watcher = EvaluationLog() if job.log == "json" else FrameCount("search", "searched")
    with watcher:
        result = run_budgets(request, budget, settings.steps, watcher)
    job.finish(result, result.failed, settings.out)
