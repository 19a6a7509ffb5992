"""The smallest budget at which an attack succeeds, for each image of a batch."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.attack.attacker import Attacker, CleanBatch, run, without_gradients
from pipeline.attack.libraries import memory_for, seed_of
from pipeline.attack.victim import AttackAtBudget, predicted
from pipeline.evaluate.results.budgets import SearchTable
from pipeline.recipes.attacks import Norm
from pipeline.transforms.adversarial import ATTACKS

ROUNDING = 2.0**-21
"""Norms that differ from a budget by at most this part of it, or by this, were made with the whole budget: the rest is
float32 rounding of pixel values. Images with equal budgets are attacked together."""


@dataclass(frozen=True)
class Smallest:
    """The result of a search for one image.

    Attributes:
        right_before: Whether the model is right about the clean image.
        smallest: Norm of the smallest perturbation that was found; 0 where the model is wrong anyway, infinite where
            none was found.
        survived: Largest budget at which the attack failed; 0 if there is none.
        error: Why the image could not be attacked. None if it could.
    """

    right_before: bool
    smallest: float = np.inf
    survived: float = 0.0
    error: str | None = None

    @property
    def found(self) -> bool:
        """Whether the attack succeeded at some budget."""
        return bool(np.isfinite(self.smallest))


@dataclass
class _Bracket:
    """What is known about an image: its smallest success, and the budgets at which the attack failed."""

    smallest: float
    failed: list[float]

    def middle(self) -> float:
        """Return the middle between the smallest success and the largest failure below it."""
        return (self.smallest + max((each for each in self.failed if each < self.smallest), default=0.0)) / 2


def search(attacker: Attacker, batch: CleanBatch, table: SearchTable) -> list[Smallest]:
    """Search the smallest budget of each image of a batch, and return the results in the order of the images.

    Raises:
        UserError: The memory does not suffice for a batch.
    """
    right = np.flatnonzero(batch.right).tolist()
    found = [Smallest(bool(is_right), np.inf if is_right else 0.0) for is_right in batch.right]
    if not right:
        return found
    attacked, method = batch.part(right), ATTACKS[table.attack]
    with memory_for(f"{table.attack} attacks {len(right)} images", len(batch.ids)):
        if without_gradients(attacker.victim, attacked, table.attack).all():
            error = f"{table.attack}: the {method.loss} has no gradient at any of the {len(right)} images of its batch"
            results = [Smallest(True, error=error)] * len(right)
        elif method.minimises:
            norms = _successes(attacker, attacked, table, table.largest, 0)
            results = [Smallest(True, norm if norm <= table.largest else np.inf) for norm in norms]
        else:
            results = _bisected(attacker, attacked, table)
    for index, result in zip(right, results, strict=True):
        found[index] = result
    return found


def _bisected(attacker: Attacker, batch: CleanBatch, table: SearchTable) -> list[Smallest]:
    """Try the largest budget, then halve the bracket of each image where the attack succeeded."""
    brackets = [_Bracket(np.inf, []) for _ in batch.ids]
    asked: dict[int, float] = dict.fromkeys(range(len(brackets)), table.largest)
    for step in range(table.steps + 1):
        groups: defaultdict[float, list[int]] = defaultdict(list)
        for index, budget in asked.items():
            groups[budget].append(index)
        for budget, indices in sorted(groups.items()):
            norms = _successes(attacker, batch.part(indices), table, budget, step)
            for index, norm in zip(indices, norms, strict=True):
                if np.isfinite(norm):
                    whole = norm >= budget * (1 - ROUNDING) - ROUNDING  # differs by rounding only
                    brackets[index].smallest = min(budget if whole else norm, brackets[index].smallest)
                else:
                    brackets[index].failed.append(budget)
        asked = {index: each.middle() for index, each in enumerate(brackets) if np.isfinite(each.smallest)}
    return [Smallest(True, each.smallest, max(each.failed, default=0.0)) for each in brackets]


def _successes(attacker: Attacker, batch: CleanBatch, table: SearchTable, budget: float, step: int) -> Sequence[float]:
    """Return the norm of the perturbation of each image; infinite where the model is still right."""
    seed = seed_of(attacker.seed, table.attack, "search", step, list(batch.ids))
    asked = AttackAtBudget(table.norm, budget, table.settings, seed)
    moved, _ = run(attacker.victim, batch, table.attack, asked)
    with torch.inference_mode():
        wrong = (predicted(attacker.victim(moved)) != batch.labels).cpu().numpy()
    return np.where(wrong, _norms(moved - batch.images, table.norm), np.inf).tolist()


def _norms(perturbations: torch.Tensor, norm: Norm) -> NDArray[np.float64]:
    """Return the norm of each perturbation (N, 3, H, W), in float64."""
    values = np.abs(perturbations.flatten(1).cpu().numpy().astype(np.float64))
    if norm == "linf":
        return np.asarray(values.max(axis=1), np.float64)
    return np.asarray(values.sum(axis=1) if norm == "l1" else np.sqrt(np.square(values).sum(axis=1)), np.float64)
