"""Untrusted text (file names, file contents) made safe for messages, terminals and reports."""

from unicodedata import category

SHOWN = 200
"""Maximum number of characters that a message quotes from a file."""

LONGEST_NAME, LONGEST_PATH, LONGEST_MESSAGE = 200, 1000, 4000
"""Maximum number of characters of each that a report shows. Machine-readable files are not shortened."""

LONGEST_ERROR = 2000
"""Maximum number of characters of an error message, which may quote arbitrary input."""

_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of control characters, surrogates, and line and paragraph separators."""

_UNPRINTABLE = _CONTROL | {"Cf"}
"""The same, and format characters."""

_HARMLESS = "\n\u200c\u200d"
"""Characters of these categories that are not escaped: newlines, and the joiners that names and emojis contain."""


def shown(text: str) -> str:
    """Return text from a file for a message: quoted, escaped and shortened."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def has_control(text: str) -> bool:
    """Return whether a text has control characters, surrogates, or line or paragraph separators."""
    return not _CONTROL.isdisjoint(map(category, text))


def escape_controls(text: str) -> str:
    """Return a text with its control characters escaped, because a terminal would obey those of a file name."""
    return "".join(_escaped(c) if category(c) in _UNPRINTABLE and c not in _HARMLESS else c for c in text)


def one_line(text: str) -> str:
    """Return an error message as one printable line of at most about ``LONGEST_ERROR`` characters."""
    line = escape_controls(" ".join(text.split("\n")))
    half = LONGEST_ERROR // 2
    return line if len(line) <= LONGEST_ERROR else f"{line[:half]} ... {line[-half:]}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, for example ``1 shard`` or ``1,000 shards``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"


def rate(images: int, seconds: float) -> str:
    """Return the mean speed of work, for example ``120 images/s`` or, for slow work, ``3.5 s/image``."""
    if not images:
        return "0 images/s"
    speed = images / max(seconds, 1e-9)
    return (
        f"{speed:,.0f} images/s"
        if speed >= 10
        else f"{speed:.1f} images/s"
        if speed >= 1
        else f"{1 / speed:,.1f} s/image"
    )


def printable(text: str, letters: int = LONGEST_NAME) -> str:
    """Return a text on one line, shortened, without the control and direction characters that terminals obey.

    Args:
        text: Text to clean; an empty one becomes ``unnamed``.
        letters: Maximum number of characters of the result.
    """
    line = "".join(letter if letter.isprintable() else " " for letter in text).strip() or "unnamed"
    return line if len(line) <= letters else f"{line[: letters - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def duration(seconds: float) -> str:
    """Return a time for a message, for example "2 h 05 min", "3 min 20 s" or "7 s", 1 s at least."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{max(rest, 1)} s"
