"""Attack recipes: which attacks, at which budgets, with which settings, on how many images."""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any

from pydantic import Field

from corruptions.registry import unknown
from pipeline.config import StrictTable, one_of, read_toml, validated
from pipeline.errors import UserError
from pipeline.recipes.attacks import AttackEntry, Norm, parse_budget, parse_number, rising
from pipeline.recipes.tables import MAX_SHARD_SIZE
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.text import shown
from pipeline.transforms.adversarial import ATTACKS, COUNTS, MAX_BUDGETS, SHARES
from pipeline.transforms.seeds import SEED_LIMIT

_SHIPPED = resources.files(__package__).joinpath("shipped")

Number = str | int | float
"""A number, or a fraction as text: ``"8/255"``."""

AttackName = Annotated[str, one_of(ATTACKS)]


class AttackRecipe(StrictTable):
    """The content of a recipe's TOML file.

    Attributes:
        name: Name of the data set that it makes; letters, digits and hyphens.
        title: One line about it.
        attacks: The attacks.
        budgets: Norm -> budgets of the attacks with this norm.
        settings: Attack -> settings that differ from the published ones in ``pipeline.transforms.adversarial``.
        sample: Number of images that are drawn; 0 for all.
        sample_seed: Seed of the draw.
        seed: Seed of the attacks.
        batch: Number of images that are attacked together.
        shard_size: Number of images per shard.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str = ""
    attacks: Annotated[tuple[AttackName, ...], Field(min_length=1)]
    budgets: Mapping[Norm, tuple[Number, ...]]
    settings: Mapping[AttackName, Mapping[str, Number]] = {}
    sample: Annotated[int, Field(ge=0)] = 0
    sample_seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT)] = 0
    seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT)] = 0
    batch: Annotated[int, Field(ge=1)] = 32
    shard_size: Annotated[int, Field(ge=1, le=MAX_SHARD_SIZE)] = 128

    def entries(self, only: Sequence[str] | None = None) -> tuple[AttackEntry, ...]:
        """Return the attacks with their budgets and all of their settings, in the order of the family.

        Args:
            only: Names of the attacks to return. None for all.

        Raises:
            UserError: A name, budget or setting is invalid, or attacks have different numbers of budgets.
        """
        for name in only or ():
            if name not in self.attacks:
                raise UserError(f"{self.name}: {unknown('attack', name, allowed=self.attacks)}")
        chosen = [name for name in ATTACKS if name in (self.attacks if only is None else only)]
        if not chosen:
            raise UserError(f"no attack of {self.name} is chosen: give some of {', '.join(self.attacks)}")
        entries = tuple(self._entry(name) for name in chosen)
        if len({len(entry.budgets) for entry in entries}) != 1:
            counts = ", ".join(f"{entry.name} {len(entry.budgets)}" for entry in entries)
            raise UserError(f"all attacks of {self.name} need the same number of budgets, but there are: {counts}")
        return entries

    def _entry(self, name: str) -> AttackEntry:
        method = ATTACKS[name]
        budgets = rising(parse_budget(text, method.norm) for text in self.budgets.get(method.norm, ()))
        if not 1 <= len(budgets) <= MAX_BUDGETS:
            raise UserError(f"{name} has {len(budgets)} budgets of the norm {method.norm}; allowed: 1 to {MAX_BUDGETS}")
        settings = {**method.settings, **_numbers(name, self.settings.get(name, {}))}
        return AttackEntry(name=name, norm=method.norm, budgets=budgets, settings=settings)


def named(names: Sequence[str], budgets: Sequence[str]) -> AttackRecipe:
    """Return the recipe of attacks that are named one by one, with the same budgets and published settings.

    Raises:
        UserError: A name is unknown, there are no budgets, or the attacks have different norms.
    """
    for name in names or [""]:
        if name not in ATTACKS:
            message = unknown("attack or attack recipe", name, attacks=ATTACKS, recipes=shipped())
            raise UserError(f"{message}; or use the path of a .toml file")
    norms = dict.fromkeys(ATTACKS[name].norm for name in names)
    if len(norms) > 1:
        raise UserError(
            f"the attacks {', '.join(names)} have budgets of different norms ({', '.join(norms)}): give attacks of "
            "one norm, or the path of an attack recipe"
        )
    if not budgets:
        raise UserError(f"the attacks {', '.join(names)} need budgets: give them with --budgets, e.g. 1/255,4/255")
    content = {"name": "adversarial", "attacks": tuple(names), "budgets": {next(iter(norms)): tuple(budgets)}}
    return validated(AttackRecipe, content, "--attacks")


def check_name(name: str) -> None:
    """Raise UserError if a name is not that of an attack."""
    if name not in ATTACKS:
        raise UserError(f"{unknown('attack', name, allowed=ATTACKS)}; give one attack")


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped attack recipes."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _SHIPPED.iterdir() if file.name.endswith(".toml")))


def is_recipe(text: str) -> bool:
    """Return whether a text names an attack recipe, rather than attacks."""
    return text in shipped() or text.endswith(".toml")


def load(name: str) -> AttackRecipe:
    """Load a shipped attack recipe by name, or one of the user by path. Raise UserError if it is invalid."""
    return validated(AttackRecipe, _content(name), f"attack recipe {name}")


def _content(name: str) -> dict[str, Any]:
    """Return the content of a recipe, merged with that of the recipe that it extends."""
    if name in shipped():
        content = read_toml(_SHIPPED.joinpath(f"{name}.toml").read_bytes(), f"attack recipe {name}")
    else:
        path = local_path(name)
        try:
            text = LocalStore(str(path.parent)).read(path.name, limit=SMALL_FILE)
        except OSError as error:
            raise UserError(f"cannot read the attack recipe {path}: {error.strerror}") from error
        content = read_toml(text, str(path))
    if "extends" not in content:
        return content
    base = content.pop("extends")
    if base not in shipped():
        raise UserError(f"{name} is not valid: extends: {unknown('recipe', base, allowed=shipped())}")
    return _merged(_content(base), content)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with these changes; tables inside of them are merged, too."""
    merged = dict(base)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _numbers(name: str, settings: Mapping[str, Number]) -> dict[str, int | float]:
    """Return the settings of an attack as numbers. Raise UserError if one is unknown or out of its range."""
    published = ATTACKS[name].settings
    found: dict[str, int | float] = {}
    for setting, text in settings.items():
        if setting not in published:
            raise UserError(f"{name}: {unknown('setting', setting, allowed=published)}")
        try:
            number = text if isinstance(text, int) else parse_number(text)
        except (ValueError, ZeroDivisionError):
            number = -1
        if setting in COUNTS:
            valid, allowed = number >= 1 and number == int(number), "whole number of at least 1"
        elif setting in SHARES:
            valid, allowed = 0 <= number <= 1, "number from 0 to 1"
        else:
            valid, allowed = number >= 0, "number of at least 0"
        if not valid:
            raise UserError(f"invalid setting {setting} = {shown(str(text))} of {name}: use a {allowed}")
        found[setting] = number
    return found
