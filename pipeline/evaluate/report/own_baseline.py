"""An evaluated model as the baseline: its figures over the very images of the evaluation that is divided by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.evaluate.report.baseline import Baseline
from pipeline.evaluate.report.belonging import (
    CleanError,
    Match,
    Warn,
    check_once,
    clean_error,
    label_conflict,
    lacking,
    match,
)
from pipeline.evaluate.report.imagenet_p import SequenceScores, sequence_scores
from pipeline.evaluate.report.scores import Evaluation, Key, Scores, clean_of, error_scores, named
from pipeline.transforms.family import Condition


class OwnBaseline:
    """The evaluations of one model, of as many data sets as there are to divide."""

    def __init__(self, evaluations: Sequence[Evaluation], warn: Warn) -> None:
        """Raises UserError for evaluations of several models, and for a data set that comes twice."""
        names = sorted({each.model for each in evaluations})
        if len(names) > 1:
            raise UserError(f"the baseline is one model, and these are evaluations of {', '.join(names)}")
        check_once(evaluations)
        self._name = evaluations[0].table.model.name
        self._warn = warn
        self._clean = [clean_of(each) for each in evaluations if each.table.data_set.family == "none"]
        self._errors = [(each, error_scores(each)) for each in _of("corruptions", evaluations)]
        self._sequences = [(each, sequence_scores(each)) for each in _of("perturbations", evaluations)]

    def of_corruptions(self, each: Evaluation, scores: Scores[Condition], clean: CleanError | None) -> Baseline | None:
        """Return what the errors of an evaluation are divided by; None where there is no such baseline."""
        if not self._errors:
            self._warn_of_none(each)
            return None
        found = self._fitting(each, scores, self._errors)
        self._check_complete(each, scores.keys, found, corruptions.names("benchmark"))
        means = {key: float(theirs.values[rows, place].mean()) for key, (_, theirs, rows, place) in found.items()}
        relative, reference = dict[Condition, float](), None
        if clean is not None:
            relative = {
                key: float(theirs.values[rows[clean.rows], place].mean())
                for key, (_, theirs, rows, place) in found.items()
            }
            images = scores.images.take(clean.rows)
            other = next(other for other, *_ in found.values())
            reference = clean_error(other, images, self._clean, self._warn)
            if reference is not None and len(reference.rows) < len(images.ids):
                self._warn(f"{each.folder}: the baseline's clean images are fewer, so nothing is relative to them")
                reference = None
        return Baseline(self._name, reference.value if reference else None, _known(means), _known(relative), {}, {})

    def of_sequences(self, each: Evaluation, scores: Mapping[int, SequenceScores]) -> Baseline | None:
        """Return what flip probabilities and top-5 distances are divided by; None where there is no such baseline."""
        if not self._sequences:
            self._warn_of_none(each)
            return None
        flips: dict[tuple[str, int], float] = {}
        moves: dict[tuple[str, int], float] = {}
        for difficulty, wanted in scores.items():
            theirs = {other.place: all_[difficulty] for other, all_ in self._sequences if difficulty in all_}
            candidates = [(other, theirs[other.place].flips) for other, _ in self._sequences if other.place in theirs]
            if not candidates:
                raise UserError(
                    f"{each.folder}: the baseline {self._name!r} was not evaluated at difficulty {difficulty}"
                )
            found = self._fitting(each, wanted.flips, candidates)
            self._check_complete(each, wanted.flips.keys, found, perturbations.names("benchmark"))
            for name, (other, flip, rows, place) in found.items():
                flips[name, difficulty] = float(flip.values[rows, place].mean())
                moves[name, difficulty] = float(theirs[other.place].moves.values[rows, place].mean())
        return Baseline(self._name, None, _known({}), _known({}), flips, moves)

    def _warn_of_none(self, each: Evaluation) -> None:
        self._warn(
            f"{each.folder}: the baseline {self._name!r} has no evaluation of {each.table.data_set.family}, so nothing "
            "is normalised"
        )

    def _fitting(
        self, each: Evaluation, scores: Scores[Key], candidates: Sequence[tuple[Evaluation, Scores[Key]]]
    ) -> dict[Key, tuple[Evaluation, Scores[Key], Any, int]]:
        """Return, by column, where the baseline has it: its evaluation, scores, rows of the same images, and place.

        Raises UserError where no evaluation of the baseline is of the same edition and images, or two are.
        """
        found: dict[Key, tuple[Evaluation, Scores[Key], Any, int]] = {}
        reasons, profile = [], each.table.data_set.profile
        for other, theirs in candidates:
            same: Match = match(scores.images, theirs.images)
            if other.table.data_set.profile != profile:
                reasons.append(f"{other.folder} has the profile {other.table.data_set.profile!r}, not {profile!r}")
            elif len(same.rows) < len(scores.images.ids):
                reasons.append(f"{other.folder} {lacking(scores.images, same)}")
            elif conflict := label_conflict(each, scores.images, other, theirs.images, same):
                reasons.append(conflict)
            else:
                if len(theirs.images.ids) > len(same.rows):
                    self._warn(
                        f"{each.folder}: the baseline is over its {len(same.rows):,} images, of the "
                        f"{len(theirs.images.ids):,} of {other.folder}"
                    )
                for place, key in enumerate(theirs.keys):
                    if key in found and key in scores.keys:
                        raise UserError(
                            f"{each.folder}: {found[key][0].folder} and {other.folder} both have the baseline of "
                            f"{key}: give one of them"
                        )
                    found[key] = other, theirs, same.others, place
        if not found:
            raise UserError(f"the baseline {self._name!r} does not belong to {each.folder}: {'; '.join(reasons)}")
        return {key: found[key] for key in scores.keys if key in found}

    def _check_complete(
        self, each: Evaluation, wanted: Sequence[Any], found: Mapping[Any, object], benchmark: Sequence[str]
    ) -> None:
        """Raises UserError where the baseline lacks what means are taken over; warns where it lacks anything else."""
        missing = [key for key in wanted if key not in found]
        counted = {str(_transform(key)) for key in wanted} & set(benchmark)
        needed = [key for key in missing if not counted or _transform(key) in counted]
        what = f"the baseline {self._name!r} lacks {named([str(key) for key in needed or missing])}"
        if needed:
            raise UserError(f"{each.folder}: {what}, so no mean can be normalised: evaluate it on the same data set")
        if missing:
            self._warn(f"{each.folder}: {what}, not normalised")


def _of(family: str, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return [each for each in evaluations if each.table.data_set.family == family]


def _transform(key: Any) -> str:
    return key.transform if isinstance(key, Condition) else str(key)


def _known(means: Mapping[Any, float]) -> Any:
    """Return a function of a name and levels that gives the errors at all of them, or None."""

    def errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
        found = [means.get(Condition(name, level)) for level in levels]
        return None if None in found else [error for error in found if error is not None]

    return errors
