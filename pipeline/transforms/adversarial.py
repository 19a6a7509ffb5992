"""The family of adversarial images: attacks on a model, each at rising budgets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline.errors import UserError
from pipeline.transforms import imagenet_s
from pipeline.transforms.family import Condition, Family, Listing, Render, Rendering

Norm = Literal["linf", "l2", "l1"]
"""Norm of a perturbation of the whole image, for pixel values 0..1: the largest value, or over all values."""

Settings = Mapping[str, int | float]

GRADIENT_STEPS: Settings = {"steps": 20, "relative_step": 3 / 40, "step": 0.0}
"""Steps of 3/40 of the budget. A ``step`` above 0 replaces them, and does not depend on the budget."""

MOMENTUM: Settings = {"decay": 1.0, "random_start": 0}

SEARCHES: Settings = {"searches": 5, "steps": 100, "step": 0.001}

TRANSFER_STEPS: Settings = {"steps": 20, "step": 1 / 255, "decay": 1.0}

DIM: Settings = {**TRANSFER_STEPS, "resize": 0.85, "probability": 0.7, "random_start": 1}

FAB: Settings = {"steps": 100, "alpha_max": 0.1, "eta": 1.05, "beta": 0.9, "targets": 9}

SQUARE: Settings = {"queries": 5000, "p_init": 0.8}

AUTO: Settings = {"steps": 100, "rho": 0.75, "targets": 9, "alpha_max": 0.1, "eta": 1.05, "beta": 0.9, **SQUARE}

COUNTS = ("steps", "targets", "queries", "searches", "copies", "neighbours", "kernel", "sigma")
"""Settings that are whole numbers of at least 1."""

SHARES = ("rho", "resize", "probability", "p_init", "random_start")
"""Settings from 0 to 1."""


@dataclass(frozen=True)
class Attack:
    """An attack.

    Attributes:
        title: What it is.
        norm: Norm of its budgets.
        library: Library that computes it.
        function: Module of ``pipeline.attack`` and function that run it, for example "methods.pgd".
        settings: Its settings as published, by name.
        loss: The loss whose gradient it follows; None for an attack without gradients.
        minimises: Whether it looks for the smallest perturbation itself, whatever the budget.
        classes: Smallest number of classes that it can attack.
    """

    title: str
    norm: Norm
    library: Literal["foolbox", "torchattacks"]
    function: str
    settings: Settings
    loss: Literal["cross entropy", "margin"] | None = "cross entropy"
    minimises: bool = False
    classes: int = 2

    def steps(self, settings: Settings) -> int:
        """Return the number of steps, or of queries of an attack without gradients."""
        return int(settings.get("steps", settings.get("queries", 1)))


ATTACKS: Mapping[str, Attack] = {
    "fgsm": Attack("Fast gradient sign method, L-inf", "linf", "foolbox", "methods.fgsm", {}),
    "pgd_linf": Attack("Projected gradient descent, L-inf", "linf", "foolbox", "methods.pgd", GRADIENT_STEPS),
    "pgd_l2": Attack("Projected gradient descent, L2", "l2", "foolbox", "methods.pgd", GRADIENT_STEPS),
    "pgd_l1": Attack("Projected gradient descent, L1", "l1", "foolbox", "methods.pgd", GRADIENT_STEPS),
    "mim": Attack(
        "Momentum iterative method, L-inf", "linf", "torchattacks", "methods.mim", {**GRADIENT_STEPS, **MOMENTUM}
    ),
    "ddn_l2": Attack(
        "Decoupled direction and norm, L2", "l2", "foolbox", "methods.ddn", {"steps": 10, "gamma": 0.05}, minimises=True
    ),
    "cw_l2": Attack(
        "Carlini and Wagner, L2", "l2", "foolbox", "methods.carlini_wagner", SEARCHES, loss="margin", minimises=True
    ),
    "autoattack_linf": Attack(
        "AutoAttack (standard), L-inf", "linf", "torchattacks", "auto.composed", AUTO, loss="margin", classes=4
    ),
    "autoattack_l2": Attack(
        "AutoAttack (standard), L2", "l2", "torchattacks", "auto.composed", AUTO, loss="margin", classes=4
    ),
    "dim": Attack("Diverse inputs, L-inf, for transfer", "linf", "torchattacks", "methods.dim", DIM),
    "tim": Attack(
        "Translation-invariant gradients, L-inf, for transfer",
        "linf",
        "torchattacks",
        "methods.tim",
        {**DIM, "kernel": 15, "sigma": 3},
    ),
    "si_ni": Attack(
        "Scale-invariant Nesterov momentum, L-inf, for transfer",
        "linf",
        "torchattacks",
        "methods.si_ni",
        {**TRANSFER_STEPS, "copies": 5},
    ),
    "vmi": Attack(
        "Variance-tuned momentum, L-inf, for transfer",
        "linf",
        "torchattacks",
        "methods.vmi",
        {**TRANSFER_STEPS, "neighbours": 20, "reach": 1.5},
    ),
    "fab_linf": Attack(
        "Fast adaptive boundary (targeted), L-inf",
        "linf",
        "torchattacks",
        "auto.fab",
        FAB,
        loss="margin",
        minimises=True,
    ),
    "fab_l2": Attack(
        "Fast adaptive boundary (targeted), L2", "l2", "torchattacks", "auto.fab", FAB, loss="margin", minimises=True
    ),
    "square_linf": Attack(
        "Square (queries only, no gradient), L-inf", "linf", "torchattacks", "auto.square", SQUARE, loss=None
    ),
    "square_l2": Attack(
        "Square (queries only, no gradient), L2", "l2", "torchattacks", "auto.square", SQUARE, loss=None
    ),
}
"""Attack -> what it is, in the order of shards and reports."""

MAX_BUDGETS = 20
"""Largest number of budgets of an attack."""

VERSION = 2
"""Version of all attacks."""


def _refuse(condition: Condition, rendering: Rendering) -> Render:
    raise UserError(
        f"{condition.transform} needs a model, so build cannot make it: use robustshards attack with a clean data set"
    )


def _listing() -> Listing:
    facts = {name: {"version": VERSION, "title": attack.title} for name, attack in ATTACKS.items()}
    rows = tuple((name, attack.title) for name, attack in ATTACKS.items())
    return Listing(("attack", "what it is"), rows, facts, "made by robustshards attack")


FAMILY = Family(
    name="adversarial",
    title="Adversarial images: attacks on a model, at rising budgets",
    names=tuple(ATTACKS),
    version=lambda name: VERSION,
    render=_refuse,
    levels=tuple(range(1, MAX_BUDGETS + 1)),
    citation=imagenet_s.CITATION,
    listing=_listing,
)
