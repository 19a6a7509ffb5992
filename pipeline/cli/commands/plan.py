"""``robustshards plan``."""

from dataclasses import replace

from pipeline.builder.settings import PlanSettings
from pipeline.cli.console import print_json, print_table, warn
from pipeline.cli.options import Printing, command
from pipeline.text import counted, duration


@command()
def plan(settings: PlanSettings, printing: Printing) -> None:
    """Estimate the images, shards, bytes and CPU time of a build.

    Processes a few images with every transform and extrapolates. Writes nothing.
    """
    from rich.filesize import decimal

    from pipeline.builder.bank import MEASURED_TILES, with_bank
    from pipeline.builder.estimate import estimate, with_size_warning
    from pipeline.builder.plan import make_plan
    from pipeline.builder.preflight import TESTING, with_detected_kind
    from pipeline.cli.progress import Display
    from pipeline.render.warm_up import try_transforms
    from pipeline.sources.files import listed_suffixes
    from pipeline.sources.kinds import KINDS, open_source

    recipe = with_detected_kind(settings.changed_recipe(), settings.source)
    images = open_source(recipe.source.kind, settings.source, settings.ids, recipe.source.classes, recipe.source)
    planned = make_plan(recipe, images)
    planned = replace(planned, recipe=with_bank(planned.recipe, settings.source, MEASURED_TILES))
    Display().preparing(TESTING)
    try_transforms(planned.recipe, settings.frost_folder)
    cost = estimate(planned, images, settings.measure, settings.frost_folder)
    planned = with_size_warning(planned, lambda: cost.output_bytes)
    facts = {
        **planned.facts(),
        "source_kind": recipe.source.kind,
        "classes": planned.classes,
        "transforms": [str(condition) for condition in recipe.conditions()],
        "shards": planned.shards,
        "bytes": cost.output_bytes,
        "core_hours": cost.core_seconds / 3600,
        "measured_images": cost.measured,
        "passed_over": dict(planned.ignored),
    }
    if printing.as_json:
        print_json(**facts)
        return
    rows = [
        ("source", KINDS[recipe.source.kind].description),
        ("source images", f"{planned.images:,} in {counted(planned.classes, 'class', 'classes')}"),
        ("output images", f"{planned.samples:,} ({len(recipe.conditions())} per image)"),
        ("shards", f"{planned.shards:,} with up to {counted(recipe.shards.size, 'image')} each"),
        ("size", f"about {decimal(cost.output_bytes)}"),
        ("time", f"about {duration(cost.core_seconds)} on one core"),
        ("estimated from", f"{counted(cost.measured, 'image')} processed on this machine"),
    ]
    if planned.labels:
        rows.insert(2, ("labels", planned.labels))
    if planned.ignored:
        rows.append(("skipped files", listed_suffixes(planned.ignored)))
    print_table([recipe.name, ""], rows)
    for warning in planned.warnings:
        warn(warning)
