"""Names in figures: shortened, yet different from each other, and the places of those beside points."""

import hashlib
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

from pipeline.evaluate.report.views import Axis, Panel

SIZE = 8.0  # font size in points
LETTER, TEXT_LINE = 0.61 * SIZE / 72, 1.25 * SIZE / 72  # mean width of a letter and height of a line in inches
LONGEST_LABEL = 20

PUBLISHED = " (published)"  # end of the names of published points, which their marks replace
GAP = 6.0  # distance of a label from its point in points

Place = tuple[float, float, str]
"""Position of a label relative to its point, in points, and its horizontal alignment."""

NEAR: Sequence[Place] = (
    (GAP, 0, "left"), (-GAP, 0, "right"), (0, 1.6 * GAP, "center"), (0, -1.6 * GAP, "center"),
    *((side * GAP / 2, y, place) for y in (1.5 * GAP, -1.5 * GAP) for side, place in ((1, "left"), (-1, "right"))),
)  # fmt: skip


def shortened(names: Sequence[str], length: int) -> dict[str, str]:
    """Return a text of at most about ``length`` characters for each name, different for different names.

    Long names lose their middle. Where two would then be equal, a digest of the name takes its place. Characters that
    the font does not have become escape sequences.
    """
    safe = {name: drawable(name) for name in names}
    for digits in (0, 4, 8, 64):
        texts = {name: _middle(text, name, length, digits) for name, text in safe.items()}
        if max(Counter(texts.values()).values(), default=1) == 1:
            break
        repeated = {text for text, count in Counter(texts.values()).items() if count > 1}
        safe = {name: text if texts[name] in repeated else texts[name] for name, text in safe.items()}
    return texts


def _middle(text: str, name: str, length: int, digits: int) -> str:
    if len(text) <= length:
        return text
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    middle = f"…{digest}…" if digest else "…"
    kept = max(length - len(middle), 2)
    return text[: kept - kept // 2] + middle + text[len(text) - kept // 2 :]


def drawable(text: str) -> str:
    """Return a text whose characters the font has, so that none is a box and matplotlib does not warn."""
    if text.isascii() and text.isprintable():
        return text
    known = _characters()
    return "".join(c if ord(c) in known else f"\\u{ord(c):04x}" for c in text)


@lru_cache
def _characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap()) - set(range(32))


def words(name: str) -> str:
    """Return the name of a transform with spaces instead of underscores."""
    return name.replace("_", " ")


def label(text: str, letters: int, lines: int = 2) -> str:
    """Return a name in lines; one that does not fit loses its middle."""
    wrapped = textwrap.wrap(words(text), letters) or [""]
    if len(wrapped) > lines:
        wrapped = textwrap.wrap(_middle(words(text), text, lines * letters - 4, 0), letters)
    return "\n".join([*wrapped[: lines - 1], *([" ".join(wrapped[lines - 1 :])] if len(wrapped) >= lines else [])])


def limits(panel: Panel) -> list[tuple[float, float]]:
    """Return the ends of both axes of a scatter plot."""
    found = []
    for name, axis in (("x", panel.x), ("y", panel.y)):
        values = [float(getattr(each, name)) for each in panel.known] or [1.0]
        shown = [math.log10(value) for value in values] if axis.logarithmic else values
        padding = 0.07 * (max(shown) - min(shown)) or 0.05
        ends = min(shown) - padding, max(shown) + padding
        found.append((10 ** ends[0], 10 ** ends[1]) if axis.logarithmic else ends)
    return found


def places(panel: Panel, size: tuple[float, float], numbers: Mapping[str, int]) -> list[tuple[str, Place | None]]:
    """Return the text of each point's label and the first place where it covers no point and no earlier label.

    ``size`` is that of the axes in inches. ``numbers`` of points are shown instead of names, if there are any.
    """
    ends, drawn = limits(panel), panel.known
    names = [each.name.removesuffix(PUBLISHED) if each.published else each.name for each in drawn]
    short = shortened(names, LONGEST_LABEL)
    texts = [str(numbers[each.name]) if numbers else short[name] for each, name in zip(drawn, names, strict=True)]
    width, height = (72 * each for each in size)
    spots = [
        (width * _share(float(each.x), ends[0], panel.x), height * _share(each.y, ends[1], panel.y)) for each in drawn
    ]
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in spots]
    far = [
        (1.5 * GAP * side, y * step, place)
        for step in range(2, 6) for y in (11.0, -11.0) for side, place in ((1, "left"), (-1, "right"))
    ]  # fmt: skip
    found: dict[int, Place] = {}
    for candidates, (index, (x, y)) in product((NEAR, far), enumerate(spots)):
        long = 72 * LETTER * len(texts[index])
        for place in candidates if index not in found else ():
            left = x + place[0] - {"left": 0.0, "center": long / 2, "right": long}[place[2]]
            box = left, y + place[1] - 5, left + long, y + place[1] + 5
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= height
            if inside and not any(
                box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
            ):
                found[index] = place
                taken.append(box)
                break
    return [(text, found.get(index)) for index, text in enumerate(texts)]


def _share(value: float, ends: tuple[float, float], axis: Axis) -> float:
    """Return a position on an axis as a fraction of its length."""
    if axis.logarithmic:
        value, ends = math.log10(value), (math.log10(ends[0]), math.log10(ends[1]))
    return (value - ends[0]) / (ends[1] - ends[0])
