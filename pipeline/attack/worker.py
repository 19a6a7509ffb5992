"""The worker of an attack, which makes the shards of a work item. Independent of the engine."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from pipeline.attack.attacker import Attacker
from pipeline.attack.clean import CleanImages
from pipeline.attack.libraries import compute_deterministically
from pipeline.attack.records import Record, publish_records
from pipeline.attack.sample_maker import AttackedSampleMaker, Outcome, attack_of
from pipeline.attack.victim import Victim
from pipeline.builder.counts import BuildCounts
from pipeline.builder.plan import ShardTask, WorkItem
from pipeline.builder.shard_builder import ShardBuilder
from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict.requirements import keep_freed_memory
from pipeline.execution.work import Attempt, CurrentItem
from pipeline.recipes.attacks import AttackedModel
from pipeline.recipes.schema import Recipe
from pipeline.software import device_name
from pipeline.storage import open_store


@dataclass(frozen=True)
class Loading:
    """What a worker needs to load model and images. Small and picklable; all paths are absolute.

    Attributes:
        clean: Path or URL of the clean data set.
        device: Device that computes, for example ``cuda``.
        data: Folder with the files of an index. None for other data sets.
        folder: Folder that relative paths of models, and the user's modules, are resolved in.
        trust_model: Whether to load model files that can run code.
    """

    clean: str
    device: str
    data: str | None
    folder: str
    trust_model: bool

    def attacker(self, about: AttackedModel, named_device: str, seed: int) -> Attacker:
        """Return an attacker on the device of this process, which must have a name.

        Raises:
            UserError: The model has changed since the start of the run, or this machine has another device.
        """
        keep_freed_memory()
        compute_deterministically(self.device)
        if device_name(self.device) != named_device:
            raise UserError(
                f"this worker has the device {device_name(self.device)}, but the attack was started on {named_device}: "
                "images of both would differ; use workers with equal devices"
            )
        model = load_model(about.spec, about.weights or None, self.folder, self.trust_model)
        if (model.digest, model.code) != (about.digest, about.code):
            raise UserError(
                f"the model {about.spec} differs from the one with which the attack was started: give the same model "
                "and the same weights"
            )
        device = torch.device(self.device)
        return Attacker(Victim(model, about, device), device, seed)


@dataclass(frozen=True)
class AttackJob:
    """The settings that all workers of an attack share.

    Attributes:
        recipe: The recipe of the data set.
        output: Absolute path or URL of the data set.
        loading: How to load model and images.
    """

    recipe: Recipe
    output: str
    loading: Loading


class AttackWorker:
    """A worker that attacks images and publishes shards. It keeps the model loaded between work items."""

    def __init__(self, job: AttackJob) -> None:
        """Load the model. Raise UserError like ``Loading.attacker``."""
        self._recipe, self._store, table = job.recipe, open_store(job.output), attack_of(job.recipe)
        self._batch_size = table.batch
        self._clean = CleanImages(job.loading.clean, job.loading.data)
        attacker = job.loading.attacker(table.model, table.device, job.recipe.seed)
        roots = {job.loading.clean, job.output, self._store.root}
        self._maker = AttackedSampleMaker(job.recipe, self._clean, attacker, roots)

    def run(self, attempt: Attempt[WorkItem]) -> Iterator[BuildCounts | CurrentItem]:
        """Attack the images of a work item, and publish its shards.

        Yields:
            The counts so far, after each batch; always the same object, which is updated. If the attempt asks for it,
            also the image to be read next.

        Raises:
            OSError: A shard cannot be written.
            UserError: The memory does not suffice, or the model fails.
        """
        counts, work = BuildCounts(), attempt.work
        records: dict[ShardTask, list[Record]] = {task: [] for task in work.tasks}
        with ExitStack() as stack:
            shards = {
                task: stack.enter_context(ShardBuilder(task, self._recipe, self._store.scratch()))
                for task in work.tasks
            }
            rows = self._clean.rows([image.id for image in work.images])
            for first in range(0, len(work.images), self._batch_size):
                prepared = []
                for image in work.images[first : first + self._batch_size]:
                    if attempt.report_items and image.id not in attempt.quarantined:
                        yield CurrentItem(image.id)
                    prepared.append(self._maker.read(rows, image, attempt.quarantined))
                if attempt.report_items:
                    yield CurrentItem(None)
                batch = self._maker.batch(prepared)
                for task, shard in shards.items():
                    for outcome in self._maker.outcomes(batch, task.condition):
                        _append(outcome, task, shard, records[task], counts)
                    yield counts
            for task, shard in shards.items():
                publish_records(self._store, task, records[task])
                counts.add_shard(str(task.condition), len(work.images), shard.publish(self._store))
        yield counts


def _append(outcome: Outcome, task: ShardTask, shard: ShardBuilder, records: list[Record], counts: BuildCounts) -> None:
    """Append a sample to its shard, and its record to the others. Raises OSError."""
    shard.append(outcome.image, outcome.payload)
    counts.add_sample(task.condition.transform, outcome.payload.size)
    if outcome.record:
        records.append(outcome.record)
