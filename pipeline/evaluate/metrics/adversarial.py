"""Adversarial robustness: AR, WCAR, robust accuracy, transfer of attacks, and smallest budgets of images.

``right`` says of each image whether its predicted class is its label. R is the set of images that are predicted
correctly before an attack.

Sources: Tang et al., arXiv 2109.05211 (RobustART: AR, WCAR); Liu et al., arXiv 2302.14301 (ARES-Bench: robust
accuracy).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.evaluate.metrics.arrays import Figures, Flags, Floats, float_if_scalar


def robust_by_image(right_before: ArrayLike, right_after: ArrayLike) -> Flags:
    """Return whether the images of R are still right after each attack, (images of R,) or (images of R, attacks).

    Args:
        right_before: Whether each image is right before the attacks, bool of shape (images,).
        right_after: Whether it is right after each attack, bool of shape (images,) or (images, attacks).

    Raises:
        ValueError: If a shape or dtype is wrong, or R is empty.
    """
    before, after = _flags(right_before, "right_before", 1), _flags(right_after, "right_after", 2)
    _check_same_images(before, after)
    if not before.any():
        raise ValueError(f"none of {len(before)} images is right before the attacks: pass at least one that is")
    return after[before]


def adversarial_robustness(right_before: ArrayLike, right_after: ArrayLike) -> Figures:
    """Return the AR of each attack: the fraction of R that is still right after it. See ``robust_by_image``."""
    return float_if_scalar(robust_by_image(right_before, right_after).mean(axis=0))


def worst_case_adversarial_robustness(right_before: ArrayLike, right_after: ArrayLike) -> float:
    """Return the WCAR: the fraction of R that is still right after every attack, given as (images, attacks)."""
    robust = robust_by_image(right_before, right_after)
    if robust.ndim != 2 or not robust.shape[1]:
        raise ValueError(f"invalid right_after of shape {np.shape(right_after)}: pass (images, attacks)")
    return float(robust.all(axis=1).mean())


def robust_accuracy(right_before: ArrayLike, right_after: ArrayLike) -> Figures:
    """Return the robust accuracy under each attack: the fraction of all images that are right before and after it.

    Arguments: see ``robust_by_image``. R may be empty: the robust accuracy is then 0.
    """
    before, after = _flags(right_before, "right_before", 1), _flags(right_after, "right_after", 2)
    _check_same_images(before, after)
    return float_if_scalar((after.T & before).mean(axis=-1))


def attack_success_rate(source_right: ArrayLike, right_before: ArrayLike, right_after: ArrayLike) -> Figures:
    """Return the attack success rate of transferred attacks.

    It is the fraction that a target model gets wrong after the attack on a source model, of the images that both get
    right before it.

    Args:
        source_right: Whether the source model gets each image right before the attack, bool of shape (images,).
        right_before: The same for the target model.
        right_after: Whether the target model gets it right after each attack, as in ``robust_by_image``.

    Raises:
        ValueError: If a shape or dtype is wrong, or no image is right for both models before the attacks.
    """
    source, target = _flags(source_right, "source_right", 1), _flags(right_before, "right_before", 1)
    _check_same_images(source, target)
    return 1 - adversarial_robustness(source & target, right_after)


# Smallest budgets


def smallest_budgets(right_before: ArrayLike, found: ArrayLike, smallest: ArrayLike) -> Floats:
    """Return the smallest budget of each image at which the model is wrong.

    Args:
        right_before: Whether each image is right without an attack, bool of shape (images,).
        found: Whether an attack succeeded, bool of shape (images,).
        smallest: Norm of the smallest perturbation found, of shape (images,). Ignored where there is none.

    Returns:
        Budgets of shape (images,): 0 for images that are wrong without an attack, infinite if no attack succeeded.

    Raises:
        ValueError: If a shape or dtype is wrong, or a budget is negative or not finite.
    """
    before, hits = _flags(right_before, "right_before", 1), _flags(found, "found", 1)
    budgets = np.asarray(smallest, np.float64)
    _check_same_images(before, hits)
    _check_same_images(before, budgets)
    used = budgets[before & hits]
    if not (np.isfinite(used) & (used >= 0)).all():
        raise ValueError("invalid smallest budgets: use finite numbers, 0 or larger, where an attack succeeded")
    return np.where(before, np.where(hits, budgets, np.inf), 0.0)


def survived_by_image(smallest: ArrayLike, budgets: ArrayLike) -> Flags:
    """Return whether each image is still right at each budget, bool of shape (images, budgets).

    It is if its smallest budget is larger. The mean over images is the accuracy at each budget.

    Args:
        smallest: Smallest budgets of shape (images,), as ``smallest_budgets`` returns them.
        budgets: Budgets of shape (budgets,).

    Raises:
        ValueError: If a shape is wrong, or a value is negative or NaN.
    """
    return np.asarray(_budgets(smallest)[:, None] > _budgets(budgets))


def median_budget(smallest: ArrayLike) -> float:
    """Return the median of the smallest budgets of R, (images of R,); infinite if no attack succeeded on half of it."""
    return float(np.median(_budgets(smallest)))


def area_under_accuracy(smallest: ArrayLike, largest: float) -> float:
    """Return the area under the curve of accuracy against budget, from 0 to a largest budget.

    The accuracy is a step function of the budget, so the area is the mean of the smallest budgets, none of them counted
    as larger than ``largest``, a finite number above 0. It has the unit of budgets.
    """
    if not (np.isfinite(largest) and largest > 0):
        raise ValueError(f"invalid largest budget {largest}: use a finite number above 0")
    return float(np.minimum(_budgets(smallest), largest).mean())


def _flags(values: ArrayLike, name: str, most_axes: int) -> Flags:
    """Return values as a bool array. Raise ValueError if they are not, or have no or too many axes."""
    array = np.asarray(values)
    if array.dtype != np.bool_ or not 1 <= array.ndim <= most_axes or not len(array):
        shape = "(images,)" if most_axes == 1 else "(images,) or (images, attacks)"
        raise ValueError(f"invalid {name} of shape {array.shape} and type {array.dtype}: pass bool of shape {shape}")
    return array


def _check_same_images(first: NDArray[np.generic], second: NDArray[np.generic]) -> None:
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} images: pass values of the same images")


def _budgets(values: ArrayLike) -> Floats:
    """Return budgets as an array. Raise ValueError if a value is negative or NaN, or there is none."""
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not array.size or not (array >= 0).all():
        raise ValueError(f"invalid budgets of shape {array.shape}: pass a row of numbers, 0 or larger")
    return array
