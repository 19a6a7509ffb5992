"""Attacks of Foolbox and torchattacks; those of AutoAttack are in auto.py. ``ATTACKS`` has their facts and settings."""

from __future__ import annotations

from typing import Any

import torch

from pipeline.attack.victim import AttackAtBudget, Victim

_PGD = {"linf": "LinfPGD", "l2": "L2PGD", "l1": "L1PGD"}


def fgsm(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images moved by the budget along the sign of the gradient."""
    return _of_foolbox("LinfFastGradientAttack", {"random_start": False}, victim, images, labels, epsilon=task.budget)


def pgd(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images after projected gradient descent from a random start in the ball."""
    made = {"abs_stepsize": task.step(), "steps": int(task.settings["steps"]), "random_start": True}
    return _of_foolbox(_PGD[task.norm], made, victim, images, labels, epsilon=task.budget)


def ddn(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images with the smallest L2 perturbation that is found by decoupling direction and norm."""
    made = {"steps": int(task.settings["steps"]), "gamma": task.settings["gamma"]}
    return _of_foolbox("DDNAttack", made, victim, images, labels)


def carlini_wagner(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images with the smallest L2 perturbation that is found by optimisation."""
    made = {
        "binary_search_steps": int(task.settings["searches"]),
        "steps": int(task.settings["steps"]),
        "stepsize": task.settings["step"],
    }
    return _of_foolbox("L2CarliniWagnerAttack", made, victim, images, labels)


def _of_foolbox(
    name: str, made: dict[str, Any], victim: Victim, images: torch.Tensor, labels: torch.Tensor, **limit: float
) -> torch.Tensor:
    import foolbox

    model = foolbox.PyTorchModel(victim, bounds=(0, 1), device=images.device)
    attacked: torch.Tensor = getattr(foolbox.attacks, name)(**made).run(
        model, images, foolbox.criteria.Misclassification(labels), **limit
    )
    return attacked


def mim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images after steps along the sign of a momentum of normalised gradients."""
    made: dict[str, Any] = {"alpha": task.step(), **_momentum(task)}
    if not task.settings["random_start"]:
        return of_torchattacks("MIFGSM", victim, images, labels, task, made)
    return of_torchattacks(
        "DIFGSM", victim, images, labels, task, {**made, "diversity_prob": 0.0, "random_start": True}
    )


def dim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images as ``mim``, with gradients at copies that are resized and padded at random."""
    return of_torchattacks("DIFGSM", victim, images, labels, task, _diverse(task))


def tim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images as ``dim``, with gradients smoothed by a Gaussian."""
    smoothed = {"len_kernel": int(task.settings["kernel"]), "nsig": int(task.settings["sigma"])}
    return of_torchattacks("TIFGSM", victim, images, labels, task, {**_diverse(task), **smoothed})


def si_ni(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images as ``mim``, with gradients ahead of the momentum, summed over darker copies."""
    made = {"alpha": task.settings["step"], **_momentum(task), "m": int(task.settings["copies"])}
    return of_torchattacks("SINIFGSM", victim, images, labels, task, made)


def vmi(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget) -> torch.Tensor:
    """Return images as ``mim``, with gradients corrected by their variance among random neighbours."""
    made = {"N": int(task.settings["neighbours"]), "beta": task.settings["reach"]}
    return of_torchattacks(
        "VMIFGSM", victim, images, labels, task, {"alpha": task.settings["step"], **_momentum(task), **made}
    )


def _momentum(task: AttackAtBudget) -> dict[str, Any]:
    return {"steps": int(task.settings["steps"]), "decay": task.settings["decay"]}


def _diverse(task: AttackAtBudget) -> dict[str, Any]:
    settings = task.settings
    return {
        **_momentum(task),
        "alpha": settings["step"],
        "resize_rate": settings["resize"],
        "diversity_prob": settings["probability"],
        "random_start": bool(settings["random_start"]),
    }


def of_torchattacks(
    name: str, victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackAtBudget, made: dict[str, Any]
) -> torch.Tensor:
    """Return the images of an attack of torchattacks with these settings.

    An image without gradients becomes NaN.
    """
    import torchattacks

    attack = getattr(torchattacks, name)(victim, eps=task.budget, **made)
    attack.device = images.device
    attacked: torch.Tensor = attack.forward(images, labels)
    return attacked.detach()
