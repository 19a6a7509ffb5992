"""What figures are divided by: AlexNet as published, or a model that was evaluated over the very same images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from pipeline.errors import UserError
from pipeline.evaluate.report.belonging import Warn, check_once, label_conflict, lacking, match
from pipeline.evaluate.report.scores import Evaluation, Key, Rows, Scores, clean_of, is_clean, named
from pipeline.evaluate.results.folder import EvaluationTable

ALEXNET = "AlexNet (published)"
ALEXNET_IMAGES = 50_000
ALEXNET_CLASSES, ALEXNET_PROFILE = 1000, "imagenet"
"""What it was measured on: ImageNet's validation photographs at 224 pixels."""

Found = TypeVar("Found")


def has_published_baseline(table: EvaluationTable) -> bool:
    """Return whether an evaluation is of what AlexNet was measured on."""
    return table.data_set.profile == ALEXNET_PROFILE and table.model.classes == ALEXNET_CLASSES


def warn_of_other_images(each: Evaluation, images: int, warn: Warn) -> None:
    """Warn where figures that AlexNet's divide are over another number of images."""
    if images != ALEXNET_IMAGES:
        warn(
            f"{each.folder}: AlexNet's figures were published for {ALEXNET_IMAGES:,} photographs, these are over "
            f"{images:,}"
        )


@dataclass(frozen=True)
class Counterpart(Generic[Key]):
    """Where the baseline has a column: its evaluation and scores, the ``rows`` of the same images, and the column."""

    evaluation: Evaluation
    scores: Scores[Key]
    rows: Rows
    column: int

    def mean(self, scores: Scores[Key] | None = None, among: Rows | None = None) -> float:
        """Return the mean over these images, or over those ``among`` them; of other ``scores`` of the same shape."""
        rows = self.rows if among is None else self.rows[among]
        return float(np.mean((scores or self.scores).values[rows, self.column]))


class OwnBaseline:
    """The evaluations of one model, of as many data sets as are to be divided.

    Attributes:
        name: The model's name.
        clean: Its evaluations of clean images, read.
    """

    def __init__(self, evaluations: Sequence[Evaluation], warn: Warn) -> None:
        """Raises UserError for evaluations of several models, and for a data set that was evaluated twice."""
        names = sorted({each.model for each in evaluations})
        if len(names) > 1:
            raise UserError(f"the baseline is one model, and these are evaluations of {', '.join(names)}")
        check_once(evaluations)
        self.name = evaluations[0].table.model.name
        self.clean = [clean_of(each) for each in evaluations if is_clean(each)]
        self._evaluations, self._warn = evaluations, warn
        self._scores: dict[str, Any] = {}

    def scores_of(self, each: Evaluation, read: Callable[[Evaluation], Found]) -> list[tuple[Evaluation, Found]]:
        """Return the baseline's evaluations of the family of another one, with what ``read`` makes of them, once.

        Warns where there are none.
        """
        family = each.table.data_set.family
        if family not in self._scores:
            same = [other for other in self._evaluations if other.table.data_set.family == family]
            self._scores[family] = [(other, read(other)) for other in same]
        found: list[tuple[Evaluation, Found]] = self._scores[family]
        if not found:
            self._warn(
                f"{each.folder}: the baseline {self.name!r} has no evaluation of {family}, so nothing is normalised"
            )
        return found

    def counterparts(
        self, each: Evaluation, scores: Scores[Key], candidates: Sequence[tuple[Evaluation, Scores[Key]]]
    ) -> dict[Key, Counterpart[Key]]:
        """Return where the baseline has the columns of an evaluation.

        Raises:
            UserError: No evaluation of the baseline is of the same edition and images, or two are.
        """
        found: dict[Key, Counterpart[Key]] = {}
        reasons = []
        for other, theirs in candidates:
            same = match(scores.images, theirs.images)
            if reason := _other_edition(each, other) or self._other_images(each, scores, other, theirs):
                reasons.append(reason)
                continue
            if len(theirs.images.ids) > len(same.rows):
                self._warn(
                    f"{each.folder}: the baseline is over its {len(same.rows):,} images, of the "
                    f"{len(theirs.images.ids):,} of {other.folder}"
                )
            for column, key in enumerate(theirs.keys):
                if key in found and key in scores.keys:
                    raise UserError(
                        f"{each.folder}: {found[key].evaluation.folder} and {other.folder} both have the baseline of "
                        f"{key}: give one of them"
                    )
                found[key] = Counterpart(other, theirs, same.others, column)
        if not found:
            raise UserError(f"the baseline {self.name!r} does not belong to {each.folder}: {'; '.join(reasons)}")
        return {key: found[key] for key in scores.keys if key in found}

    @staticmethod
    def _other_images(each: Evaluation, scores: Scores[Key], other: Evaluation, theirs: Scores[Key]) -> str:
        """Return what is wrong where the baseline lacks images, or has other labels; empty where all is well."""
        same = match(scores.images, theirs.images)
        if len(same.rows) < len(scores.images.ids):
            return f"{other.folder} {lacking(scores.images, same)}"
        return label_conflict(each, scores.images, other, theirs.images, same)

    def check_complete(
        self,
        each: Evaluation,
        wanted: Iterable[Key],
        found: Mapping[Key, object],
        benchmark: Sequence[str],
        transform_of: Callable[[Key], str],
    ) -> None:
        """Check that the baseline has all that means are taken over; warn where it lacks anything else.

        Raises:
            UserError: It has not.
        """
        keys = list(wanted)
        missing = [key for key in keys if key not in found]
        counted = {transform_of(key) for key in keys} & set(benchmark)
        needed = [key for key in missing if not counted or transform_of(key) in counted]
        what = f"the baseline {self.name!r} lacks {named([str(key) for key in needed or missing])}"
        if needed:
            raise UserError(f"{each.folder}: {what}, so no mean can be normalised: evaluate it on the same data set")
        if missing:
            self._warn(f"{each.folder}: {what}, not normalised")


def _other_edition(each: Evaluation, other: Evaluation) -> str:
    profile, theirs = each.table.data_set.profile, other.table.data_set.profile
    return "" if theirs == profile else f"{other.folder} has the profile {theirs!r}, not {profile!r}"
