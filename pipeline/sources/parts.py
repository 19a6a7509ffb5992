"""Parts of data sets: the classes or styles that a protocol trains on, and those that it holds out."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from corruptions.registry import unknown
from pipeline.config import StrictTable
from pipeline.errors import UserError
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.schema import Role, Task

Part = Literal["seen", "held_out"]
"""A part of a data set: what the protocol trains on, and what it tests on."""

ROLES: dict[Part, Role] = {"seen": "clean", "held_out": "shift"}
"""Part -> what its images are to a report: the gap is the drop from clean images."""

STYLE = "style:"
"""Start of a protocol that holds out one style, which follows."""

PROTOCOLS = ("subclass", "rendition")
"""Protocols without a parameter."""

DEFAULTS = ("field", "test")
"""Values that mean the same as no value."""

_WORDS = re.compile(r"[^a-z0-9.]+")


def _check_protocol(protocol: str) -> str:
    style = protocol.removeprefix(STYLE) if protocol.startswith(STYLE) else ""
    if not style and protocol not in PROTOCOLS:
        raise ValueError(unknown("protocol", protocol, allowed=(f"{STYLE}NAME", *PROTOCOLS)))
    return protocol


class PartOptions(StrictTable):
    """Options of ``[source]`` that select a part of a data set. None is the default of the source.

    Attributes:
        hold_out: Number of fine classes of each coarse class to hold out.
        protocol: What is held out: ``style:NAME``, ``subclass`` or ``rendition``.
        matching: How images are found that a protocol holds out: by the fields of their names, or by searching for a
            text in their paths, as the published program does.
        part: Part to use.
        split: Images to use.
    """

    hold_out: Annotated[int, Field(ge=1, le=3)] | None = None
    protocol: Annotated[str, AfterValidator(_check_protocol)] | None = None
    matching: Literal["field", "substring"] | None = None
    part: Part | None = None
    split: Literal["test", "train"] | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that have a value, by name."""
        values = {name: getattr(self, name) for name in PartOptions.model_fields}
        return {name: value for name, value in values.items() if value is not None}

    def task(self, kind: str, labels: LabelSpace | None, classes: Sequence[str], folders: Sequence[str]) -> Task | None:
        """Return the task of a part; None if the options select none, or the number of classes is unknown.

        Args:
            kind: Kind of the source.
            labels: What the labels count.
            classes: Class names of the user in label order; empty for those of the source.
            folders: What each folder of an image id is; empty for a folder that reports do not show.
        """
        if self.part is None or labels is None or labels.classes < 2:
            return None
        words = (kind, *(str(value) for value in self.given().values() if value not in DEFAULTS))
        names = tuple(classes) or labels.names
        return Task(
            name="-".join(_WORDS.sub("-", word.lower()) for word in words),
            outputs=labels.classes,
            outputs_are=str(labels),
            role=ROLES[self.part],
            classes=names,
            folders=tuple(folders),
        )


WHOLE = PartOptions()
"""The options that select no part."""


def require_both(kind: str, **options: object) -> None:
    """Raise UserError if options of a source kind have no value."""
    if missing := [name for name, value in options.items() if value is None]:
        wanted = " and ".join(f"source.{name}" for name in missing)
        raise UserError(f"the source kind {kind} needs {wanted}: give them with --set, for example {_EXAMPLES[kind]}")


_EXAMPLES = {
    "cifar-100-subclass": "--set source.hold_out=1 --set source.part=held_out",
    "icons-50": "--set source.protocol=style:microsoft --set source.part=held_out",
}
