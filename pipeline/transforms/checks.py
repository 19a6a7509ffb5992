"""Validation of the records of families."""

import re
from collections.abc import Iterator
from importlib.util import find_spec

from corruptions.catalogue import PROFILES
from pipeline.errors import UserError
from pipeline.transforms.family import Family

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_TRANSFORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""Allowed names of transforms. They become folder names and parts of sample keys, which must not contain dots."""

_ENTRY = re.compile(r"@\w+\{[^,\s]+,.*\}\s*", re.DOTALL)
"""A BibTeX entry."""


def check_family(family: Family) -> None:
    """Check the record of a family.

    Raises:
        UserError: The record is incomplete or inconsistent; the message lists all problems.
    """
    if not isinstance(family, Family):
        raise UserError(f"invalid family {family!r:.200}: it must be a pipeline.transforms.family.Family")
    if faults := [*_faults_of_names(family), *_faults_of_levels(family), *_faults_of_facts(family)]:
        raise UserError(f"invalid family {family.name!r}: {'; '.join(faults)}")


def _faults_of_names(family: Family) -> Iterator[str]:
    if not _NAME.fullmatch(family.name):
        yield "name: use lower case letters, digits and hyphens"
    if not family.names:
        yield "names: name at least one transform"
    if len(set(family.names)) < len(family.names):
        yield "names: name each transform once"
    yield from (
        f"names: {name!r} is invalid, use letters, digits, _ and -"
        for name in family.names
        if not _TRANSFORM.fullmatch(name)
    )
    for group, members in family.groups.items():
        if group in family.names and members != (group,):
            yield f"groups: {group!r} is also a transform"
        if members != tuple(name for name in family.names if name in members):
            yield f"groups: {group!r} must contain known transforms, each once, in the order of names"
    yield from (f"pairs: {name!r} is not among the names" for name in family.pairs if name not in family.names)


def _faults_of_levels(family: Family) -> Iterator[str]:
    if not set(family.real) <= set(family.names):
        yield f"real: {family.real} are not all transforms of the family"
    levels = family.levels
    if isinstance(levels, range) and levels:  # too many to look at each
        levels = (levels[0], levels[-1])
    if not levels or sorted(set(levels)) != list(levels) or levels[0] < 0:
        yield f"levels: {family.levels} must be one or more increasing integers, 0 or larger"
    for name in family.names:
        version = family.version(name)
        if type(version) is not int or version < 1:
            yield f"version: {version!r} of {name} must be an integer, 1 or larger"
        made = {family.level_of(name, level) for level in levels}
        if not all(level in family.levels for level in made):
            yield f"level_of: {name} maps to the levels {sorted(made)}, not all of which are in levels {family.levels}"
    for name, folders in family.recognition.level_folders.items():
        if name not in family.names or not all(level in family.levels for level in folders.values()):
            yield f"recognition.level_folders: {name!r} must be a transform, with levels among {family.levels}"
    bare = family.recognition.bare_level
    if bare is not None and bare not in family.levels:
        yield f"recognition.bare_level: {bare} is not among the levels {family.levels}"


def _faults_of_facts(family: Family) -> Iterator[str]:
    if not family.title:
        yield "title: it must not be empty"
    if family.citation and not _ENTRY.fullmatch(family.citation):
        yield "citation: give one BibTeX entry, or leave it empty"
    if not family.profiles or not set(family.profiles) <= set(PROFILES):
        yield f"profiles: {family.profiles} must be one or more of {', '.join(PROFILES)}"
    if not set(family.published) <= set(family.profiles):
        yield f"published: its profiles {tuple(family.published)} must be among {family.profiles}"
    for profile, names in family.published.items():
        if not names or not set(names) <= set(family.names):
            yield f"published: {profile!r} must have one or more of the names"
    if family.bank and not set(family.bank.transforms) <= set(family.names):
        yield f"bank.transforms: {family.bank.transforms} must be among the names"
    yield from (f"modules: {name} cannot be imported" for name in family.modules if not _is_importable(name))


def _is_importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
