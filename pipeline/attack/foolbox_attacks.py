"""Attacks of Foolbox: FGSM, projected gradient descent, DDN, and that of Carlini and Wagner."""

from __future__ import annotations

from typing import Any

import torch

from pipeline.attack.task import AttackTask
from pipeline.attack.victim import Victim

_PGD = {"linf": "LinfPGD", "l2": "L2PGD", "l1": "L1PGD"}


def fgsm(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images moved by the budget along the sign of the gradient."""
    return _run("LinfFastGradientAttack", {"random_start": False}, victim, images, labels, epsilon=task.budget)


def pgd(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images after projected gradient descent from a random start in the ball."""
    made = {"abs_stepsize": task.step(), "steps": int(task.settings["steps"]), "random_start": True}
    return _run(_PGD[task.norm], made, victim, images, labels, epsilon=task.budget)


def ddn(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images with the smallest L2 perturbation that is found by decoupling direction and norm."""
    made = {"steps": int(task.settings["steps"]), "gamma": task.settings["gamma"]}
    return _run("DDNAttack", made, victim, images, labels)


def carlini_wagner(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images with the smallest L2 perturbation that is found by optimisation."""
    made = {
        "binary_search_steps": int(task.settings["searches"]),
        "steps": int(task.settings["steps"]),
        "stepsize": task.settings["step"],
    }
    return _run("L2CarliniWagnerAttack", made, victim, images, labels)


def _run(
    name: str, made: dict[str, Any], victim: Victim, images: torch.Tensor, labels: torch.Tensor, **limit: float
) -> torch.Tensor:
    import foolbox

    model = foolbox.PyTorchModel(victim, bounds=(0, 1), device=images.device)
    attacked: torch.Tensor = getattr(foolbox.attacks, name)(**made).run(
        model, images, foolbox.criteria.Misclassification(labels), **limit
    )
    return attacked
