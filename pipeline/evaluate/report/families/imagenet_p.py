"""The report on ImageNet-P and its editions: how often predictions change within sequences."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

import perturbations
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.alexnet import ALEXNET_FLIP_PROBABILITIES
from pipeline.evaluate.metrics.arrays import Figures, Floats
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families.imagenet_c import ALEXNET, has_published_baseline, warn_of_image_count
from pipeline.evaluate.report.join import ConditionImages, ImageValues, Scores, join_columns
from pipeline.evaluate.report.load import Evaluation, reading
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.subject import Grid, Means, Subject
from pipeline.evaluate.report.views import PLAIN
from pipeline.text import printable
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_p import FAMILY

BENCHMARK = perturbations.names("benchmark")

MFR, FLIP_RATE = Metric("mFR", -1, "ratio"), Metric("flip rate", -1, "ratio")
MEAN_FLIPS = Metric("mean flip probability (unnormalised)", -1)
FLIPS = Metric("flip probability", -1)
NMFP = Metric("NmFP", 1, "negated fraction")
MT5D, T5D = Metric("mT5D", -1, "ratio"), Metric("T5D", -1, "ratio")
MEAN_DISTANCE = Metric("mean top-5 distance (unnormalised)", -1, "ranks, 0 to 15", PLAIN)
DISTANCE = Metric("top-5 distance", -1, "ranks, 0 to 15", PLAIN)


def sequence_scores(evaluation: Evaluation) -> dict[int, Scores]:
    """Return flip probability and top-5 distance of sequences, (S, perturbations, 2), by difficulty.

    Raises:
        UserError: If a transform is not a perturbation of ImageNet-P, or all sequences have one frame.
    """
    columns: dict[int, dict[Condition, ImageValues]] = {}
    images, difficulties = ConditionImages(evaluation), evaluation.levels()
    for predicted in evaluation.predictions():
        name = predicted.condition.transform
        if name not in FAMILY.names:
            raise UserError(
                f"{evaluation.folder}: {printable(name)!r} is not a perturbation of ImageNet-P, so no metric is "
                "defined for it"
            )
        ordered = not FAMILY.grain(name)
        # Noise sequences are built for each difficulty. For other perturbations, a higher difficulty compares frames
        # that are further apart.
        for difficulty in difficulties if ordered else [predicted.condition.level]:
            step = difficulty if ordered else 1
            if difficulty < predicted.top1.shape[1]:
                with reading(evaluation.folder):
                    flips = metrics.flip_probabilities_by_sequence(predicted.top1, ordered=ordered, difficulty=step)
                    distances = metrics.top5_distances_of_lists_by_sequence(
                        predicted.top5, ordered=ordered, difficulty=step
                    )
                values = ImageValues(images(predicted), np.stack([flips, distances], axis=1))
                columns.setdefault(difficulty, {})[Condition(name, difficulty)] = values
    if not columns:
        raise UserError(
            f"{evaluation.folder} contains sequences of one frame: at least two are needed to compare predictions"
        )
    return {difficulty: join_columns(evaluation, columns[difficulty]) for difficulty in sorted(columns)}


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    """Yield the results of an evaluation on ImageNet-P or one of its editions, one for each difficulty.

    Means are over the benchmark's perturbations in the data set; if it has none of them, over all its perturbations.
    """
    cache: dict[str, dict[int, Scores]] = {}
    for difficulty, scores in sequence_scores(evaluation).items():
        subject = Subject(evaluation, context, scores, benchmark=BENCHMARK, what="perturbation")
        baseline, reference = _baseline(subject, difficulty, cache)
        measures = [*_measures(subject.grid, subject.grid_of(scores.values[..., 1]), reference)]
        normalised = any(each.metric in {FLIP_RATE.name, T5D.name} for each in measures)
        if normalised and not context.baseline:
            warn_of_image_count(evaluation, subject.grid.images, context)
        results = subject.results(
            REPORT,
            measures,
            counts={"sequences": (subject.grid.images, 0)},
            transforms={
                name: TransformNames(perturbations.get(name).group, name in BENCHMARK)
                for name in subject.grid.transforms
            },
            level=difficulty,
            baseline=baseline if normalised else "",
            published="imagenet-p" if baseline == ALEXNET and normalised and difficulty == 1 else "",
            details={"difficulty": difficulty, "complete": subject.grid.is_complete},
        )
        yield results if difficulty == 1 else results.titled(f"{results.data_set}, difficulty {difficulty}")


def _baseline(subject: Subject, difficulty: int, cache: dict[str, dict[int, Scores]]) -> tuple[str, Floats]:
    """Return the name of the baseline, and its flip probabilities and top-5 distances, (perturbations, 2) or NaN.

    Raises:
        UserError: If the evaluated baseline does not match the evaluation.
    """
    evaluation, context, keys = subject.evaluation, subject.context, subject.scores.keys
    unknown = np.full((len(keys), 2), np.nan)
    if not context.baseline:
        if difficulty != 1 or not has_published_baseline(evaluation):
            return "", unknown
        unknown[:, 0] = [ALEXNET_FLIP_PROBABILITIES.get(key.transform, np.nan) for key in keys]
        return ALEXNET, unknown

    def read(other: Evaluation) -> Scores | None:
        if other.location not in cache:
            cache[other.location] = sequence_scores(other)
        return cache[other.location].get(difficulty)

    name = context.baseline[0].table.model.name
    found = context.baseline_values(evaluation, subject.scores, BENCHMARK, read)
    if found is None and cache:
        raise UserError(
            f"{evaluation.folder}: the baseline {name!r} was not evaluated at difficulty {difficulty}: evaluate it on "
            "the same data set"
        )
    if found is None:
        return "", unknown
    _, values = found
    return name, np.array([values[key].mean(axis=0) if key in values else [np.nan] * 2 for key in keys])


def _measures(flips: Grid, distances: Grid, baseline: Floats) -> Iterator[Measure]:
    """Yield flip probabilities and top-5 distances, their means, and those divided by the baseline's."""
    negated = flips.estimate(
        NMFP, lambda means: metrics.negative_mean_flip_probability(means.cells[..., flips.counted, 0])
    )
    of_flips, of_distances = (FLIPS, MEAN_FLIPS, FLIP_RATE, MFR), (DISTANCE, MEAN_DISTANCE, T5D, MT5D)
    yield from _of_values(flips, baseline[:, 0], of_flips, metrics.flip_rate, negated)
    yield from _of_values(distances, baseline[:, 1], of_distances, metrics.top5_ratio)


def _of_values(
    grid: Grid,
    baseline: Floats,
    names: tuple[Metric, Metric, Metric, Metric],
    rate: Callable[[Floats, Floats], Figures],
    more: Iterable[Measure] = (),
) -> Iterator[Measure]:
    """Yield values by perturbation, their mean, both divided by the baseline's, and after the means ``more``."""
    each, mean, ratio, mean_ratio = names
    counted, divisors = grid.counted, np.where(baseline > 0, baseline, np.nan)

    def mean_rate(means: Means) -> Figures:
        return np.mean(rate(means.cells[..., counted, 0], divisors[counted]), axis=-1)

    yield from grid.estimate(mean_ratio, mean_rate)
    yield from grid.estimate(mean, lambda means: grid.mean(means.cells))
    yield from more
    yield from grid.estimate(each, lambda means: means.cells[..., 0], "transform")
    yield from grid.estimate(ratio, lambda means: rate(means.cells[..., 0], divisors), "transform")


REPORT = FamilyReport(
    family=FAMILY.name,
    key="perturbations",
    measure=measure,
    metrics=(MFR, MEAN_FLIPS, NMFP, MT5D, MEAN_DISTANCE, FLIPS, FLIP_RATE, DISTANCE, T5D),
    leads=(MFR.name, MEAN_FLIPS.name),
    note="Percent, except top-5 distances, which range from 0 to 15; with the 95 % confidence interval over "
    "sequences in brackets. Lower is better, except for NmFP, the negated mean flip probability.",
    normalised_note="mFR and mT5D are in percent of the baseline's values.",
    transform="perturbation",
    tables=(
        Pivot(
            "flip probability",
            [FLIPS.name],
            "How often the predicted class differs between successive frames (for noise: between the first frame and "
            "each other one), in percent, with the 95 % confidence interval over sequences in brackets. Lower is "
            "better.",
            plot="bars",
        ),
        Pivot(
            "flip rate (FR)",
            [FLIP_RATE.name],
            "Flip probability in percent of the baseline's, with the 95 % confidence interval over sequences in "
            "brackets. Lower is better; 100 equals the baseline.",
            plot="bars",
        ),
        Pivot(
            "top-5 distance",
            [DISTANCE.name, T5D.name],
            "How much the ranking of the five most probable classes differs between the same frames, from 0 to 15. "
            "Lower is better. T5D, if shown, is in percent of the baseline's top-5 distance.",
        ),
    ),
    glossary={
        "Flip probability, flip rate": "Flip probability: how often the predicted class differs between successive "
        "frames (for noise: between the first frame and each other one). Flip rate: the flip probability divided by "
        "the baseline's. mFR is the mean flip rate over the ten perturbations of the benchmark; NmFP is the negated "
        "mean flip probability.",
        "Top-5 distance, T5D": "How much the ranking of the five most probable classes differs between the same "
        "frames: 0 if it is identical, 15 if none of the five classes remains. T5D is the top-5 distance divided by "
        "the baseline's; mT5D is its mean over the ten perturbations of the benchmark.",
    },
    sources=("Hendrycks and Dietterich, ICLR 2019 (ImageNet-C, ImageNet-P)",),
    needs_labels=False,
)
