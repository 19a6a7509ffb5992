"""The table ``[attack]`` of a data set of adversarial images: how it was made, and what its levels mean."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field

from pipeline import config
from pipeline.config import StrictTable
from pipeline.errors import UserError
from pipeline.text import shown
from pipeline.transforms.adversarial import Norm as Norm  # noqa: PLC0414  # exported from here, too

MAX_ZERO_GRADIENTS = 0.01
"""Largest share of attacked images without a gradient about which nothing is said."""


class AttackedModel(StrictTable):
    """``[attack.model]``: the model that was attacked, and how it gets an image.

    Attributes:
        name: Display name in reports.
        spec: Factory, file or library model that it was loaded from.
        weights: File with its state dict. Empty for the model's own weights.
        digest: SHA-256 of its files or weights, as in ``evaluation.toml``.
        code: SHA-256 of its code. Empty for model files.
        size: Side that images are resized to, in pixels. 0 keeps their size.
        mean: Channel means for pixel values 0..1.
        std: Channel standard deviations for pixel values 0..1.
    """

    name: str
    spec: str
    weights: str = ""
    digest: str
    code: str = ""
    size: Annotated[int, Field(ge=0)] = 0
    mean: tuple[float, float, float]
    std: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]


class CleanTable(StrictTable):
    """``[attack.clean]``: the data set whose images were attacked, and which of them.

    Attributes:
        name: Name of the data set.
        manifest_sha256: SHA-256 of its manifest.
        sample: Number of images that were drawn; 0 for all.
        sample_seed: Seed of the draw.
        ids: SHA-256 of the list of ids that selected the images; empty without a list.
    """

    name: str
    manifest_sha256: str
    sample: Annotated[int, Field(ge=0)] = 0
    sample_seed: Annotated[int, Field(ge=0)] = 0
    ids: str = ""


class AttackEntry(StrictTable):
    """``[[attack.attacks]]``: one attack, which is a transform of the data set.

    Attributes:
        name: Name of the attack and of the transform.
        norm: Norm of its budgets.
        budgets: Largest norm of a perturbation at level 1, 2, 3 ..., rising, for pixel values 0..1.
        settings: Settings of the attack, by name.
    """

    name: str
    norm: Norm
    budgets: Annotated[tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=1)]
    settings: Mapping[str, int | float] = {}

    def is_start_of(self, other: "AttackEntry") -> bool:
        """Return whether another entry differs only by larger budgets."""
        same = (self.norm, self.settings) == (other.norm, other.settings)
        return same and self.budgets == other.budgets[: len(self.budgets)]


class AttackTable(StrictTable):
    """``[attack]`` of ``recipe.toml`` and ``evaluation.toml``.

    Attributes:
        recipe: Name of the attack recipe; "adversarial" where the attacks were named one by one.
        expected: All attacks of the attack recipe. ``attacks`` may have only some of them.
        batch: Number of images that were attacked together.
        device: Name of the device that computed the attacks.
        nondeterministic: Operators of the model whose gradients may differ between runs on this device.
        zero_gradients: Share of the attacked images at which the loss has no gradient. None in ``recipe.toml``.
        model: The model that was attacked.
        clean: The images that were attacked.
        attacks: The attacks, in the order of the conditions.
    """

    recipe: str
    expected: tuple[str, ...]
    batch: Annotated[int, Field(ge=1)]
    device: str
    nondeterministic: tuple[str, ...] = ()
    zero_gradients: float | None = None
    model: AttackedModel
    clean: CleanTable
    attacks: Annotated[tuple[AttackEntry, ...], Field(min_length=1)]

    def entry(self, name: str) -> AttackEntry:
        """Return the attack with this name. Raises KeyError if the data set does not have it."""
        return {attack.name: attack for attack in self.attacks}[name]

    def identity(self, name: str, level: int) -> str:
        """Return everything besides images and seed that decides the bytes of an attack at a level, as JSON."""
        entry = self.entry(name)
        content = {
            "batch": self.batch,
            "device": self.device,
            "model": self.model.model_dump(mode="json", exclude={"name", "spec", "weights"}),
            "attack": [entry.norm, entry.budgets[level - 1], dict(sorted(entry.settings.items()))],
        }
        return json.dumps(content, sort_keys=True)


def parse_number(text: str | float) -> float:
    """Return a number or a fraction, for example ``8/255``. Raises ValueError if it is neither, or not finite."""
    numerator, slash, denominator = str(text).partition("/")
    number = float(numerator) / (float(denominator) if slash else 1.0)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not finite")
    return number


def parse_budget(text: str | float, norm: Norm) -> float:
    """Return a budget for pixel values 0..1.

    Args:
        text: A number or a fraction, for example ``8/255``.
        norm: Norm of the budget.

    Raises:
        UserError: It is not a number of at least 0, or an L-inf budget above 1.
    """
    try:
        budget = parse_number(text)
    except (ValueError, ZeroDivisionError):
        budget = math.nan
    if not budget >= 0:
        raise UserError(f"invalid budget {shown(str(text))}: use a number of at least 0, for example 8/255 or 0.03")
    if norm == "linf" and budget > 1:
        raise UserError(
            f"invalid L-inf budget {shown(str(text))}: pixel values are 0..1, so at most 1 is possible; for "
            f"{budget:g} of 255 levels write {budget:g}/255"
        )
    return budget


def rising(budgets: Iterable[float]) -> tuple[float, ...]:
    """Return budgets in rising order, each once."""
    return tuple(sorted(set(budgets)))


def differences(existing: AttackTable | None, requested: AttackTable | None) -> list[str]:
    """Return why data sets with these tables are not the same one, except for added attacks and larger budgets."""
    if existing is None or requested is None:
        return [] if existing is requested else ["only one of both has adversarial images"]
    free = {"recipe", "expected", "attacks"}
    old, new = (config.flat(table.model_dump(mode="json", exclude=free)) for table in (existing, requested))
    found = [f"attack.{each}" for each in config.differences(old, new)]
    entries = {entry.name: entry for entry in requested.attacks}
    for entry in existing.attacks:
        other = entries.get(entry.name)
        if other is None:
            found.append(f"it has {entry.name}, which was not requested")
        elif not entry.is_start_of(other):
            found.append(f"{entry.name} has {_listed(entry)}, but {_listed(other)} were requested")
    return found


def budget_text(norm: Norm, budget: float) -> str:
    """Return a budget as text: L∞ budgets in levels of 255, such as ``4/255``."""
    return f"{budget * 255:g}/255" if norm == "linf" else f"{budget:g}"


def _listed(entry: AttackEntry) -> str:
    """Return the budgets and the settings of an attack as text."""
    budgets = ", ".join(budget_text(entry.norm, budget) for budget in entry.budgets)
    settings = ", ".join(f"{name} = {value}" for name, value in entry.settings.items())
    return f"the budgets {budgets}" + (f" and the settings {settings}" if settings else "")
