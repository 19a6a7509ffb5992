"""A reader for untrusted, uncompressed tars. It checks every header before using its values or allocating memory."""

import os
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import BinaryIO, NamedTuple

from pipeline.errors import UserError
from pipeline.storage import Place, Store

BLOCK = tarfile.BLOCKSIZE

MAX_MEMBERS = 3_000_000
"""Maximum number of members in a tar, because readers keep them in memory. ImageNet's training set has 2,562,334."""

KEPT_MEMBER, KEPT_TAR = 2**12, 2**24
"""Maximum sizes in bytes of a member that an index keeps in memory, and of all of them."""

MAX_EXTENSION = 2**16
"""Maximum size in bytes of an extended header, which contains long names, times and attributes."""

MAX_NAME = 2**12
"""Maximum size in bytes of a member name: that of the longest path of Linux."""

LARGEST_OCTAL = 8**11
"""Smallest size in bytes that the octal field of a header cannot store: 8 GiB."""

REGULAR = frozenset({b"0", b"\0", b"7"})
FOLDER, LONG_NAME, LONG_LINK, EXTENDED, GLOBAL = b"5", b"L", b"K", b"x", b"g"
"""Type flags of members and headers. All others (links, devices, sparse files) are refused."""

COMPRESSED: Mapping[bytes, str] = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of a compressed file -> name of the compression."""


class UnsafeTarError(ValueError):
    """An error for a tar that is damaged, truncated, compressed or unsafe. The message follows the name of the tar."""


class TarMember(NamedTuple):
    """A regular file in a tar: its name, and the position and size of its data in bytes."""

    name: str
    offset: int
    size: int


class _Header(NamedTuple):
    """The fields of a header block of 512 bytes."""

    name: str
    size: int
    kind: bytes


def safe_members(file: BinaryIO, folders: bool = False) -> Iterator[TarMember]:
    """Yield the regular files of a tar in order, without reading their data.

    The tar must end with blocks of zeros, followed by nothing else.

    Args:
        file: The tar, opened for reading.
        folders: Also yield folders, as members of size 0 whose names end with a slash. Default: skip them.

    Raises:
        UnsafeTarError: A header is damaged or its values conflict; a member is a link, a device, a sparse file or
            outside of the tar's folder; or the tar is truncated, compressed, or has more than MAX_MEMBERS members.
        OSError: The file cannot be read.
    """
    total = file.seek(0, os.SEEK_END)
    position, count = 0, 0
    extended: dict[str, str] = {}
    while (header := _header(file, position, total)) is not None:
        position += BLOCK
        size = _checked_size(header, extended)
        if size > total - position:
            raise UnsafeTarError(
                f"is truncated or damaged: {header.name!r} has {size} bytes at {position}, but the file ends at "
                f"{total}; copy or download it again"
            )
        count += 1
        if count > 2 * MAX_MEMBERS:  # each may have an extended header
            raise UnsafeTarError(f"has more than {MAX_MEMBERS} members, the maximum: split it")
        if header.kind in (EXTENDED, GLOBAL, LONG_NAME, LONG_LINK):
            content = _extension(file, position, size)
            if header.kind == GLOBAL:
                _refuse_global(_records(content))
            elif header.kind == EXTENDED:
                extended |= _records(content)
            elif header.kind == LONG_NAME:
                extended["path"] = _text(content)
        else:
            name = extended.get("path", header.name)
            _check_name(name)
            if header.kind in REGULAR and not name.endswith("/"):
                yield TarMember(name, position, size)
            elif header.kind not in {FOLDER} | REGULAR:
                raise UnsafeTarError(f"is refused: its member {name!r} is a link or a device, not a regular file")
            elif folders:
                yield TarMember(f"{name.rstrip('/')}/", position, 0)
            extended = {}
        position += size + -size % BLOCK
    if extended:
        raise UnsafeTarError("is truncated or damaged: it ends after an extended header; copy or download it again")


def _header(file: BinaryIO, position: int, total: int) -> _Header | None:
    """Return the header at a position, or None at the end of the archive, which must contain only zeros."""
    file.seek(position)
    block = file.read(BLOCK)
    if not position and block[257:262] != b"ustar":  # a name may start like a compressed file
        for magic, kind in COMPRESSED.items():
            if block.startswith(magic):
                raise UnsafeTarError(f"is compressed ({kind}): decompress it, because members are read in place")
    if len(block) < BLOCK:
        raise UnsafeTarError(
            f"is truncated: it ends at byte {total} without the zeros that end a tar; copy or download it again"
        )
    if not block.strip(b"\0"):
        _refuse_rest(file)
        return None
    return _parsed(block, position)


def _parsed(block: bytes, position: int) -> _Header:
    """Return the fields of the header at a position. Raise UnsafeTarError if it is damaged."""
    # The checksum is computed with its own field as eight spaces; some old writers summed signed bytes.
    rest = block[:148] + b" " * 8 + block[156:]
    stated = _number(block[148:156], position)
    if stated != sum(rest) and stated != sum(rest) - 256 * sum(byte > 127 for byte in rest):
        raise UnsafeTarError(f"is not a tar or is damaged: its header at byte {position} has an invalid checksum")
    prefix, name = _field(block[345:500]), _field(block[:100])
    full = prefix + b"/" + name if prefix and block[156:157] not in (LONG_NAME, LONG_LINK, b"S") else name
    return _Header(_text(full), _number(block[124:136], position), block[156:157])


def _refuse_rest(file: BinaryIO) -> None:
    while chunk := file.read(2**20):
        if chunk.strip(b"\0"):
            raise UnsafeTarError("has data after its end: it is damaged, or consists of several tars; split it")


def _checked_size(header: _Header, extended: Mapping[str, str]) -> int:
    """Return the size of a member's data; an extended header replaces the header's size if that is too small for it."""
    if "size" not in extended or header.kind in (EXTENDED, GLOBAL, LONG_NAME, LONG_LINK):
        return header.size
    size = _decimal(extended["size"])
    if size != header.size and size < LARGEST_OCTAL:
        raise UnsafeTarError(f"is refused: the headers of {header.name!r} give the sizes {header.size} and {size}")
    return size


def _extension(file: BinaryIO, position: int, size: int) -> bytes:
    if size > MAX_EXTENSION:
        raise UnsafeTarError(f"is refused: it has an extended header of {size} bytes (maximum: {MAX_EXTENSION})")
    file.seek(position)
    return file.read(size)


def _records(content: bytes) -> dict[str, str]:
    """Return the path and size from an extended header. Raise UnsafeTarError for keys that change how data is read."""
    found: dict[str, str] = {}
    start = 0
    while start < len(content) and content[start]:
        digits, space, _ = content[start : start + 8].partition(b" ")
        length = _decimal(digits.decode("latin1")) if space else 0
        record = content[start : start + length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if length <= len(digits) + 1 or len(record) < length or not equals or record[-1:] != b"\n":
            raise UnsafeTarError("is damaged: an extended header is invalid; copy or download it again")
        if key in (b"path", b"size"):
            found[key.decode()] = _text(value)
        elif key.startswith(b"GNU.sparse.") or key == b"hdrcharset":
            raise UnsafeTarError(
                f"is refused: sparse files and recoded names are not supported ({key.decode('latin1')[:40]})"
            )
        start += length
    return found


def _refuse_global(records: Mapping[str, str]) -> None:
    if records:
        raise UnsafeTarError(f"is refused: a global header sets {', '.join(records)} for all members; pack it without")


def _check_name(name: str) -> None:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise UnsafeTarError(f"is refused: its member {name[:200]!r} is outside of the tar's folder")
    if not name or "\0" in name or len(name.encode()) > MAX_NAME:
        raise UnsafeTarError(
            f"is refused: its member {name[:40]!r} has a name of {len(name.encode())} bytes; 1 to {MAX_NAME} are "
            "allowed, without NUL bytes"
        )


def _field(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


def _text(raw: bytes) -> str:
    try:
        return raw.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise UnsafeTarError(f"is refused: the name {raw[:200]!r} is not valid UTF-8; rename the member") from None


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise UnsafeTarError(f"is damaged: an extended header has {text[:20]!r} instead of a number")
    return int(text)


def _number(raw: bytes, position: int) -> int:
    """Return the number in a header field: octal digits, or for 8 GiB and more, big-endian bytes after 0x80."""
    if raw[:1] == b"\x80":
        return int.from_bytes(raw[1:], "big")
    digits = raw.strip(b" \0")
    if digits.strip(b"01234567"):
        raise UnsafeTarError(f"is not a tar or is damaged: its header at byte {position} has {raw!r}, not a number")
    return int(digits or b"0", 8)


class TarIndex:
    """An index of an uncompressed tar, which is read when it is first needed. It reads any regular file by name.

    Several threads may use it.

    Args:
        store: Store of the tar.
        tar: Name of the tar.
        kept: Suffixes of small members that the index reads too, and keeps: later, each would be a request of its own
            in an object store.
    """

    def __init__(self, store: Store, tar: str, kept: tuple[str, ...] = ()) -> None:
        self._store, self._tar, self._suffixes = store, tar, kept
        self._kept: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def members(self) -> Mapping[str, TarMember]:
        """Return name -> regular file, in order. Raise UserError if the tar is damaged or unsafe."""
        return self._content[0]

    def folders(self) -> Sequence[str]:
        """Return the folders that the tar lists, also empty ones. Raise UserError if the tar is damaged or unsafe."""
        return self._content[1]

    def read(self, name: str, offset: int | None = None, size: int = 0) -> bytes:
        """Return the content of a member; if its position is known, without the index. Raise OSError if it cannot."""
        member = self.members()[name] if offset is None else TarMember(name, offset, size)
        if name in self._kept:
            return self._kept[name]
        block = self._store.read(self._tar, member.offset - BLOCK, BLOCK + member.size)
        data = block[BLOCK:]
        if len(data) != member.size:
            raise OSError(
                f"{self._tar} was truncated while in use: read {len(data)} of {member.size} bytes of {member.name}"
            )
        with suppress(UnsafeTarError):
            if _parsed(block[:BLOCK], member.offset - BLOCK).size == member.size:
                return data
        raise OSError(f"{self._tar} was replaced while in use: {member.name} is not at byte {member.offset} any more")

    @property
    def _content(self) -> tuple[dict[str, TarMember], list[str]]:
        with self._lock:
            return self._listed

    @cached_property
    def _listed(self) -> tuple[dict[str, TarMember], list[str]]:
        where = Place(self._store, self._tar).location
        files, folders, room = dict[str, TarMember](), list[str](), KEPT_TAR
        try:
            with self._store.open(self._tar) as file:
                for member in safe_members(file, folders=True):
                    if member.name.endswith("/"):
                        folders.append(member.name.rstrip("/"))
                    elif files.setdefault(member.name, member) is not member:
                        raise UnsafeTarError(f"has the member {member.name[:200]!r} twice: remove one")
                    elif len(files) > MAX_MEMBERS:
                        raise UnsafeTarError(f"has more than {MAX_MEMBERS} members, the maximum: split it")
                    elif member.name.endswith(self._suffixes) and member.size <= min(KEPT_MEMBER, room):
                        file.seek(member.offset)
                        self._kept[member.name] = file.read(member.size)
                        room -= member.size
        except UnsafeTarError as error:
            raise UserError(f"{where} {error}") from error
        except OSError as error:
            raise UserError(f"cannot read the tar {where}: {error.strerror or error}") from error
        return files, folders
