"""Verdicts on the images of a condition: what was measured of them, and what they are."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from corruptions.catalogue import SEVERITIES
from pipeline.datasets.recognise.statistics import Floats
from pipeline.text import printable

SAME = "the same pixels"
DRAWS = "the published generator with other draws"
PUBLISHED = "the published generator"
RECOMPRESSED = "re-compressed"
SIZE = "another size or crop"
SEVERITY = "another severity"
NOT_IT = "not it"
UNKNOWN = "unknown"
"""The verdicts. PUBLISHED is that of corruptions that draw nothing. The first three are those of a published set."""

SURE, LIKELY = "sure", "likely"
"""How sure a verdict is. docs/exports.md has how often verdicts were false."""

SAMPLINGS: Mapping[int, str] = {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}
"""Chroma sampling as Pillow numbers it -> its usual name."""


class Limits(NamedTuple):
    """Scores up to which images are what ours are, and from which they are not, and what a gain of 1 is."""

    fits: float
    misfit: float
    unit: float


PIXELS = Limits(0.5, 2.0, 0.1)
"""Mean absolute difference of pixels, in 8-bit levels, of corruptions that draw nothing."""
DEVIATION = Limits(1.5, 2.5, 0.25)
"""Deviation of the statistics, see ``deviations``."""

FIT_SURE = 2 / 3
"""Largest misfit of images that surely are what ours are: images resized and resized back come up to 1."""

_SHIFTS = "a shift by a few pixels would not be seen"
HIDDEN: Mapping[str, str] = {
    "elastic_transform": _SHIFTS,
    "motion_blur": _SHIFTS,
    "glass_blur": "enlarging and reducing would not be seen",
    "frost": "textures of another scale, as in the package imagecorruptions, would not be seen",
}
"""Corruption -> what its draws hide, so that nothing is sure of images that are like ours."""

GAIN_SURE, GAIN_LIKELY = 8.0, 4.0
"""Differences of squared scores, in units, that tell two severities apart."""


class Coding(NamedTuple):
    """How a JPEG file was compressed: its tables, chroma sampling as Pillow numbers it, and the quality that has them.

    The quality is 0 for tables that are not those of libjpeg.
    """

    tables: tuple[tuple[int, ...], ...]
    sampling: int
    quality: int

    @property
    def published(self) -> bool:
        """Whether it is that of the published images."""
        return self.quality == 85 and SAMPLINGS.get(self.sampling) == "4:2:0"

    def __str__(self) -> str:
        """Return it as text."""
        quality = f"quality {self.quality}" if self.quality else "own tables"
        return f"JPEG {quality} {SAMPLINGS.get(self.sampling, 'other sampling')}"


class Alteration(NamedTuple):
    """What may have been done to the images that a recipe makes.

    Attributes:
        recipe: The recipe.
        fit: Operator that resized them, CENTRE, or empty for none.
        stored: Whether they were compressed as published before.
        shift: Rows and columns by which they were moved.
        preparation: Name of another preparation of the photographs, or empty.
    """

    recipe: str
    fit: str = ""
    stored: bool = True
    shift: tuple[int, int] = (0, 0)
    preparation: str = ""

    @property
    def prepared(self) -> "Alteration":
        """The preparation alone, before anything was done to finished images."""
        return Alteration(self.recipe, preparation=self.preparation)

    @property
    def moved(self) -> bool:
        """Whether pixels of finished images have other places."""
        return bool(self.fit) or any(self.shift)


@dataclass(frozen=True)
class Measured:
    """What was measured of the images of a condition.

    Attributes:
        transform: The corruption.
        level: The level that the data set names, one of SEVERITIES.
        random: Whether the corruption draws anything.
        same: Whether all pixels are equal to ours.
        distances: Mean absolute difference from our images of each severity, in 8-bit levels.
        own: The same between two of our own images of the level with different draws.
        deviations: Deviation of the statistics from ours of each severity.
        alteration: The alteration that explains the images best.
        size: Height and width of the images, if ours have another size.
        compression: How they were compressed, if not as published.
    """

    transform: str
    level: int
    random: bool
    same: bool
    distances: Floats
    own: float
    deviations: Floats
    alteration: Alteration
    size: tuple[int, int] | None
    compression: str

    @property
    def exact(self) -> bool:
        """Whether pixels can be compared: nothing is drawn and nothing was moved."""
        return not self.random and not self.alteration.moved

    @property
    def scores(self) -> Floats:
        """What decides on the severity, with the limits ``limits``."""
        return self.distances if self.exact else self.deviations

    @property
    def limits(self) -> Limits:
        """The limits of the scores."""
        return PIXELS if self.exact else DEVIATION

    @property
    def misfit(self) -> float:
        """The smallest score; 1 is the limit of what ours are like."""
        return float(self.scores.min()) / self.limits.fits

    def details(self) -> Iterator[str]:
        """Yield what differs from published images besides the severity."""
        if self.size:
            yield "{1} x {0}".format(*self.size)
        yield from filter(None, (self.alteration.fit, self.alteration.preparation))
        if any(self.alteration.shift):
            yield "moved by {} rows and {} columns".format(*self.alteration.shift)
        if self.compression:
            yield self.compression


class Verdict(NamedTuple):
    """A verdict, how sure it is, and details."""

    verdict: str
    sure: str = ""
    details: tuple[str, ...] = ()


def judge(measured: Measured) -> Verdict:
    """Return what the images of a condition are."""
    details = tuple(measured.details())
    if measured.same:
        return Verdict(SAME, SURE)
    if measured.misfit <= 1:
        return _fit(measured, details)
    if measured.size:
        return Verdict(SIZE, SURE, (*details, "unlike the published images of this size"))
    score, limit = float(measured.scores.min()), measured.limits.misfit
    if score < limit:
        return Verdict(UNKNOWN, "", (*details, "neither like ours nor clearly unlike them"))
    return Verdict(NOT_IT, SURE if score > 2 * limit else LIKELY, details)


def _fit(measured: Measured, details: tuple[str, ...]) -> Verdict:
    """Return what images are that are like ours of some severity."""
    scores, nominal = measured.scores, SEVERITIES.index(measured.level)
    near, second = np.argsort(scores, kind="stable")[:2].tolist()
    other = second if near == nominal else near
    gain = abs(float(scores[other] ** 2 - scores[nominal] ** 2)) / measured.limits.unit**2
    hidden = HIDDEN.get(measured.transform)
    sure = SURE if gain >= GAIN_SURE and measured.misfit <= FIT_SURE and not hidden else LIKELY
    if gain < GAIN_LIKELY:
        details += (f"severity {SEVERITIES[other]} is as near",)
    elif near != nominal:
        return Verdict(SEVERITY, sure, (f"severity {SEVERITIES[near]}", *details))
    if measured.alteration.moved or measured.alteration.preparation:
        return Verdict(SIZE, sure, details)
    if measured.compression:
        return Verdict(RECOMPRESSED, sure, details)
    if hidden:
        details += (hidden,)
    return Verdict(DRAWS if measured.random else PUBLISHED, sure, details)


@dataclass(frozen=True)
class Recognised:
    """What the images of a condition are.

    Attributes:
        transform: Transform, as the data set names it.
        level: Its level.
        verdict: One of the verdicts.
        sure: SURE, LIKELY, or empty if nothing is known.
        details: Further facts.
        images: Number of images compared.
        distance: Mean absolute difference from our images of this level, in 8-bit levels. None if not compared.
        own: The same between two of our own images with other draws; 0 for corruptions that draw nothing.
        deviation: Smallest deviation of the statistics from ours, about 1 or less for other draws.
    """

    transform: str
    level: int
    verdict: str
    sure: str = ""
    details: tuple[str, ...] = ()
    images: int = 0
    distance: float | None = None
    own: float | None = None
    deviation: float | None = None


@dataclass(frozen=True, repr=False)
class Recognition:
    """What the images of a data set are, condition by condition."""

    conditions: tuple[Recognised, ...]

    def __repr__(self) -> str:
        """Return each verdict with the number of conditions that it was reached for."""
        verdicts = Counter(each.verdict for each in self.conditions)
        return f"<Recognition: {', '.join(f'{verdict} ({count})' for verdict, count in verdicts.items())}>"

    @property
    def published(self) -> bool:
        """Whether no condition is known to differ from the published ones."""
        return all(each.verdict in (SAME, DRAWS, PUBLISHED, UNKNOWN) for each in self.conditions)

    def facts(self) -> list[dict[str, Any]]:
        """Return the result as JSON values."""
        return [asdict(each) for each in self.conditions]

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the result as the rows of a table with the titles TITLES."""
        for each in self.conditions:
            numbers = ("" if value is None else f"{value:.2f}" for value in (each.distance, each.own, each.deviation))
            name = printable(each.transform)
            yield name, each.level, each.verdict, each.sure, each.images, *numbers, "; ".join(each.details)


TITLES = ("transform", "level", "verdict", "sure", "images", "distance", "own draws", "deviation", "details")
