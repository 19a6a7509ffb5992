"""What an attack is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.recipes.attacks import Norm


@dataclass(frozen=True)
class AttackTask:
    """An attack at one budget.

    Attributes:
        norm: Norm of the budget.
        budget: Largest norm of a perturbation, for pixel values 0..1.
        settings: Settings of the attack, by name.
        seed: Seed of its random numbers.
    """

    norm: Norm
    budget: float
    settings: Mapping[str, int | float]
    seed: int

    def step(self) -> float:
        """Return the length of a step."""
        return self.settings["step"] or self.settings["relative_step"] * self.budget
