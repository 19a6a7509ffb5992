"""Texts of others as messages, terminals and reports show them: file names and what files say may be anything."""

from __future__ import annotations

from unicodedata import category

SHOWN = 200
"""Characters of what a file says that a message repeats."""

LONGEST_NAME, LONGEST_PATH, LONGEST_MESSAGE = 200, 1000, 4000
"""Characters that a report shows of each; files for machines have all of it."""

LONGEST_ERROR = 2000
"""Characters of an error: it may quote what came, and that may be anything."""

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: control and format characters, surrogates, separators of lines and paragraphs."""

_HARMLESS = "\n\u200c\u200d"
"""Joiners are part of names and of some emojis."""


def shown(text: str) -> str:
    """Return what a file says, fit for a message: quoted, escaped, and not too long."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def escape_controls(text: str) -> str:
    """Return a text with its control characters escaped: in file names they could steer a terminal."""
    return "".join(_escaped(c) if category(c) in _UNPRINTABLE and c not in _HARMLESS else c for c in text)


def one_line(text: str) -> str:
    """Return an error as one printable line of bounded length."""
    line = escape_controls(" ".join(text.split("\n")))
    half = LONGEST_ERROR // 2
    return line if len(line) <= LONGEST_ERROR else f"{line[:half]} ... {line[-half:]}"


def printable(text: str, letters: int = LONGEST_NAME) -> str:
    """Return a name on one line, without control and direction characters, which terminals and browsers obey."""
    line = "".join(letter if letter.isprintable() else " " for letter in text).strip() or "unnamed"
    return line if len(line) <= letters else f"{line[: letters - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()
