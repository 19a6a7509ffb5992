"""Tables of accuracies and lists of categories in CSV and JSON files, which are untrusted."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.errors import UserError
from pipeline.storage import SMALL_FILE, find_place
from pipeline.text import shown

MODEL, CLEAN = "model", "clean"
"""Title of the first column of a CSV file, and name of the column of clean images and of the model trained on them."""

MAX_NAMES = 1000
"""Maximum number of rows and of columns of a table."""

Rows = Mapping[str, Mapping[str, float]]
"""Values by row and column."""


def read_table(location: str, fractions: bool = True) -> Rows:
    """Return the values of a table in a CSV or JSON file.

    Args:
        location: Path or URL. A file that ends in ``.json`` holds an object of objects, row -> column -> number; any
            other is CSV with the column ``model`` and one column per set of images.
        fractions: Whether values must be fractions 0..1.

    Returns:
        Values by row and column. All rows have all columns.

    Raises:
        UserError: The file is missing, too large or invalid, has no values, or a value is missing, not a number or
            outside its range.
    """
    text = _text(location)
    cells = _json_cells(text, location) if _is_json(location) else _csv_cells(text, location)
    if not cells or not all(cells.values()):
        raise UserError(f"{location} has no values: write a row per model and a column per set of images")
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    if max(len(cells), len(columns)) > MAX_NAMES:
        raise UserError(f"{location} has {len(cells)} rows and {len(columns)} columns: at most {MAX_NAMES} are allowed")
    return {
        row: {column: _number(by_column.get(column), location, row, column, fractions) for column in columns}
        for row, by_column in cells.items()
    }


def read_categories(location: str) -> Mapping[str, Sequence[str]]:
    """Return the categories in a JSON file.

    Args:
        location: Path or URL of a file with an object, category -> list of corruptions.

    Returns:
        Corruptions by the name of their category.

    Raises:
        UserError: The file is missing, too large or invalid, a category is empty, or a corruption is in two categories.
    """
    content = _json(_text(location), location)
    if not isinstance(content, dict) or not content or not all(map(_is_list_of_names, content.values())):
        raise UserError(
            f'{location} has no categories: write an object of lists of names, for example {{"blurs": ["Blur"]}}'
        )
    names = [name for members in content.values() for name in members]
    if len(names) > MAX_NAMES:
        raise UserError(f"{location} has {len(names)} corruptions: at most {MAX_NAMES} are allowed")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{location} has the corruption {shown(twice)} twice: put it in one category")
    return content


def _is_list_of_names(members: Any) -> bool:
    return isinstance(members, list) and bool(members) and all(isinstance(name, str) and name for name in members)


def _text(location: str) -> str:
    place = find_place(location)
    if place is None:
        raise UserError(f"the file {location} does not exist")
    if place.is_folder or place.is_pattern:
        raise UserError(f"{location} is not a file: give a .csv or .json file")
    try:
        return place.store.read(place.name, limit=SMALL_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{location} is not text: byte {error.start} is not UTF-8") from error


def _is_json(location: str) -> bool:
    return location.lower().endswith(".json")


def _json_cells(text: str, location: str) -> dict[str, dict[str, Any]]:
    content = _json(text, location)
    if not isinstance(content, dict) or not all(isinstance(row, dict) for row in content.values()):
        raise UserError(
            f'{location} is not a table: write an object of objects, for example {{"resnet50": {{"clean": 0.76}}}}'
        )
    return content


def _json(text: str, location: str) -> Any:
    """Return the content of a JSON file without repeated keys, NaN and infinity."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise UserError(f"{location} is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{location} is not valid JSON: {error}") from error


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {shown(next(name for name in names if names.count(name) > 1))} occurs twice")
    return unique


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _csv_cells(text: str, location: str) -> dict[str, dict[str, str]]:
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text), strict=True) if any(line)]
    except csv.Error as error:
        raise UserError(f"{location} is not valid CSV: {error}") from error
    if not lines or lines[0][0] != MODEL:
        first = shown(lines[0][0]) if lines else "nothing"
        raise UserError(f"{location} starts with {first}: title the first column {MODEL!r}, and separate by commas")
    (_, *columns), rows = lines[0], lines[1:]
    for names, what in ((columns, "columns"), ([row[0] for row in rows], "rows")):
        if faults := [name for name in names if not name or names.count(name) > 1]:
            raise UserError(f"{location} has {what} with the same or no name, {shown(faults[0])}: use different names")
    for row in rows:
        if len(row) != len(columns) + 1:
            raise UserError(f"{location}: the row {shown(row[0])} has {len(row)} cells instead of {len(columns) + 1}")
    return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}


def _number(value: Any, location: str, row: str, column: str, fraction: bool) -> float:
    """Return a cell as a number. Raise UserError if it is missing or invalid."""
    where = f"{location}: {shown(row)}, column {shown(column)}"
    if value is None or value == "":
        raise UserError(f"{where} has no value: add it, or leave out the row or the column")
    try:
        number = float(value) if isinstance(value, str | float) or type(value) is int else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where} is {shown(str(value))}: use a finite number")
    if fraction and not 0 <= number <= 1:
        raise UserError(f"{where} is {number}: use fractions 0..1, not percent")
    return number
