"""The registry of families: those of this project and those of installed packages."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from threading import RLock

from corruptions.registry import unknown
from pipeline.errors import UserError
from pipeline.transforms import (
    adversarial,
    clean,
    fourier,
    imagenet_3dcc_noise,
    imagenet_c,
    imagenet_c_bar,
    imagenet_p,
    imagenet_s,
    imagenet_w,
    laion_c,
    low_pass,
    stylised,
    syn2nat,
)
from pipeline.transforms.checks import check_family
from pipeline.transforms.family import Family

ENTRY_POINTS = "robustshards.families"
"""Group of entry points by which packages add families."""


class Families(Mapping[str, Family]):
    """Families by name: those of the project, then of installed packages, then registered ones.

    Entry points are loaded at the first lookup, because their modules may import this one. Each process loads them
    itself, so a package must be installed on all machines that run workers.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self._lock = RLock()
        self._complete = False
        self._families: dict[str, Family] = {}
        for family in families:
            self._add(family)

    def register(self, family: Family) -> None:
        """Add a family to this process only. Builds need an entry point, since their workers are other processes.

        Raises:
            UserError: The record is invalid, or another family has its name.
        """
        with self._lock:
            self._load()
            self._add(family)

    def __getitem__(self, name: str) -> Family:
        return self._loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def _loaded(self) -> dict[str, Family]:
        if not self._complete:
            with self._lock:
                self._load()
        return self._families

    def _load(self) -> None:
        """Add the families of installed packages once. Raises UserError for an invalid one, at every call."""
        if self._complete:
            return
        for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
            self._add_installed(point)
        self._complete = True

    def _add_installed(self, point: EntryPoint) -> None:
        try:
            family = point.load()
            self._add(family)
        except Exception as error:  # an import can raise any type
            package = point.dist.name if point.dist else "unknown"
            raise UserError(
                f"the family {point.name!r} ({point.value}) of the installed package {package!r} cannot be used: "
                f"{type(error).__name__}: {error}; repair or uninstall that package"
            ) from error

    def _add(self, family: Family) -> None:
        check_family(family)
        if self._families.get(family.name, family) is not family:
            raise UserError(f"a family named {family.name!r} already exists: choose another name")
        self._families[family.name] = family


FAMILIES = Families(
    [
        imagenet_c.FAMILY,
        imagenet_p.FAMILY,
        imagenet_s.FAMILY,
        syn2nat.FAMILY,
        imagenet_c_bar.FAMILY,
        low_pass.FAMILY,
        imagenet_3dcc_noise.FAMILY,
        imagenet_w.FAMILY,
        laion_c.FAMILY,
        fourier.FAMILY,
        stylised.FAMILY,
        clean.FAMILY,
        adversarial.FAMILY,
    ]
)
"""Families by name."""

register = FAMILIES.register


def family_named(name: str) -> Family:
    """Return a family by its name.

    Raises:
        UserError: No family of the project or of an installed package has this name.
    """
    if name not in FAMILIES:
        raise UserError(f"{unknown('family', name, allowed=FAMILIES)}; if a package provides it, install that package")
    return FAMILIES[name]
