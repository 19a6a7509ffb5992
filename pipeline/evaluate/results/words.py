"""Names of others as reports show them."""

from __future__ import annotations

LONGEST_NAME, LONGEST_PATH, LONGEST_MESSAGE = 200, 1000, 4000
"""Letters that are shown of each; files for machines have all of it."""


def printable(text: str, letters: int = LONGEST_NAME) -> str:
    """Return a name on one line, without control and direction characters, which terminals and browsers obey."""
    line = "".join(letter if letter.isprintable() else " " for letter in text).strip() or "unnamed"
    return line if len(line) <= letters else f"{line[: letters - 1]}…"
