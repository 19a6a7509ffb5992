"""From evaluations of one or more models to a summary: which is clean, which is the baseline, what to warn of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.evaluate import baselines, metrics
from pipeline.evaluate.figures import SUMMARIES, Baseline, Evaluation, clean_figures, open_evaluation, wrong
from pipeline.evaluate.folder import EvaluationTable, pixels_changed
from pipeline.evaluate.intervals import percentile_interval
from pipeline.evaluate.summary import Estimate, Summary

ALEXNET = "AlexNet (published)"
IMAGENET_CLASSES = 1000


def summarise(
    folders: Sequence[str],
    baselines_from: Sequence[str] = (),
    anomalous: str | None = None,
    resamples: int = 1000,
) -> Summary:
    """The figures of one or more evaluations, of one or more models.

    Evaluations of clean images give the clean error of their model. ``baselines_from`` are evaluations of the model
    whose figures others are divided by; without them it is AlexNet as published, for models of 1000 classes on
    images of 224 pixels, and none for others. ``anomalous`` is an evaluation of images that belong to no class
    (ImageNet-O), told apart from the clean ones by the model of the same name.
    Raises UserError for what is no evaluation, UnfinishedError for one that is not whole.
    """
    evaluations = [open_evaluation(folder) for folder in folders]
    clean = {
        each.table.model.name: clean_figures(each, resamples)
        for each in evaluations
        if each.table.data_set.family == "none"
    }
    own = _own_baseline([open_evaluation(folder) for folder in baselines_from])
    found: dict[str, list[Any]] = {"corruptions": [], "perturbations": [], "system-noise": []}
    for each in evaluations:
        family = each.table.data_set.family
        if family != "none":
            baseline = own or _published_baseline(each.table)
            found[family] += SUMMARIES[family](each, clean.get(each.table.model.name), baseline, resamples)
    return Summary(
        found["corruptions"],
        found["perturbations"],
        found["system-noise"],
        list(clean.values()),
        _anomalies(evaluations, anomalous, resamples) if anomalous else {},
        [warning for each in evaluations for warning in _warnings(each)],
    )


def _published_baseline(table: EvaluationTable) -> Baseline | None:
    """AlexNet, for what it was measured on: 1000 classes, 224 pixels."""
    if table.data_set.profile != "imagenet" or table.model.classes != IMAGENET_CLASSES:
        return None

    def errors(name: str, levels: Sequence[int]) -> Sequence[float] | None:
        try:
            return baselines.alexnet_errors(name, levels)
        except ValueError:  # not published: a corruption of others, or part of the levels of one of validation
            return None

    flips = {(name, 1): value for name, value in baselines.ALEXNET_FLIP_PROBABILITIES.items()}
    return Baseline(ALEXNET, baselines.ALEXNET_CLEAN_ERROR, errors, flips, {})


def _own_baseline(evaluations: Sequence[Evaluation]) -> Baseline | None:
    """The figures of an evaluated model, from as many evaluations as there are of it. Raises UserError for two."""
    names = {each.table.model.name for each in evaluations}
    if not names:
        return None
    if len(names) > 1:
        raise UserError(f"the baseline is one model, and these are evaluations of {', '.join(sorted(names))}")
    errors: dict[tuple[str, int], float] = {}
    clean: float | None = None
    flips: dict[tuple[str, int], float] = {}
    moves: dict[tuple[str, int], float] = {}
    for each in evaluations:
        family = each.table.data_set.family
        if family == "none":
            clean = float(np.mean([wrong(step, each.folder).mean() for step in each.steps()]))
        elif family == "corruptions":
            for step in each.steps():
                errors[step.step.transform, step.step.level] = float(wrong(step, each.folder).mean())
        elif family == "perturbations":
            for summary in SUMMARIES["perturbations"](each, None, None, 1):
                for row in summary.rows:
                    flips[row.name, row.difficulty] = row.flip_probability.value
                    moves[row.name, row.difficulty] = row.top5_distance.value

    def known(name: str, levels: Sequence[int]) -> Sequence[float] | None:
        found = [errors.get((name, level)) for level in levels]
        return None if None in found else [error for error in found if error is not None]

    return Baseline(names.pop(), clean, known, flips, moves)


def _anomalies(evaluations: Sequence[Evaluation], anomalous: str, resamples: int) -> dict[str, Estimate]:
    """AUPR of telling the images of ``anomalous`` from the clean ones by the confidence of the same model."""
    other = open_evaluation(anomalous)
    name = other.table.model.name
    usual = [each for each in evaluations if each.table.data_set.family == "none" and each.table.model.name == name]
    if not usual:
        raise UserError(f"{anomalous} needs an evaluation of clean images by {name} beside it, to tell them from")
    scores = [
        metrics.anomaly_score(np.concatenate([step.confidence[:, 0] for step in each.steps()])[:, None])
        for each in (usual[0], other)
    ]
    generator = np.random.default_rng(0)

    def area(groups: Sequence[NDArray[np.float64]]) -> float:
        anomalous = np.repeat([False, True], [len(group) for group in groups])
        return metrics.area_under_precision_recall(np.concatenate(groups), anomalous)

    # Each kind of image is drawn again by itself, so that both are there in every draw; each draw sorts all scores.
    draws = [area([generator.choice(group, len(group)) for group in scores]) for _ in range(min(resamples, 200))]
    return {name: Estimate(area(scores), *percentile_interval(draws))}


def _warnings(each: Evaluation) -> Iterator[str]:
    about = each.table
    changed, checked = pixels_changed(each.store)
    if changed:
        yield (
            f"{each.folder}: {changed:,} of {checked:,} samples that were compared decode to other pixels on the "
            "machine of the evaluation than where they were built: the decoder differs, and results may too"
        )
    if about.data_set.failed:
        yield f"{each.folder}: {about.data_set.failed:,} samples of the data set had failed and are not counted"
