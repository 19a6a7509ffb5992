"""AutoAttack, composed from the parts of torchattacks with the published settings, and two of its parts alone."""

from collections.abc import Mapping
from typing import Any

import torch

from pipeline.attack.victim import AttackAtBudget, Victim, predicted

_NORMS = {"linf": "Linf", "l2": "L2"}

PARTS = ("apgd_ce", "apgd_targeted", "fab_targeted", "square")
"""Parts of AutoAttack in their order. Each attacks only the images that still stand."""


def parts(victim: Victim, asked: AttackAtBudget) -> Mapping[str, Any]:
    """Return the parts of AutoAttack, as attacks of torchattacks, in their order."""
    import torchattacks

    settings, common = asked.settings, _common(asked)
    ascent = {"steps": int(settings["steps"]), "rho": settings["rho"], **common}
    targets = min(int(settings["targets"]), victim.classes - 1) + 1
    return {
        "apgd_ce": torchattacks.APGD(victim, loss="ce", **ascent),
        "apgd_targeted": torchattacks.APGDT(victim, n_classes=targets, **ascent),
        "fab_targeted": _fab(victim, asked, asked.budget),
        "square": _square(victim, asked),
    }


def composed(
    victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget
) -> tuple[torch.Tensor, list[str]]:
    """Return images after all parts of AutoAttack, and the part that succeeded on each; empty where none did."""
    attacked, found = images.clone(), [""] * len(images)
    for name, part in parts(victim, asked).items():
        standing = [index for index, component in enumerate(found) if not component]
        if not standing:
            break
        part.device = images.device
        moved = part.forward(images[standing], labels[standing]).detach()
        with torch.no_grad():
            wrong = predicted(victim(moved)) != labels[standing]
        for index, image, succeeded in zip(standing, moved, wrong.tolist(), strict=True):
            if succeeded:
                attacked[index], found[index] = image, name
    return attacked, found


def square(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images after the Square attack, which needs no gradients."""
    attack = _square(victim, asked)
    attack.device = images.device
    attacked: torch.Tensor = attack.forward(images, labels)
    return attacked.detach()


SQUARE_L2 = ("square_l2", "autoattack_l2")
"""Attacks with the Square attack in L2."""


def tiles_l2(height: int, width: int) -> bool:
    """Return whether the Square attack in L2 can start: squares of a fifth of the height must tile the image."""
    side = height // 5
    if not side:
        return False
    start = (height - 5 * side) // 2
    return all(side == 1 or start + length // side * side <= length for length in (height, width))


def fab(victim: Victim, images: torch.Tensor, labels: torch.Tensor, asked: AttackAtBudget) -> torch.Tensor:
    """Return images with the smallest perturbation that targeted FAB finds, over all of its targets."""
    attack = _fab(victim, asked, budget=torch.inf)
    attack.device = images.device
    nearest, distances = images.clone(), torch.full((len(images),), torch.inf, device=images.device)
    for target in range(2, attack.n_target_classes + 2):
        attack.target_class = target
        with torch.no_grad():
            moved = attack.attack_single_run_targeted(images, labels)
            difference = (moved - images).flatten(1)
            norms = difference.abs().amax(dim=1) if asked.norm == "linf" else difference.norm(dim=1)
            nearer = (predicted(victim(moved)) != labels) & (norms < distances)
        nearest[nearer], distances[nearer] = moved[nearer], norms[nearer]
    return nearest


def _fab(victim: Victim, asked: AttackAtBudget, budget: float) -> Any:
    import torchattacks

    settings = asked.settings
    targets = min(int(settings["targets"]), victim.classes - 1) + 1
    made = {name: settings[name] for name in ("alpha_max", "eta", "beta")}
    steps = int(settings["steps"])
    common = {**_common(asked), "eps": budget}
    return torchattacks.FAB(victim, steps=steps, multi_targeted=True, n_classes=targets, **made, **common)


def _square(victim: Victim, asked: AttackAtBudget) -> Any:
    import torchattacks

    made = {"n_queries": int(asked.settings["queries"]), "p_init": asked.settings["p_init"]}
    return torchattacks.Square(victim, loss="margin", resc_schedule=False, **made, **_common(asked))


def _common(asked: AttackAtBudget) -> dict[str, Any]:
    return {"norm": _NORMS[asked.norm], "eps": asked.budget, "seed": asked.seed}
