"""The baseline that metrics are normalised by: the published AlexNet, or an evaluated model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.report.join import label_conflict, match, missing_images
from pipeline.evaluate.report.matching import Warn, check_duplicates
from pipeline.evaluate.report.scores import Evaluation, Key, Rows, Scores, list_names, read_untransformed
from pipeline.evaluate.results.folder import EvaluationTable

ALEXNET = "AlexNet (published)"
ALEXNET_IMAGES = 50_000
ALEXNET_CLASSES, ALEXNET_PROFILE = 1000, "imagenet"
"""Number of classes and profile of the data that AlexNet was measured on."""

T = TypeVar("T")


def has_published_baseline(table: EvaluationTable) -> bool:
    """Return whether AlexNet's published results apply: 1000 classes, images of 224 x 224."""
    return table.data_set.profile == ALEXNET_PROFILE and table.labels == ALEXNET_CLASSES


def warn_of_image_count(evaluation: Evaluation, images: int, warn: Warn) -> None:
    """Warn if results normalised by AlexNet's do not cover the same number of images."""
    if images != ALEXNET_IMAGES:
        warn(
            f"{evaluation.folder}: AlexNet's errors were published for {ALEXNET_IMAGES:,} images, but this evaluation "
            f"has {images:,}, so normalised metrics are approximate"
        )


@dataclass(frozen=True)
class BaselineColumn(Generic[Key]):
    """A column of the baseline's scores that matches a column of an evaluation.

    Attributes:
        evaluation: Evaluation of the baseline.
        scores: Scores of the baseline.
        rows: Rows in these scores of the images of the other evaluation, in its order.
        column: Index of the column in these scores.
    """

    evaluation: Evaluation
    scores: Scores[Key]
    rows: Rows
    column: int

    def mean(self, scores: Scores[Key] | None = None, among: Rows | None = None) -> float:
        """Return the mean over the matched images.

        Args:
            scores: Other scores of the baseline with the same images and columns. Default: ``self.scores``.
            among: Indices into ``rows`` of the images to use. Default: all.
        """
        rows = self.rows if among is None else self.rows[among]
        return float(np.mean((scores or self.scores).values[rows, self.column]))


class EvaluatedBaseline:
    """A baseline model that was evaluated on one or more of the data sets.

    Attributes:
        name: Name of the model.
        clean: Its evaluations on clean images.
    """

    def __init__(self, evaluations: Sequence[Evaluation], warn: Warn) -> None:
        """Initialise from evaluations of one model.

        Args:
            evaluations: One evaluation per data set.
            warn: Receives warnings.

        Raises:
            UserError: If the evaluations are of several models, or two are on the same data set.
        """
        names = sorted({each.model for each in evaluations})
        if len(names) > 1:
            raise UserError(
                f"the baseline evaluations are of {len(names)} models ({', '.join(names)}): give evaluations of one "
                "model"
            )
        check_duplicates(evaluations)
        self.name = evaluations[0].table.model.name
        self.clean = [read_untransformed(each) for each in evaluations if each.role == "clean"]
        self._evaluations, self._warn = evaluations, warn
        self._scores: dict[tuple[str, str], Any] = {}

    def scores_of(self, evaluation: Evaluation, read: Callable[[Evaluation], T]) -> list[tuple[Evaluation, T]]:
        """Return the baseline's evaluations of the same family and labels with their scores; warn if there are none.

        Args:
            evaluation: Evaluation to normalise.
            read: Reads the scores of one evaluation. Results are cached by family and labels.
        """
        family = evaluation.table.data_set.family
        key = (family, evaluation.groups_digest)
        if key not in self._scores:
            same = [each for each in self._evaluations if (each.table.data_set.family, each.groups_digest) == key]
            self._scores[key] = [(other, read(other)) for other in same]
        scores: list[tuple[Evaluation, T]] = self._scores[key]
        if not scores:
            self._warn(
                f"{evaluation.folder}: the baseline {self.name!r} has no evaluation of {family}, so its metrics are "
                "not normalised"
            )
        return scores

    def match_columns(
        self, evaluation: Evaluation, scores: Scores[Key], candidates: Sequence[tuple[Evaluation, Scores[Key]]]
    ) -> dict[Key, BaselineColumn[Key]]:
        """Return the baseline's column for each column of an evaluation, where the baseline has one.

        Args:
            evaluation: Evaluation to normalise.
            scores: Its scores.
            candidates: Evaluations of the baseline with their scores.

        Raises:
            UserError: If no candidate has the same profile, images and labels, or if two have the same column.
        """
        columns: dict[Key, BaselineColumn[Key]] = {}
        reasons = []
        for other, other_scores in candidates:
            common = match(scores.images, other_scores.images)
            if reason := _different_profile(evaluation, other) or self._different_images(
                evaluation, scores, other, other_scores
            ):
                reasons.append(reason)
                continue
            if len(other_scores.images.ids) > len(common.rows):
                self._warn(
                    f"{evaluation.folder}: the baseline uses its {len(common.rows):,} images only; {other.folder} has "
                    f"{len(other_scores.images.ids):,}"
                )
            for column, key in enumerate(other_scores.keys):
                if key in columns and key in scores.keys:
                    raise UserError(
                        f"{evaluation.folder}: {columns[key].evaluation.folder} and {other.folder} both contain the "
                        f"baseline of {key}: give one of them"
                    )
                columns[key] = BaselineColumn(other, other_scores, common.others, column)
        if not columns:
            raise UserError(
                f"the baseline {self.name!r} does not match {evaluation.folder}: {'; '.join(reasons)}; evaluate the "
                "baseline on the same data set"
            )
        return {key: columns[key] for key in scores.keys if key in columns}

    @staticmethod
    def _different_images(
        evaluation: Evaluation, scores: Scores[Key], other: Evaluation, other_scores: Scores[Key]
    ) -> str:
        """Return why the baseline cannot be used: missing images or different labels; empty if it can."""
        common = match(scores.images, other_scores.images)
        if len(common.rows) < len(scores.images.ids):
            return f"{other.folder} {missing_images(scores.images, common)}"
        return label_conflict(evaluation, scores.images, other, other_scores.images, common)

    def check_complete(
        self,
        evaluation: Evaluation,
        wanted: Iterable[Key],
        available: Mapping[Key, object],
        benchmark: Sequence[str],
        transform_of: Callable[[Key], str],
    ) -> None:
        """Check that the baseline has all columns that means need; warn if it lacks others.

        Args:
            evaluation: Evaluation to normalise.
            wanted: Its columns.
            available: Columns of the baseline.
            benchmark: Transforms that means are taken over. If the evaluation has none of them, means are taken over
                all its transforms.
            transform_of: Returns the transform of a column.

        Raises:
            UserError: If the baseline lacks a column that a mean needs.
        """
        keys = list(wanted)
        missing = [key for key in keys if key not in available]
        counted = {transform_of(key) for key in keys} & set(benchmark)
        needed = [key for key in missing if not counted or transform_of(key) in counted]
        what = f"the baseline {self.name!r} lacks {list_names([str(key) for key in needed or missing])}"
        if needed:
            raise UserError(
                f"{evaluation.folder}: {what}, so means cannot be normalised: evaluate the baseline on the same data "
                "set"
            )
        if missing:
            self._warn(f"{evaluation.folder}: {what}, so these are not normalised")


def _different_profile(evaluation: Evaluation, other: Evaluation) -> str:
    """Return an error message if the profiles differ; empty if they are equal."""
    profile, other_profile = evaluation.table.data_set.profile, other.table.data_set.profile
    return (
        "" if other_profile == profile else f"{other.folder} has the profile {other_profile!r} instead of {profile!r}"
    )
