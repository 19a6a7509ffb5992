"""``robustshards list``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.cli.console import print_json, print_line, print_table
from pipeline.cli.options import Printing, command
from pipeline.errors import UserError
from pipeline.settings import ARGUMENT, setting, text

if TYPE_CHECKING:
    from pipeline.transforms.family import Family


@dataclass(frozen=True)
class ListSettings(Printing):
    """A list.

    Attributes:
        word: Show only the rows that contain this text, e.g. blur, or the table of this name, e.g. recipes. Recipes of
            clean images are shown if it contains clean.
    """

    word: str = setting("", text("WORD"), "Rows", ARGUMENT)


@command()
def list_all(settings: ListSettings) -> None:
    """List the recipes, tasks, transforms, levels and profiles."""
    from corruptions.catalogue import PROFILE_SIDES, PROFILES
    from pipeline.recipes import library as recipes
    from pipeline.recipes.levels import shown_levels
    from pipeline.tasks import library as task_library
    from pipeline.transforms.registry import FAMILIES

    word = settings.word.lower()

    def shown(table: str, cells: Iterable[object]) -> bool:
        return word == table.replace("_", "-") or word in " ".join(map(str, cells)).lower()

    titles = {name: recipes.load(name).title for name in recipes.shipped()}
    tasks = {name: task_library.read(name) for name in task_library.shipped()}
    listings = {name: family.listed() for name, family in FAMILIES.items()}
    if settings.as_json:
        facts: dict[str, Any] = {name.replace("-", "_"): listing.facts for name, listing in listings.items()}
        facts |= {
            "recipes": titles,
            "tasks": {name: {"title": task.title, "role": task.role} for name, task in tasks.items()},
            "families": {name: _facts(family) for name, family in FAMILIES.items()},
            "profiles": {name: PROFILE_SIDES.get(name) for name in PROFILES},
        }
        print_json(**{
            table: {name: fact for name, fact in rows.items() if shown(table, (name, fact))}
            for table, rows in facts.items()
        })  # fmt: skip
        return
    shown_titles = [(name, title) for name, title in titles.items() if recipes.CLEAN not in name or "clean" in word]
    families = (
        (name, family.title, len(family.names), ", ".join(family.groups), shown_levels(family.levels))
        for name, family in FAMILIES.items()
    )
    sides = [(name, f"{n} x {n}" if (n := PROFILE_SIDES.get(name)) else "any") for name in PROFILES]
    tables: list[tuple[str, Iterable[str], Iterable[tuple[object, ...]], str]] = [
        ("recipes", ("recipe", "builds"), shown_titles, ""),
        ("tasks", ("task", "role", "images"), [(name, task.role, task.title) for name, task in tasks.items()], ""),
        ("families", ("family", "description", "transforms", "groups", "levels"), families, ""),
        *((name, listing.columns, listing.rows, listing.note) for name, listing in listings.items()),
        ("profiles", ("profile", "image size"), sides, ""),
    ]
    found = [
        (columns, rows, note)
        for table, columns, every, note in tables
        if (rows := [row for row in every if shown(table, row)])
    ]
    if not found:
        raise UserError(f"no row contains {settings.word!r}: give another word, or none to list all")
    for columns, rows, note in found:
        print_table(columns, rows)
        if note:
            print_line(note)
            print_line("")


def _facts(family: Family) -> dict[str, Any]:
    from pipeline.recipes.levels import shown_levels

    return {
        "title": family.title,
        "transforms": list(family.names),
        "groups": {group: list(members) for group, members in family.groups.items()},
        "levels": shown_levels(family.levels) if isinstance(family.levels, range) else list(family.levels),
        "sequences": family.sequences,
    }
