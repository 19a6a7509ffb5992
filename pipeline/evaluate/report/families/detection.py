"""The report on object detection and segmentation: mPC and rPC from a table of measured values.

Source: Michaelis et al. 2019, arXiv 1907.07484.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import corruptions
from pipeline.errors import UserError
from pipeline.evaluate import metrics
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.families.imagenet_c import ACCURACY_TABLE, CURVE_TABLE
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, TransformNames
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.text import shown

PERFORMANCE = Metric("P", 1)
MPC = Metric("mPC", 1)
RPC = Metric("rPC", 1)
VALUE = Metric("performance", 1)
MEAN_VALUE = Metric("mean performance", 1)

PUBLISHED: Mapping[tuple[str, str], str] = {
    ("coco-c", "mask AP"): "coco-c",
    ("pascal-c", "AP50"): "pascal-c",
    ("cityscapes-c", "box AP"): "cityscapes-c",
}
"""Data set and measure -> data set in the table of published figures."""

OPTIONAL = {"model": "", "data_set": "detection", "measure": "AP"}
"""Columns that a file may have, with their defaults; that of the model is the name of the file."""


class Row(NamedTuple):
    """A line of a file: the value at a corruption and a severity, and that on clean images."""

    corruption: str
    severity: int
    value: float
    clean: float


def measure_files(paths: Sequence[str]) -> list[Results]:
    """Return the results in CSV files.

    Raises:
        UserError: A file cannot be read, a value is missing or invalid, or a condition is given twice.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for path in paths:
        for (model, *others), row in _rows(path):
            groups.setdefault((model or local_path(path).stem, *others), []).append(row)
    return [_results(model, data_set, measure, rows) for (model, data_set, measure), rows in groups.items()]


def _rows(path: str) -> Iterator[tuple[list[str], Row]]:
    """Yield the model, data set and measure of each line of a file, and its values."""
    file = local_path(path)
    try:
        text = LocalStore(str(file.parent)).read(file.name, limit=SMALL_FILE).decode()
    except OSError as error:
        raise UserError(f"cannot read the results {shown(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{shown(path)} is not a CSV file in UTF-8: {error.reason}") from error
    reader = csv.DictReader(io.StringIO(text))
    if missing := [name for name in Row._fields if name not in (reader.fieldnames or ())]:
        raise UserError(
            f"{shown(path)} has no column {missing[0]!r}: it needs {', '.join(Row._fields)}, and may have "
            f"{', '.join(OPTIONAL)}"
        )
    for line in reader:
        where = f"line {reader.line_num} of {shown(path)}"
        try:
            row = Row(line["corruption"], int(line["severity"]), float(line["value"]), float(line["clean"]))
        except (TypeError, ValueError):
            raise UserError(
                f"{where} is not valid: severity must be 1..5, value and clean fractions 0..1, none of them empty; "
                "leave out no condition, and measure it again if it has no value"
            ) from None
        if row.corruption not in corruptions.names("all") or row.severity not in metrics.SEVERITIES:
            raise UserError(f"{where}: unknown condition {shown(row.corruption)} at severity {row.severity}")
        if not (0 <= row.value <= 1 and 0 < row.clean <= 1):
            raise UserError(f"{where}: the values {row.value:g} and {row.clean:g} must be fractions 0..1, not percent")
        yield [line.get(name) or default for name, default in OPTIONAL.items()], row


def _results(model: str, data_set: str, measure: str, rows: Sequence[Row]) -> Results:
    """Return the results of a model on a data set."""
    where = f"{shown(model)} on {shown(data_set)} ({shown(measure)})"
    names = [name for name in corruptions.names("all") if any(row.corruption == name for row in rows)]
    table = np.full((len(names), len(metrics.SEVERITIES)), np.nan)
    for row in rows:
        place = names.index(row.corruption), row.severity - 1
        if not np.isnan(table[place]):
            raise UserError(f"{where} has two values of {row.corruption} at severity {row.severity}: give one")
        table[place] = row.value
    if np.isnan(table).any():
        index, level = np.argwhere(np.isnan(table))[0]
        raise UserError(
            f"{where} has no value of {names[index]} at severity {level + 1}: add it, or leave out all severities of "
            "this corruption; a missing value does not count as 0"
        )
    if len(clean := {row.clean for row in rows}) > 1:
        raise UserError(f"{where} has several clean values, {min(clean):g} and {max(clean):g}: give one")
    counted = [index for index, name in enumerate(names) if name in corruptions.names("benchmark")]
    return Results(
        REPORT,
        title := f"{data_set}, {measure}",
        title,
        model,
        list(_measures(table, names, counted, clean.pop())),
        {},
        {name: TransformNames(corruptions.get(name).group, index in counted) for index, name in enumerate(names)},
        published=PUBLISHED.get((data_set, measure), ""),
    )


def _measures(table: Floats, names: Sequence[str], counted: Sequence[int], clean: float) -> Iterator[Measure]:
    """Yield the measures of a table (corruptions, severities)."""
    total = len(corruptions.names("benchmark"))
    covers = "" if len(counted) == total else f"{len(counted)} of {total} corruptions"
    yield Measure(PERFORMANCE.name, clean)
    if counted:
        found = metrics.mpc(table[counted], clean)
        yield Measure(MPC.name, float(found.mpc), covers=covers)
        yield Measure(RPC.name, float(found.rpc), covers=covers)
        for level, value in zip(metrics.SEVERITIES, table[counted].mean(axis=0), strict=True):
            yield Measure(MEAN_VALUE.name, float(value), level=level, covers=covers)
    for name, values in zip(names, table, strict=True):
        yield Measure(VALUE.name, float(values.mean()), transform=name)
        for level, value in zip(metrics.SEVERITIES, values, strict=True):
            yield Measure(VALUE.name, float(value), transform=name, level=level)


REPORT = FamilyReport(
    family="detection",
    key="detection",
    metrics=(PERFORMANCE, MPC, RPC, MEAN_VALUE, VALUE),
    leads=(MPC.name,),
    note="Percent. Higher is better. P is the measure on clean images, mPC its mean over the corruptions of the "
    "benchmark and their severities, rPC is mPC divided by P.",
    transform="corruption",
    level="severity",
    tables=(
        replace(
            CURVE_TABLE,
            title="performance by severity",
            metrics=[MEAN_VALUE.name],
            note="Percent, averaged over the corruptions of the benchmark. Higher is better.",
        ),
        Pivot(
            "performance by corruption",
            [VALUE.name],
            "Percent, averaged over the severities. Higher is better.",
            plot="bars",
        ),
        replace(
            ACCURACY_TABLE,
            title="performance by corruption and severity",
            metrics=[VALUE.name],
            note="Percent. Higher is better.",
        ),
    ),
    glossary={
        "P, mPC, rPC": "Performance on clean images, mean performance under corruption, and relative performance under "
        "corruption, mPC / P. The measure is AP for COCO and Cityscapes, and AP50 for Pascal VOC."
    },
    sources=("Michaelis et al. 2019, arXiv 1907.07484 (COCO-C, Pascal-C, Cityscapes-C)",),
)
