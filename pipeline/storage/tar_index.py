"""Members of tars by name and place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pipeline.errors import UserError
from pipeline.storage import Place, Store
from pipeline.storage.tars import MAX_MEMBERS, TarMember, UnsafeTarError, safe_members


class Member(NamedTuple):
    """Where the data of a member lies in its tar."""

    offset: int
    size: int


class TarIndex:
    """The plain files of an uncompressed tar, and their bytes wherever they lie in it."""

    def __init__(self, store: Store, tar: str) -> None:
        self._store = store
        self._tar = tar
        self._members: dict[str, Member] | None = None

    def members(self) -> Mapping[str, Member]:
        """Name -> member, read once. Raises UserError for names that lead out, links, devices, and damaged tars."""
        if self._members is None:
            self._members = _all_members(Place(self._store, self._tar))
        return self._members

    def folders(self) -> list[str]:
        """Return the folders that the tar names, which may be empty. Raises UserError as :meth:`members`."""
        place = Place(self._store, self._tar)
        return [member.name.rstrip("/") for member in _read_members(place, folders=True) if member.name.endswith("/")]

    def read(self, name: str) -> bytes:
        """Return the bytes of a member. Raises OSError."""
        member = self.members()[name]
        data = self._store.read(self._tar, member.offset, member.size)
        if len(data) != member.size:
            raise OSError(f"{self._tar} has become shorter: {len(data)} of {member.size} bytes are left")
        return data


def _all_members(place: Place) -> dict[str, Member]:
    """Return the plain files of a tar in their order. Raises UserError."""
    found: dict[str, Member] = {}
    for member in _read_members(place):
        try:
            _add(found, member)
        except UnsafeTarError as error:
            raise UserError(f"{place.location} {error}") from error
    return found


def _read_members(place: Place, folders: bool = False) -> Iterator[TarMember]:
    try:
        with place.store.open(place.name) as file:
            yield from safe_members(file, folders)
    except UnsafeTarError as error:
        raise UserError(f"{place.location} {error}") from error
    except OSError as error:
        raise UserError(f"{place.location} is no readable tar: {error.strerror or error}") from error


def _add(found: dict[str, Member], member: TarMember) -> None:
    if member.name in found:
        raise UnsafeTarError(f"has the member {member.name[:200]!r} twice: readers would see one of them")
    if len(found) == MAX_MEMBERS:
        raise UnsafeTarError(f"has more than the {MAX_MEMBERS} members allowed: split it")
    found[member.name] = Member(member.offset, member.size)
