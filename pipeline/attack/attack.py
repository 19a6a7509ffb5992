"""The attack command: a build whose samples are adversarial images, with a record of each attack."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

import torch

from pipeline.attack.clean import CleanImages
from pipeline.attack.libraries import release, request_deterministic_cublas
from pipeline.attack.records import merge_records
from pipeline.attack.request import AttackRequest
from pipeline.attack.settings import Setup, check_libraries, recipe_of, set_up, size_message
from pipeline.attack.worker import AttackJob, AttackWorker, Loading
from pipeline.builder.build import Build, BuildWatcher, Workers
from pipeline.builder.counts import BuildCounts
from pipeline.builder.overlap import check_overlap
from pipeline.builder.plan import Plan, WorkItem, make_plan
from pipeline.builder.result import BuildResult
from pipeline.datasets.adversarial import recorded_attack
from pipeline.datasets.opening import open_built
from pipeline.datasets.paths import ATTACKS_FILE, MANIFEST_FILE
from pipeline.evaluate.models.loading import current_folder, load_model
from pipeline.execution.resumable import run_resumable
from pipeline.recipes.attacks import MAX_ZERO_GRADIENTS
from pipeline.storage import trusted_locations
from pipeline.transforms.adversarial import ATTACKS


def run_attack(request: AttackRequest, watcher: BuildWatcher) -> BuildResult:
    """Attack a model on clean images, and write the missing shards of the data set, then its manifest.

    To continue an interrupted attack, run the same request again.

    Raises:
        UserError: An input is invalid, or the output contains another data set. Nothing has been attacked.
        UnfinishedError: No worker can be started, or a part cannot be read.
    """
    check_overlap(request.data_set, request.out)
    setup = prepare(request, watcher.preparing)
    recipe = recipe_of(setup, request)
    plan = make_plan(recipe, setup.source)
    watcher.preparing(size_message(setup, plan.images, request.bits))
    attack = _Attack(request, setup, plan, watcher)
    run_resumable(attack, BuildCounts)
    attack.result.warnings = setup.warnings + _operators(setup) + _gradients(attack)
    return attack.result


def prepare(request: AttackRequest, preparing: Callable[[str], None]) -> Setup:
    """Check a request, load the model and try it on a first batch. Raise UserError if an input is invalid."""
    entries = request.recipe.entries(request.only)
    check_libraries(entries)
    images = CleanImages(request.data_set, request.data)
    for _ in images:  # every image must have a label and the same size
        pass
    preparing(f"loading {request.model}")
    request_deterministic_cublas()
    model = load_model(request.model, request.weights, trust=request.trust_model)
    setup = set_up(request, entries, images, model)
    release(model)
    return setup


def loading(request: AttackRequest, setup: Setup) -> Loading:
    """Return how workers load model and images."""
    place = setup.images.data_set.absolute_location
    return Loading(place.folder, setup.table.run.device, place.data, current_folder(), request.trust_model)


def processes(request: AttackRequest, setup: Setup) -> tuple[int | None, int]:
    """Return the number of workers, None for the default, and the number of GPUs that they share."""
    device = setup.table.run.device
    if device.startswith("cuda:"):  # one GPU that the user has chosen, which all workers share
        return request.workers or 1, 0
    gpus = torch.cuda.device_count() if device == "cuda" else 0
    return request.workers or gpus or None, gpus


def _operators(setup: Setup) -> tuple[str, ...]:
    """Return a warning about operators whose gradients may differ between runs."""
    if not setup.nondeterministic:
        return ()
    return (
        f"the gradients of {', '.join(setup.nondeterministic)} may differ between runs on {setup.device}: another run "
        "may make other images",
    )


def _gradients(attack: "_Attack") -> tuple[str, ...]:
    """Return a warning about images at which the loss has no gradient, if there are many."""
    table = recorded_attack(open_built(attack.store.root)) if attack.result.complete else None
    share = table.zero_gradients if table else None
    if share is None or share <= MAX_ZERO_GRADIENTS:
        return ()
    return (
        f"the loss has no gradient at {share:.1%} of the attacked images, which measure no robustness: attack the "
        "logits, for example with autoattack_linf or cw_l2, or a model with smaller logits",
    )


class _Attack(Build):
    """An attack as a resumable job: one worker per CPU with one thread, or one per GPU."""

    def __init__(self, request: AttackRequest, setup: Setup, plan: Plan, watcher: BuildWatcher) -> None:
        job = AttackJob(plan.recipe, trusted_locations.absolute(request.out), loading(request, setup))
        workers, gpus = processes(request, setup)
        crew = Workers(
            job=job, worker=AttackWorker, outputs=0, executor=request.executor, workers=workers,
            address=request.address, gpus=gpus,
        )  # fmt: skip
        out, location, retry = request.out, request.data_set, request.retry_failed
        super().__init__(plan, setup.source, watcher, crew, out, location, retry_failed=retry, split=_split)

    def merge(self) -> None:
        """Write the records of the attacks, then the manifest and the files that describe it."""
        if self.store.size(MANIFEST_FILE) < 0 or self.store.size(ATTACKS_FILE) < 0:
            merge_records(self.plan, self.store)
        super().merge()


def _split(block: WorkItem, pieces: int) -> Iterator[WorkItem]:
    """Yield one work item per shard. Those of all levels are one, if the attack is the same at every level."""
    for name, tasks in groupby(block.tasks, key=lambda task: task.condition.transform):
        shared = replace(block, tasks=tuple(tasks))
        yield from shared.split(1 if ATTACKS[name].minimises else len(shared.tasks))
