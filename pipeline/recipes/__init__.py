"""Recipes: which data set to build, as a TOML file. Each file of this folder ships with the package."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, model_validator

from corruptions.catalogue import PROFILE_SIDES
from pipeline.decoders import DECODERS
from pipeline.encoders import AnyEncoder
from pipeline.errors import UserError
from pipeline.families import FAMILIES, Family, Step
from pipeline.resizers import OPERATORS, STEPS
from pipeline.seeds import SEED_LIMIT
from pipeline.sources import AUTO, KINDS
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.system_noise import Pair
from pipeline.tables import StrictTable, one_of, read_toml, validated

MAX_SHARD_SIZE = 10_000
"""Images per shard at most: a worker holds the manifest rows of all the shards that it is writing."""

CLEAN = "-clean"
"""Ending of the name of a clean companion."""


class SourceTable(StrictTable):
    """``[source]``: the layout of the clean images ("auto": what lies there tells); ``limit``: the first so many."""

    kind: Annotated[str, one_of((AUTO, *KINDS))] = AUTO
    limit: Annotated[int, Field(ge=0)] = 0


class PrepareTable(StrictTable):
    """``[prepare]``: decoder, resize operator, and steps as [name, value]."""

    decoder: Annotated[str, one_of(DECODERS)] = "pillow"
    resize: Annotated[str, one_of(OPERATORS)] = "pillow-bilinear"
    steps: tuple[tuple[Annotated[str, one_of(STEPS)], Annotated[float, Field(gt=0, le=8192)]], ...]


class TransformsTable(StrictTable):
    """``[transforms]``: a family, the names or groups taken from it, and their levels (severities)."""

    family: Annotated[str, one_of(FAMILIES)]
    only: tuple[str, ...]
    levels: tuple[int, ...]
    motion: Literal["native", "imagemagick"] = "native"


class ShardsTable(StrictTable):
    """``[shards]``: images per shard."""

    size: Annotated[int, Field(ge=1, le=MAX_SHARD_SIZE)] = 1000


class Recipe(StrictTable):
    """A data set to build. Equal recipes on equal sources give equal bytes."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str = ""
    profile: Annotated[str, one_of(PROFILE_SIDES)]
    seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT)] = 0
    source: SourceTable
    prepare: PrepareTable
    transforms: TransformsTable
    encoder: AnyEncoder
    shards: ShardsTable
    software: dict[str, str] = Field(default_factory=dict)
    """Written by a build: the library versions that its bytes come from."""
    decoders: dict[str, str] = Field(default_factory=dict)
    """Written by a build: the fingerprints of the decoders that it uses."""

    @model_validator(mode="after")
    def _known_transforms(self) -> Recipe:
        try:
            self.family.select(self.transforms.only)
        except UserError as error:
            raise ValueError(f"transforms.only: {error}") from None
        allowed = self.family.levels
        if not self.transforms.only or not self.transforms.levels:
            raise ValueError("transforms.only and transforms.levels must each name at least one")
        for level in self.transforms.levels:
            if level not in allowed:
                raise ValueError(f"transforms.levels: {level} is unknown; allowed: {', '.join(map(str, allowed))}")
        if not (self.encoder.images or self.family.sequences):
            raise ValueError(f"encoder.name: {self.encoder.name} holds sequences, and {self.name} makes single images")
        return self

    @property
    def family(self) -> Family:
        """The family of the transforms."""
        return FAMILIES[self.transforms.family]

    def steps(self) -> tuple[Step, ...]:
        """What is built, in the order of the shards: published order of the transforms, rising levels."""
        names, levels, family = (
            self.family.select(self.transforms.only),
            sorted(set(self.transforms.levels)),
            self.family,
        )
        return tuple(dict.fromkeys(Step(name, family.level_of(name, level)) for name in names for level in levels))

    def pair(self, step: Step) -> Pair:
        """The decoder and the resize operator through which the outputs of a step come."""
        return self.family.pairs.get(step.transform) or Pair(self.prepare.decoder, self.prepare.resize)

    def used_decoders(self) -> tuple[str, ...]:
        """The decoders of all steps."""
        return tuple(sorted({self.pair(step).decoder for step in self.steps()}))

    def canonical(self, software: dict[str, str], decoders: dict[str, str]) -> Recipe:
        """As built here: names in published order instead of groups, levels rising, these versions and decoders."""
        chosen = {
            "only": self.family.select(self.transforms.only),
            "levels": tuple(sorted(set(self.transforms.levels))),
        }
        transforms = self.transforms.model_copy(update=chosen)
        return self.model_copy(update={"transforms": transforms, "software": software, "decoders": decoders})

    def changed(self, **tables: Any) -> Recipe:
        """A validated copy; ``changed(source={"limit": 3}, seed=1)`` replaces single fields, None leaves as it is.

        Raises UserError that names the field.
        """
        return self._changed(tables, f"recipe {self.name}")

    def _changed(self, tables: Mapping[str, Any], where: str) -> Recipe:
        content = self.model_dump(mode="json")
        for table, change in tables.items():
            if isinstance(change, dict):
                given = {key: value for key, value in change.items() if value is not None}
                # another encoder starts from its own defaults, not from the settings of this one
                other = table == "encoder" and given.get("name", self.encoder.name) != self.encoder.name
                content[table] = given if other else content.get(table, {}) | given
            elif change is not None:
                content[table] = change
        return validated(Recipe, content, where)

    def to_toml(self) -> str:
        """The recipe as a TOML file that loads to an equal one."""
        return tomli_w.dumps(self.model_dump(mode="json"))


def editions() -> tuple[str, ...]:
    """Names of the shipped recipes that have a file of their own."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def shipped() -> tuple[str, ...]:
    """Names of the recipes that come with the package: each edition, and its clean companion."""
    return tuple(sorted(name + ending for name in editions() for ending in ("", CLEAN)))


def load(name: str) -> Recipe:
    """A shipped recipe by name, or the user's own by its path. Raises UserError that names the file and the field."""
    edition = name.removesuffix(CLEAN)
    if edition in editions():
        recipe = parse(resources.files(__name__).joinpath(f"{edition}.toml").read_bytes(), f"recipe {edition}")
        return recipe if edition == name else clean_companion(recipe)
    path = local_path(name)
    if path.suffix != ".toml":
        raise UserError(
            f"no recipe is called {name!r}; shipped: {', '.join(shipped())}; or give the path of a .toml file"
        )
    try:
        content = LocalStore(str(path.parent)).read(path.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the recipe {path}: {error.strerror}") from error
    return parse(content, str(path))


def parse(text: bytes | str, where: str) -> Recipe:
    """A recipe from the text of a TOML file; one that ``extends`` a shipped recipe states only what differs from it.

    Raises UserError that names ``where`` and the field.
    """
    content = read_toml(text, where)
    if "extends" not in content:
        return validated(Recipe, content, where)
    base = content.pop("extends")
    if base not in editions():
        raise UserError(
            f"{where} is not valid: extends: {base!r} is no shipped recipe; allowed: {', '.join(editions())}"
        )
    return load(base)._changed(content, where)


def clean_companion(recipe: Recipe) -> Recipe:
    """The same images prepared and stored in the same way, with nothing done to them: for clean error."""
    return recipe.changed(
        name=recipe.name + CLEAN,
        title=f"The prepared clean images of {recipe.name}, for clean error",
        transforms={"family": "none", "only": ["none"], "levels": [0]},
    )


def parse_fields(texts: Iterable[str]) -> dict[str, Any]:
    """``table.field=value`` texts as the changes that :meth:`Recipe.changed` takes; a value is TOML, or a bare word.

    Raises UserError for a text of another form.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        table, dot, field = path.strip().partition(".")
        if not equals or not table or (dot and not field):
            raise UserError(f"{text!r} sets no field: give table.field=value, as in encoder.quality=90")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value.strip()
        except (ValueError, RecursionError):
            raise UserError(f"{path.strip()}: the value is nested too deeply, or a number is too long") from None
        if dot:
            changes.setdefault(table, {})[field] = parsed
        else:
            changes[table] = parsed
    return changes
