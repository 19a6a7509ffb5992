"""What became slower than on the committed page, in ratio to JPEG encoding, which tells the speed of the machine."""

import math
from collections.abc import Iterator, Mapping

from bench.corruption_speed import ENCODING, OURS

SLOWER = 1.15
"""Ratio from which a row is reported. Less is noise."""

Key = tuple[str, str]
"""Title of a table, and name of a row."""


def slower(before: str, now: str) -> Iterator[str]:
    """Yield a line for each corruption that takes longer than SLOWER times what it took.

    Args:
        before: The committed page.
        now: Tables of this run. Rows that only one of both has are ignored.
    """
    old, new = column(before, OURS), column(now, OURS)
    speed = machine(now) / machine(before)
    for key, milliseconds in new.items():
        expected = old.get(key, math.inf) * speed
        if milliseconds > SLOWER * expected:
            times = f"{milliseconds:.3f} ms, expected {expected:.3f}"
            yield f"{': '.join(key)}: {milliseconds / expected:.2f} times as long ({times})"


def machine(page: str) -> float:
    """Return the mean milliseconds of JPEG encoding in the first table that has it."""
    return next(value for (_, name), value in column(page, ENCODING).items() if name == "mean")


def column(page: str, title: str) -> Mapping[Key, float]:
    """Return the numbers in the columns of Markdown tables whose title begins with a text."""
    found: dict[Key, float] = {}
    section, place = "", 0
    for line in page.splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if line.startswith("###"):
            section, place = line.strip("# "), 0
        elif not line.startswith("| "):
            place *= line.startswith("|--")
        elif place and cells[place] != "-":
            found[section, cells[0]] = float(cells[place])
        elif not place:
            place = next((index for index, cell in enumerate(cells) if index and cell.startswith(title)), 0)
    return found
