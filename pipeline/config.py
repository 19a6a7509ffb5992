"""Tables of TOML files, read with messages that name the file and the field."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from pipeline.errors import UserError

_ENDLESS_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
"""A key of a hundred parts with dots between."""


class StrictTable(BaseModel):
    """A table that takes the fields it names and no others, of the types it names and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Table = TypeVar("Table", bound=BaseModel)


def one_of(allowed: Collection[str]) -> AfterValidator:
    """Return a validator of names that tells what is allowed, as ``allowed`` is when a value is validated."""

    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is unknown; allowed: {', '.join(allowed)}")
        return value

    return AfterValidator(check)


def read_toml(content: bytes | str, where: str) -> dict[str, Any]:
    """Return the content of a TOML file. Raises UserError that names ``where``."""
    try:
        text = content if isinstance(content, str) else content.decode()
        if _ENDLESS_KEY.search(text):  # the parser takes minutes for them
            raise RecursionError
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not valid TOML: it is no UTF-8 text (byte {error.start})") from error
    except RecursionError:
        raise UserError(f"{where} is not valid TOML: its tables and arrays are nested too deeply") from None
    except ValueError:  # what Python's own limit of digits raises
        raise UserError(f"{where} is not valid TOML: one of its numbers has thousands of digits") from None


def validated(model: type[Table], content: dict[str, Any], where: str) -> Table:
    """Return the table that a TOML file's content is. Raises UserError that names ``where`` and the field."""
    try:
        # JSON validation takes TOML's arrays for tuples while staying strict about everything else.
        return model.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        faults = "; ".join(f"{_field(fault['loc'])}: {fault['msg']}" for fault in error.errors())
        raise UserError(f"{where} is not valid: {faults}") from error
    except (RecursionError, ValueError):
        raise UserError(f"{where} is not valid: its tables are nested too deeply, or a number is too long") from None


def _field(place: tuple[str | int, ...]) -> str:
    """``table.field`` as it stands in the file: pydantic names the encoder between the two."""
    named = (place[0], *place[2:]) if place[:1] == ("encoder",) else place
    return ".".join(map(str, named)) or "recipe"
