"""Which files of a folder are images, and what is said of the others."""

import os
from collections.abc import Mapping

from pipeline.text import counted

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp", ".gif"})
"""File suffixes of images in lower case: those of torchvision, and GIF."""

UNREAD_SUFFIXES = frozenset(
    {
        *(".apng", ".avif", ".avifs", ".cr2", ".cr3", ".dng", ".heic", ".heif", ".ico", ".j2c", ".j2k", ".jfif"),
        *(".jp2", ".jpe", ".jpx", ".jxl", ".mpo", ".nef", ".pbm", ".pnm", ".psd", ".qoi", ".tga"),
    }
)
"""File suffixes of images in lower case that are not read, so that users are warned of them."""

NAMED_SUFFIXES = 20
"""Maximum number of suffixes that a message names."""

SYSTEM_FOLDERS = frozenset(
    {
        *("__macosx", ".trashes", ".spotlight-v100", ".fseventsd", "network trash folder", "temporary items"),
        *("lost+found", "__pycache__"),
        *("$recycle.bin", "recycler", "recycled", "system volume information", "found.000"),
        *("@eadir", "#recycle", "#snapshot", "@tmp", "@sharebin"),
        *("@recycle", "@recently-snapshot", "@__thumb", ".@__thumb"),
        *(".snapshot", ".snapshots", "~snapshot", ".zfs"),
    }
)
"""Names in lower case of folders that macOS, Linux, Windows, Synology, QNAP and file servers create automatically."""


def suffix(name: str) -> str:
    """Return the suffix of a file name in lower case, with its dot, or an empty string."""
    return os.path.splitext(name)[1].lower()


def counted_as(name: str) -> str:
    """Return the entry of ``Source.ignored`` that counts an ignored file."""
    return suffix(name) or "no suffix"


def listed_suffixes(ignored: Mapping[str, int]) -> str:
    """Return numbers of files for a message: ``3 .avif, 1 .txt``."""
    some = sorted(ignored.items())[:NAMED_SUFFIXES]
    return ", ".join(f"{count:,} {name}" for name, count in some) + (" ..." if len(ignored) > len(some) else "")


def warnings_of_unread(ignored: Mapping[str, int]) -> tuple[str, ...]:
    """Return a warning if some of the ignored files are images in formats that are not read; else nothing."""
    unread = {name: count for name, count in ignored.items() if name in UNREAD_SUFFIXES}
    if not unread:
        return ()
    skipped = counted(sum(unread.values()), "image")
    return (f"{skipped} skipped in formats that are not read: {listed_suffixes(unread)}; convert them to PNG",)


def is_system_folder(name: str) -> bool:
    """Return whether an operating system or file server creates folders of this name for itself."""
    return name.casefold() in SYSTEM_FOLDERS


def is_hidden(path: str) -> bool:
    """Return whether a file is hidden, or is inside a hidden folder or a system folder."""
    *folders, name = path.split("/")
    hidden = any(part.startswith(".") and part not in (".", "..") for part in (*folders, name))
    return hidden or any(map(is_system_folder, folders))
