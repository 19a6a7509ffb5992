"""Attacks of torchattacks that follow a momentum: MIM, DIM, TIM, SI-NI and VMI."""

from __future__ import annotations

from typing import Any

import torch

from pipeline.attack.task import AttackTask
from pipeline.attack.victim import Victim


def mim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images after steps along the sign of a momentum of normalised gradients."""
    made: dict[str, Any] = {"alpha": task.step(), **_momentum(task)}
    if not task.settings["random_start"]:
        return run("MIFGSM", victim, images, labels, task, made)
    return run("DIFGSM", victim, images, labels, task, {**made, "diversity_prob": 0.0, "random_start": True})


def dim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images as ``mim``, with gradients at copies that are resized and padded at random."""
    return run("DIFGSM", victim, images, labels, task, _diverse(task))


def tim(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images as ``dim``, with gradients smoothed by a Gaussian."""
    smoothed = {"len_kernel": int(task.settings["kernel"]), "nsig": int(task.settings["sigma"])}
    return run("TIFGSM", victim, images, labels, task, {**_diverse(task), **smoothed})


def si_ni(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images as ``mim``, with gradients ahead of the momentum, summed over darker copies."""
    made = {"alpha": task.settings["step"], **_momentum(task), "m": int(task.settings["copies"])}
    return run("SINIFGSM", victim, images, labels, task, made)


def vmi(victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask) -> torch.Tensor:
    """Return images as ``mim``, with gradients corrected by their variance among random neighbours."""
    made = {"N": int(task.settings["neighbours"]), "beta": task.settings["reach"]}
    return run("VMIFGSM", victim, images, labels, task, {"alpha": task.settings["step"], **_momentum(task), **made})


def _momentum(task: AttackTask) -> dict[str, Any]:
    return {"steps": int(task.settings["steps"]), "decay": task.settings["decay"]}


def _diverse(task: AttackTask) -> dict[str, Any]:
    settings = task.settings
    return {
        **_momentum(task),
        "alpha": settings["step"],
        "resize_rate": settings["resize"],
        "diversity_prob": settings["probability"],
        "random_start": bool(settings["random_start"]),
    }


def run(
    name: str, victim: Victim, images: torch.Tensor, labels: torch.Tensor, task: AttackTask, made: dict[str, Any]
) -> torch.Tensor:
    """Return the images of an attack of torchattacks with these settings.

    An image without gradients becomes NaN.
    """
    import torchattacks

    attack = getattr(torchattacks, name)(victim, eps=task.budget, **made)
    attack.device = images.device
    attacked: torch.Tensor = attack.forward(images, labels)
    return attacked.detach()
