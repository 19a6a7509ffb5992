"""TOML files read into validated tables, and strict JSON; errors name the file and the field."""

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from pipeline.errors import UserError
from pipeline.text import SHOWN, shown

_ENDLESS_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
"""A dotted key of a hundred parts."""


_MESSAGES = {"extra_forbidden": "unknown field", "missing": "missing field"}
"""Type of a pydantic error -> message."""


class StrictTable(BaseModel):
    """A TOML table that rejects unknown fields and values of other types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Table = TypeVar("Table", bound=BaseModel)


def one_of(allowed: Collection[str]) -> AfterValidator:
    """Return a validator that accepts only the names in ``allowed``.

    Args:
        allowed: Allowed names. The collection is read at each validation, so it may change later.
    """

    def check(value: str) -> str:
        if value not in allowed:
            from corruptions.registry import unknown  # the package imports the kernels

            raise ValueError(unknown("name", value, allowed=allowed))
        return value

    return AfterValidator(check)


def read_toml(content: bytes | str, where: str) -> dict[str, Any]:
    """Return the parsed content of a TOML file.

    Args:
        content: Text or UTF-8 bytes of the file.
        where: Name of the file for error messages.

    Raises:
        UserError: The content is not valid TOML; the message names ``where``.
    """
    try:
        text = content if isinstance(content, str) else content.decode()
        if _ENDLESS_KEY.search(text):  # the parser would take minutes
            raise RecursionError
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not valid TOML: byte {error.start} is not UTF-8") from error
    except RecursionError:
        raise UserError(f"{where} is not valid TOML: tables and arrays are nested too deeply") from None
    except ValueError:  # raised by Python's limit on the number of digits
        raise UserError(f"{where} is not valid TOML: a number has thousands of digits") from None


def strict_json(content: bytes | str) -> Any:
    """Return the content of JSON. Raise ValueError for other text, repeated names, NaN, infinity, and deep nesting."""

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        table = dict[str, Any]()
        for name, value in pairs:
            if name in table:
                raise ValueError(f"the name {shown(name)} stands twice in an object")
            table[name] = value
        return table

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number of JSON")

    try:
        return json.loads(content, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def validated(model: type[Table], content: dict[str, Any], where: str) -> Table:
    """Return the content of a TOML file as a validated table.

    Args:
        model: Class of the table.
        content: Parsed content of the file.
        where: Name of the file for error messages.

    Raises:
        UserError: The content is invalid; the message names ``where`` and the fields.
    """
    try:
        # In strict mode, only JSON validation accepts arrays as tuples.
        return model.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        faults = "; ".join(map(_described, error.errors()))
        raise UserError(f"{where} is not valid: {faults}") from error
    except (RecursionError, ValueError):
        raise UserError(f"{where} is not valid: tables are nested too deeply, or a number is too long") from None


def _described(fault: ErrorDetails) -> str:
    """Return an error of pydantic with its value; errors of the whole table name their fields themselves."""
    kind, value = fault["type"], fault["input"]
    if kind == "union_tag_invalid":
        text = f"{shown(str(fault['ctx']['tag']))} is unknown; allowed: {fault['ctx']['expected_tags']}"
    else:
        text = _MESSAGES.get(kind) or fault["msg"].removeprefix("Value error, ")
    if text.startswith(("Input should", "String should")):
        text = f"must{text.partition(' should')[2]}"
        if isinstance(value, str | int | float):
            text = f"invalid value {shown(value) if isinstance(value, str) else value}: {text}"
    return f"{_field(fault['loc'])}: {text}" if fault["loc"] else text


def _field(location: tuple[str | int, ...]) -> str:
    """Return a field as ``table.field``; for encoders, pydantic inserts the encoder's name between the two."""
    named = (location[0], *location[2:]) if location[:1] == ("encoder",) else location
    return ".".join(map(str, named))


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of tables by names such as ``model.digest``; values outside of tables keep their names."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        found |= (
            {f"{name}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {name: value}
        )
    return found


def differences(existing: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """Return the differences of flat tables as text. A list can have thousands of class names, so it is shortened."""

    def text(value: Any) -> str:
        shown = "none" if value in (None, "") else str(value)
        return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]} ..."

    return [
        f"{name} is {text(existing.get(name))}, but {text(requested.get(name))} was requested"
        for name in sorted(existing.keys() | requested.keys())
        if existing.get(name) != requested.get(name)
    ]
