"""The tables of a recipe. Rules that concern several tables are in :mod:`pipeline.recipes.schema`."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from pipeline.config import StrictTable, one_of
from pipeline.images.decoders import DECODERS
from pipeline.images.resizers import OPERATORS, STEPS
from pipeline.recipes.levels import shown_levels, whole_level
from pipeline.sources.kinds import AUTO, KINDS, check_part_options
from pipeline.sources.parts import PartOptions
from pipeline.text import shown
from pipeline.transforms.family import HUNDREDTHS
from pipeline.transforms.registry import FAMILIES, family_named

MAX_SHARD_SIZE = 10_000
"""Maximum number of images per shard. Workers keep the manifest rows of all open shards in memory."""


class SourceTable(PartOptions):
    """``[source]``: the clean images, with the options of :class:`PartOptions`.

    Attributes:
        kind: Layout; "auto" detects it.
        limit: First N images; 0 for all.
        classes: All class names in label order. Empty: the source numbers its classes.
    """

    kind: Annotated[str, one_of((AUTO, *KINDS))] = AUTO
    limit: Annotated[int, Field(ge=0)] = 0
    classes: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @field_validator("classes")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(f"the class {shown(twice[0])} is listed more than once: list each class once")
        return names

    @model_validator(mode="after")
    def _options_of_kind(self) -> "SourceTable":
        check_part_options(self.kind, self)
        return self


class PrepareTable(StrictTable):
    """``[prepare]``: decoder, resize operator, and steps as pairs [name, value]."""

    decoder: Annotated[str, one_of(DECODERS)] = "pillow"
    resize: Annotated[str, one_of(OPERATORS)] = "pillow-bilinear"
    steps: tuple[tuple[Annotated[str, one_of(STEPS)], Annotated[float, Field(gt=0, le=8192)]], ...]


class TransformsTable(StrictTable):
    """``[transforms]``: a family, names or groups of its transforms, and their levels (severities).

    Real severities, such as 1.75, become levels in hundredths. ``shape`` is that of the family's filters; None is the
    default of the family. ``norm`` is that of a spatial frequency. Families without filters or maps ignore both.
    ``device`` computes the transforms of families that use PyTorch: "cpu" (None), or "cuda".
    ``channels`` is the order in which corruptions of the profile "detection" read the channels: "rgb" (None), or "bgr".
    """

    family: Annotated[str, one_of(FAMILIES)]
    only: tuple[str, ...]
    levels: tuple[int, ...]
    motion: Literal["native", "imagemagick"] = "native"
    shape: str | None = None
    channels: Literal["rgb", "bgr"] | None = None
    norm: Annotated[float, Field(gt=0, le=1e6)] | None = None
    device: Literal["cpu", "cuda"] | None = None

    @field_validator("levels", mode="before")
    @classmethod
    def _in_hundredths(cls, levels: Any, info: ValidationInfo) -> Any:
        if not isinstance(levels, list):
            return levels
        family = family_named(info.data["family"]) if "family" in info.data else None
        if family is None or not family.real:
            return tuple(levels)
        for level in levels:
            if type(level) is int and level > family.levels[-1]:  # a mistake, not a level in hundredths
                raise ValueError(f"{level} is unknown; allowed: {shown_levels(family.levels)}, and reals such as 1.5")
        return tuple(map(whole_level, levels))

    @field_serializer("levels")
    def _as_written(self, levels: tuple[int, ...]) -> Any:  # a type would turn integers into floats
        family = family_named(self.family)
        return tuple(each / HUNDREDTHS if family.real and each > family.levels[-1] else each for each in levels)


class BankTable(StrictTable):
    """``[bank]``: other photographs and files, for families whose transforms need them.

    Attributes:
        source: Folder or URL of the photographs. Empty: the source of the data set, for families that allow it.
        kind: Layout of this source; "auto" detects it.
        limit: The first N photographs by id.
        files: Name in the family -> path of a file.
        text: A text that is drawn with one of the files.
        tiles: Number of photographs in the bank; written by the build.
        damaged: Number of photographs that cannot be decoded; written by the build.
        listing: Digest of the listing of the photographs; written by the build.
        digests: Name -> SHA-256 of each file; written by the build.
        sha256: Digest of the bank; written by the build. Empty if nothing was needed.
    """

    source: str = ""
    kind: Annotated[str, one_of((AUTO, *KINDS))] = AUTO
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    files: Mapping[str, str] | None = None
    text: str | None = None
    tiles: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    damaged: Annotated[int, Field(ge=0)] = 0
    listing: str | None = None
    digests: Mapping[str, str] | None = None
    sha256: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""

    @property
    def made_of(self) -> tuple[object, ...]:
        """What the bank is made of: equal values give equal banks."""
        return self.listing, self.digests, self.text


class ShardsTable(StrictTable):
    """``[shards]``: how the samples are stored.

    Attributes:
        size: Images per shard; of a mirror, images whose files are recorded together.
        layout: "mirror" for one file per sample, as ``mirror`` writes. None for tars.
    """

    layout: Literal["mirror"] | None = None
    size: Annotated[int, Field(ge=1, le=MAX_SHARD_SIZE)] = 1000
