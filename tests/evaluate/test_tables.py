"""Tables of measures: rows, columns, marks and their notes; and the tidy table, which has all measures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from pipeline.evaluate.report.families import imagenet_c
from pipeline.evaluate.report.measures import Measure, Results, TransformNames
from pipeline.evaluate.report.report import ReportData
from pipeline.evaluate.report.text import to_markdown, to_text
from pipeline.evaluate.report.views import NOTHING
from pipeline.evaluate.report.write import SCHEMA, to_csv
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import cells, lines, measure, report_on, table, tables_of

BENCHMARK = corruptions.names("benchmark")
MEAN = "mean corruption error (unnormalised)"
CE_TABLE, ERROR_TABLE = "corruption error (CE)", "mean error over the severities (unnormalised)"


def made(*results: Results) -> ReportData:
    return ReportData(results, [], [], [], {})


def results(
    model: str = "a", names: Sequence[str] = ("fog", "snow"), *, baseline: str = "base", covers: str = "", **more: Any
) -> Results:
    """Return results on ImageNet-C with an error of 10 % under the first corruption, 20 % under the second and so on.

    CE is twice, relative CE three times the error.
    """
    errors = {name: 0.1 * (index + 1) for index, name in enumerate(names)}
    per_corruption = {"mean error (unnormalised)": 1, **({"CE": 2, "relative CE": 3} if baseline else {})}
    measures = [
        *([Measure("mCE", 0.3, 0.2, 0.4, covers=covers)] if baseline else []),
        Measure(MEAN, 0.15, 0.1, 0.2, covers=covers),
        Measure("clean error", 1 / 30, 0.01, 0.05),
        Measure("mean accuracy", 0.85, 0.8, 0.9, level=2, covers=covers),
        *(Measure("accuracy", 1 - error, 0.5, 0.95, name, 2) for name, error in errors.items()),
        *(
            Measure(metric, factor * error, factor * error - 0.05, factor * error + 0.05, name)
            for metric, factor in per_corruption.items()
            for name, error in errors.items()
        ),
    ]
    transforms = {name: TransformNames("weather", name in BENCHMARK) for name in names}
    fields = {"counts": {"images": (40, 50), "failed": (0, 0)}, "baseline": baseline, "clean_images": "png", **more}
    return Results(imagenet_c.REPORT, "C", "C", model, measures, transforms=transforms, **fields)


def test_models_with_and_without_a_baseline_share_tables() -> None:
    report = made(results(), results("b", baseline=""))
    figures = table(report, "key figures")
    assert [column.title for column in figures.columns] == ["metric", "a", "b"]
    assert cells(figures) == {
        "mCE": ["30.0 [20.0, 40.0]", NOTHING],
        MEAN: ["15.0 [10.0, 20.0]"] * 2,
        "clean error": ["3.3 [1.0, 5.0]"] * 2,
        "baseline": ["base", "none"],
        "clean images": ["png"] * 2,
        "images": ["40 of 50"] * 2,
        "failed": ["0"] * 2,
    }
    errors = table(report, CE_TABLE)
    assert [(column.model, column.title) for column in errors.columns][1:] == [
        (model, title) for model in "ab" for title in ("CE", "relative CE")
    ]
    assert cells(errors)["snow"] == ["40.0 ±5.0", "60.0 ±5.0", NOTHING, NOTHING]
    assert cells(table(report, ERROR_TABLE))["snow"] == ["20.0 [15.0, 25.0]"] * 2
    by_severity = table(report, "accuracy by corruption and severity")
    assert [str(cell) for cell in by_severity.rows[0]] == ["fog", "a", "90.0 ±22.5", NOTHING]
    assert all(each.caption.startswith("40 images") for each in tables_of(report) if each.section == "C")
    assert ERROR_TABLE not in [each.title for each in tables_of(made(results()))]


def test_without_a_baseline_no_output_has_normalised_metrics() -> None:
    report = made(results(baseline=""))
    assert "No baseline" in table(report, "key figures").note
    found = tables_of(report)
    for text in (to_markdown(found), to_text(found), to_csv(report)):
        assert MEAN in text
        assert not any(word in text for word in ("mCE", "| CE", "relative", ",CE,"))


def test_the_csv_has_every_measure_in_full_precision() -> None:
    both = results(), results("b")
    report = made(*both)
    found = lines(report)
    assert list(found[0]) == SCHEMA.names
    wanted = [
        (each.model, one.transform, str(one.level or ""), one.metric, one.value, one.low, one.high)
        for each in both
        for one in each.measures
    ]
    ranks = [line for line in found if line["unit"] in {"rank", "count"}]
    rows = [line for line in found if line not in ranks]
    keys = ("model", "transform", "level", "metric")
    assert wanted == [
        (*(row[key] for key in keys), *(float(row[end]) for end in ("value", "low", "high"))) for row in rows
    ]
    assert len({tuple(row[key] for key in keys) for row in found}) == len(found)
    about = {row["metric"]: (row["unit"], row["baseline"], row["clean_images"], row["images"]) for row in rows}
    assert about["mCE"] == ("ratio", "base", "", "40")
    assert about["clean error"] == ("fraction", "", "png", "40")
    assert [row["value"] for row in ranks if row["metric"] == "images"] == ["40.0"] * 2


@pytest.mark.parametrize(
    ("names", "severities", "covers"),
    [
        (corruptions.names("all")[:12], (1, 2, 3, 4, 5), "12 of 15 corruptions"),
        (BENCHMARK, (1, 3), "15 of 15 corruptions, with missing severities"),
        (BENCHMARK, (1, 2, 3, 4, 5), ""),
        (("own", "fog"), (1,), "1 of 15 corruptions"),
        (("own", "mine", "third"), (1,), "3 corruptions that are not in the benchmark"),
        (("own",), (1,), "1 corruption that is not in the benchmark"),
        (("gaussian_noise", "tilt"), (0,), "2 of 10 perturbations"),
    ],
)
def test_means_name_the_part_of_the_benchmark_that_they_cover(
    tmp_path: Path, names: Sequence[str], severities: Sequence[int], covers: str
) -> None:
    sequences = severities == (0,)
    logits = {(name, level or 1): votes([0, 0]) for name in names for level in severities}
    if sequences:
        logits = {key: np.stack([value]) for key, value in logits.items()}
    family = "perturbations" if sequences else "corruptions"
    report = report_on(write_evaluation(tmp_path / "r", logits, [0] * (2 - sequences), family=family), resamples=20)
    metric = "mean flip probability (unnormalised)" if sequences else MEAN
    assert measure(report.results[0], metric).covers == covers
    (headline,) = report.document().headlines["made"]
    assert (headline.metric, headline.part) == (metric, covers)
    assert (f"made: {metric}" in table(report, "key figures").note) == bool(covers)


def test_partial_means_are_marked_with_one_note_per_table() -> None:
    report = made(*(results(model, covers="2 of 15 corruptions") for model in "ab"), results("c"))
    figures, curve = table(report, "key figures"), table(report, "accuracy by severity")
    marked = [True, True, False]
    for row in (cells(figures)["mCE"], cells(figures)[MEAN], cells(curve)["2"]):
        assert [cell.endswith("] *") for cell in row] == marked
    assert not any("*" in cell for cell in cells(figures)["clean error"])
    assert figures.note.count("*") == curve.note.count("*") == 1
    assert f"* a, b: mCE, {MEAN} averaged over 2 of 15 corruptions." in figures.note
    assert "* a, b: mean accuracy averaged over 2 of 15 corruptions." in curve.note


def test_validation_corruptions_are_marked_and_come_last() -> None:
    report = made(results(names=("speckle_noise", "fog", "spatter", "snow")))
    found = table(report, CE_TABLE)
    assert list(cells(found)) == ["fog", "snow", "speckle_noise †", "spatter †"]
    assert found.note.count("†") == 1
    assert "†" not in to_markdown(tables_of(made(results(names=("own", "mine")))))


def test_repeated_model_names_are_numbered() -> None:
    figures = table(made(results(), results()), "key figures")
    assert [column.title for column in figures.columns] == ["metric", "a", "a (2)"]


def test_a_report_without_measures_has_counts_or_nothing() -> None:
    bare = Results(imagenet_c.REPORT, "C", "C", "a", [], {"images": (0, 0)})
    (only,) = tables_of(made(bare))
    assert (only.title, cells(only)) == ("key figures", {"baseline": ["none"], "images": ["0"]})
    assert made(bare).document().headlines == {"a": []}
    assert tables_of(made()) == []
    assert to_csv(made()) == ",".join(SCHEMA.names) + "\n"
