"""``robustshards plan``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import errors_told, print_json, print_table
from pipeline.cli.options import (
    DecoderOption,
    EncoderOption,
    FrostOption,
    GridOption,
    IdsOption,
    JsonOption,
    KindOption,
    LevelsOption,
    LimitOption,
    OnlyOption,
    QualityOption,
    RecipeArgument,
    ResizeOption,
    SeedOption,
    SetOption,
    ShardSizeOption,
    SourceOption,
    changed_recipe,
    path_of,
)


def plan(
    recipe: RecipeArgument,
    source: SourceOption,
    kind: KindOption = None,
    ids: IdsOption = None,
    only: OnlyOption = None,
    levels: LevelsOption = None,
    limit: LimitOption = None,
    shard_size: ShardSizeOption = None,
    seed: SeedOption = None,
    encoder: EncoderOption = None,
    quality: QualityOption = None,
    decoder: DecoderOption = None,
    resize: ResizeOption = None,
    grid: GridOption = None,
    fields: SetOption = None,
    frost_folder: FrostOption = None,
    measure: Annotated[int, typer.Option(min=1, help="How many images to measure on.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Images, shards, bytes and core-hours of a build, measured on a few images before spending them."""
    with errors_told(as_json):
        from rich.filesize import decimal

        from pipeline.build.estimate import estimate
        from pipeline.build.plan import make_plan
        from pipeline.build.run import with_kind
        from pipeline.render.warm_up import try_transforms
        from pipeline.sources.kinds import KINDS, open_source

        chosen = changed_recipe(
            recipe, kind=kind, only=only, grid=grid, levels=levels, limit=limit, shard_size=shard_size, seed=seed,
            encoder=encoder, quality=quality, decoder=decoder, resize=resize, fields=fields,
        )  # fmt: skip
        chosen = with_kind(chosen, source)
        images = open_source(chosen.source.kind, source, ids)
        made = make_plan(chosen, images)
        textures = path_of(frost_folder)
        try_transforms(chosen, textures)
        cost = estimate(made, images, measure, textures)
        facts = {
            "recipe": chosen.name,
            "source_kind": chosen.source.kind,
            "images": made.images,
            "classes": made.classes,
            "transforms": [str(condition) for condition in chosen.conditions()],
            "samples": made.samples,
            "shards": made.shards,
            "bytes": cost.output_bytes,
            "core_hours": cost.core_seconds / 3600,
            "measured_images": cost.measured,
            "passed_over": dict(made.ignored),
        }
        if as_json:
            print_json(**facts)
            return
        rows = [
            ("source", KINDS[chosen.source.kind].words),
            ("images", f"{made.images:,} in {made.classes:,} classes"),
            ("outputs", f"{made.samples:,} ({len(chosen.conditions())} per image)"),
            ("shards", f"{made.shards:,} of up to {chosen.shards.size:,} images"),
            ("size", decimal(cost.output_bytes)),
            ("time", f"{cost.core_seconds / 3600:,.3f} core-hours ({_duration(cost.core_seconds)} on one core)"),
            ("measured on", f"{cost.measured} images on this machine"),
        ]
        if made.ignored:
            passed = ", ".join(f"{count} {suffix}" for suffix, count in sorted(made.ignored.items()))
            rows.append(("passed over", f"no images: {passed}"))
        print_table([chosen.name, ""], rows)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"
