"""Random access to the members of a tar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.errors import UserError
from pipeline.storage import Place, Store
from pipeline.storage.tars import MAX_MEMBERS, TarMember, UnsafeTarError, safe_members


class TarIndex:
    """An index of the regular files of an uncompressed tar. It reads any of them by name."""

    def __init__(self, store: Store, tar: str) -> None:
        self._store = store
        self._tar = tar
        self._members: dict[str, TarMember] | None = None

    def members(self) -> Mapping[str, TarMember]:
        """Return name -> member. The tar is read on the first call. Raise UserError if the tar is damaged or unsafe."""
        if self._members is None:
            self._members = _all_members(Place(self._store, self._tar))
        return self._members

    def folders(self) -> list[str]:
        """Return the folders that the tar lists, also empty ones. Raise UserError if the tar is damaged or unsafe."""
        place = Place(self._store, self._tar)
        return [member.name.rstrip("/") for member in _read_members(place, folders=True) if member.name.endswith("/")]

    def read(self, name: str) -> bytes:
        """Return the content of a member. Raise OSError if it cannot be read."""
        member = self.members()[name]
        data = self._store.read(self._tar, member.offset, member.size)
        if len(data) != member.size:
            raise OSError(f"{self._tar} was truncated while in use: read {len(data)} of {member.size} bytes of {name}")
        return data


def _all_members(place: Place) -> dict[str, TarMember]:
    """Return the regular files of a tar in order."""
    found: dict[str, TarMember] = {}
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
        raise UserError(f"cannot read the tar {place.location}: {error.strerror or error}") from error


def _add(found: dict[str, TarMember], member: TarMember) -> None:
    if member.name in found:
        raise UnsafeTarError(f"has the member {member.name[:200]!r} twice: remove one")
    if len(found) == MAX_MEMBERS:
        raise UnsafeTarError(f"has more than {MAX_MEMBERS} members, the maximum: split it")
    found[member.name] = member
