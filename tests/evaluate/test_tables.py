"""Tables of a report: every metric is in all formats under the same name, and missing ones are omitted."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pipeline.evaluate.report.family import Table
from pipeline.evaluate.report.formats import NOTHING
from pipeline.evaluate.report.summary import Summary
from rich.console import Console

import corruptions
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.text import CSV_COLUMNS, to_csv, to_markdown, to_terminal
from tests.factories.summaries import (
    ALEXNET,
    EMPTY,
    MODELS,
    made_clean,
    made_corruptions,
    made_perturbations,
    made_summary,
    other_corruptions,
    summary_of,
)


def table(found: Iterable[Table], section: str, title: str) -> dict[str, Sequence[str]]:
    """Return the cells of each row of a table as text, by the first cell."""
    (one,) = [each for each in found if (each.section, each.title) == (section, title)]
    return {str(row[0]): [str(cell) for cell in row[1:]] for row in one.rows}


def terminal_text(found: Sequence[Table], width: int = 100) -> str:
    """Return the output of a terminal of this width."""
    console = Console(width=width, file=io.StringIO(), highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for part in to_terminal(found):
            console.print(part)
    return captured.get()


def csv_rows(summary: Summary) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(summary), newline="")))


def estimates(facts: Any) -> Iterator[dict[str, float]]:
    """Yield every estimate in a summary's facts."""
    if isinstance(facts, dict) and set(facts) == {"value", "low", "high"}:
        yield facts
    elif isinstance(facts, dict | list | tuple):
        for each in facts.values() if isinstance(facts, dict) else facts:
            yield from estimates(each)


def test_metrics_of_one_model_are_in_all_formats() -> None:
    summary = made_summary()
    found = tables(summary)
    figures = table(found, "ImageNet-C", "key figures")
    assert figures["mCE"] == ["76.9 [76.6, 77.2]"]
    assert figures["relative mCE"] == ["105.3"]
    assert figures["1 - mCE"] == ["23.1 [22.8, 23.4]"]
    assert figures["clean error"] == ["23.9"]
    assert figures["baseline"] == [ALEXNET]
    assert figures["images"] == ["50,000"]
    assert table(found, "ImageNet-C", "corruption error (CE)")["fog"] == ["66.0 ±0.5", "78.5"]
    assert table(found, "ImageNet-C", "accuracy by severity")["1"] == ["51.4 [51.1, 51.7]"]
    assert table(found, "ImageNet-P", "flip rate (FR)")["zoom_blur"] == ["66.1 [64.9, 67.3]"]
    assert table(found, "ImageNet-P", "flip probability")["zoom_blur"] == ["3.9 [3.8, 4.1]"]
    flips = table(found, "ImageNet-P", "key figures")
    assert flips["mean flip probability (unnormalised)"] == ["8.5 [8.4, 8.6]"]
    assert flips["NmFP"] == ["-8.5 [-8.6, -8.4]"]
    assert table(found, "ImageNet-P", "top-5 distance")["rotate"] == ["1.27 [1.24, 1.30]"]
    assert table(found, "ImageNet-S", "key figures")["NSD (percentage points)"] == ["-1.43 [-1.51, -1.35]"]
    assert table(found, "ImageNet", "key figures")["top-1 error"] == ["23.9 [23.5, 24.3]"]
    assert table(found, "imagenet-o", "key figures")["AUPR"] == ["32.8 [31.8, 33.8]"]
    markdown, text = to_markdown(found), terminal_text(found)
    assert "| mCE | 76.9 [76.6, 77.2] |" in markdown
    assert "mCE                                     76.9 [76.6, 77.2]" in text
    for each in found:
        for row in each.rows:
            assert len(row) == len(each.columns)
            assert all(map(str, row))


def test_accuracy_is_one_minus_the_error() -> None:
    row = made_corruptions().rows[3]
    title = "accuracy by corruption and severity"
    (one,) = [each for each in tables(made_summary()) if (each.section, each.title) == ("ImageNet-C", title)]
    assert [str(cell) for cell in one.rows[3][:3]] == [
        "defocus_blur",
        "ResNet-50",
        f"{100 - 100 * row.errors[1].value:.1f} ±0.4",
    ]
    assert str(one.rows[3][-1]) == f"{100 - 100 * row.mean_error.value:.1f} ±0.3"


def test_models_of_one_data_set_share_tables() -> None:
    found = tables(made_summary(tuple(MODELS)))
    assert len({(each.section, each.title) for each in found}) == len(found)
    assert [cell[:4] for cell in table(found, "ImageNet-C", "key figures")["mCE"]] == ["76.9", "84.5", "50.7"]
    errors = next(each for each in found if each.title == "corruption error (CE)")
    assert [(column.model, column.title) for column in errors.columns][1:] == [
        (model, title) for model in MODELS for title in ("CE", "relative CE")
    ]


def test_the_csv_has_every_estimate_in_full_precision() -> None:
    summary = made_summary(tuple(MODELS))
    rows = csv_rows(summary)
    assert tuple(rows[0]) == CSV_COLUMNS
    wanted = sorted((each["value"], each["low"], each["high"]) for each in estimates(summary.facts()))
    assert sorted((float(r["value"]), float(r["low"]), float(r["high"])) for r in rows if r["low"]) == wanted
    (ce,) = [r for r in rows if (r["model"], r["transform"], r["figure"]) == ("ResNet-18", "fog", "CE")]
    assert (ce["family"], ce["data_set"], ce["level"]) == ("corruptions", "ImageNet-C", "")
    assert (float(ce["value"]), ce["baseline"]) == (0.78, ALEXNET)
    (error, *_) = [r for r in rows if (r["model"], r["transform"], r["level"]) == ("ResNet-18", "fog", "2")]
    assert (error["figure"], error["baseline"]) == ("error", "")
    assert float(error["value"]) == made_corruptions("ResNet-18").rows[9].errors[2].value
    (relative,) = [r for r in rows if (r["model"], r["figure"]) == ("ResNet-50", "relative mCE")]
    assert (relative["low"], float(relative["value"])) == ("", made_corruptions().relative_mean_corruption_error)
    keys = [tuple(row[name] for name in CSV_COLUMNS[:6]) for row in rows]
    assert len(set(keys)) == len(keys)


def test_means_over_part_of_the_benchmark_are_marked() -> None:
    few = made_corruptions(only=corruptions.names("all")[:12])
    low = made_corruptions("ResNet-18", severities=(1, 3))
    noise = made_perturbations(only=("gaussian_noise", "tilt"))
    found = tables(summary_of(corruptions=[few, low], perturbations=[noise]))
    figures = table(found, "ImageNet-C", "key figures")
    for name in ("mCE", "relative mCE", "1 - mCE", "mean corruption error (unnormalised)"):
        assert all(cell.endswith(" *") for cell in figures[name])
    assert not any("*" in cell for cell in figures["clean error"])
    assert all(cell.endswith(" *") for cell in table(found, "ImageNet-C", "accuracy by severity")["3"])
    assert table(found, "ImageNet-C", "accuracy by severity").keys() == {"1", "2", "3", "4", "5"}
    assert table(found, "ImageNet-C", "accuracy by severity")["2"][1] == NOTHING
    note = found[0].note
    assert "ResNet-50: mCE, relative mCE, 1 - mCE, mean corruption error (unnormalised)" in note
    assert "over 12 of 15 corruptions." in note
    assert "over 15 of 15 corruptions, with missing severities." in note
    assert "over 2 of 10 perturbations." in to_markdown(found)
    lead = sections(summary_of(corruptions=[few]))[0].headline("ResNet-50")
    assert lead is not None
    assert lead.part == "12 of 15 corruptions"


def test_means_over_part_of_the_baseline_are_marked() -> None:
    made = made_corruptions(baseline="mine")
    rows = [replace(made.rows[0], corruption_error=None, relative_corruption_error=None), *made.rows[1:]]
    found = tables(summary_of(corruptions=[replace(made, rows=rows)]))
    figures = table(found, "ImageNet-C", "key figures")
    assert figures["mCE"][0].endswith(" *")
    assert not figures["mean corruption error (unnormalised)"][0].endswith(" *")
    assert "* ResNet-50: mCE, relative mCE, 1 - mCE averaged over 14 of 15 corruptions." in found[0].note


def test_without_a_baseline_nothing_is_normalised() -> None:
    summary = summary_of(
        corruptions=[made_corruptions(baseline=None)], perturbations=[made_perturbations(baseline=None)]
    )
    found = tables(summary)
    figures = table(found, "ImageNet-C", "key figures")
    assert figures["mean corruption error (unnormalised)"] == ["61.0 [60.8, 61.2]"]
    assert figures["baseline"] == ["none"]
    assert "No baseline" in found[0].note
    assert table(found, "ImageNet-C", "mean error over the severities (unnormalised)")["snow"][0].startswith("67.6")
    for text in (to_markdown(found), terminal_text(found), to_csv(summary)):
        for word in ("mCE", "| CE", "relative", "mFR", "flip rate", ",CE,"):
            assert word not in text
    assert not any(row["baseline"] for row in csv_rows(summary))


def test_models_with_and_without_a_baseline_share_tables() -> None:
    both = [made_corruptions(), made_corruptions("ResNet-18", baseline=None)]
    found = tables(summary_of(corruptions=both))
    assert table(found, "ImageNet-C", "key figures")["mCE"] == ["76.9 [76.6, 77.2]", NOTHING]
    assert table(found, "ImageNet-C", "corruption error (CE)")["fog"][2:] == [NOTHING, NOTHING]
    assert "mean error over the severities (unnormalised)" in {each.title for each in found}


def test_the_unnormalised_mean_has_the_same_name_in_all_formats() -> None:
    summary = made_summary()
    for text in (to_markdown(tables(summary)), terminal_text(tables(summary)), to_csv(summary)):
        assert "mean corruption error (unnormalised)" in text


def test_validation_transforms_are_marked_and_come_last() -> None:
    found = tables(made_summary())
    names = list(table(found, "ImageNet-C", "corruption error (CE)"))
    assert names[-4:] == ["speckle_noise †", "gaussian_blur †", "spatter †", "saturate †"]
    assert names[:15] == list(corruptions.names("benchmark"))


def test_other_corruptions_are_counted_and_not_marked() -> None:
    found = tables(summary_of(corruptions=[other_corruptions()]))
    assert "over 3 corruptions that are not in the benchmark." in found[0].note
    assert "†" not in to_markdown(found)


def test_repeated_model_names_are_numbered() -> None:
    found = tables(summary_of(clean=[made_clean(), made_clean("ResNet-18", name="ResNet-50")]))
    (figures,) = [each for each in found if each.title == "key figures"]
    assert [column.title for column in figures.columns] == ["metric", "ResNet-50", "ResNet-50 (2)"]
    assert [cell[:4] for cell in table(found, "ImageNet", "key figures")["top-1 error"]] == ["23.9", "30.2"]


def test_difficulties_are_separate_sections() -> None:
    made = [made_perturbations(difficulty=difficulty) for difficulty in (1, 3)]
    assert [each.title for each in sections(summary_of(perturbations=made))] == [
        "ImageNet-P",
        "ImageNet-P, difficulty 3",
    ]
    assert {row["level"] for row in csv_rows(summary_of(perturbations=made))} == {"1", "3"}


def test_an_empty_summary_is_an_empty_report() -> None:
    assert tables(EMPTY) == []
    assert to_markdown([]) == ""
    assert to_terminal([]) == []
    assert to_csv(EMPTY) == ",".join(CSV_COLUMNS) + "\n"


def test_an_evaluation_without_rows_has_counts() -> None:
    nothing = replace(made_corruptions(), rows=[], curve={}, mean_error=None, mean_corruption_error=None)
    bare = replace(
        nothing, relative_mean_corruption_error=None, residual_robustness=None, robustness=None, complete=False,
        calibration=None, category_errors={},
    )  # fmt: skip
    found = tables(summary_of(corruptions=[bare]))
    assert [each.title for each in found] == ["key figures"]
    assert [row[0] for row in found[0].rows] == ["clean error", "baseline", "images", "failed"]
    assert sections(summary_of(corruptions=[bare]))[0].headline("ResNet-50") is None
