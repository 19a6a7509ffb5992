"""The validation images of ImageNet, recognised by their names, and their reassessed labels (ReaL)."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.config import strict_json
from pipeline.errors import UserError
from pipeline.evaluate.metrics.natural import NO_LABEL, label_array
from pipeline.evaluate.report.join import Images, Rows
from pipeline.evaluate.report.load import Evaluation
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.tasks.lists import IMAGENET
from pipeline.text import shown
from pipeline.transforms.imagenet_c import FAMILY as CORRUPTIONS

VALIDATION_IMAGES = 50_000

_NAME = re.compile(r"(?:.*/)?ILSVRC2012_val_([0-9]{8})", re.DOTALL)
"""Source id of a validation image: the last part of the path is its file name without suffix."""

PACKAGE = "timm"
"""Package that contains the authors' file. It is never imported."""

PACKAGE_FILE = "data/_info/imagenet_real_labels.json"  # the file in the package
SHA256 = "d83e9bff374c631aae8439eb064c7019acc56e1b3bc3f56b8380c2a710b0220b"  # digest of the authors' file
MAX_LABELS = 100  # maximum number of labels of an image; the authors' file has at most 9

Reason = str
"""Why there are no labels."""


LARGEST_LABEL = 10**6  # largest label of a file


@dataclass(frozen=True)
class RealLabels:
    """The labels of all validation images."""

    where: str  # name of the file for messages
    labels: NDArray[np.int32]  # (50,000, length of the longest list), filled with NO_LABEL
    given: bool  # the user gave the file, so that images it does not fit are an error


@dataclass(frozen=True)
class RealImages:
    """The images of an evaluation that have labels: their rows (S,), and the labels (S, any length)."""

    rows: Rows
    labels: NDArray[np.int32]


def has_imagenet_labels(evaluation: Evaluation) -> bool:
    """Return whether each output of the model is one of ImageNet's 1,000 classes, as far as their number tells."""
    return evaluation.table.labels == len(IMAGENET) and not evaluation.groups_digest


@lru_cache(maxsize=2)
def validation_rows(ids: tuple[str, ...]) -> Rows:
    """Return the positions of validation images by their source ids, 0..49,999, and -1 for other images."""
    found = map(_NAME.fullmatch, ids)
    rows = np.array([int(name[1]) if name else 0 for name in found], np.int64) - 1
    return np.where(rows < VALIDATION_IMAGES, rows, -1)


def complete_images(evaluation: Evaluation, ids: tuple[str, ...]) -> int:
    """Return the number of images of the complete data set, by its task or as validation images; 0 if unknown."""
    if evaluation.table.task:
        return evaluation.table.task.images
    return VALIDATION_IMAGES if are_validation_images(evaluation, ids) else 0


def are_validation_images(evaluation: Evaluation, ids: tuple[str, ...]) -> bool:
    """Return whether all images are validation images with ImageNet's labels."""
    return has_imagenet_labels(evaluation) and bool((validation_rows(ids) >= 0).all())


def read_real_labels(path: str) -> RealLabels:
    """Read a file of reassessed labels.

    Args:
        path: JSON file: a list of 50,000 lists of labels. Entry i is for ``ILSVRC2012_val_<i + 1, eight digits>``.

    Raises:
        UserError: If the file cannot be read, or is something else; the message names the entry.
    """
    file = local_path(path)
    try:
        content = LocalStore(str(file.parent)).read(file.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the labels {file}: {error.strerror}; give the path of real.json") from error
    return RealLabels(str(file), _parsed(content, str(file)), given=True)


def find_real_labels() -> RealLabels | Reason:
    """Return the labels in the installed package timm, or why there are none. The package is not imported."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return f"{PACKAGE}, which contains them, is not installed"
    file = Path(spec.submodule_search_locations[0]) / PACKAGE_FILE
    try:
        content = LocalStore(str(file.parent)).read(file.name, limit=SMALL_FILE)
    except OSError as error:
        return f"{file} cannot be read ({error.strerror})"
    if hashlib.sha256(content).hexdigest() != SHA256:
        return f"{file} differs from the published file"
    return RealLabels(str(file), _parsed(content, str(file)), given=False)


def real_images(
    evaluation: Evaluation, images: Images, real: RealLabels | Reason, warn: Callable[[str], None]
) -> RealImages | None:
    """Return the images of an evaluation that have reassessed labels; None if it has none, or groups of classes.

    Raises:
        UserError: If the user gave the labels, and an image is not a validation image or a label is not an output of
            the model.
    """
    given = isinstance(real, RealLabels) and real.given
    clean_or_corrupted = evaluation.role == "clean" or evaluation.table.data_set.family == CORRUPTIONS.name
    if evaluation.groups_digest or not clean_or_corrupted or not (given or has_imagenet_labels(evaluation)):
        return None
    found = validation_rows(images.ids)
    others = np.flatnonzero(found < 0)
    if others.size and not given:
        return None
    if isinstance(real, Reason):
        warn(
            f"no accuracy (ReaL), because the reassessed labels were not found: {real}; give the file with --real FILE"
        )
        return None
    if others.size:
        raise UserError(
            f"{evaluation.folder}: {shown(images.ids[others[0]])} is not a validation image of ImageNet, so "
            f"{real.where} has no labels for it: names must end with ILSVRC2012_val_ and eight digits from 00000001 to "
            f"{VALIDATION_IMAGES:08}; omit --real, or omit this evaluation"
        )
    outputs = evaluation.table.labels
    if (beyond := np.argwhere(real.labels >= outputs)).size:
        entry, column = beyond[0]
        raise UserError(
            f"{real.where}: entry {entry} has the label {real.labels[entry, column]}, but {evaluation.model!r} has "
            f"{outputs:,} outputs, so labels must be from 0 to {outputs - 1}: give the file of the same classes, or "
            f"omit {evaluation.folder}"
        )
    labels = real.labels[found]
    rows = np.flatnonzero((labels != NO_LABEL).any(axis=1))
    if not len(rows):
        warn(f"{evaluation.folder}: no accuracy (ReaL): none of its {len(labels):,} images has a reassessed label")
        return None
    return RealImages(rows, labels[rows])


def _parsed(content: bytes, where: str) -> NDArray[np.int32]:
    """Return the labels in the content of a file. Raise UserError if it is something else."""
    expected = f"a list of {VALIDATION_IMAGES:,} lists of labels, as in real.json of the authors"
    try:
        lists = strict_json(content)
    except ValueError as error:
        raise UserError(f"{where} is not valid JSON: it must be {expected}") from error
    if not isinstance(lists, list) or len(lists) != VALIDATION_IMAGES:
        what = f"a list of {len(lists):,} entries" if isinstance(lists, list) else f"of type {type(lists).__name__}"
        raise UserError(f"{where} is {what}: it must be {expected}")
    for entry, labels in enumerate(lists):
        if fault := _fault(labels):
            raise UserError(
                f"{where}: entry {entry} {fault}: it must be a list of at most {MAX_LABELS} whole numbers from 0"
            )
    return label_array(lists)


def _fault(labels: object) -> str:
    """Return why an entry of a file is not a list of labels; empty if it is."""
    if not isinstance(labels, list):
        return f"is of type {type(labels).__name__}"
    if len(labels) > MAX_LABELS:
        return f"has {len(labels):,} labels"
    wrong = [label for label in labels if type(label) is not int or not 0 <= label <= LARGEST_LABEL]
    if not wrong:
        return ""
    return f"contains {json.dumps(wrong[0]) if isinstance(wrong[0], int | float) else type(wrong[0]).__name__}"
