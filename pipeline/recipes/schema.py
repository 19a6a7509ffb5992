"""The schema of recipes: TOML files that describe a data set to build. Their tables are in the module beside it."""

from collections.abc import Mapping
from typing import Annotated, Any

import tomli_w
from pydantic import Field, model_validator

from corruptions.catalogue import DETECTION, PROFILES
from corruptions.preparation import fixed_size
from pipeline.config import StrictTable, one_of, validated
from pipeline.errors import UserError
from pipeline.images.encoders import AnyEncoder
from pipeline.images.files import Own
from pipeline.recipes.attacks import AttackTable
from pipeline.recipes.levels import shown_levels, some_levels
from pipeline.recipes.tables import BankTable, PrepareTable, ShardsTable, SourceTable, TransformsTable
from pipeline.software import DEVICE, device_name, versions
from pipeline.sources.kinds import KINDS
from pipeline.tasks.labels import LabelSpace, Numbering
from pipeline.tasks.library import load
from pipeline.tasks.schema import Task
from pipeline.text import shown
from pipeline.transforms.family import HUNDREDTHS, BankNeeds, Condition, Draws, Family, Pair
from pipeline.transforms.registry import family_named
from pipeline.transforms.seeds import SEED_LIMIT, sample_seed


class Recipe(StrictTable):
    """A recipe. Equal recipes and equal sources give equal bytes."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str = ""
    profile: Annotated[str, one_of((*PROFILES, ""))]
    seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT)] = 0
    source: SourceTable
    prepare: PrepareTable
    transforms: TransformsTable
    encoder: AnyEncoder
    shards: ShardsTable
    bank: BankTable | None = None
    """Other photographs and files that transforms need. None for families that need none."""
    software: dict[str, str] = Field(default_factory=dict)
    """Library versions of a build; written by the build."""
    decoders: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the decoders of a build; written by the build."""
    resizers: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the resize operators of a build; written by the build."""
    labels: LabelSpace | None = None
    """What the labels of a build count; written by the build. None if unknown, or built before this was recorded."""
    attack: AttackTable | None = None
    """How adversarial images were made; written by ``attack``. None for every other family."""

    @model_validator(mode="after")
    def _known_transforms(self) -> "Recipe":
        try:
            self.family.select(self.transforms.only)
        except UserError as error:
            raise ValueError(f"transforms.only: {error}") from None
        allowed = self.family.levels
        if not self.transforms.only or not self.transforms.levels:
            raise ValueError("transforms.only and transforms.levels must not be empty")
        if self.profile not in (*self.family.profiles, *([""] if self.attack else [])):
            allowed_profiles = ", ".join(self.family.profiles)
            raise ValueError(
                f"profile: {self.profile!r} is not a profile of {self.family.name}; use {allowed_profiles}"
            )
        known = self.family.names_in(self.profile)
        for name in self.family.select(self.transforms.only):
            if name not in known:
                raise ValueError(
                    f"transforms.only: {name} was not published for the profile {self.profile}; use {', '.join(known)}"
                )
        for level in self.transforms.levels:
            if level not in allowed and not self._is_real(level):
                raise ValueError(f"transforms.levels: {level} is unknown; allowed: {shown_levels(allowed)}")
        if self.transforms.channels == "bgr" and self.profile != DETECTION:
            raise ValueError(f"transforms.channels: 'bgr' needs the profile {DETECTION}, not {self.profile}")
        if self.transforms.motion != "native" and self.profile == DETECTION:
            raise ValueError(f"transforms.motion: the profile {DETECTION} has only native motion blur")
        self._check_filters()
        self._check_frequencies()
        if self.is_mirror and (self.prepare.steps or self.family.sequences or self.encoder.name != Own().name):
            raise ValueError(
                "shards.layout: a mirror keeps the size and name of each image: use prepare.steps = [], encoder.name = "
                f"'own' and a family of single images, or build {self.name} instead"
            )
        if self.encoder.name == Own().name and self.family.sequences:
            raise ValueError(f"encoder.name: own stores single images, but {self.name} makes sequences")
        if not (self.encoder.images or self.family.sequences):
            raise ValueError(f"encoder.name: {self.encoder.name} stores sequences, but {self.name} makes single images")
        return self

    def _is_real(self, level: int) -> bool:
        """Return whether a level is a real severity in hundredths. Raises ValueError where a transform has none."""
        family, last = self.family, self.family.levels[-1]
        if not family.real or not last < level < HUNDREDTHS * last or level % HUNDREDTHS == 0:
            return False
        for name in family.select(self.transforms.only):
            if name not in family.real or self.profile != family.profiles[0]:
                raise ValueError(
                    f"transforms.levels: {name} has no severity {level / HUNDREDTHS} in the profile {self.profile}; "
                    f"{', '.join(family.real)} have real severities in the profile {family.profiles[0]}"
                )
        return True

    def _check_filters(self) -> None:
        """Check shape and levels of a family with filters. Raises ValueError."""
        shapes, pass_all, levels = self.family.shapes, self.family.pass_all, self.transforms.levels
        if shapes and self.shape not in shapes:
            raise ValueError(f"transforms.shape: {shown(self.shape)} is unknown; allowed: {', '.join(shapes)}")
        if pass_all is None:
            return
        size = self._size()
        whole, largest = pass_all(*size, self.shape), max(levels)
        if largest != whole:
            what = f"{whole} is missing" if largest < whole else f"{largest} is too large"
            raise ValueError(
                f"transforms.levels: {what}; the largest level must be {whole}, which leaves images of "
                f"{size[0]} x {size[1]} pixels unchanged (shape {self.shape})"
            )

    def _check_frequencies(self) -> None:
        """Check norm and levels of a family of frequencies. Raises ValueError."""
        if self.family.map_levels and self.transforms.norm is None:
            raise ValueError(f"transforms.norm: {self.family.name} needs it, for example 15.7 for 224 x 224 pixels")
        if self.family.unfit:
            size = self._size()
            for level in self.transforms.levels:
                if reason := self.family.unfit(level, *size):
                    raise ValueError(f"transforms.levels: {reason}")

    def _size(self) -> tuple[int, int]:
        """Return height and width of the prepared images. Raises ValueError if they have several sizes."""
        size = fixed_size(self.prepare.steps)
        if size is None:
            raise ValueError(
                f"prepare.steps: {self.family.name} needs images of one size: end with a step such as center_crop"
            )
        return size

    @property
    def family(self) -> Family:
        """The family of the transforms."""
        return family_named(self.transforms.family)

    @property
    def is_mirror(self) -> bool:
        """Whether each sample is a file of its own, named like its source file."""
        return self.shards.layout is not None

    @property
    def bank_needs(self) -> BankNeeds | None:
        """What transforms of this recipe need besides photographs; None for nothing."""
        needs, table = self.family.bank, self.bank or BankTable()
        if needs is None or not set(needs.transforms) & set(self.family.select(self.transforms.only)):
            return None
        return None if needs.optional and not (table.files or table.text) else needs

    @property
    def device(self) -> str:
        """The device that computes the transforms."""
        return self.transforms.device or "cpu"

    def installed(self) -> dict[str, str]:
        """Return the library versions of this machine, and its device if that decides pixels.

        Raises:
            UserError: A library is not installed, or there is no such device.
        """
        found = versions(self.family.libraries)
        return {**found, DEVICE: device_name(self.device)} if self.family.on_device else found

    @property
    def task(self) -> Task | None:
        """The task of a build of a part of a data set, or of its family; None for other builds."""
        source = self.source
        if self.family.task and self.labels and self.labels.numbering == Numbering.IMAGENET:
            return load(self.family.task).task.of_outputs()
        folders = KINDS[source.kind].folders if source.part else ()
        return source.task(source.kind, self.labels, source.classes, folders)

    @property
    def shape(self) -> str:
        """The shape of the family's filters; empty for families without filters."""
        shapes = self.family.shapes
        return (self.transforms.shape or shapes[0]) if shapes else ""

    @property
    def norm(self) -> float:
        """The norm of a spatial frequency; 0 for families without."""
        return (self.transforms.norm or 0.0) if self.family.map_levels else 0.0

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions in the order of the shards: transforms in published order, increasing levels."""
        names, levels, family = (
            self.family.select(self.transforms.only),
            sorted(set(self.transforms.levels)),
            self.family,
        )
        return tuple(dict.fromkeys(Condition(name, family.level_of(name, level)) for name in names for level in levels))

    def some_conditions(self, most: int) -> list[Condition]:
        """Return the conditions, but of each transform at most ``most`` levels at about equal distances."""
        levels: dict[str, list[int]] = {}
        for name, level in self.conditions():
            levels.setdefault(name, []).append(level)
        return [Condition(name, level) for name, each in levels.items() for level in some_levels(each, most)]

    def more_identity(self, condition: Condition) -> tuple[str, ...]:
        """Return what decides the bytes of a condition besides the other tables: its attack or bank, if it has one."""
        needs = self.bank_needs
        bank = (self.bank.sha256,) if self.bank and needs and condition.transform in needs.transforms else ()
        return (*bank, self.attack.identity(*condition)) if self.attack else bank

    def seed_of(self, source_id: str, condition: Condition) -> int:
        """Return the seed of an output, 0 <= seed < 2**128."""
        name, level = condition
        return sample_seed(self.seed, source_id, name, 0 if self.family.one_draw else level)

    def pair(self, condition: Condition) -> Pair:
        """Return the decoder and the resize operator of a condition."""
        return self.family.pairs.get(condition.transform) or Pair(self.prepare.decoder, self.prepare.resize)

    def draws(self, condition: Condition, source_id: str, height: int, width: int) -> Draws | None:
        """Return what is drawn for an output of a size in pixels, as its ``.json`` records it; None if nothing is.

        Raises:
            ValueError: The transform does not support images of this size.
        """
        if self.family.draws is None:
            return None
        return self.family.draws(condition, self.seed_of(source_id, condition), height, width)

    def used_decoders(self) -> tuple[str, ...]:
        """Return the decoders of all conditions."""
        return tuple(sorted({self.pair(condition).decoder for condition in self.conditions()}))

    def used_resizers(self) -> tuple[str, ...]:
        """Return the resize operators of all conditions."""
        return tuple(sorted({self.pair(condition).resize for condition in self.conditions()}))

    def canonical(self, software: dict[str, str], decoders: dict[str, str], resizers: dict[str, str]) -> "Recipe":
        """Return the recipe with groups expanded and names ordered, with these versions and fingerprints."""
        chosen = {
            "only": self.family.select(self.transforms.only),
            "levels": tuple(sorted(set(self.transforms.levels))),
            "shape": self.shape or None,
            "norm": self.norm or None,
            "device": self.device if self.family.on_device else None,
        }
        written = {"software": software, "decoders": decoders, "resizers": resizers}
        return self.model_copy(update={"transforms": self.transforms.model_copy(update=chosen), **written})

    def changed(self, **tables: Any) -> "Recipe":
        """Return a validated copy with other values.

        ``changed(source={"limit": 3}, seed=1)`` replaces these two fields; None keeps a field.

        Raises:
            UserError: A value is invalid; the message names the field.
        """
        return self._changed(tables, f"recipe {self.name}")

    def _changed(self, tables: Mapping[str, Any], where: str) -> "Recipe":
        content = self.model_dump(mode="json")
        for table, change in tables.items():
            if isinstance(change, dict):
                given = {key: value for key, value in change.items() if value is not None}
                if table == "transforms" and {"map", "levels"} <= set(given):
                    raise UserError(f"{where} is not valid: transforms.map stands for levels: give only one of them")
                # a different encoder starts from its own defaults
                other = table == "encoder" and given.get("name", self.encoder.name) != self.encoder.name
                content[table] = given if other else (content.get(table) or {}) | given
            elif change is not None:
                content[table] = change
        return read_recipe(content, where)

    def to_toml(self) -> str:
        """Return the recipe as TOML, from which an equal recipe can be parsed."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def read_recipe(content: dict[str, Any], where: str) -> Recipe:
    """Return the recipe of a table, in which ``transforms.map`` and ``step`` may stand for the levels of a map.

    Raises:
        UserError: The table is invalid; the message names ``where`` and the field.
    """
    transforms = content.get("transforms")
    if isinstance(transforms, dict) and {"map", "step"} & set(transforms):
        rest = {name: value for name, value in transforms.items() if name not in ("map", "step")}
        largest, step = transforms.get("map"), transforms.get("step", 1)
        try:
            family = family_named(str(rest.get("family")))
            if family.map_levels is None:
                raise ValueError(f"{family.name} has no maps of frequencies")
            if type(largest) is not int or type(step) is not int:
                raise ValueError(f"use an integer for map, and for step if it is given, not {largest!r} and {step!r}")
            content = {**content, "transforms": {**rest, "levels": list(family.map_levels(largest, step))}}
        except (UserError, ValueError) as error:
            raise UserError(f"{where} is not valid: transforms.map: {error}") from None
    return validated(Recipe, content, where)
