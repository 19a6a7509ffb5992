"""Attacks on one batch of clean images."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.attack.libraries import memory_for, seed_of, seeded
from pipeline.attack.victim import AttackAtBudget, Victim, loss_gradients, predicted
from pipeline.datasets.norms import ONE, Stored, on_grid
from pipeline.errors import SampleError, UserError
from pipeline.recipes.attacks import AttackEntry
from pipeline.transforms.adversarial import ATTACKS


@dataclass(frozen=True)
class CleanBatch:
    """A batch of N clean images, and what the model makes of them.

    Attributes:
        ids: Ids of the images.
        images: Images (N, 3, H, W) on the device, float32, values 0..1.
        labels: True classes (N,), on the device.
        top1: Predicted classes (N,).
    """

    ids: Sequence[str]
    images: torch.Tensor
    labels: torch.Tensor
    top1: NDArray[np.int64]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the model is right about each image, shape (N,)."""
        return np.asarray(self.top1 == self.labels.cpu().numpy(), np.bool_)

    def part(self, indices: Sequence[int]) -> "CleanBatch":
        """Return the images with these indices."""
        chosen = list(indices)
        return CleanBatch(
            [self.ids[index] for index in chosen], self.images[chosen], self.labels[chosen], self.top1[chosen]
        )


@dataclass(frozen=True)
class Attacked:
    """The images of a batch after an attack.

    Attributes:
        images: Images (N, H, W, 3), float32, values 0..1. Those that the model gets wrong are unchanged.
        steps: Number of steps or queries, for images that were attacked.
        components: Part of AutoAttack that succeeded on each image; empty for none.
        zero_gradients: Whether the loss has no gradient at each image.
        failure: Why the images that the model gets right cannot be attacked; None if they can.
    """

    images: NDArray[np.float32]
    steps: int
    components: Sequence[str]
    zero_gradients: NDArray[np.bool_]
    failure: SampleError | None = None


@dataclass
class Attacker:
    """Attacks on a model with the settings of a recipe.

    Attributes:
        victim: The model.
        device: Device that computes.
        seed: Seed of the attacks.
    """

    victim: Victim
    device: torch.device
    seed: int
    _latest: dict[str, tuple[Sequence[str], Attacked]] = field(default_factory=dict)
    """Attack that minimises the norm itself -> ids of its last batch, and the result, which is that of every level."""

    def before(self, ids: Sequence[str], images: Sequence[Stored], labels: Sequence[int]) -> CleanBatch:
        """Return a batch of clean images (H, W, 3) of one size, as stored, with the predictions of the model.

        Raises:
            UserError: The model returns NaN or infinite values, or lacks the class of a label; or the memory does not
                suffice for a batch.
        """
        values = self._values(images)
        top1 = self.top1_of(values)
        if max(labels) >= self.victim.classes:
            worst = ids[int(np.argmax(labels))]
            raise UserError(f"{worst} has label {max(labels)}, but the model has only {self.victim.classes} classes")
        return CleanBatch(ids, values, torch.tensor(labels, device=self.device), top1)

    def top1(self, images: Sequence[Stored]) -> NDArray[np.int64]:
        """Return the predicted classes of stored images. Raises like :meth:`before`."""
        return self.top1_of(self._values(images))

    def top1_of(self, images: torch.Tensor) -> NDArray[np.int64]:
        """Return the predicted classes of images (N, 3, H, W) on the device. Raises like :meth:`before`."""
        filled = max(len(images), self.victim.batch)
        with memory_for(f"the model predicts {filled} images", filled), torch.inference_mode():
            logits = self.victim(images)
        if not logits.isfinite().all():
            raise UserError("the model returns NaN or infinite values, which cannot be attacked: repair the model")
        return np.asarray(predicted(logits).cpu().numpy(), np.int64)

    def attack(self, batch: CleanBatch, entry: AttackEntry, level: int) -> Attacked:
        """Attack the images of a batch that the model gets right, with the budget of a level.

        Raises:
            UserError: The memory does not suffice for a batch.
        """
        if not ATTACKS[entry.name].minimises:
            return self._attack(batch, entry, level)
        ids, attacked = self._latest.get(entry.name, ((), None))
        if attacked is None or ids != batch.ids:
            attacked = self._attack(batch, entry, level=0)
            self._latest[entry.name] = batch.ids, attacked
        return attacked

    def _attack(self, batch: CleanBatch, entry: AttackEntry, level: int) -> Attacked:
        right, method = np.flatnonzero(batch.right).tolist(), ATTACKS[entry.name]
        clean = Attacked(
            _channels_last(batch.images),
            method.steps(entry.settings),
            [""] * len(batch.ids),
            np.zeros(len(batch.ids), bool),
        )
        budget = entry.budgets[max(level, 1) - 1]
        if not right or not (budget or method.minimises):
            return clean
        seed = seed_of(self.seed, entry.name, level, list(batch.ids))
        asked = AttackAtBudget(entry.norm, budget, entry.settings, seed)
        with memory_for(f"{entry.name} attacks {len(right)} images", len(batch.ids)):
            return self.attack_right(clean, batch.part(right), right, entry.name, asked)

    def attack_right(
        self, clean: Attacked, batch: CleanBatch, indices: Sequence[int], name: str, asked: AttackAtBudget
    ) -> Attacked:
        """Attack images that the model gets right, and put them among the others.

        Args:
            clean: All images before the attack.
            batch: The images to attack.
            indices: Their indices among all.
            name: Name of the attack.
            asked: Its budget, settings and seed.
        """
        zero = clean.zero_gradients.copy()
        zero[indices] = without_gradients(self.victim, batch, name)
        if zero[indices].all():
            reason = f"the {ATTACKS[name].loss} has no gradient at any of the {len(indices)} images of its batch"
            return replace(clean, zero_gradients=zero, failure=SampleError(f"{name}: {reason}"))
        moved, components = run(self.victim, batch, name, asked)
        images, parts = clean.images.copy(), list(clean.components)
        images[indices] = _channels_last(moved)
        for index, component in zip(indices, components, strict=True):
            parts[index] = component
        return replace(clean, images=images, components=parts, zero_gradients=zero)

    def _values(self, images: Sequence[Stored]) -> torch.Tensor:
        grid = np.stack([on_grid(image) for image in images]).transpose(0, 3, 1, 2)
        return torch.from_numpy(np.ascontiguousarray(grid, np.float32)).to(self.device) / ONE


def run(victim: Victim, batch: CleanBatch, name: str, asked: AttackAtBudget) -> tuple[torch.Tensor, Sequence[str]]:
    """Return the images of an attack (N, 3, H, W), and the part of AutoAttack that succeeded on each.

    An image for which the attack returns NaN or infinite values, as without a gradient, is returned unchanged.
    """
    module, _, function = ATTACKS[name].function.partition(".")
    attack = getattr(import_module(f"{__package__}.{module}"), function)
    with seeded(asked.seed, batch.images.device):
        result = attack(victim, batch.images, batch.labels, asked)
    moved, components = result if isinstance(result, tuple) else (result, [""] * len(batch.ids))
    finite = moved.isfinite().flatten(1).all(dim=1).view(-1, 1, 1, 1)
    return torch.where(finite, moved, batch.images).detach(), components


def without_gradients(victim: Victim, batch: CleanBatch, name: str) -> NDArray[np.bool_]:
    """Return for each image whether the loss of an attack has no gradient there, or one with NaN; shape (N,)."""
    method = ATTACKS[name]
    if method.loss is None:
        return np.zeros(len(batch.ids), bool)
    gradients = loss_gradients(victim, batch.images, batch.labels, method.loss == "margin").flatten(1)
    usable = gradients.isfinite().all(dim=1) & gradients.ne(0).any(dim=1)
    return np.asarray(~usable.cpu().numpy(), np.bool_)


def _channels_last(images: torch.Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(images.permute(0, 2, 3, 1).cpu().numpy(), np.float32)
