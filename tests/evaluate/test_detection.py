"""mPC and rPC of detectors, from tables of measured values."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

import corruptions
import robustshards as rs
from pipeline.errors import UserError

PRINTED = {
    ("cityscapes/AP", "Faster R-CNN R50", "cityscapes-c", "box AP"): (36.4, 12.2, 33.4),
    ("coco/AP_segm", "Mask R-CNN R50", "coco-c", "mask AP"): (34.2, 16.8, 49.1),
    ("pascal/AP50", "Faster R-CNN R50", "pascal-c", "AP50"): (80.5, 48.6, 60.4),
}
"""Measures, model, data set and measure -> P, mPC and rPC as published, in percent."""

HEAD = ("model", "data_set", "measure", "corruption", "severity", "value", "clean")


def write(path: Path, rows: Iterable[Sequence[object]], head: Sequence[str] = HEAD) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def lines(
    value: float = 0.25, clean: float = 0.5, names: Sequence[str] = corruptions.names("benchmark")
) -> list[list[object]]:
    return [[name, severity, value, clean] for name in names for severity in range(1, 6)]


def test_published_rows_follow_from_the_published_measures(shared: Path, tmp_path: Path) -> None:
    rows = []
    with np.load(shared / "golden" / "native.npz") as archive:
        for key, *group in PRINTED:
            measures = archive[f"measures/{key}"]
            table = measures.mean(axis=-1) if measures.ndim == 3 else measures
            rows += [
                [*group, name, severity, row[severity], row[0]]
                for name, row in zip(corruptions.names("all"), table, strict=True)
                for severity in range(1, 6)
            ]
    report = rs.report(results=write(tmp_path / "AP.csv", rows), published=True)
    figures = report.data.figures()
    for (_, model, data_set, measure), printed in PRINTED.items():
        found = figures[model][f"{data_set}, {measure}"]
        assert tuple(round(100 * found[name], 1) for name in ("P", "mPC", "rPC")) == printed
    assert {(each.section, each.metric, round(100 * each.value, 1)) for each in report.data.published} == {
        (f"{group[2]}, {group[3]}", metric, value)
        for group, printed in PRINTED.items()
        for metric, value in zip(("P", "mPC", "rPC"), printed, strict=True)
    }
    assert "49.1" in report.latex()


def test_missing_corruptions_are_marked(tmp_path: Path) -> None:
    file = write(tmp_path / "yolo.csv", lines(names=["fog", "snow", "saturate"]), HEAD[3:])
    (results,) = rs.report(results=file).data.facts()["results"]
    assert results["model"] == "yolo"
    of_all = [row for row in results["measures"] if row["metric"] == "mPC"]
    assert [(row["value"], row["covers"]) for row in of_all] == [(0.25, "2 of 15 corruptions")]


def test_bars_without_intervals_are_drawn(tmp_path: Path) -> None:
    report = rs.report(results=write(tmp_path / "yolo.csv", lines(names=["fog", "snow"]), HEAD[3:]))
    assert "Bar plot, weather, performance in percent: snow: yolo 25.0; fog: yolo 25.0." in report.html()
    (axes,) = report.figure("performance by corruption").axes
    assert [bar.get_width() for bar in axes.patches] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("rows", "head", "message"),
    [
        (lines()[1:], HEAD[3:], "no value of gaussian_noise at severity 1.*does not count as 0"),
        ([*lines(), lines()[0]], HEAD[3:], "two values of gaussian_noise at severity 1"),
        (lines(25, 50), HEAD[3:], "not percent"),
        ([*lines()[:-1], ["jpeg_compression", 5, "", 0.5]], HEAD[3:], "line 76 .* none of them empty"),
        ([*lines()[:-1], ["jpeg_compression", 5, 0.25, 0.6]], HEAD[3:], "several clean values, 0.5 and 0.6"),
        (lines(names=["fogg"]), HEAD[3:], "unknown condition 'fogg'"),
        (lines(), HEAD[:4], "no column 'severity'"),
    ],
)
def test_invalid_tables_are_refused(
    tmp_path: Path, rows: list[list[object]], head: Sequence[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        rs.report(results=write(tmp_path / "AP.csv", rows, head))


def test_mpc_has_leading_axes_and_refuses_missing_values() -> None:
    table = np.stack([np.full((15, 5), 0.2), np.full((15, 5), 0.3)])
    found = rs.metrics.mpc(table, [0.4, 0.5])
    np.testing.assert_allclose(found.mpc, [0.2, 0.3])
    np.testing.assert_allclose(found.rpc, [0.5, 0.6])
    assert tuple(rs.metrics.mpc(table[0], 0.4)) == pytest.approx((0.2, 0.5))
    table[0, 3, 2] = np.nan
    with pytest.raises(ValueError, match="1 of 150 values are missing"):
        rs.metrics.mpc(table, 0.5)
    with pytest.raises(ValueError, match="clean performance 0"):
        rs.metrics.mpc(table[1], 0)
