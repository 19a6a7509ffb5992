"""File names of a data set, metadata keys of its manifest parts, and what its folder contains."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import UserError
from pipeline.sources.files import is_system_folder
from pipeline.storage import FolderEntry, Store
from pipeline.transforms.family import Condition

RECIPE_FILE = "recipe.toml"
INDEX_FILE = "index.toml"
RENDERED_FILE = "rendered.toml"
LISTING_FILE = "listing.parquet"
MANIFEST_FILE = "manifest.parquet"
ATTACKS_FILE = "attacks.parquet"
ROOTS_FILE = "roots.json"

SHARDS, PARTS, RUNS = "shards", "manifest", "runs"
"""Folders of a data set: tars, manifest parts, and records of the builds."""

FACT_TASK, FACT_SHARD_SIZE = "task", "shard_size"
"""Metadata of a manifest part about its shard: digest of the task, and size of the tar."""

FACT_IMAGES, FACT_LISTING = "images", "listing"
"""Metadata of a manifest part about its block: number of images, and digest of their listing."""

FACT_PLAN = "plan"
"""Metadata of the merged manifest: digest of the plan that it completes."""

FACT_CHANNELS = "channels"
"""Metadata of the merged manifest of the profile "detection": order of the channels for corruptions, rgb or bgr."""


FACT_ATTACKED, FACT_ZERO_GRADIENTS = "attacked", "zero_gradients"
"""Metadata of ``attacks.parquet`` and its parts: number of attacks, and number of those at images where the loss has no
gradient."""

Read = TypeVar("Read")


def file_digest(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sample_key(source_id: str, condition: Condition) -> str:
    """Return the key of a sample, without dots, which end a key for WebDataset.

    Only ids of folders without classes have dots. They become %2E there, and % becomes %25.
    """
    return f"{escaped_id(source_id)}-{condition}"


def escaped_id(source_id: str) -> str:
    """Return the start of the keys of an image."""
    return source_id.replace("%", "%25").replace(".", "%2E") if "." in source_id else source_id


def shard_name(condition: Condition, block: int) -> str:
    """Return ``<transform>-<level>-<block>``."""
    return f"{condition}-{block:06d}"


def shard_file(condition: Condition, block: int) -> str:
    """Return the path of a shard's tar in the data set."""
    return f"{SHARDS}/{condition.transform}/{condition.level}/{shard_name(condition, block)}.tar"


def condition_folder(condition: Condition) -> str:
    """Return the folder of a condition in exports and mirrors: ``fog/3``, or ``none`` without a level."""
    return f"{condition.transform}/{condition.level}" if condition.level else condition.transform


def part_file(condition: Condition, block: int) -> str:
    """Return the path of a shard's manifest part in the data set."""
    return f"{PARTS}/{shard_name(condition, block)}.parquet"


def shard_of_part(part: str) -> str:
    """Return the path of the tar that a manifest part describes."""
    transform, level, block = part.removeprefix(f"{PARTS}/").removesuffix(".parquet").rsplit("-", 2)
    return shard_file(Condition(transform, int(level)), int(block))


def read_file(store: Store, name: str, read: Callable[..., Iterable[Read]], *arguments: Any) -> Iterator[Read]:
    """Yield what ``read`` returns for the path of a manifest or listing, and further arguments.

    Raises:
        UserError: The file cannot be read, or is damaged.
    """
    what = name.partition(".")[0]
    try:
        yield from read(store.path(name), *arguments)
    except ValueError as error:
        raise UserError(f"cannot read the {what}: {error}; copy or download it again") from error
    except OSError as error:
        raise UserError(f"cannot read the {what} {store.root}/{name}: {error.strerror or error}") from error


def content_of(store: Store) -> list[str]:
    """Return the names of the files and folders in a store, except hidden ones, system folders and empty folders."""
    return [
        f"{entry.name}/" if entry.is_folder else entry.name
        for entry in _entries(store, "")
        if not entry.is_folder or (not is_system_folder(entry.name) and holds_any(store, entry.name))
    ]


def holds_any(store: Store, folder: str) -> bool:
    """Return whether a folder exists and is not empty."""
    return bool(_entries(store, folder))


def _entries(store: Store, folder: str) -> list[FolderEntry]:
    try:
        return store.entries(folder)
    except UserError:  # it does not exist
        return []
