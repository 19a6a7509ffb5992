"""Members of uncompressed tars that others wrote: every header is checked before anything is believed or allocated."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

BLOCK = tarfile.BLOCKSIZE

MAX_MEMBERS = 3_000_000
"""Members of one tar, which readers keep in memory. ImageNet's training images with labels are 2,562,334."""

MAX_EXTENSION = 2**16
"""Bytes of an extended header, which holds a long name, times, attributes."""

MAX_NAME = 2**13
"""Bytes of a member's name: two longest paths of Linux."""

LARGEST_OCTAL = 8**11
"""First size that the field of a plain header cannot hold: 8 GiB."""

REGULAR = frozenset({b"0", b"\0", b"7"})
FOLDER, LONG_NAME, LONG_LINK, EXTENDED, GLOBAL = b"5", b"L", b"K", b"x", b"g"
"""Type flags: what else there is are links, devices, and sparse files."""

COMPRESSED: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""First bytes of a compressed file -> what compressed it."""


class UnsafeTarError(ValueError):
    """A tar that is damaged, cut short, compressed, or made to mislead its readers. The message continues "it"."""


class TarMember(NamedTuple):
    """A plain file in a tar: its name, and where its data lie."""

    name: str
    offset: int
    size: int


class _Header(NamedTuple):
    """One block of 512 bytes, read as it stands."""

    name: str
    size: int
    kind: bytes


def safe_members(file: BinaryIO, folders: bool = False) -> Iterator[TarMember]:
    """Yield the plain files of a tar in their order, without reading their data.

    Folders are passed over, or yielded with a slash behind their name and no data.

    Offsets rise and data lie inside the file. The tar ends with a block of zeros, and nothing follows.

    Raises:
        UnsafeTarError: A header is damaged, or a member is a link, a device, sparse, named twice by its headers, or
            leads out; the tar is cut short, compressed, or has more than MAX_MEMBERS members.
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
                f"is cut short or damaged: {header.name!r} has {size} bytes at {position}, the file ends at {total}"
            )
        count += 1
        if count > 2 * MAX_MEMBERS:  # each may have an extended header
            raise UnsafeTarError(f"has more than the {MAX_MEMBERS} members allowed: split it")
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
                raise UnsafeTarError(f"is refused: its member {name!r} is a link, a device, or leads out")
            elif folders:
                yield TarMember(f"{name.rstrip('/')}/", position, 0)
            extended = {}
        position += size + -size % BLOCK
    if extended:
        raise UnsafeTarError("is cut short or damaged: it ends with an extended header without its member")


def _header(file: BinaryIO, position: int, total: int) -> _Header | None:
    """Return the header at a position; None for the end of the archive, after which there must be zeros alone."""
    file.seek(position)
    block = file.read(BLOCK)
    if not position:
        for magic, kind in COMPRESSED.items():
            if block.startswith(magic):
                raise UnsafeTarError(f"is compressed ({kind}): decompress it, members are read in place")
    if len(block) < BLOCK:
        raise UnsafeTarError(
            f"is cut short: it ends at {total} without the zeros that end a tar; copy or download it again"
        )
    if not block.strip(b"\0"):
        _refuse_rest(file)
        return None
    # The checksum counts itself as eight spaces; some old writers summed signed bytes.
    rest = block[:148] + b" " * 8 + block[156:]
    stated = _number(block[148:156], position)
    if stated != sum(rest) and stated != sum(rest) - 256 * sum(byte > 127 for byte in rest):
        raise UnsafeTarError(f"is damaged or no tar: its header at {position} has a wrong checksum")
    prefix, name = _field(block[345:500]), _field(block[:100])
    full = prefix + b"/" + name if prefix and block[156:157] not in (LONG_NAME, LONG_LINK, b"S") else name
    return _Header(_text(full), _number(block[124:136], position), block[156:157])


def _refuse_rest(file: BinaryIO) -> None:
    while chunk := file.read(2**20):
        if chunk.strip(b"\0"):
            raise UnsafeTarError("goes on after its end: it is damaged, or several tars were put one after another")


def _checked_size(header: _Header, extended: Mapping[str, str]) -> int:
    """Return the size of the data that follow a header; an extended header has it if the plain field is too small."""
    if "size" not in extended or header.kind in (EXTENDED, GLOBAL, LONG_NAME, LONG_LINK):
        return header.size
    size = _decimal(extended["size"])
    if size != header.size and size < LARGEST_OCTAL:
        raise UnsafeTarError(f"is refused: the headers of {header.name!r} say {header.size} bytes and {size}")
    return size


def _extension(file: BinaryIO, position: int, size: int) -> bytes:
    if size > MAX_EXTENSION:
        raise UnsafeTarError(f"is refused: it has an extended header of {size} bytes; {MAX_EXTENSION} are allowed")
    file.seek(position)
    return file.read(size)


def _records(content: bytes) -> dict[str, str]:
    """Return the ``length key=value`` lines of an extended header. Raises UnsafeTarError for those that change data."""
    found: dict[str, str] = {}
    place = 0
    while place < len(content) and content[place]:
        digits, space, _ = content[place : place + 8].partition(b" ")
        length = _decimal(digits.decode("latin1")) if space else 0
        record = content[place : place + length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if length <= len(digits) + 1 or len(record) < length or not equals or record[-1:] != b"\n":
            raise UnsafeTarError("is damaged: an extended header cannot be read")
        if key in (b"path", b"size"):
            found[key.decode()] = _text(value)
        elif key.startswith(b"GNU.sparse.") or key == b"hdrcharset":
            raise UnsafeTarError(f"is refused: it has sparse or recoded members ({key.decode('latin1')[:40]})")
        place += length
    return found


def _refuse_global(records: Mapping[str, str]) -> None:
    if records:
        raise UnsafeTarError(f"is refused: a global header sets {', '.join(records)} of all members")


def _check_name(name: str) -> None:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise UnsafeTarError(f"is refused: its member {name[:200]!r} is a link, a device, or leads out")
    if not name or "\0" in name or len(name) > MAX_NAME:
        raise UnsafeTarError(
            f"is refused: its member {name[:40]!r} has a name of {len(name)} characters; 1 to {MAX_NAME} without NUL "
            "bytes are allowed"
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
        raise UnsafeTarError(f"is damaged: an extended header has {text[:20]!r} where a number belongs")
    return int(text)


def _number(raw: bytes, position: int) -> int:
    """Return a number of a header: octal digits, or from 8 GiB on bytes with the highest bit set. None is negative."""
    if raw[:1] == b"\x80":
        return int.from_bytes(raw[1:], "big")
    digits = raw.strip(b" \0")
    if digits.strip(b"01234567"):
        raise UnsafeTarError(f"is damaged or no tar: its header at {position} has {raw!r} where a number belongs")
    return int(digits or b"0", 8)
