"""The clean images behind a data set of adversarial images, and checks of the perturbations."""

from functools import cached_property

import numpy as np

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet
from pipeline.datasets.findings import Findings
from pipeline.datasets.norms import LEVEL, Steps, Stored, is_within, norms_of, on_grid
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import ATTACKS_FILE, FACT_ATTACKED, FACT_ZERO_GRADIENTS
from pipeline.datasets.samples import Sample, payload_digest
from pipeline.errors import UserError
from pipeline.recipes.attacks import AttackTable
from pipeline.storage import trusted_locations

MAGNIFIED = 16
"""Factor by which a perturbation is magnified to be seen."""


class CleanPixels:
    """The pixels of the images that were attacked, by their ids."""

    def __init__(self, folder: str) -> None:
        """Open the clean data set. Raise UserError if it is not a data set."""
        self._data_set = open_data_set(folder)

    @cached_property
    def _rows(self) -> dict[str, Row]:
        return {row.source_id: row for row in self._data_set.rows() if row.status == manifests.OK}

    def of(self, row: Row) -> Stored:
        """Return the clean pixels (H, W, 3) of an adversarial image. Raise UserError if they are not those attacked."""
        clean = self._rows.get(row.source_id)
        if clean is None:
            raise UserError(f"its clean image is not in {self._data_set.store.root}")
        sample = self._data_set.pick(clean)
        if payload_digest(sample.members.values()) != row.source_sha256:
            raise UserError(f"its clean image in {self._data_set.store.root} is not the one that was attacked")
        try:
            return sample.pixels()
        except ValueError as error:
            raise UserError(f"its clean image cannot be decoded: {error}") from error


def recorded_attack(data_set: DataSet) -> AttackTable | None:
    """Return how the images of a data set were attacked, with the share of zero gradients; None if they were not."""
    if data_set.attack is None or data_set.store.size(ATTACKS_FILE) < 0:
        return data_set.attack
    facts = manifests.read_facts(data_set.store.path(ATTACKS_FILE))
    try:
        share = int(facts[FACT_ZERO_GRADIENTS]) / max(int(facts[FACT_ATTACKED]), 1)
    except (KeyError, ValueError):
        return data_set.attack
    return data_set.attack.model_copy(update={"zero_gradients": share})


def clean_pixels(output: str, source: str | None) -> CleanPixels | None:
    """Return the clean images of an adversarial data set; None if their location is not known.

    Args:
        output: Path or URL of the adversarial data set.
        source: Path or URL of the clean data set. None for the one that this user attacked on this machine.

    Raises:
        UserError: The location is not a data set.
    """
    location = trusted_locations.recall(output, "source") if source is None else source
    return CleanPixels(location) if location else None


def check_perturbation(data_set: DataSet, clean: CleanPixels, sample: Sample, found: Findings) -> None:
    """Add a fault if the perturbation of a sample is larger than its budget."""
    row = sample.row
    try:
        if data_set.attack is None:
            raise UserError("its data set has no attack")
        entry = data_set.attack.entry(row.transform)
        budget, perturbation = entry.budgets[row.level - 1], on_grid(sample.pixels()) - on_grid(clean.of(row))
    except (KeyError, IndexError):
        found.fault(row.key, f"has the attack {row.transform} at level {row.level}, which is not in the recipe")
    except (UserError, ValueError) as error:
        found.fault(row.key, str(error))
    else:
        if not is_within(perturbation, entry.norm, budget):
            size = norms_of(perturbation)[entry.norm]
            found.fault(row.key, f"has a perturbation of the {entry.norm} norm {size:.6g}; its budget is {budget:.6g}")


def magnified(pixels: Stored, clean: Stored) -> np.ndarray:
    """Return a perturbation as an image (H, W, 3) of 8 bits: magnified, around a mid grey."""
    perturbation: Steps = on_grid(pixels) - on_grid(clean)
    return np.clip(np.rint(128 + perturbation / LEVEL * MAGNIFIED), 0, 255).astype(np.uint8)
