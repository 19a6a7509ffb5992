"""``robustshards list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.cli.console import print_json, print_line, print_table, report_errors
from pipeline.cli.options import JsonOption

if TYPE_CHECKING:
    from pipeline.transforms.family import Family


def list_all(as_json: JsonOption = False) -> None:
    """List the recipes, tasks, transforms, levels and profiles."""
    with report_errors(as_json):
        from corruptions.catalogue import PROFILE_SIDES
        from pipeline.recipes import library as recipes
        from pipeline.recipes.levels import shown_levels
        from pipeline.tasks import library as task_library
        from pipeline.transforms.registry import FAMILIES

        titles = {name: recipes.load(name).title for name in recipes.shipped()}
        tasks = {name: task_library.read(name) for name in task_library.shipped()}
        listings = {name: family.listed() for name, family in FAMILIES.items()}
        if as_json:
            facts: dict[str, Any] = {name.replace("-", "_"): listing.facts for name, listing in listings.items()}
            facts |= {
                "recipes": titles,
                "tasks": {name: {"title": task.title, "role": task.role} for name, task in tasks.items()},
                "families": {name: _facts(family) for name, family in FAMILIES.items()},
                "profiles": dict(PROFILE_SIDES),
            }
            print_json(**facts)
            return
        print_table(["recipe", "builds"], titles.items())
        print_table(["task", "role", "images"], ((name, task.role, task.title) for name, task in tasks.items()))
        print_table(
            ["family", "description", "transforms", "groups", "levels"],
            (
                (name, family.title, len(family.names), ", ".join(family.groups), shown_levels(family.levels))
                for name, family in FAMILIES.items()
            ),
        )
        for listing in listings.values():
            print_table(listing.columns, listing.rows)
            if listing.note:
                print_line(listing.note)
                print_line("")
        print_table(["profile", "image size"], ((name, f"{n} x {n}") for name, n in PROFILE_SIDES.items()))


def _facts(family: Family) -> dict[str, Any]:
    return {
        "title": family.title,
        "transforms": list(family.names),
        "groups": {group: list(members) for group, members in family.groups.items()},
        "levels": list(family.levels),
        "sequences": family.sequences,
    }
