"""``robustshards attack`` and ``robustshards budgets``."""

from pipeline.attack.request import AttackRequest, SearchSettings
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

    with job.watcher() as watcher:
        result = run_attack(request, watcher)
    job.finish(result, result.failed, request.out)


@command(CONTINUE)
def budgets(settings: SearchSettings, job: MakingJob) -> None:
    """Find the smallest budget at which an attack succeeds on each image, for curves of accuracy against budget.

    Finished parts are kept: run the same command again to continue after an interruption.
    """
    from pipeline.evaluate.predict.requirements import set_up_process

    set_up_process()
    from pipeline.attack import attack_recipe
    from pipeline.attack.budgets import run_budgets
    from pipeline.recipes.attacks import parse_budget
    from pipeline.transforms.adversarial import ATTACKS

    attack_recipe.check_name(settings.attack)
    budget = parse_budget(settings.largest, ATTACKS[settings.attack].norm)
    request = AttackRequest.of(vars(settings), attacks=attack_recipe.named([settings.attack], [settings.largest]))
    with job.watcher("search", "searched") as watcher:
        result = run_budgets(request, budget, settings.steps, watcher)
    job.finish(result, result.failed, settings.out)
