"""From evaluations of one or more models to a summary: which is clean, which is the baseline, what to warn of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.bootstrap import percentile_interval
from pipeline.evaluate.report.baseline import ALEXNET, ALEXNET_IMAGES, _published_baseline
from pipeline.evaluate.report.belonging import (
    check_models,
    check_once,
    clean_error,
    compare_models,
    identity,
    settings_that_differ,
    shown_names,
)
from pipeline.evaluate.report.clean import clean_figures
from pipeline.evaluate.report.estimates import Estimate
from pipeline.evaluate.report.imagenet_c import corruption_figures
from pipeline.evaluate.report.imagenet_p import perturbation_figures, sequence_scores
from pipeline.evaluate.report.imagenet_s import system_noise_figures
from pipeline.evaluate.report.own_baseline import OwnBaseline
from pipeline.evaluate.report.scores import (
    About,
    Clean,
    Evaluation,
    Images,
    clean_of,
    confidences,
    error_scores,
    open_evaluation,
)
from pipeline.evaluate.report.summary import Summary


def summarise(
    folders: Sequence[str],
    baselines_from: Sequence[str] = (),
    anomalous: str | None = None,
    resamples: int = 1000,
) -> Summary:
    """Return the figures of one or more evaluations, of one or more models.

    Evaluations of clean images give the clean error of their model, for evaluations of the same images.
    ``baselines_from`` are evaluations of the model whose figures others are divided by, over the same images; without
    them it is AlexNet as published, for models of 1000 classes on images of 224 pixels, and none for others.
    ``anomalous`` is an evaluation of images that belong to no class (ImageNet-O), told apart from the clean ones by the
    same model. What does not belong together in every respect, and is shown all the same, is among the warnings.

    Raises:
        UserError: for what is no evaluation, for two models of one name, for one data set evaluated twice, and for a
            baseline of other images.
        UnfinishedError: for an evaluation that is not whole.
    """
    evaluations = [open_evaluation(folder) for folder in folders]
    divisors = [open_evaluation(folder) for folder in baselines_from]
    other = None if anomalous is None else open_evaluation(anomalous)
    check_models([*evaluations, *divisors, *([other] if other else [])])
    check_once(evaluations)
    warnings: list[str] = []
    own = OwnBaseline(divisors, warnings.append) if divisors else None
    return _Report(evaluations, own, resamples, warnings).summary(other)


class _Report:
    """A summary in the making."""

    def __init__(
        self, evaluations: Sequence[Evaluation], own: OwnBaseline | None, resamples: int, warnings: list[str]
    ) -> None:
        self._evaluations, self._own, self._resamples = evaluations, own, resamples
        self._warnings = warnings
        self._names = shown_names(evaluations, self._warn)
        self._clean = [clean_of(each) for each in evaluations if each.table.data_set.family == "none"]
        self._images: dict[str, Images] = {each.evaluation.place: each.images for each in self._clean}

    def summary(self, anomalous: Evaluation | None) -> Summary:
        """Return the figures of all families, and the warnings."""
        found: dict[str, list[Any]] = {"corruptions": [], "perturbations": [], "system-noise": []}
        make = {
            "corruptions": self._corruptions,
            "perturbations": self._perturbations,
            "system-noise": self._system_noise,
        }
        for each in self._evaluations:
            if (family := each.table.data_set.family) in make:
                found[family] += make[family](each)
        clean = [
            clean_figures(each, self._about(each.evaluation, each.images), self._resamples) for each in self._clean
        ]
        anomalies = self._anomalies(anomalous) if anomalous else {}
        compare_models(self._evaluations, self._images, self._warn)
        for each in self._evaluations:
            self._warn_of_samples(each)
        return Summary(
            found["corruptions"], found["perturbations"], found["system-noise"], clean, anomalies, self._warnings
        )

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

    def _about(self, each: Evaluation, images: Images) -> About:
        self._images[each.place] = images
        about = each.table.data_set
        ids = hashlib.sha256("\n".join(sorted(images.ids)).encode()).hexdigest()
        return About(each.table.model.name, self._names[each.place], about.failed, about.manifest_sha256, ids)

    def _corruptions(self, each: Evaluation) -> list[Any]:
        scores = error_scores(each)
        clean = clean_error(each, scores.images, self._clean_of_model(each), self._warn)
        published = _published_baseline(each.table)
        baseline = self._own.of_corruptions(each, scores, clean) if self._own else published
        about = self._about(each, scores.images)
        found = corruption_figures(scores, clean, baseline, about, self._resamples)
        self._warn_of_baseline(each, found.baseline, found.images)
        return [found]

    def _perturbations(self, each: Evaluation) -> list[Any]:
        scores = sequence_scores(each)
        baseline = self._own.of_sequences(each, scores) if self._own else _published_baseline(each.table)
        found = []
        for difficulty, wanted in scores.items():
            about = self._about(each, wanted.flips.images)
            found.append(perturbation_figures(wanted, difficulty, baseline, about, self._resamples))
            self._warn_of_baseline(each, found[-1].baseline, found[-1].sequences)
        return found

    def _system_noise(self, each: Evaluation) -> list[Any]:
        scores = error_scores(each)
        return [system_noise_figures(scores, self._about(each, scores.images), self._resamples)]

    def _clean_of_model(self, each: Evaluation) -> list[Clean]:
        """The clean images of the same model; warns where there are some under another name only."""
        found = [clean for clean in self._clean if clean.evaluation.table.model.name == each.table.model.name]
        if not found:
            for clean in self._clean:
                if identity(clean.evaluation) == identity(each):
                    self._warn(
                        f"{each.folder}: {clean.evaluation.folder} is of the same weights under another name, "
                        f"{clean.evaluation.model!r}, and gives no clean error for {each.model!r}"
                    )
        return found

    def _warn_of_baseline(self, each: Evaluation, name: str | None, images: int) -> None:
        if self._own is None and name == ALEXNET and images != ALEXNET_IMAGES:
            self._warn(
                f"{each.folder}: AlexNet's figures were published for {ALEXNET_IMAGES:,} photographs, these are over "
                f"{images:,}"
            )

    def _warn_of_samples(self, each: Evaluation) -> None:
        changed, checked = each.changed()
        if changed:
            self._warn(
                f"{each.folder}: {changed:,} of {checked:,} samples that were compared decode to other pixels on the "
                "machine of the evaluation than where they were built: the decoder differs, and results may too"
            )
        if failed := each.table.data_set.failed:
            self._warn(f"{each.folder}: {failed:,} samples of the data set had failed and are not counted")

    def _anomalies(self, other: Evaluation) -> dict[str, Estimate]:
        """AUPR of telling images of no class from the clean ones by the confidence of the same model."""
        if other.table.data_set.family != "none":
            raise UserError(
                f"{other.folder} is an evaluation of {other.table.data_set.family}: anomalous images have no transform"
            )
        usual = [each for each in self._clean if each.evaluation.table.model.name == other.table.model.name]
        if not usual:
            raise UserError(
                f"{other.folder} needs an evaluation of clean images by {other.model} beside it, to tell them from"
            )
        if len(usual) > 1:
            folders = " and ".join(each.evaluation.folder for each in usual)
            raise UserError(
                f"{folders} are both clean images of {other.model}: give the one to tell {other.folder} from"
            )
        if usual[0].evaluation.place == other.place:
            raise UserError(f"{other.folder} is given as the clean images and as the anomalous ones")
        if differ := settings_that_differ(usual[0].evaluation, other):
            self._warn(
                f"{other.folder} and the clean images, {usual[0].evaluation.folder}, were evaluated with different "
                f"settings: {differ}"
            )
        scores = [metrics.anomaly_score(confidences(each)[:, None]) for each in (usual[0].evaluation, other)]
        generator = np.random.default_rng(0)

        def area(groups: Sequence[NDArray[np.float64]]) -> float:
            anomalous = np.repeat([False, True], [len(group) for group in groups])
            return metrics.area_under_precision_recall(np.concatenate(groups), anomalous)

        # Each kind of image is drawn again by itself, so both are in every draw; each draw sorts all scores.
        draws = [
            area([generator.choice(group, len(group)) for group in scores]) for _ in range(min(self._resamples, 200))
        ]
        return {other.table.model.name: Estimate(area(scores), *percentile_interval(draws))}
