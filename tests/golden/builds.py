"""Digests of complete data sets: each shipped recipe is built from the same photographs before and after a change.

    python -m tests.golden.builds --source FOLDER --limit 2 --record before.json
    python -m tests.golden.builds --source FOLDER --limit 2 --against before.json

Compared are shards, merged manifests and recipes, and manifest parts unless ``--without-parts`` is given.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.builder.bank import with_bank
from pipeline.builder.merge import merge_parts
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.datasets.paths import PARTS
from pipeline.execution.work import Attempt
from pipeline.images.fingerprints import decoder_fingerprints, resizer_fingerprints
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.software import versions
from pipeline.sources.kinds import detect, open_source
from pipeline.storage import open_store
from tests.factories.data_sets import data_digests

SHARD_SIZE = 2
"""Small, so that even a few photographs make several blocks."""

RECIPES = [name for name in library.shipped() if not library.load(name).family.on_device]
"""Recipes whose bytes do not depend on the device."""


def build(recipe: Recipe, source: str, output: Path) -> None:
    """Build a data set in this process, with the code that workers run."""
    recipe = recipe.canonical(
        versions(), decoder_fingerprints(recipe.used_decoders()), resizer_fingerprints(recipe.used_resizers())
    )
    images, store = open_source(recipe.source.kind, source), open_store(str(output))
    recipe = with_bank(recipe, source)
    plan = make_plan(recipe, images)
    store.publish_bytes(plan.recipe.to_toml().encode(), "recipe.toml")
    worker = BuildWorker(BuildJob(recipe, source, str(output)))
    for block in make_blocks(plan, images):
        for _ in worker.run(Attempt(block)):
            pass
    merge_parts(plan, store)


def digests(source: str, limit: int, only: str) -> Iterator[tuple[str, str]]:
    """Yield the path and SHA-256 of each file of the recipes whose names contain ``only``."""
    for name in RECIPES:
        if only in name:
            changes = {"source": {"kind": detect(source), "limit": limit}, "shards": {"size": SHARD_SIZE}}
            with tempfile.TemporaryDirectory() as folder:
                build(library.load(name).changed(**changes), source, Path(folder))
                print(name, file=sys.stderr)
                yield from ((f"{name}/{path}", digest) for path, digest in data_digests(Path(folder)).items())


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    """Yield a description of each difference."""
    yield from (f"{path} is missing" for path in theirs.keys() - ours.keys())
    yield from (f"{path} is new" for path in ours.keys() - theirs.keys())
    yield from (f"{path} has different bytes" for path, digest in ours.items() if theirs.get(path, digest) != digest)


def main(arguments: list[str] | None = None) -> int:
    """Record or compare digests. Return 1 if anything differs."""
    parser = argparse.ArgumentParser(description="Record or compare the digests of each shipped recipe's data set.")
    parser.add_argument("--source", required=True, help="folder of photographs")
    parser.add_argument("--limit", type=int, default=2, help="number of photographs to use (default: 2)")
    parser.add_argument("--only", default="", help="use only recipes whose names contain this text")
    parser.add_argument("--without-parts", action="store_true", help="do not compare manifest parts")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--record", type=Path, help="file to write the digests to")
    group.add_argument("--against", type=Path, help="file to compare with, written by --record")
    options = parser.parse_args(arguments)
    ours = dict(digests(options.source, options.limit, options.only))
    if options.record:
        options.record.write_text(json.dumps(ours, indent=0))
        return 0
    recorded = json.loads(options.against.read_text())
    theirs = {path: digest for path, digest in recorded.items() if options.only in path.partition("/")[0]}
    changed = [each for each in differences(ours, theirs) if not (options.without_parts and f"/{PARTS}/" in each)]
    print("\n".join([*sorted(changed), f"{len(ours)} files, {len(changed)} differences"]))
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
