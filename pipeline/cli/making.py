"""Commands that make data sets, and those that tell what can be made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import errors_told, print_json, print_table, say, say_all, tell, warn
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
    LogFormat,
    LogOption,
    OnlyOption,
    PreemptedOption,
    QualityOption,
    RecipeArgument,
    ResizeOption,
    SeedOption,
    SetOption,
    ShardSizeOption,
    SourceOption,
    numbers,
    path_of,
    words,
)
from pipeline.errors import Exit, UserError

if TYPE_CHECKING:
    from pipeline.recipes import Recipe


def list_all(as_json: JsonOption = False) -> None:
    """Recipes, transforms and profiles."""
    with errors_told(as_json):
        import corruptions
        import perturbations
        from corruptions.catalogue import PROFILE_SIDES
        from pipeline import recipes
        from pipeline.system_noise import published_differences

        titles = {name: recipes.load(name).title for name in recipes.shipped()}
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


def doctor(as_json: JsonOption = False) -> None:
    """What there is on this machine: decoders with fingerprints, libraries, CPU, GPU; and how to get the rest."""
    with errors_told(as_json):
        from pipeline.doctor import examine, facts

        findings = examine()
        if as_json:
            print_json(**facts(findings))
            return
        for each in findings:
            say(f"{each.what}: {each.found}")
            if each.remedy:
                say(f"    install with: {each.remedy}")


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

        from pipeline.build import with_kind
        from pipeline.estimate import estimate
        from pipeline.plan import make_plan
        from pipeline.render import try_transforms
        from pipeline.sources import KINDS, open_source

        chosen = _recipe(
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
            "transforms": [str(step) for step in chosen.steps()],
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
            ("outputs", f"{made.samples:,} ({len(chosen.steps())} per image)"),
            ("shards", f"{made.shards:,} of up to {chosen.shards.size:,} images"),
            ("size", decimal(cost.output_bytes)),
            ("time", f"{cost.core_seconds / 3600:,.3f} core-hours ({_duration(cost.core_seconds)} on one core)"),
            ("measured on", f"{cost.measured} images on this machine"),
        ]
        if made.ignored:
            passed = ", ".join(f"{count} {suffix}" for suffix, count in sorted(made.ignored.items()))
            rows.append(("passed over", f"no images: {passed}"))
        print_table([chosen.name, ""], rows)


def build(
    recipe: RecipeArgument,
    source: SourceOption,
    out: Annotated[str, typer.Option(help="The folder of the data set; an unfinished build there is resumed.")],
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
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per CPU.")] = None,
    address: Annotated[
        str | None, typer.Option(help="Join a running Ray cluster; default: a local one is started.")
    ] = None,
    allow_failures: Annotated[bool, typer.Option(help="Exit 0 even if some samples failed.")] = False,
    retry_failed: Annotated[bool, typer.Option(help="Make shards with failed samples again.")] = False,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Stop before all shards take more: 800MiB, 50GB, 1.5TB.")
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--dry-run", help="Only check everything and say what would be made; write nothing.")
    ] = False,
    log: LogOption = LogFormat.TEXT,
    preempted_exit: PreemptedOption = Exit.INCOMPLETE,
    as_json: JsonOption = False,
) -> None:
    """Build a data set, or what is missing of it. Run again after any interruption."""
    with errors_told(as_json, preempted_exit):
        from pipeline.build import Request, run_build
        from pipeline.display import Display
        from pipeline.dry_run import dry_run
        from pipeline.log import BuildLog
        from pipeline.quota import parse_size

        chosen = _recipe(
            recipe, kind=kind, only=only, grid=grid, levels=levels, limit=limit, shard_size=shard_size, seed=seed,
            encoder=encoder, quality=quality, decoder=decoder, resize=resize, fields=fields,
        )  # fmt: skip
        limit_ = math.inf if max_bytes is None else parse_size(max_bytes)
        request = Request(chosen, source, out, workers, address, path_of(frost_folder), ids, retry_failed, limit_)
        watcher = BuildLog() if log == LogFormat.JSON else Display()
        if rehearse:
            with watcher:
                rehearsal = dry_run(request, watcher)
            if as_json:
                print_json(**rehearsal.facts())
            else:
                say_all(rehearsal.summary())
                for warning in rehearsal.warnings():
                    warn(warning)
            return
        with watcher:
            outcome = run_build(request, watcher)
        tell(outcome, as_json, out)
        if outcome.failed and not allow_failures:
            raise typer.Exit(Exit.FAULTS)


def _recipe(
    name: str,
    *,
    kind: str | None,
    only: str | None,
    grid: str | None,
    levels: str | None,
    limit: int | None,
    shard_size: int | None,
    seed: int | None,
    encoder: str | None,
    quality: int | None,
    decoder: str | None,
    resize: str | None,
    fields: list[str] | None,
) -> Recipe:
    """The named recipe with the changes of the command line. Raises UserError."""
    from pipeline import recipes

    if only is not None and grid is not None:
        raise UserError("--only and --grid both choose transforms: give one of them")
    named = recipes.load(name).changed(
        source={"kind": kind, "limit": limit},
        transforms={"only": words(grid if only is None else only), "levels": numbers(levels)},
        shards={"size": shard_size},
        encoder={"name": encoder, "quality": quality},
        prepare={"decoder": decoder, "resize": resize},
        seed=seed,
    )
    return named.changed(**recipes.parse_fields(fields or ()))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"
