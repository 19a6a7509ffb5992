"""The table of attacks: norm, library and published settings of each, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from pipeline.attack import auto, foolbox_attacks, torch_attacks
from pipeline.attack.task import AttackTask
from pipeline.attack.victim import Victim
from pipeline.recipes.attacks import Norm

Settings = Mapping[str, int | float]

Run = Callable[[Victim, torch.Tensor, torch.Tensor, AttackTask], torch.Tensor]
"""A function of the model, images (N, 3, H, W) with values 0..1, labels and a task that returns attacked images."""

GRADIENT_STEPS: Settings = {"steps": 20, "relative_step": 3 / 40, "step": 0.0}
"""Steps of 3/40 of the budget. A ``step`` above 0 replaces them, and does not depend on the budget."""

TRANSFER_STEPS: Settings = {"steps": 20, "step": 1 / 255, "decay": 1.0}

FAB: Settings = {"steps": 100, "alpha_max": 0.1, "eta": 1.05, "beta": 0.9, "targets": 9}

SQUARE: Settings = {"queries": 5000, "p_init": 0.8}

AUTO: Settings = {"steps": 100, "rho": 0.75, "targets": 9, "alpha_max": 0.1, "eta": 1.05, "beta": 0.9, **SQUARE}


COUNTS = ("steps", "targets", "queries", "searches", "copies", "neighbours", "kernel", "sigma")
"""Settings that are whole numbers of at least 1."""

SHARES = ("rho", "resize", "probability", "p_init", "random_start")
"""Settings from 0 to 1."""


@dataclass(frozen=True)
class Method:
    """An attack.

    Attributes:
        norm: Norm of its budgets.
        library: Library that computes it.
        run: Function that runs it.
        settings: Its settings as published, by name.
        loss: The loss whose gradient it follows; None for an attack without gradients.
        minimises: Whether it looks for the smallest perturbation itself, whatever the budget.
        classes: Smallest number of classes that it can attack.
    """

    norm: Norm
    library: Literal["foolbox", "torchattacks"]
    run: Run
    settings: Settings
    loss: Literal["cross entropy", "margin"] | None = "cross entropy"
    minimises: bool = False
    classes: int = 2

    def steps(self, settings: Settings) -> int:
        """Return the number of steps, or of queries of an attack without gradients."""
        return int(settings.get("steps", settings.get("queries", 1)))


METHODS: Mapping[str, Method] = {
    "fgsm": Method("linf", "foolbox", foolbox_attacks.fgsm, {}),
    "pgd_linf": Method("linf", "foolbox", foolbox_attacks.pgd, GRADIENT_STEPS),
    "pgd_l2": Method("l2", "foolbox", foolbox_attacks.pgd, GRADIENT_STEPS),
    "pgd_l1": Method("l1", "foolbox", foolbox_attacks.pgd, GRADIENT_STEPS),
    "mim": Method("linf", "torchattacks", torch_attacks.mim, {**GRADIENT_STEPS, "decay": 1.0, "random_start": 0}),
    "ddn_l2": Method("l2", "foolbox", foolbox_attacks.ddn, {"steps": 10, "gamma": 0.05}, minimises=True),
    "cw_l2": Method(
        *("l2", "foolbox", foolbox_attacks.carlini_wagner, {"searches": 5, "steps": 100, "step": 0.001}),
        loss="margin",
        minimises=True,
    ),
    "autoattack_linf": Method("linf", "torchattacks", auto.autoattack, AUTO, loss="margin", classes=4),
    "autoattack_l2": Method("l2", "torchattacks", auto.autoattack, AUTO, loss="margin", classes=4),
    "dim": Method(
        *("linf", "torchattacks", torch_attacks.dim),
        {**TRANSFER_STEPS, "resize": 0.85, "probability": 0.7, "random_start": 1},
    ),
    "tim": Method(
        *("linf", "torchattacks", torch_attacks.tim),
        {**TRANSFER_STEPS, "resize": 0.85, "probability": 0.7, "random_start": 1, "kernel": 15, "sigma": 3},
    ),
    "si_ni": Method("linf", "torchattacks", torch_attacks.si_ni, {**TRANSFER_STEPS, "copies": 5}),
    "vmi": Method("linf", "torchattacks", torch_attacks.vmi, {**TRANSFER_STEPS, "neighbours": 20, "reach": 1.5}),
    "fab_linf": Method("linf", "torchattacks", auto.fab, FAB, loss="margin", minimises=True),
    "fab_l2": Method("l2", "torchattacks", auto.fab, FAB, loss="margin", minimises=True),
    "square_linf": Method("linf", "torchattacks", auto.square, SQUARE, loss=None),
    "square_l2": Method("l2", "torchattacks", auto.square, SQUARE, loss=None),
}
"""Attacks by name, in the order of the family."""
