"""Settings of commands and of Python functions: name, type, default, range and help of each, once, in a dataclass.

The options of a command, the checks of Python's arguments and the reference pages come from it. These are no models of
pydantic: importing pydantic would make the help a third slower, and it refuses NumPy's integers.
"""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from textwrap import dedent
from typing import Any, Self

from pipeline.errors import ArgumentError, UserError
from pipeline.text import LONGEST_NAME, has_control

REQUIRED: Any = MISSING
"""Default of a setting that must be given."""

IMAGES, TRANSFORMS, CODING, MODEL, PREPROCESSING, EXECUTION, REPORTING = (
    *("Images", "Transforms", "Decoding and encoding", "Model", "Preprocessing", "Execution"),
    "Output and logging",
)
"""Sections of help texts. REPORTING is the last one, which has the options without a section."""


class InvalidSettingError(ArgumentError):
    """An invalid value of a setting. The command line names the option instead of the argument."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"invalid {name} {reason}")
        self.name, self.reason = name, reason


@dataclass(frozen=True)
class Kind:
    """A kind of values.

    Attributes:
        read: Returns a value in the form that the code uses. Accepts that form and text. Raises TypeError or ValueError
            for other values, or UserError with a message of its own.
        allowed: The valid values, for error messages.
        metavar: Placeholder of the value in help texts; empty for flags.
        many: Whether the option can be repeated.
        separator: Separator of several values in one text; the values of a repeated option are joined by it.
    """

    read: Callable[[Any], Any]
    allowed: str = ""
    metavar: str = ""
    many: bool = False
    separator: str = ""

    def checked(self, value: Any, name: str) -> Any:
        """Return a value that was read. Raise UserError if it is invalid; the message calls it ``name``."""
        try:
            return self.read(value)
        except UserError:
            raise
        except (TypeError, ValueError):
            raise InvalidSettingError(name, f"{value!r:.80}: use {self.allowed}") from None


def integer(minimum: int | None = None, maximum: int | None = None, metavar: str = "N") -> Kind:
    """Return the integers of a range. Booleans are not accepted, integers of NumPy are."""

    def read(value: Any) -> int:
        if isinstance(value, bool):
            raise TypeError
        number = int(value) if isinstance(value, str) else operator.index(value)
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            raise ValueError
        return number

    bounds = (
        "" if minimum is None else f" of at least {minimum}" if maximum is None else f" from {minimum} to {maximum}"
    )
    return Kind(read, f"an integer{bounds}", metavar)


def number(minimum: float, maximum: float) -> Kind:
    """Return the numbers of a range."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not minimum <= float(value) <= maximum:
            raise ValueError
        return float(value)

    return Kind(read, f"a number from {minimum:g} to {maximum:g}", "X")


def text(metavar: str) -> Kind:
    """Return any text."""
    return Kind(_text, "text", metavar)


def line(least: int, most: int, metavar: str) -> Kind:
    """Return texts of one line, with a range of lengths."""

    def read(value: Any) -> str:
        if not least <= len(_text(value).strip()) <= len(value) <= most or has_control(value):
            raise ValueError
        return str(value)

    return Kind(read, f"{least} to {most} characters, without control characters or line breaks", metavar)


def location(metavar: str = "FOLDER") -> Kind:
    """Return paths and URLs."""
    return Kind(lambda value: _text(os.fspath(value)), "a path or URL, as str or pathlib.Path", metavar)


def choice(*names: str, metavar: str = "") -> Kind:
    """Return a few names."""

    def read(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return Kind(read, f"{', '.join(names[:-1])} or {names[-1]}", metavar or "|".join(names))


def many(kind: Kind) -> Kind:
    """Return lists of values, whose option is repeated. One value becomes a list of one."""
    return Kind(lambda values: tuple(map(kind.read, as_list(values))), kind.allowed, kind.metavar, many=True)


def words(metavar: str = "NAMES") -> Kind:
    """Return lists of names, also as comma-separated text."""

    def read(value: Any) -> list[str]:
        parts = [word.strip() for each in as_list(value) for word in _text(each).split(",")]
        return [word for word in parts if word]

    return Kind(read, "text, for example 'noise,fog' or ['noise', 'fog']", metavar, separator=",")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if isinstance(value, str) or value not in (False, True):
        raise ValueError
    return bool(value)


FLAG = Kind(_flag, "True or False")

NAME = line(1, LONGEST_NAME, "NAME")
"""Names to display of models and data sets."""


def setting(default: Any, kind: Kind, section: str = "", option: str = "") -> Any:
    """Return a field of a dataclass of settings. Its help text is in the docstring of the class.

    Args:
        default: Value if the setting is not given. REQUIRED if it must be.
        kind: Values that it accepts. None is accepted, too, if it is the default.
        section: Section of the help text.
        option: Names on the command line, separated by spaces, if they differ from the name of the field; ARGUMENT if
            it is not an option there.
    """
    about = {"kind": kind, "section": section, "option": option}
    return field(default=default, kw_only=default is not MISSING, metadata=about)


ARGUMENT = "argument"
"""Value of ``option`` for positional arguments."""


@dataclass(frozen=True)
class Settings:
    """Base of dataclasses of settings, which are read and checked when one is made."""

    def __post_init__(self) -> None:
        """Read every setting. Raise UserError if one is invalid."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                object.__setattr__(self, each.name, each.metadata["kind"].checked(value, each.name))

    @classmethod
    def of(cls, values: Mapping[str, Any], **others: Any) -> Self:
        """Return the settings among values, some of which may be no settings.

        Args:
            values: Values by name, for example the arguments of a function.
            others: Further values, which take precedence.
        """
        return cls(**{each.name: values[each.name] for each in fields(cls) if each.name in values} | others)


def help_texts(model: type[Any]) -> dict[str, str]:
    """Return name -> help text of the settings of a class, and of its bases."""
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        texts |= entries(each.__doc__, "Attributes")
    return texts


def entries(docstring: str | None, section: str) -> dict[str, str]:
    """Return name -> text of a section of a docstring in Google style."""
    texts, name = dict[str, str](), ""
    body = dedent((docstring or "").partition(f"{section}:\n")[2].partition("\n\n")[0])
    for line in filter(None, map(str.rstrip, body.splitlines())):
        if line.startswith(" "):
            texts[name] += f" {line.strip()}"
        else:
            name, _, texts[name] = line.partition(": ")
    return texts


def as_list(values: Any) -> list[Any]:
    """Return the values as a list; a single value, or a string, becomes a list of one."""
    return [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
