"""Attacks of Foolbox and torchattacks; those of AutoAttack are in auto.py. ``ATTACKS`` has their facts and settings."""

from typing import Any

import torch

from pipeline.attack.victim import AttackAtBudget, Victim

_PGD = {"linf": "LinfPGD", "l2": "L2PGD", "l1": "L1PGD"}


def fgsm(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images moved by the budget along the sign of the gradient."""
    return _of_foolbox("LinfFastGradientAttack", {"random_start": False}, victim, images, labels, epsilon=asked.budget)


def pgd(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images after projected gradient descent from a random start in the ball."""
    made = {"abs_stepsize": asked.step(), "steps": int(asked.settings["steps"]), "random_start": True}
    return _of_foolbox(_PGD[asked.norm], made, victim, images, labels, epsilon=asked.budget)


def ddn(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images with the smallest L2 perturbation that is found by decoupling direction and norm."""
    made = {"steps": int(asked.settings["steps"]), "gamma": asked.settings["gamma"]}
    return _of_foolbox("DDNAttack", made, victim, images, labels)


def carlini_wagner(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images with the smallest L2 perturbation that is found by optimisation."""
    made = {
        "binary_search_steps": int(asked.settings["searches"]),
        "steps": int(asked.settings["steps"]),
        "stepsize": asked.settings["step"],
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


def mim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images after steps along the sign of a momentum of normalised gradients."""
    made: dict[str, Any] = {"alpha": asked.step(), **_momentum(asked)}
    if not asked.settings["random_start"]:
        return of_torchattacks("MIFGSM", victim, images, labels, asked, made)
    return of_torchattacks(
        "DIFGSM", victim, images, labels, asked, {**made, "diversity_prob": 0.0, "random_start": True}
    )


def dim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images as ``mim``, with gradients at copies that are resized and padded at random."""
    return of_torchattacks("DIFGSM", victim, images, labels, asked, _diverse(asked))


def tim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images as ``dim``, with gradients smoothed by a Gaussian."""
    smoothed = {"len_kernel": int(asked.settings["kernel"]), "nsig": int(asked.settings["sigma"])}
    return of_torchattacks("TIFGSM", victim, images, labels, asked, {**_diverse(asked), **smoothed})


def si_ni(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images as ``mim``, with gradients ahead of the momentum, summed over darker copies."""
    made = {"alpha": asked.settings["step"], **_momentum(asked), "m": int(asked.settings["copies"])}
    return of_torchattacks("SINIFGSM", victim, images, labels, asked, made)


def vmi(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images as ``mim``, with gradients corrected by their variance among random neighbours."""
    made = {"N": int(asked.settings["neighbours"]), "beta": asked.settings["reach"]}
    return of_torchattacks(
        "VMIFGSM", victim, images, labels, asked, {"alpha": asked.settings["step"], **_momentum(asked), **made}
    )


def _momentum(asked: AttackAtBudget) -> dict[str, Any]:
    return {"steps": int(asked.settings["steps"]), "decay": asked.settings["decay"]}


def _diverse(asked: AttackAtBudget) -> dict[str, Any]:
    settings = asked.settings
    return {
        **_momentum(asked),
        "alpha": settings["step"],
        "resize_rate": settings["resize"],
        "diversity_prob": settings["probability"],
        "random_start": bool(settings["random_start"]),
    }


def of_torchattacks(
    name: str, victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget, made: dict[str, Any]
) -> torch.Tensor:
    """Return the images of an attack of torchattacks with these settings.

    An image without gradients becomes NaN.
    """
    import torchattacks

    attack = getattr(torchattacks, name)(victim, eps=asked.budget, **made)
    attack.device = images.device
    attacked: torch.Tensor = attack.forward(images, labels)
    return attacked.detach()
