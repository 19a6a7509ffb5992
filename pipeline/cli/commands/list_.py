"""``robustshards list``."""

from __future__ import annotations

from typing import Any

from pipeline.cli.console import errors_told, print_json, print_table, say
from pipeline.cli.options import (
    JsonOption,
)


def list_all(as_json: JsonOption = False) -> None:
    """Recipes, transforms and profiles."""
    with errors_told(as_json):
        import corruptions
        import perturbations
        from corruptions.catalogue import PROFILE_SIDES
        from pipeline.recipes import library
        from pipeline.transforms.imagenet_s import published_differences

        titles = {name: library.load(name).title for name in library.shipped()}
        transforms: dict[str, list[Any]] = {
            "corruption": [corruptions.get(name) for name in corruptions.names("all")],
            "perturbation": [perturbations.get(name) for name in perturbations.names("all")],
        }
        differences = published_differences()
        if as_json:
            print_json(
                recipes=titles,
                **{
                    f"{kind}s": {
                        t.name: {"group": t.group, "benchmark": t.benchmark, "version": t.version} for t in rows
                    }
                    for kind, rows in transforms.items()
                },
                profiles=dict(PROFILE_SIDES),
                system_noise=differences,
            )
            return
        print_table(["recipe", "builds"], titles.items())
        for kind, rows in transforms.items():
            shown = ((t.name, t.group, "benchmark" if t.benchmark else "validation", t.version) for t in rows)
            print_table([kind, "group", "set", "version"], shown)
        apart = ((d["name"], f"{d['mean']:.2f}", d["largest"]) for d in differences["pairs"])
        print_table(["decoder_resize operator", "mean difference from the default, levels", "largest"], apart)
        say(f"measured on {differences['measured_on']}")
        say("")
        print_table(["profile", "published for"], ((name, f"{n} x {n}") for name, n in PROFILE_SIDES.items()))
