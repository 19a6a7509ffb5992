"""The stages of adversarial samples: read a batch of clean images, attack it, store it, record what was done."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from manifests import Row
from pipeline.attack.attacker import Attacked, Attacker, CleanBatch
from pipeline.attack.clean import CleanImages, pixels_of
from pipeline.attack.records import Record
from pipeline.builder.sample_maker import Failure, Payload, PreparedImage, failure_reason, payload_of, quarantined
from pipeline.datasets.norms import Stored, norms_of, on_grid, stored
from pipeline.datasets.samples import payload_digest
from pipeline.errors import SampleError, UserError
from pipeline.images.encoders import encode_decoded
from pipeline.recipes.attacks import AttackEntry, AttackTable
from pipeline.recipes.schema import Recipe
from pipeline.sources.base import SourceImage
from pipeline.transforms.adversarial import ATTACKS
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class AttackBatch:
    """Consecutive images of a shard: all of them in order, the pixels of those that could be read, the predictions."""

    images: Sequence[PreparedImage]
    pixels: Mapping[str, Stored]
    before: CleanBatch | None


@dataclass(frozen=True)
class Outcome:
    """What became of an image under a condition.

    Attributes:
        image: The clean image.
        payload: The encoded adversarial image, or the failure.
        record: What the attack did; None for an image that cannot be read.
    """

    image: PreparedImage
    payload: Payload | Failure
    record: Record | None


def attack_of(recipe: Recipe) -> AttackTable:
    """Return how the images of a recipe are attacked. Raise UserError if they are not."""
    if recipe.attack is None:
        raise UserError(f"the recipe {recipe.name} has no attack: give a data set that robustshards attack wrote")
    return recipe.attack


class AttackedSampleMaker:
    """A maker of the samples of one recipe.

    Args:
        recipe: The recipe of the data set.
        clean: The clean images.
        attacker: The attacks on the model.
        roots: Folders and URLs that are removed from reasons of failures.
    """

    def __init__(self, recipe: Recipe, clean: CleanImages, attacker: Attacker, roots: Collection[str]) -> None:
        self._encoder, self._table = recipe.encoder, attack_of(recipe)
        self._clean, self._attacker, self._roots = clean, attacker, roots

    def read(self, rows: dict[str, Row], image: SourceImage, skipped: frozenset[str] = frozenset()) -> PreparedImage:
        """Return an image with its pixels, given rows by id, or with the reason why it cannot be read.

        Those with the ids ``skipped`` are not read, because they crash the worker.
        """
        if image.id in skipped:
            return quarantined(image)
        try:
            sample = self._clean.pick(rows, image.id)
            pixels = pixels_of(sample)
        except (SampleError, OSError) as error:
            return PreparedImage(image, None, Failure(f"{image.origin}: {failure_reason(error, self._roots)}"))
        return PreparedImage(image, payload_digest(sample.members.values()), pixels, pixels.nbytes)

    def batch(self, images: Sequence[PreparedImage]) -> AttackBatch:
        """Return images with the predictions of the model. Raise UserError if it returns NaN or lacks a class."""
        pixels = {image.source.id: image.prepared for image in images if isinstance(image.prepared, np.ndarray)}
        labels = [image.source.label for image in images if image.source.id in pixels]
        before = self._attacker.before(list(pixels), [*pixels.values()], labels) if pixels else None
        return AttackBatch(images, pixels, before)

    def outcomes(self, batch: AttackBatch, condition: Condition) -> Iterator[Outcome]:
        """Attack a batch, and yield what became of each image, in order. Raises UserError if memory is exhausted."""
        made: dict[str, tuple[Stored | Failure, Record]] = {}
        if batch.before:
            entry = self._table.entry(condition.transform)
            attacked = self._attacker.attack(batch.before, entry, condition.level)
            moved = self._stored(batch, attacked, entry, condition.level)
            failure = attacked.failure and Failure(failure_reason(attacked.failure, self._roots))
            records = self._records(batch.before, batch.pixels, condition, attacked, moved)
            for record, (id_, output) in zip(records, moved.items(), strict=True):
                made[id_] = (failure if failure and record.right_before else output, record)
        for image in batch.images:
            if isinstance(image.prepared, Failure):
                yield Outcome(image, image.prepared, None)
                continue
            result, record = made[image.source.id]
            if isinstance(result, Failure):
                yield Outcome(image, result, record)
            else:
                yield Outcome(image, payload_of(encode_decoded(self._encoder, result)), record)

    def _stored(self, batch: AttackBatch, attacked: Attacked, entry: AttackEntry, level: int) -> dict[str, Stored]:
        """Return the images as they are stored, by id."""
        budget, bits = entry.budgets[level - 1], 8 * np.dtype(self._encoder.dtype).itemsize
        smallest = ATTACKS[entry.name].minimises
        return {
            id_: stored(image, clean, entry.norm, budget, bits, smallest=smallest)
            for (id_, clean), image in zip(batch.pixels.items(), attacked.images, strict=True)
        }

    def _records(
        self,
        before: CleanBatch,
        pixels: Mapping[str, Stored],
        condition: Condition,
        attacked: Attacked,
        moved: Mapping[str, Stored],
    ) -> Iterator[Record]:
        """Yield what the attack did to each image that could be read."""
        after = self._attacker.top1([*moved.values()])
        for index, (id_, clean) in enumerate(pixels.items()):
            right = bool(before.right[index])
            yield Record(
                f"{id_}-{condition}",
                int(before.top1[index]),
                right,
                bool(after[index] == int(before.labels[index])),
                **norms_of(on_grid(moved[id_]) - on_grid(clean)),
                steps=attacked.steps if right else 0,
                component=attacked.components[index],
                zero_gradient=bool(attacked.zero_gradients[index]),
            )
