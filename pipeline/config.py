"""TOML files read into validated tables; errors name the file and the field."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from pipeline.errors import UserError

_ENDLESS_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
"""A dotted key of a hundred parts."""


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
            raise ValueError(f"{value!r} is unknown; allowed: {', '.join(allowed)}")
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
        faults = "; ".join(f"{_field(fault['loc'])}: {fault['msg']}" for fault in error.errors())
        raise UserError(f"{where} is not valid: {faults}") from error
    except (RecursionError, ValueError):
        raise UserError(f"{where} is not valid: tables are nested too deeply, or a number is too long") from None


def _field(location: tuple[str | int, ...]) -> str:
    """Return a field as ``table.field``; for encoders, pydantic inserts the encoder's name between the two."""
    named = (location[0], *location[2:]) if location[:1] == ("encoder",) else location
    return ".".join(map(str, named)) or "recipe"
