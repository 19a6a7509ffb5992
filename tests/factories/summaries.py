"""Summaries of evaluations with given figures, for tables and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import corruptions
import perturbations
from corruptions import c_bar
from pipeline.evaluate.metrics.alexnet import (
    ALEXNET_ERRORS,
    ALEXNET_FLIP_PROBABILITIES,
    ALEXNET_MEAN_ERRORS,
    SEVERITIES,
)
from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.anomalies import AnomalySummary
from pipeline.evaluate.report.attack_summaries import (
    AdversarialSummary,
    AttackRow,
    WorstCase,
    section_title,
    worst_case_names,
)
from pipeline.evaluate.report.attacks import NORMS
from pipeline.evaluate.report.budgets import BudgetRow, BudgetSummary
from pipeline.evaluate.report.calibration import Calibration, CalibrationSummary, LevelCalibration, ReliabilityBin
from pipeline.evaluate.report.clean import CleanSummary
from pipeline.evaluate.report.corruption_rows import CorruptionRow
from pipeline.evaluate.report.imagenet_c import CorruptionSummary
from pipeline.evaluate.report.imagenet_c_bar import BarSummary
from pipeline.evaluate.report.imagenet_p import PerturbationRow, PerturbationSummary
from pipeline.evaluate.report.imagenet_s import PairRow, SystemNoiseSummary
from pipeline.evaluate.report.low_pass import LowPassSummary
from pipeline.evaluate.report.models import ReportModel
from pipeline.evaluate.report.ranking import compare
from pipeline.evaluate.report.sections import sections
from pipeline.evaluate.report.shifts import ShiftSummary
from pipeline.evaluate.report.summary import Summary
from pipeline.evaluate.report.syn2nat import CandidateRow, CandidateSummary
from pipeline.evaluate.report.transfer import summarise_transfer
from pipeline.recipes import library
from pipeline.recipes.attacks import Norm, budget_text
from pipeline.transforms.imagenet_s import GROUPS, PAIRS
from pipeline.transforms.syn2nat import CATEGORY_OF, SYN2NAT

ALEXNET = "AlexNet (published)"
"""Name of the baseline."""

HOSTILE = "<script>alert(1)</script>"
"""Markup that must be escaped."""

MODELS: Mapping[str, tuple[float, tuple[int, ...]]] = {
    "ResNet-50": (0.239, (80, 82, 83, 75, 89, 78, 80, 78, 75, 66, 57, 71, 85, 77, 77)),
    "ResNet-18": (0.302, (87, 88, 91, 84, 91, 87, 89, 86, 84, 78, 69, 78, 90, 80, 85)),
    "a large transformer": (0.158, (44, 45, 46, 55, 74, 52, 66, 47, 46, 42, 36, 39, 63, 50, 55)),
}
"""Clean error, and CE in percent by corruption. The first two models are published, the third is invented."""

SMALL = {
    "ResNet-50 trained with AugMix": 0.93, "DeiT-S": 0.8, "Swin-T": 0.83, "ConvNeXt-B": 0.68, "EfficientNet-B0": 0.96,
    "MobileNetV3-Large 1.0": 1.06, "a_model_with_a_very_long_name_that_somebody_chose": 0.81,
}  # fmt: skip
"""Factors of ResNet-50's errors for invented models. Some of them are close to each other."""

ALL_MODELS: Mapping[str, tuple[float, tuple[int, ...]]] = {
    **MODELS,
    **{
        model: (0.239 * factor**0.5, tuple(round(ce * factor) for ce in MODELS["ResNet-50"][1]))
        for model, factor in SMALL.items()
    },
}
"""Clean error and CE of ten models, as in ``MODELS``."""

KEYS = ("corruptions", "perturbations", "system_noise", "syn2nat", "c_bar", "low_pass", "shifts", "anomalies", "clean")
"""Families in the order of a report."""


def summary_of(
    *, warnings: Sequence[str] = (), models: Sequence[ReportModel] = (), **families: Sequence[Any]
) -> Summary:
    """Return a summary as ``summarise`` does: the project's families in the order of a report."""
    summary = Summary({**dict.fromkeys(KEYS, ()), **families}, warnings, models=models)
    return replace(summary, comparison=compare(sections(summary)))


EMPTY = summary_of()


def estimate(value: float, half: float = 0.004) -> Estimate:
    return Estimate(value, value - half, value + half)


def made_calibration(
    error: float, levels: Sequence[int] = (), transforms: Sequence[str] = (), counted: Sequence[str] = ()
) -> CalibrationSummary:
    """Return a calibration that gets worse with the level. The mean over transforms is that of each transform.

    Args:
        error: Error rate of the model, 0..1.
        levels: Levels; empty for images without a transform.
        transforms: Names of all transforms.
        counted: Transforms that the reliability diagram is over.
    """
    overall = LevelCalibration(
        _calibration(error), {level: _calibration(error * (1 + 0.1 * (level - 3))) for level in levels}
    )
    images = 10_000 * max(len(counted), 1)
    return CalibrationSummary(
        overall,
        dict.fromkeys(transforms, overall),
        {
            level: [
                ReliabilityBin(
                    low / 15, (low + 1) / 15, images * (1 + low * low), (low + 0.6) / 15,
                    max((low + 0.6) / 15 - 0.02 * level * (low / 15), 0.0),
                )
                for low in range(15)
            ]
            for level in levels or [0]
        },
    )  # fmt: skip


def _calibration(error: float) -> Calibration:
    return Calibration(0.2 * error, 0.19 * error, estimate(4 * error, 0.01), estimate(1.3 * error, 0.002))


def made_corruptions(
    model: str = "ResNet-50",
    *,
    name: str | None = None,
    data_set: str = "ImageNet-C",
    baseline: str | None = ALEXNET,
    only: Sequence[str] = corruptions.names("all"),
    severities: Sequence[int] = SEVERITIES,
) -> CorruptionSummary:
    """Return a summary with the figures of ``MODELS``. The extra corruptions are slightly better than AlexNet."""
    clean, table = ALL_MODELS[model]
    ratios = {**dict(zip(ALEXNET_ERRORS, table, strict=True)), **dict.fromkeys(ALEXNET_MEAN_ERRORS, mean(table))}
    rows = []
    for each in only:
        published = ALEXNET_ERRORS.get(each) or [ALEXNET_MEAN_ERRORS[each] * (0.7 + 0.1 * s) for s in SEVERITIES]
        errors = {s: estimate(min(published[s - 1] * ratios[each] / 100, 0.99)) for s in severities}
        ce, kind = ratios[each] / 100, corruptions.get(each)
        relative = sum(e.value - clean for e in errors.values()) / sum(published[s - 1] - 0.4348 for s in severities)
        error = estimate(mean([e.value for e in errors.values()]), 0.003)
        normalised = (estimate(ce, 0.005), relative) if baseline else (None, None)
        rows.append(CorruptionRow(each, kind.group, kind.benchmark, errors, error, *normalised))
    counted = [row for row in rows if row.benchmark]
    mean_error = mean([row.mean_error.value for row in counted])
    return CorruptionSummary(
        name or model,
        data_set,
        50_000,
        0,
        baseline,
        len(counted) == 15 and len(severities) == 5,
        rows,
        {s: estimate(1 - mean([row.errors[s].value for row in counted]), 0.003) for s in severities},
        estimate(mean_error, 0.002),
        estimate(mean([row.corruption_error.value for row in counted if row.corruption_error]), 0.003)
        if baseline
        else None,
        mean([row.relative_corruption_error or 0 for row in counted]) if baseline else None,
        clean,
        mean_error - clean,
        robustness=estimate(1 - mean([row.corruption_error.value for row in counted if row.corruption_error]), 0.003)
        if baseline
        else None,
        calibration=made_calibration(mean_error, severities, only, [row.name for row in counted]),
        category_errors={
            category: estimate(mean([row.corruption_error.value for row in of_category if row.corruption_error]))
            for category in ("noise", "blur", "weather", "digital")
            if baseline and (of_category := [row for row in counted if row.group == category])
        },
    )


def made_perturbations(
    model: str = "ResNet-50",
    *,
    name: str | None = None,
    baseline: str | None = ALEXNET,
    only: Sequence[str] = perturbations.names("all"),
    difficulty: int = 1,
) -> PerturbationSummary:
    """Return flip rates close to the model's CE. Top-5 distances have no baseline, because none was published."""
    rate = mean(ALL_MODELS[model][1]) / 100 * 0.8
    rows = []
    for position, each in enumerate(only):
        kind, factor = perturbations.get(each), rate * (1 + 0.05 * (position % 4 - 1.5))
        flip = estimate(ALEXNET_FLIP_PROBABILITIES[each] * factor, 0.0015)
        ratio = estimate(factor, 0.012) if baseline else None
        distance = estimate(10 * flip.value + 0.4, 0.03)
        rows.append(PerturbationRow(each, kind.group, kind.benchmark, difficulty, flip, ratio, distance, None))
    counted = [row for row in rows if row.benchmark]
    rates = [row.flip_rate.value for row in counted if row.flip_rate]
    return PerturbationSummary(
        name or model,
        "ImageNet-P",
        10_000,
        0,
        difficulty,
        baseline,
        len(counted) == 10,
        rows,
        estimate(mean([row.flip_probability.value for row in counted]), 0.001),
        estimate(mean(rates), 0.006) if rates else None,
        estimate(mean([row.top5_distance.value for row in counted]), 0.02),
        None,
        nmfp=estimate(-mean([row.flip_probability.value for row in counted]), 0.001),
    )


def made_system_noise(
    model: str = "ResNet-50", *, name: str | None = None, only: Sequence[str] = GROUPS["paper"]
) -> SystemNoiseSummary:
    """Return accuracies that decrease most with nearest neighbours and slightly with other decoders."""
    best = 1 - ALL_MODELS[model][0]
    rows = []
    for position, pair in enumerate(only):
        loss = 0.034 * ("nearest" in pair) + 0.0021 * (PAIRS[pair].decoder != "pillow") + 0.0013 * (position % 5)
        rows.append(PairRow(pair, PAIRS[pair].decoder, PAIRS[pair].resize, estimate(best - loss * (2 - best))))
    accuracies = [row.accuracy.value for row in rows]
    spread = mean([(each - mean(accuracies)) ** 2 for each in accuracies]) ** 0.5
    nsd = Estimate(-100 * spread, -100 * spread - 0.08, -100 * spread + 0.08)
    return SystemNoiseSummary(
        name or model, "ImageNet-S", 50_000, 0, rows, estimate(mean(accuracies)), nsd,
        calibration=made_calibration(1 - best, (0,), only, only),
    )  # fmt: skip


def made_candidates(
    model: str = "ResNet-50", *, name: str | None = None, only: Sequence[str] = corruptions.names("candidates")
) -> CandidateSummary:
    """Return a summary in which each candidate costs up to 0.3 of the accuracy. Solarize gains a little."""
    clean = 1 - ALL_MODELS[model][0]
    costs = {each: -0.002 if each == "Solarize" else 0.3 * (1 + place % 7) / 7 for place, each in enumerate(only)}
    rows = [
        CandidateRow(
            *(each, CATEGORY_OF.get(each, ""), each in SYN2NAT, estimate(clean - cost * clean), estimate(cost * clean))
        )
        for each, cost in costs.items()
    ]
    counted = [row for row in rows if row.benchmark]
    accuracy = mean([row.accuracy.value for row in counted])
    figures = estimate(accuracy, 0.002), estimate(clean - accuracy, 0.002), clean
    return CandidateSummary(name or model, "ImageNet-Syn2Nat", 50_000, 0, rows, *figures)


def made_bar(model: str = "ResNet-50", *, name: str | None = None) -> BarSummary:
    """Return a summary in which the error increases with the severity, and differs between corruptions."""
    clean, ten = ALL_MODELS[model][0], c_bar.PUBLISHED["imagenet"]
    rows = []
    for place, each in enumerate(ten):
        errors = {s: estimate(min(clean + 0.06 * s + 0.04 * ((3 * place) % 10), 0.99)) for s in SEVERITIES}
        error = estimate(mean([e.value for e in errors.values()]), 0.003)
        rows.append(CorruptionRow(each, "benchmark", True, errors, error, None))
    curve = {s: estimate(1 - mean([row.errors[s].value for row in rows]), 0.003) for s in SEVERITIES}
    overall = mean([row.mean_error.value for row in rows])
    return BarSummary(
        name or model, "ImageNet-C-bar", 50_000, 0, True, rows, curve, estimate(overall, 0.002),
        estimate(overall - 0.02, 0.002), estimate(0.02, 0.001), clean,
        calibration=made_calibration(overall, SEVERITIES, ten, ten), complete_images=50_000,
    )  # fmt: skip


def made_attacks(model: str = "ResNet-50", *, attacked: str = "", recipe: str = "robustart") -> AdversarialSummary:
    """Return the summary of three attacks at three levels on the model itself, or on another one."""
    clean, levels = 1 - ALL_MODELS[model][0], (1, 2, 3)
    norms: Mapping[str, Norm] = {"pgd_linf": "linf", "pgd_l1": "l1", "autoattack_l2": "l2"}
    budgets: Mapping[Norm, Sequence[float]] = {"linf": (0.002, 0.008, 0.032), "l2": (0.5, 2, 8), "l1": (100, 400, 1600)}
    robust = {level: estimate((0.9 if attacked else 0.6) / level * clean) for level in levels}
    lost = {level: estimate(1 - each.value) for level, each in robust.items()} if attacked else {}
    rows = [
        AttackRow(
            name, norm, NORMS[norm], True, dict(zip(levels, budgets[norm], strict=True)), 50_000, robust, robust,
            robust, lost,
        )
        for name, norm in norms.items()
    ]  # fmt: skip
    worst = {
        name: WorstCase(robust[level], list(norms), ["fgsm"] if level == 3 else [])
        for level, name in enumerate(worst_case_names(3), 1)
    }
    what = f"transfer from {attacked}" if attacked else "white box"
    return AdversarialSummary(
        model, section_title("imagenet-c-clean", recipe, what), "imagenet-c-clean", recipe, attacked or model,
        not attacked, 50_000, int(50_000 * clean), 0, rows, worst, clean,
    )  # fmt: skip


def made_budgets(model: str = "ResNet-50") -> BudgetSummary:
    """Return a summary whose accuracy falls linearly to 0."""
    clean = 1 - ALL_MODELS[model][0]
    listed = (0.5 / 255, 1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255)
    rows = [BudgetRow(budget_text("linf", each), each, estimate(clean * (1 - each * 255 / 16))) for each in listed]
    curve = [estimate(clean * (1 - point / 64)) for point in range(65)]
    figures = estimate(8, 0.2), estimate(8 * clean, 0.1)
    title = "imagenet-c-clean, autoattack_linf up to 16/255"
    return BudgetSummary(
        model, title, "autoattack_linf", "linf", 16 / 255, 10, 50_000, int(50_000 * clean), 3, estimate(clean), rows,
        curve, *figures,
    )  # fmt: skip


def attacked_models(models: Sequence[str]) -> Summary:
    """Return attacks on models, transferred to each other, and smallest budgets."""
    white = [made_attacks(model) for model in models]
    transferred = [made_attacks(target, attacked=source) for source in models for target in models if target != source]
    return summary_of(
        adversarial=[*white, *transferred],
        transfer=summarise_transfer([*white, *transferred]),
        budgets=[made_budgets(model) for model in models],
    )


def made_clean(model: str = "ResNet-50", *, name: str | None = None) -> CleanSummary:
    clean = ALL_MODELS[model][0]
    return CleanSummary(
        name or model, "ImageNet", 50_000, 3, estimate(clean), estimate(clean * 0.3, 0.002),
        calibration=made_calibration(clean),
    )  # fmt: skip


def made_shifts(model: str = "ResNet-50", *, name: str | None = None) -> list[ShiftSummary]:
    """Return a data set with groups, of which images are missing, and one without groups but with several folders."""
    clean = 1 - ALL_MODELS[model][0]
    return [
        ShiftSummary(
            name or model, "imagenet-a", 7_490, 10, estimate(clean - 0.7), estimate(clean - 0.72),
            estimate(clean - 0.4), clean + 0.1, estimate(0.8, 0.006), complete_images=7_500,
            calibration=made_calibration(1.7 - clean),
        ),
        ShiftSummary(
            name or model, "imagenet-v", 10_000, 0, estimate(clean - 0.4), None, estimate(clean - 0.2), clean,
            estimate(0.4, 0.006), 0.02, "sofa_2", complete_images=10_000, calibration=made_calibration(1.4 - clean),
        ),
    ]  # fmt: skip


def made_anomalies(model: str = "ResNet-50", *, name: str | None = None) -> AnomalySummary:
    aupr = estimate(0.1 + 0.3 * (1 - ALL_MODELS[model][0]), 0.01)
    return AnomalySummary(name or model, "imagenet-o", 2_000, 10_000, 0, aupr, 2_000)


def made_low_pass(model: str = "ResNet-50", *, name: str | None = None) -> LowPassSummary:
    """Return a summary whose normalised accuracy rises with the bandwidth, and faster for better models."""
    clean, bandwidths = ALL_MODELS[model][0], library.load("low-pass").transforms.levels
    curve = {b: estimate(1 - (1 + b / 20) ** (-3 + clean) if b < bandwidths[-1] else 1.0, 0.006) for b in bandwidths}
    bias = 40 * clean + 15
    return LowPassSummary(
        name or model, "Low-pass", 1000, 0, bandwidths, round(1000 * (1 - clean)), estimate(bias, 0.6),
        estimate(bias + 9, 1.1), estimate(bias + 4, 0.8), 1 - clean,
        {b: estimate(each.value * (1 - clean), 0.01) for b, each in curve.items()}, curve,
    )  # fmt: skip


def made_summary(
    models: Sequence[str] = ("ResNet-50",),
    *,
    warnings: Sequence[str] = (),
    described: Sequence[ReportModel] = (),
) -> Summary:
    """Return a summary with every kind of data set for each of these models, of which some are described."""
    return summary_of(
        models=described,
        corruptions=[made_corruptions(model) for model in models],
        perturbations=[made_perturbations(model) for model in models],
        system_noise=[made_system_noise(model) for model in models],
        syn2nat=[made_candidates(model) for model in models],
        c_bar=[made_bar(model) for model in models],
        low_pass=[made_low_pass(model) for model in models],
        clean=[made_clean(model) for model in models],
        shifts=[each for model in models for each in made_shifts(model)],
        anomalies=[made_anomalies(model) for model in models],
        warnings=warnings,
    )


def ten_models() -> Summary:
    """Return a summary of ten models with notes and sizes."""
    described = [
        ReportModel(
            name,
            "trained with AugMix, from the authors' checkpoint" if "AugMix" in name else "",
            int(5.3e6 * 1.4**index),
            int(0.39e9 * 1.7**index) if index % 4 else None,
        )
        for index, name in enumerate(ALL_MODELS)
    ]
    return made_summary(tuple(ALL_MODELS), described=described)


def hostile_summary() -> Summary:
    """Return a summary whose names contain markup."""
    name = f"{HOSTILE}|`*a*`\n\x1b[31m_b_"
    whole = made_corruptions(name=name, data_set=f"C {HOSTILE} [a](b)", baseline=f'"{HOSTILE}')
    rows = [replace(whole.rows[0], name=f"{HOSTILE}' onload='x", group=HOSTILE), *whole.rows[1:]]
    noise = made_system_noise(name=name)
    pairs = [replace(noise.rows[0], decoder=HOSTILE, resize=f"a&b{HOSTILE}"), *noise.rows[1:]]
    return summary_of(
        corruptions=[replace(whole, rows=rows)],
        perturbations=[made_perturbations(name=name)],
        system_noise=[replace(noise, rows=pairs)],
        syn2nat=[made_candidates(name=name)],
        c_bar=[made_bar(name=name)],
        low_pass=[made_low_pass(name=name)],
        clean=[made_clean(name=name)],
        shifts=made_shifts(name=name),
        anomalies=[made_anomalies(name=name)],
        warnings=[f"{HOSTILE} & more"],
    )


def other_corruptions() -> CorruptionSummary:
    """Return a data set with only a user's corruptions. Means are over all of them."""
    made = made_corruptions(only=corruptions.names("noise"), baseline=None)
    rows = [replace(row, name=f"own_{row.name}", group="", benchmark=False) for row in made.rows]
    return replace(made, rows=rows, complete=False, data_set="mine")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
