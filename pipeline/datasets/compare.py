"""Comparison of data sets by their roots, and by their samples and likely causes where both have manifests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from importlib import resources
from itertools import groupby, starmap
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import manifests
from pipeline.datasets.base import read_manifest
from pipeline.datasets.opening import read_recipe
from pipeline.datasets.paths import MANIFEST_FILE, RECIPE_FILE, RENDERED_FILE, ROOTS_FILE
from pipeline.datasets.roots import SIZES, ConditionRoots, Roots, parse_roots, read_roots, roots_of
from pipeline.errors import UserError
from pipeline.recipes.levels import shown_levels
from pipeline.recipes.schema import Recipe
from pipeline.storage import Store, open_store
from pipeline.text import counted, printable
from pipeline.transforms.family import Condition

SHOWN = 200
"""Characters of values of recipes that are shown."""

FIRST = 3
"""Number of differing samples that are named."""

ALLOWED = f"give the folder or URL of a data set, a {ROOTS_FILE}, or the name of a shipped list"
"""What can be compared, for messages."""

DEFECT = "the same inputs gave other pixels: a defect, please report"
"""The cause that is left where no column explains a difference."""

UNKNOWN = "unknown, because files of other tools record no recipe"
"""The cause where one of the two has no recipe."""

CODING = (
    ("version", "another version of the transform"),
    ("decoder", "another decoder"),
    ("resize", "another resize operator"),
    ("encoder", "another encoder"),
)
SIDES = (("profile", "another profile"), *((name, "another size") for name in SIZES))
"""Columns that explain a difference, and what they mean: before and after the tables of the recipe."""

RECIPE_CAUSES = (
    ("prepare", "another preparation"),
    ("transforms", "another shape of filters"),
    ("decoders", "another fingerprint of the decoder"),
    ("resizers", "another fingerprint of the resize operator"),
    ("attack", "another attack"),
    ("software", "other library versions"),
)
"""Tables of the recipe that explain a difference, and what they mean."""

IN_ROWS = {"decoder", "resize", "only", "levels"}
"""Fields of these tables that rows tell better."""


def _named(conditions: Iterable[Condition]) -> str:
    """Return sorted conditions as text, those of a transform together: ``contrast-3; fog 1-5``."""
    parts = []
    for transform, group in groupby(conditions, key=lambda each: each.transform):
        levels = [each.level for each in group]
        parts.append(printable(transform) + (f"-{levels[0]}" if len(levels) == 1 else f" {shown_levels(levels)}"))
    return "; ".join(parts)


@dataclass(frozen=True)
class Difference:
    """A difference of two data sets.

    Attributes:
        condition: The condition; None if it concerns all of them.
        what: What differs, for example ``pixels``.
        samples: Number of differing samples. None if a manifest is missing.
        first: Source ids of the first of them.
        causes: Likely causes, the most likely first.
    """

    condition: Condition | None
    what: str
    samples: int | None
    first: tuple[str, ...]
    causes: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as a line."""
        return self.line([self.condition] if self.condition else [])

    def line(self, conditions: Sequence[Condition]) -> str:
        """Return it as a line that names all conditions with this difference; none if it concerns all of them."""
        known = ""
        if self.first and self.samples is not None:
            shown = ", ".join(map(printable, self.first)) + (", ..." if self.samples > len(self.first) else "")
            known = f" of {counted(self.samples, 'sample')}{' each' * (len(conditions) > 1)} ({shown})"
        return f"{_named(conditions) or 'the data sets'}: other {self.what}{known}: {'; also '.join(self.causes)}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of a comparison.

    Attributes:
        roots: The roots of both data sets.
        differences: What differs in what both have.
        only: The conditions that only the first, and only the second has.
        common: Whether these do not count as differences.
        notes: Differences that do not change images or labels.
    """

    roots: tuple[Roots, Roots]
    differences: tuple[Difference, ...]
    only: tuple[tuple[Condition, ...], tuple[Condition, ...]]
    common: bool
    notes: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether the images and labels are the same."""
        return not self.differences and (self.common or not any(self.only))

    def __bool__(self) -> bool:
        """Return whether the images and labels are the same."""
        return self.equal

    def __repr__(self) -> str:
        """Return the first line of the result."""
        return f"<Comparison: {next(self.lines())}>"

    def lines(self) -> Iterator[str]:
        """Yield the result as lines: one if they are equal."""
        shared = len(self.roots[0].conditions) - len(self.only[0])
        only = [
            f"only in the {which}: {_named(names)}"
            for which, names in zip(("first", "second"), self.only, strict=True)
            if names
        ]
        if self.equal:
            what = f"pixel root {self.roots[0].pixel_root}" if not any(self.only) else "; ".join(only)
            yield "; ".join([f"equal: {counted(shared, 'condition')}, {what}", *self.notes])
            return
        yield f"different: {counted(len(self.differences), 'difference')} in {counted(shared, 'shared condition')}"
        alike = defaultdict[Difference, list[Condition]](list)
        for each in self.differences:
            alike[replace(each, condition=None)] += [each.condition] if each.condition else []
        yield from starmap(Difference.line, alike.items())
        yield from only
        yield from self.notes

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "equal": self.equal,
            "pixel_roots": [each.pixel_root for each in self.roots],
            "differences": [
                {
                    "transform": each.condition and each.condition.transform,
                    "level": each.condition and each.condition.level,
                    "what": each.what,
                    "samples": each.samples,
                    "first": list(each.first),
                    "causes": list(each.causes),
                }
                for each in self.differences
            ],
            "only_in_first": [list(each) for each in self.only[0]],
            "only_in_second": [list(each) for each in self.only[1]],
            "notes": list(self.notes),
        }


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped lists of roots."""
    folder = resources.files("manifests").joinpath("reference")
    return tuple(sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.endswith(".json")))


@dataclass(frozen=True)
class Listed:
    """One of two things to compare: roots, and the folder of the data set if there is one."""

    roots: Roots
    store: Store | None = None

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe of the data set. None if it has none."""
        return read_recipe(self.store) if self.store and self.store.size(RECIPE_FILE) >= 0 else None

    @property
    def has_manifest(self) -> bool:
        """Whether there are rows to compare."""
        return self.store is not None and self.store.size(MANIFEST_FILE) >= 0

    def rows(self, condition: Condition, names: Sequence[str]) -> pa.Table:
        """Return columns of a condition's rows, with texts decoded. Raise UserError if the manifest is damaged."""
        where: manifests.Filters = {"transform": [condition.transform], "level": [condition.level]}
        if self.store is None:
            return manifests.SCHEMA.empty_table()
        tables = read_manifest(self.store, manifests.read_tables, ("source_id", *names), where)
        types = pa.schema([manifests.SCHEMA.field(name) for name in ("source_id", *names)])
        return pa.concat_tables([table.cast(types) for table in tables])


def read_listed(place: str) -> Listed:
    """Return the roots at a place.

    Those of a built or indexed data set are computed from its manifest, so that a changed ``roots.json`` cannot hide
    a difference.

    Args:
        place: Folder or URL of a data set, a ``roots.json``, or the name of a shipped list.

    Raises:
        UserError: There are no roots, or they are damaged.
    """
    if place in shipped():
        content = resources.files("manifests").joinpath("reference", f"{place}.json").read_bytes()
        return Listed(parse_roots(content, place))
    if place.endswith(".json"):
        folder, _, name = place.rpartition("/")
        roots = read_roots(open_store(folder or "."), name)
        if roots is None:
            raise UserError(
                f"{place} does not exist: give a {ROOTS_FILE}, a data set, or one of {', '.join(shipped())}"
            )
        return Listed(roots)
    store = open_store(place)
    if store.size(MANIFEST_FILE) < 0 and (recorded := read_roots(store)) is not None:
        return Listed(recorded, store)
    if not any(store.size(name) >= 0 for name in (MANIFEST_FILE, RECIPE_FILE, RENDERED_FILE)):
        raise UserError(f"{place} is neither a data set nor a list of roots: {ALLOWED} ({', '.join(shipped())})")
    return Listed(roots_of(store), store)


def compare(first: str, second: str, common: bool = False, published: bool = False) -> Comparison:
    """Compare two data sets or lists of roots, as ``robustshards.compare`` does."""
    one, other = read_listed(first), read_listed(second)
    ours, theirs = one.roots.by_condition(), other.roots.by_condition()
    shared = [condition for condition in ours if condition in theirs]
    if not shared:
        raise UserError(f"{first} and {second} have no condition in common, so there is nothing to compare")
    found = [
        _difference(one, other, ours[condition], theirs[condition])
        for condition in shared
        if ours[condition].pixel_root != theirs[condition].pixel_root
    ]
    if one.roots.label_root != other.roots.label_root and not published:
        found = [*_label_differences(one, other, shared[0], bool(found)), *found]
    notes = []
    payloads = [(ours[each].payload_root, theirs[each].payload_root) for each in shared]
    if not found and not published and any(None not in each and each[0] != each[1] for each in payloads):
        recipes = [each.recipe for each in (one, other)]
        encoders = list(dict.fromkeys(str(each.encoder) for each in recipes if each))
        reasons = [f"the encoders {' and '.join(encoders)}"] * (len(encoders) > 1) + _recipe_causes(one, other)
        notes.append(f"the stored bytes differ ({'; '.join(reasons) or 'give both data sets to learn why'})")
    only = (tuple(each for each in ours if each not in theirs), tuple(each for each in theirs if each not in ours))
    return Comparison((one.roots, other.roots), tuple(found), only, common, tuple(notes))


def _difference(one: Listed, other: Listed, ours: ConditionRoots, theirs: ConditionRoots) -> Difference:
    """Return the difference of a condition."""
    if one.has_manifest and other.has_manifest:
        return _difference_of_rows(one, other, ours.condition)
    causes = []
    if (
        None not in (one.roots.source_root, other.roots.source_root)
        and one.roots.source_root != other.roots.source_root
    ):
        causes.append("other source files")
    elif one.roots.label_root != other.roots.label_root:
        causes.append("other source ids or labels")
    causes += _seed_cause(one, other)
    if 0 not in (ours.version, theirs.version) and ours.version != theirs.version:
        causes.append(f"another version of the transform ({ours.version} and {theirs.version})")
    for what, left, right in (("samples", ours.samples, theirs.samples), ("failed", ours.failed, theirs.failed)):
        if left != right:
            causes.append(f"{left:,} and {right:,} {what}")
    if one.roots.recipe_sha256 != other.roots.recipe_sha256 or not causes:
        causes.append("perhaps other settings: compare the data sets instead of lists of roots to learn which")
    return Difference(ours.condition, "pixels", None, (), tuple(causes))


def _difference_of_rows(one: Listed, other: Listed, condition: Condition) -> Difference:
    """Return the difference of a condition, from the rows of both manifests."""
    columns = tuple(name for name, _ in (*CODING, *SIDES))
    columns = ("pixel_sha256", "status", "error", "source_sha256", *columns)
    ours, theirs = one.rows(condition, columns), other.rows(condition, columns)
    joined = ours.join(theirs, "source_id", right_suffix="_2", join_type="full outer").sort_by("source_id")
    alone = pc.or_(pc.is_null(joined["status"]), pc.is_null(joined["status_2"]))
    unequal = pc.or_kleene(alone, _unequal(joined, "pixel_sha256", "status", *SIZES))
    rows, alone, causes = joined.filter(unequal), joined.filter(alone), list[str]()
    both = rows.filter(pc.and_(pc.is_valid(rows["status"]), pc.is_valid(rows["status_2"])))
    changed = _known_unequal(both, "source_sha256")
    if count := pc.sum(changed).as_py():
        causes.append(f"other source files ({count:,} of {counted(both.num_rows, 'differing sample')})")
    if alone.num_rows:
        left, right = (alone.num_rows - alone[f"status{which}"].null_count for which in ("", "_2"))
        same = any(_same_values(alone, name) for name in ("source_sha256", "pixel_sha256"))
        words = "other source ids of the same images" if same else "other source images"
        causes.append(f"{words} ({left:,} only in the first, {right:,} only in the second)")
    rest = both.filter(pc.invert(changed))
    failed = rest.filter(_unequal(rest, "status"))
    if failed.num_rows:
        error = failed["error"][0].as_py() or failed["error_2"][0].as_py() or ""
        causes.append(f"{failed.num_rows:,} failed in one of them ({printable(error)})")
    rest = rest.filter(pc.invert(_unequal(rest, "status")))
    if rest.num_rows:
        found = [*_seed_cause(one, other), *_row_causes(rest, CODING), *_recipe_causes(one, other)]
        found += _row_causes(rest, SIDES)
        causes += found or [DEFECT if one.recipe and other.recipe else UNKNOWN]
    first = tuple(rows["source_id"].slice(0, FIRST).to_pylist())
    return Difference(condition, "pixels", rows.num_rows, first, tuple(causes))


def _row_causes(rows: pa.Table, named: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the columns that both manifests know and that differ."""
    said = set[str]()
    for name, cause in named:
        differing = rows.filter(_known_unequal(rows, name))
        if differing.num_rows and cause not in said:
            said.add(cause)
            pair = (printable(str(differing[each][0])) for each in (name, f"{name}_2"))
            yield f"{cause} ({name} {' and '.join(pair)})"


def _same_values(rows: pa.Table, name: str) -> bool:
    """Return whether both manifests know the same values of a column, in rows that only one of them has."""
    left, right = (sorted(filter(None, rows[each].to_pylist())) for each in (name, f"{name}_2"))
    return bool(left) and left == right


def _texts(rows: pa.Table, name: str) -> list[pa.ChunkedArray]:
    return [pc.fill_null(rows[each].cast(pa.string()), "") for each in (name, f"{name}_2")]


def _unequal(rows: pa.Table, *names: str) -> pa.ChunkedArray:
    """Return for each row whether one of the columns has another value in the second data set."""
    return reduce(pc.or_, (pc.not_equal(*_texts(rows, name)) for name in names))


def _known_unequal(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return for each row whether a column has two values, both of which are known: an index has no recipe."""
    known = (pc.invert(pc.is_in(each, pa.array(["", "0"]))) for each in _texts(rows, name))
    return reduce(pc.and_, known, _unequal(rows, name))


def _label_differences(one: Listed, other: Listed, condition: Condition, explained: bool) -> Iterator[Difference]:
    """Yield the difference of the labels, unless other images, which are reported, explain that the roots differ."""
    if not (one.has_manifest and other.has_manifest):
        if not explained:
            yield Difference(None, "labels", None, (), ("other labels or source ids",))
        return
    joined = one.rows(condition, ("label",)).join(
        other.rows(condition, ("label",)), "source_id", right_suffix="_2", join_type="inner"
    )
    rows = joined.filter(_unequal(joined, "label")).sort_by("source_id")
    if rows.num_rows or not explained:
        first = tuple(rows["source_id"].slice(0, FIRST).to_pylist())
        yield Difference(None, "labels", rows.num_rows, first, ("other labels of the same source images",))


def _seed_cause(one: Listed, other: Listed) -> list[str]:
    seeds = (one.roots.seed, other.roots.seed)
    return [] if None in seeds or seeds[0] == seeds[1] else [f"another seed ({seeds[0]} and {seeds[1]})"]


def _recipe_causes(one: Listed, other: Listed) -> list[str]:
    """Return the differences of both recipes that can change pixels and that rows do not tell."""
    if one.recipe is None or other.recipe is None:
        return []
    ours, theirs = (each.model_dump(mode="json", exclude_none=True) for each in (one.recipe, other.recipe))
    found = []
    for table, cause in RECIPE_CAUSES:
        left, right = ours.get(table, {}), theirs.get(table, {})
        names = [name for name in left if name in right and name not in IN_ROWS and left[name] != right[name]]
        if names:
            values = (f"{name} {left[name]} and {right[name]}" for name in names[:FIRST])
            found.append(f"{cause} ({printable(', '.join(values), SHOWN)})")
    return found
