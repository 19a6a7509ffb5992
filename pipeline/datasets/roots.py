"""Roots: one digest for all images of a condition or data set, from Merkle trees as in RFC 6962 section 2.1.

The leaf of a sample has its source id, transform, level, sizes and digest, so that equal roots mean equal images.
Neither shards nor the order of the manifest matter, because leaves are sorted by source id.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Annotated, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

import manifests
from pipeline.config import StrictTable, strict_json, validated
from pipeline.datasets.base import read_manifest
from pipeline.datasets.opening import read_index, read_recipe
from pipeline.datasets.paths import INDEX_FILE, RECIPE_FILE, RENDERED_FILE, ROOTS_FILE
from pipeline.datasets.rendered import Rendered
from pipeline.datasets.stored import condition_runs, texts, values
from pipeline.datasets.trees import DIGEST, Digests, hashed, tree_root
from pipeline.errors import UserError
from pipeline.storage import Store, read_small
from pipeline.text import printable, shown
from pipeline.transforms.family import Condition
from pipeline.transforms.seeds import SEED_LIMIT

FORMAT: Final = 1
"""Number of the format of ``roots.json``."""

SIZES, DIGESTS = ("frames", "height", "width"), ("pixel_sha256", "payload_sha256")
WHOLE = ("pixel_root", "payload_root")

COLUMNS = ("source_id", "source_sha256", "label", "transform", "version", "level", *SIZES, *DIGESTS, "status")
"""Columns of the manifest that roots depend on."""

RENDERED_TOGETHER = 256
"""Samples of a rendered data set that are made before their leaves are hashed."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

Count = Annotated[int, Field(ge=0, lt=2**53)]

Text = Annotated[str, Field(max_length=2**13, pattern=r"\A[^\x00]*\z")]


class ConditionRoots(StrictTable):
    """The roots of a condition. ``samples`` includes the failed ones; a digest is None if its data are unknown."""

    transform: Text
    level: Count
    version: Count
    samples: Count
    failed: Count
    pixel_root: Sha256
    payload_root: Sha256 | None

    @property
    def condition(self) -> Condition:
        """The condition."""
        return Condition(self.transform, self.level)


class Roots(StrictTable):
    """The content of ``roots.json``: what a data set contains, in a few kilobytes.

    Attributes:
        format: Number of the format.
        recipe: Name of the recipe, or of the data set if it has no recipe.
        recipe_sha256: Digest of ``recipe.toml``. None for an index.
        seed: Seed of the recipe. None for an index.
        source_root: Root of the source files. None if their digests are unknown, as in an index.
        label_root: Root of the labels.
        samples: Number of samples, including failed ones.
        pixel_root: Root of the decoded images.
        payload_root: Root of the stored bytes. None for a rendered data set, which stores none.
        conditions: The roots of the conditions, by transform and level.
    """

    format: Literal[1]
    recipe: Text
    recipe_sha256: Sha256 | None
    seed: Annotated[int, Field(ge=0, lt=SEED_LIMIT)] | None
    source_root: Sha256 | None
    label_root: Sha256
    samples: Count
    pixel_root: Sha256
    payload_root: Sha256 | None
    conditions: tuple[ConditionRoots, ...]

    @model_validator(mode="after")
    def _consistent(self) -> "Roots":
        keys = [_order(each) for each in self.conditions]
        for before, after in pairwise(keys):
            if before >= after:
                raise ValueError(f"conditions: not sorted by transform and level at {shown(after[0].decode())}")
        if self.samples != sum(each.samples for each in self.conditions):
            raise ValueError("samples: not the sum of the conditions, so the file was changed")
        for name in WHOLE:
            if getattr(self, name) != root_of_conditions(self.conditions, name):
                raise ValueError(f"{name}: not the root of the conditions, so the file was changed")
        return self

    def to_json(self) -> str:
        """Return the content of ``roots.json``."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, indent=2) + "\n"

    def by_condition(self) -> dict[Condition, ConditionRoots]:
        """Return condition -> roots."""
        return {each.condition: each for each in self.conditions}


def parse_roots(content: bytes, where: str) -> Roots:
    """Return the content of a ``roots.json`` at a place. Raise UserError if it is damaged or has another format."""
    return validated(Roots, parsed_json(content, where), where)


def parsed_json(content: bytes, where: str) -> dict[str, Any]:
    """Return an object in JSON of the format that this version reads. Raise UserError if it is another or damaged."""
    try:
        table = strict_json(content)
    except ValueError as error:
        raise UserError(f"{where} is damaged: {error}; copy or download it again") from None
    found = table.get("format") if isinstance(table, dict) else None
    if found != FORMAT:
        raise UserError(f"{where} has the format {shown(str(found))}: this version reads format {FORMAT}")
    return dict(table)


def read_roots(store: Store, name: str = ROOTS_FILE) -> Roots | None:
    """Return the roots in a store. None if there is no such file; raise UserError if it is damaged."""
    if store.size(name) < 0:
        return None
    return parse_roots(read_small(store, name), f"{store.root}/{name}")


def roots_of(store: Store) -> Roots:
    """Return the roots of a built or indexed data set, computed from its manifest.

    The files that it describes are not opened.

    Raises:
        UserError: The data set is not finished, its manifest is damaged, or it is a rendered one.
    """
    if store.size(RENDERED_FILE) >= 0:
        raise UserError(
            f"{store.root} is rendered when it is read, so the digests of its samples are unknown: run robustshards "
            "roots --render once, which makes every sample"
        )
    tables = read_manifest(store, manifests.read_tables, COLUMNS)
    if store.size(INDEX_FILE) >= 0:
        return roots_of_tables(tables, read_index(store).name)
    recipe = read_recipe(store)
    return roots_of_tables(tables, recipe.name, read_small(store, RECIPE_FILE), recipe.seed)


def render_roots(data_set: Rendered) -> Roots:
    """Make every sample of a rendered data set once, write its roots into its folder and return them.

    Raises:
        UserError: A source image has changed, or the folder cannot be written.
    """
    store, recipe = data_set.store, read_recipe(data_set.store)
    content = read_small(store, RECIPE_FILE)
    roots = roots_of_tables(_made(data_set), recipe.name, content, recipe.seed, payloads=False)
    store.publish_bytes(roots.to_json().encode(), ROOTS_FILE)
    return roots


def condition_leaves(store: Store, condition: Condition) -> tuple[list[str], Digests]:
    """Return the source ids of a condition, sorted, and the leaves of their pixels. Raise UserError like roots_of."""
    where: manifests.Filters = {"transform": [condition.transform], "level": [condition.level]}
    leaves, images = _Leaves(condition), _Images()
    for table in read_manifest(store, manifests.read_tables, COLUMNS, where):
        leaves.add(table, payloads=False)
    if not leaves.images:
        return [], np.zeros((0, DIGEST), np.uint8)
    listed = pa.concat_tables(leaves.images).combine_chunks()
    order = images.order_of(listed, condition)
    return listed["source_id"].take(pa.array(order)).to_pylist(), np.concatenate(leaves.digests["pixel_sha256"])[order]


def sample_leaf(condition: Condition, source_id: str, sizes: Sequence[int | None], digest: str | None) -> bytes:
    """Return the leaf of a sample; ``digest`` is None if it failed."""
    known = ["" if digest is None else str(size) for size in sizes]
    parts = [source_id, condition.transform, str(condition.level), *known, digest or manifests.FAILED]
    return hashed(pa.array(["".join(f"{part}\0" for part in parts)], pa.string())).tobytes()


def _made(data_set: Rendered) -> Iterator[pa.Table]:
    """Yield the rows of a rendered data set with the digests of its samples, each of which is made once."""
    for chunk in data_set.chunks():
        rows = iter(data_set.rows_of(chunk))
        while part := list(islice(rows, RENDERED_TOGETHER)):
            made = data_set.picked([row for row in part if row.status == manifests.OK])
            full = [next(made).with_digests().row if row.status == manifests.OK else row for row in part]
            yield pa.table({name: pa.array([getattr(row, name) for row in full], manifests.SCHEMA.field(name).type)
                            for name in COLUMNS})  # fmt: skip


def roots_of_tables(
    tables: Iterable[pa.Table], name: str, recipe: bytes | None = None, seed: int | None = None, payloads: bool = True
) -> Roots:
    """Return the roots of the rows of a manifest.

    Args:
        tables: Rows with the columns of ``COLUMNS``, those of a condition one after another.
        name: Name of the recipe or data set.
        recipe: Content of ``recipe.toml``. None if there is none, as for its seed.
        seed: Seed of the recipe.
        payloads: Whether to compute roots of payloads.

    Raises:
        UserError: Rows of a condition are not consecutive, are listed twice or differ in their version.
    """
    images, conditions = _Images(), list[ConditionRoots]()
    leaves = _Leaves(Condition("", -1))
    for table in tables:
        for condition, part in condition_runs(table):
            if condition != leaves.condition:
                conditions += leaves.finish(images)
                leaves = _Leaves(condition)
            leaves.add(part.combine_chunks(), payloads)
    conditions += leaves.finish(images)
    conditions.sort(key=_order)
    for before, after in pairwise(conditions):
        if before.condition == after.condition:
            raise UserError(
                f"the rows of {printable(str(after.condition))} are not consecutive: run robustshards verify"
            )
    return Roots(
        format=FORMAT,
        recipe=name,
        recipe_sha256=None if recipe is None else hashlib.sha256(recipe).hexdigest(),
        seed=seed,
        source_root=images.source_root(),
        label_root=tree_root(_sorted_digests(images.labels)).hex(),
        samples=sum(each.samples for each in conditions),
        pixel_root=root_of_conditions(conditions, "pixel_root") or "",
        payload_root=root_of_conditions(conditions, "payload_root"),
        conditions=tuple(conditions),
    )


@dataclass
class _Leaves:
    """The leaves of a condition."""

    condition: Condition
    digests: dict[str, list[Digests]] = field(default_factory=dict)
    images: list[pa.Table] = field(default_factory=list)
    versions: set[int] = field(default_factory=set)
    failed: int = 0

    def add(self, part: pa.Table, payloads: bool) -> None:
        """Hash the leaves of consecutive rows."""
        plain = {name: texts(part, name) for name in ("source_id", "source_sha256", "status", *DIGESTS)}
        failed = pc.equal(plain["status"], manifests.FAILED)
        self.failed += pc.sum(failed).as_py()
        self.versions.update(pc.unique(part["version"]).to_pylist())
        sizes = [pc.if_else(failed, "", pc.fill_null(values(part, name).cast(pa.string()), "")) for name in SIZES]
        for name in DIGESTS if payloads else DIGESTS[:1]:
            digest = pc.if_else(failed, manifests.FAILED, plain[name])
            transform, level = self.condition
            leaf = _joined(plain["source_id"], transform, str(level), *sizes, digest)
            self.digests.setdefault(name, []).append(hashed(leaf))
        named = {"source_id": plain["source_id"], "label": values(part, "label"), "sha256": plain["source_sha256"]}
        self.images.append(pa.table(named))

    def finish(self, images: "_Images") -> Iterator[ConditionRoots]:
        """Yield the roots, unless there are no rows, and note the images. Raise UserError if a row is listed twice."""
        if not self.images:
            return
        if len(self.versions) > 1:
            raise UserError(f"{printable(str(self.condition))} has rows of several versions: run robustshards verify")
        listed = pa.concat_tables(self.images).combine_chunks()
        order = images.order_of(listed, self.condition)
        found = {name: tree_root(np.concatenate(parts)[order]).hex() for name, parts in self.digests.items()}
        yield ConditionRoots(
            transform=self.condition.transform,
            level=self.condition.level,
            version=self.versions.pop(),
            samples=listed.num_rows,
            failed=self.failed,
            pixel_root=found["pixel_sha256"],
            payload_root=found.get("payload_sha256"),
        )


class _Images:
    """The source images of all conditions, which mostly have the same ones in the same order."""

    def __init__(self) -> None:
        self._latest: pa.Table | None = None
        self._order: NDArray[np.int64] = np.zeros(0, np.int64)
        self.labels, self.sources = pa.array([], pa.string()), pa.array([], pa.string())
        self._has_sources = False

    def order_of(self, listed: pa.Table, condition: Condition) -> NDArray[np.int64]:
        """Return the order of images by their source ids, in bytes. Raise UserError if one is listed twice."""
        if self._latest is not None and listed.equals(self._latest):
            return self._order
        ids = listed["source_id"].combine_chunks()
        self._order = pc.sort_indices(ids).to_numpy()
        ordered = ids.take(pa.array(self._order))
        twice, invalid = pc.equal(ordered[1:], ordered[:-1]), pc.match_substring(ordered, "\0")
        for wrong, what in ((twice, "is listed twice under"), (invalid, "has a zero byte in its id under")):
            if pc.any(wrong).as_py():
                name = printable(ordered[pc.index(wrong, True).as_py()].as_py())
                raise UserError(f"{name} {what} {printable(str(condition))}: run robustshards verify")
        self._latest = listed
        sha256 = listed["sha256"].combine_chunks()
        self._has_sources |= sha256.null_count < len(sha256)
        label = listed["label"].combine_chunks().cast(pa.string())
        self.labels = _union(self.labels, _joined(ids, label))
        self.sources = _union(self.sources, _joined(ids, pc.fill_null(sha256, manifests.FAILED)))
        return self._order

    def source_root(self) -> str | None:
        """Return the root of the source files. None if no digest is known."""
        return tree_root(_sorted_digests(self.sources)).hex() if self._has_sources else None


def root_of_conditions(conditions: Sequence[ConditionRoots], name: str) -> str | None:
    """Return the root of a data set from those of its sorted conditions, named in WHOLE; None if one is unknown."""
    found = [(each.transform, str(each.level), str(each.samples), getattr(each, name)) for each in conditions]
    if any(root is None for *_, root in found):
        return None
    return tree_root(hashed(pa.array(["".join(f"{part}\0" for part in each) for each in found], pa.string()))).hex()


def _joined(*columns: pa.Array | str) -> pa.Array:
    """Return the values of each row, each followed by a zero byte."""
    return pc.binary_join_element_wise(*columns, "", "\0")


def _union(known: pa.Array, more: pa.Array) -> pa.Array:
    return more if not len(known) else pc.unique(pa.concat_arrays([known, more]))


def _sorted_digests(leaves: pa.Array) -> Digests:
    """Return the digests of leaves in the order of their source ids, which end with a zero byte."""
    return hashed(leaves.take(pc.sort_indices(leaves)))


def _order(each: ConditionRoots) -> tuple[bytes, int]:
    return each.transform.encode(), each.level
