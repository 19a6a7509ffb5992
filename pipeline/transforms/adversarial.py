"""The family of adversarial images: attacks on a model, each at rising budgets."""

from __future__ import annotations

from pipeline.errors import UserError
from pipeline.transforms import imagenet_s
from pipeline.transforms.family import Condition, Family, Listing, Render, Rendering

ATTACKS: dict[str, str] = {
    "fgsm": "Fast gradient sign method, L-inf",
    "pgd_linf": "Projected gradient descent, L-inf",
    "pgd_l2": "Projected gradient descent, L2",
    "pgd_l1": "Projected gradient descent, L1",
    "mim": "Momentum iterative method, L-inf",
    "ddn_l2": "Decoupled direction and norm, L2",
    "cw_l2": "Carlini and Wagner, L2",
    "autoattack_linf": "AutoAttack (standard), L-inf",
    "autoattack_l2": "AutoAttack (standard), L2",
    "dim": "Diverse inputs, L-inf, for transfer",
    "tim": "Translation-invariant gradients, L-inf, for transfer",
    "si_ni": "Scale-invariant Nesterov momentum, L-inf, for transfer",
    "vmi": "Variance-tuned momentum, L-inf, for transfer",
    "fab_linf": "Fast adaptive boundary (targeted), L-inf",
    "fab_l2": "Fast adaptive boundary (targeted), L2",
    "square_linf": "Square (queries only, no gradient), L-inf",
    "square_l2": "Square (queries only, no gradient), L2",
}
"""Attack -> what it is, in the order of shards and reports."""

MAX_BUDGETS = 20
"""Largest number of budgets of an attack."""


def _refuse(condition: Condition, rendering: Rendering) -> Render:
    raise UserError(
        f"{condition.transform} needs a model, so build cannot make it: use robustshards attack with a clean data set"
    )


def _listing() -> Listing:
    facts = {name: {"version": 1, "title": title} for name, title in ATTACKS.items()}
    return Listing(("attack", "what it is"), tuple(ATTACKS.items()), facts, "made by robustshards attack")


FAMILY = Family(
    name="adversarial",
    title="Adversarial images: attacks on a model, at rising budgets",
    names=tuple(ATTACKS),
    version=lambda name: 1,
    render=_refuse,
    levels=tuple(range(1, MAX_BUDGETS + 1)),
    citation=imagenet_s.CITATION,
    listing=_listing,
)
