"""Accuracies of several models on clean images, candidates and natural images, from untrusted files and evaluations."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

import corruptions
import perturbations
from pipeline.config import strict_json
from pipeline.errors import UserError
from pipeline.evaluate.metrics import mean_over
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.combine import check_duplicates, check_model_names, display_names, model_names, renamed
from pipeline.evaluate.report.families.imagenet_p import sequence_scores
from pipeline.evaluate.report.join import Images, Warn, condition_scores, match, read_untransformed
from pipeline.evaluate.report.load import LOSSY, Evaluation, open_evaluation
from pipeline.evaluate.selection.measures import MIN_MODELS
from pipeline.sources.base import text_at
from pipeline.storage import SMALL_FILE
from pipeline.text import counted, printable, shown
from pipeline.transforms.registry import FAMILIES

MODEL, CLEAN = "model", "clean"
"""Title of the first column of a CSV file, and name of the column of clean images and of the model trained on them."""

MAX_NAMES = 1000
"""Maximum number of rows and of columns of a table."""

MIN_CORRUPTIONS, MAX_CORRUPTIONS = 3, 200
"""Numbers of corruptions with overlap scores: categories need three, and the time that they take grows fast."""


class Kind(StrEnum):
    """What a value of a model is measured on."""

    CLEAN = "clean images"
    CANDIDATE = "candidates"
    NATURAL = "natural images"
    SCORE = "other benchmarks"


@dataclass(frozen=True)
class Measurements:
    """Values of M models: accuracies on clean images (M,), on C candidates (M, C), and by natural set (M,) each.

    ``names`` are those of the candidates; ``scores`` are those of other benchmarks, (M,) each: smaller is better.
    """

    models: Sequence[str]
    clean: Floats
    names: Sequence[str]
    candidates: Floats
    natural: Mapping[str, Floats]
    scores: Mapping[str, Floats]


class Accuracies:
    """A collection of values by kind, model and set of images, from several files and folders."""

    def __init__(self) -> None:
        self._values: dict[Kind, dict[str, dict[str, float]]] = {kind: {} for kind in Kind}

    def add(self, kind: Kind, model: str, name: str, value: float) -> None:
        """Add a value. Raise UserError if another value is already known."""
        known = self._values[kind].setdefault(name, {}).setdefault(model, value)
        if known != value:
            raise UserError(f"the model {shown(model)} has two values for {shown(name)}, {known} and {value}: give one")

    def add_file(self, kind: Kind, location: str) -> None:
        """Add the values of a table, as :func:`read_table` does. Its column ``clean`` is on clean images."""
        for model, by_name in read_table(location, fractions=kind is not Kind.SCORE).items():
            for name, value in by_name.items():
                of_clean = name == CLEAN and kind is not Kind.SCORE
                self.add(Kind.CLEAN if of_clean else kind, model, name, value)

    def measurements(self) -> Measurements | None:
        """Return the values of all models, or None. Raise UserError if there are fewer than three, or values lack."""
        models = list(dict.fromkeys(model for sets in self._values.values() for row in sets.values() for model in row))
        if not models:
            return None
        for kind, remedy in (
            (Kind.CLEAN, "add the column 'clean', or evaluate the models on clean images"),
            (Kind.CANDIDATE, "give --candidates, or evaluate the models on candidates"),
            (Kind.NATURAL, "give --natural, or evaluate the models on natural images such as ImageNet-A"),
        ):
            if not self._values[kind]:
                raise UserError(f"no accuracies on {kind}: {remedy}")
        if len(models) < MIN_MODELS:
            few = " and ".join(map(shown, models))
            raise UserError(
                f"a correlation needs at least {MIN_MODELS} models, but there are values of {few} only: add more"
            )
        (clean,), candidates, natural, scores = ([*self._columns(kind, models).items()] for kind in Kind)
        names, columns = zip(*candidates, strict=True)
        return Measurements(models, clean[1], names, np.stack(columns, axis=1), dict(natural), dict(scores))

    def _columns(self, kind: Kind, models: Sequence[str]) -> dict[str, Floats]:
        """Return the values of all models, (M,), by set of images. Raise UserError if a model lacks one."""
        for name, by_model in self._values[kind].items():
            if missing := [model for model in models if model not in by_model]:
                raise UserError(
                    f"the model {shown(missing[0])} has no value for {shown(name)} ({kind}): evaluate it there too, "
                    "or leave it out"
                )
        return {name: np.array([row[model] for model in models]) for name, row in self._values[kind].items()}


# Files


def read_trained(location: str) -> tuple[list[str], Floats]:
    """Return the accuracies of models that were trained with corruptions.

    Args:
        location: Path or URL of a table. Rows: ``clean`` for the model trained on clean images, and one per corruption
            for the model trained with it. Columns: ``clean`` for clean images, and one per corruption.

    Returns:
        Names of the C corruptions, and the accuracies (C + 1, C + 1) for ``overlap_scores``.

    Raises:
        UserError: The file is invalid, a row or a column is missing, or the number of corruptions is outside its range.
    """
    table = read_table(location)
    columns = list(next(iter(table.values())))
    for among, others, what in ((table, columns, "row"), (columns, table, "column")):
        if missing := [name for name in (CLEAN, *others) if name not in among]:
            raise UserError(
                f"{location} has no {what} {shown(missing[0])}: give the model trained on clean images and one trained "
                "with each corruption, on clean images and on each corruption"
            )
    names = [name for name in columns if name != CLEAN]
    if not MIN_CORRUPTIONS <= len(names) <= MAX_CORRUPTIONS:
        raise UserError(
            f"{location} has {counted(len(names), 'corruption')}: give {MIN_CORRUPTIONS} to {MAX_CORRUPTIONS}"
        )
    order = [CLEAN, *names]
    return names, np.array([[table[row][column] for column in order] for row in order])


def read_table(location: str, fractions: bool = True) -> Mapping[str, Mapping[str, float]]:
    """Return the values of a table in a CSV or JSON file by row and column. All rows have all columns.

    Args:
        location: Path or URL. A file that ends in ``.json`` holds an object of objects, row -> column -> number; any
            other is CSV with the column ``model`` and one column per set of images.
        fractions: Whether values must be fractions 0..1.

    Raises:
        UserError: The file is missing, too large or invalid, has no values, or a value is missing, not a number or
            outside its range.
    """
    cells = _json(location) if location.lower().endswith(".json") else _csv_cells(location)
    if not isinstance(cells, dict) or not all(isinstance(row, dict) for row in cells.values()):
        raise UserError(
            f'{location} is not a table: write an object of objects, for example {{"resnet50": {{"clean": 0.76}}}}'
        )
    if not cells or not all(cells.values()):
        raise UserError(f"{location} has no values: write a row per model and a column per set of images")
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    if max(len(cells), len(columns)) > MAX_NAMES:
        raise UserError(f"{location} has {len(cells)} rows and {len(columns)} columns: at most {MAX_NAMES} are allowed")
    return {
        row: {
            column: _number(by_column.get(column), f"{location}: {shown(row)}, column {shown(column)}", fractions)
            for column in columns
        }
        for row, by_column in cells.items()
    }


def read_categories(location: str) -> Mapping[str, Sequence[str]]:
    """Return the corruptions by category in a JSON file with an object, category -> list of corruptions.

    Raises:
        UserError: The file is missing, too large or invalid, a category is empty, or a corruption is in two categories.
    """
    content = _json(location)
    groups = content.values() if isinstance(content, dict) else ()
    lists = all(
        isinstance(each, list) and each and all(isinstance(name, str) and name for name in each) for each in groups
    )
    if not groups or not lists:
        raise UserError(
            f'{location} has no categories: write an object of lists of names, for example {{"blurs": ["Blur"]}}'
        )
    names = [name for members in groups for name in members]
    if len(names) > MAX_NAMES:
        raise UserError(f"{location} has {len(names)} corruptions: at most {MAX_NAMES} are allowed")
    if twice := _repeated(names):
        raise UserError(f"{location} has the corruption {shown(twice[0])} twice: put it in one category")
    return dict(content)


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []


def _json(location: str) -> Any:
    try:
        return strict_json(text_at(location, "a .json file", SMALL_FILE))
    except ValueError as error:
        raise UserError(f"{location} is not valid JSON: {error}") from error


def _csv_cells(location: str) -> dict[str, dict[str, str]]:
    text = text_at(location, "a .csv or .json file", SMALL_FILE)
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text), strict=True) if any(line)]
    except csv.Error as error:
        raise UserError(f"{location} is not valid CSV: {error}") from error
    if not lines or lines[0][0] not in (MODEL, ""):  # pandas writes an index without a title
        first = shown(lines[0][0]) if lines else "nothing"
        raise UserError(f"{location} starts with {first}: title the first column {MODEL!r}, and separate by commas")
    (_, *columns), rows = lines[0], lines[1:]
    for names, what in ((columns, "columns"), ([row[0] for row in rows], "rows")):
        if faults := [name for name in names if not name] + _repeated(names):
            raise UserError(f"{location} has {what} with the same or no name, {shown(faults[0])}: use different names")
    for row in rows:
        if len(row) != len(columns) + 1:
            raise UserError(f"{location}: the row {shown(row[0])} has {len(row)} cells instead of {len(columns) + 1}")
    return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}


def _number(value: Any, where: str, fraction: bool) -> float:
    """Return a cell as a number. Raise UserError if it is missing or invalid."""
    if value is None or value == "":
        raise UserError(f"{where} has no value: add it, or leave out the row or the column")
    try:
        number = float(value) if isinstance(value, str | float) or type(value) is int else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where} is {shown(str(value))}: use a finite number")
    if fraction and not 0 <= number <= 1:
        raise UserError(f"{where} is {number}: use fractions 0..1, not percent")
    return number


# Evaluations


@dataclass(frozen=True)
class Measured:
    """The figures of an evaluation: what it is on, its images, its values by transform, and their mean.

    Values are accuracies, means over levels; of images without a transform, one. Of sequences, they are flip
    probabilities at the lowest difficulty. The mean is over the benchmark's transforms, or over all if there are none.
    """

    evaluation: Evaluation
    kind: Kind
    images: Images
    values: Mapping[str, float]
    mean: float


def add_evaluations(folders: Iterable[str], accuracies: Accuracies, warn: Warn) -> None:
    """Add the accuracies of evaluations: on clean and natural images, on candidates, and on other benchmarks.

    A data set whose transforms are candidates of ImageNet-Syn2Nat gives one accuracy per candidate. Another one of
    images is a benchmark whose score is its mean residual robustness, and one of sequences is a benchmark whose score
    is its mean flip probability at the lowest difficulty.

    Raises:
        UserError: A folder has no valid evaluation, images have no labels or are anomalous, the clean accuracy of a
            model is ambiguous, or a model was evaluated twice on one set.
        UnfinishedError: An evaluation is incomplete.
    """
    evaluations = [open_evaluation(folder) for folder in folders]
    models = model_names(evaluations, {}, warn)
    evaluations = [renamed(each, models) for each in evaluations]
    check_model_names(evaluations)
    check_duplicates(evaluations)
    names = display_names(evaluations, warn)
    by_model: dict[str, list[Measured]] = {}
    for each in evaluations:
        by_model.setdefault(each.table.model.name, []).append(_measured(each))
    for model, measured in by_model.items():
        clean = _clean(measured, warn)
        for one in measured:
            found, mean = one.values, one.mean
            if one.kind is Kind.CLEAN and one is not clean:
                continue
            if one.kind is Kind.SCORE and not FAMILIES[one.evaluation.table.data_set.family].sequences:
                if clean is None:
                    raise UserError(
                        f"{one.evaluation.folder}: the clean accuracy of {one.evaluation.model!r} is unknown, so it "
                        "has no residual robustness: add its evaluation on clean images"
                    )
                mean = clean.mean - mean
            if one.kind in (Kind.NATURAL, Kind.SCORE):
                found = {printable(names[one.evaluation.location]): mean}
            for column, value in found.items():
                accuracies.add(one.kind, model, column, value)


def _measured(evaluation: Evaluation) -> Measured:
    role, family = evaluation.role, FAMILIES[evaluation.table.data_set.family]
    if role == "anomalous":
        raise UserError(f"{evaluation.folder} has anomalous images, on which no accuracy is defined: leave it out")
    if role:
        untransformed = read_untransformed(evaluation)
        kind, right = Kind.CLEAN if role == "clean" else Kind.NATURAL, float(1 - untransformed.top1_errors.mean())
        return Measured(evaluation, kind, untransformed.images, {CLEAN: right}, right)
    if family.sequences:
        flips = next(iter(sequence_scores(evaluation).values()))
        kind, images, benchmark = Kind.SCORE, flips.images, perturbations.names("benchmark")
        names = (key.transform for key in flips.keys)
        values = dict(zip(names, flips.values[..., 0].mean(axis=0).tolist(), strict=True))
    else:
        scores = condition_scores(evaluation)
        right_by: dict[str, list[float]] = {}
        for condition, error in zip(scores.keys, scores.values.mean(axis=0).tolist(), strict=True):
            right_by.setdefault(condition.transform, []).append(1 - error)
        kind = Kind.CANDIDATE if set(family.names) <= set(corruptions.names("candidates")) else Kind.SCORE
        images, benchmark = scores.images, corruptions.names("benchmark")
        values = {name: float(np.mean(each)) for name, each in right_by.items()}
    among = [values[name] for name in benchmark if name in values] or list(values.values())
    return Measured(evaluation, kind, images, values, float(mean_over(among)))


def _clean(measured: Sequence[Measured], warn: Warn) -> Measured | None:
    """Return the figures of a model on clean images: of several, those on the candidates' images. None without any."""
    clean = [each for each in measured if each.kind is Kind.CLEAN]
    candidates = [each for each in measured if each.kind is Kind.CANDIDATE]
    same = [each for each in clean if any(_are_same(each.images, other.images) for other in candidates)]
    if len(clean) > 1 and len(same) != 1:
        folders = ", ".join(each.evaluation.folder for each in clean)
        raise UserError(
            f"several evaluations of {clean[0].evaluation.model!r} are on clean images, and not exactly one is on the "
            f"images of the candidates: give one of {folders}"
        )
    if not clean:
        return None
    chosen = (same or clean)[0]
    if candidates and not same:
        warn(
            f"{chosen.evaluation.folder}: the clean images are not those of the candidates, "
            f"{candidates[0].evaluation.folder}: residual robustness compares different images"
        )
    if chosen.evaluation.encoded.endswith(LOSSY):
        warn(
            f"{chosen.evaluation.folder}: its clean images were compressed again, {chosen.evaluation.encoded}, so "
            "residual robustness is too small"
        )
    return chosen


def _are_same(one: Images, other: Images) -> bool:
    return len(match(one, other).rows) == len(one.ids) == len(other.ids)
