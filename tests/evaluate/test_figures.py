"""Figures: alternative texts, looks, equal bytes, and names that do not break them."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace
from itertools import combinations

import pytest

from pipeline.errors import UserError
from pipeline.evaluate.report.figures import described, drawn, figure, legend, panels
from pipeline.evaluate.report.labels import places, shortened
from pipeline.evaluate.report.panels import PAPER, room_of
from pipeline.evaluate.report.views import COUNT, Axis, Panel, Plot, Point
from tests.factories.documents import (
    CORRUPTIONS,
    HOSTILE,
    MODELS,
    bars,
    curves,
    heat_map,
    hostile_document,
    reliability,
    scatter,
)

PLOTS = {
    "line": curves(MODELS, ["mean"]),
    "small lines": curves(MODELS, CORRUPTIONS[:7]),
    "bars": bars(MODELS),
    "heat map": heat_map(MODELS),
    "reliability": reliability(MODELS),
    "scatter": scatter(MODELS),
}
DESCRIPTIONS = {
    "line": "Line plot, mean, accuracy in percent by severity: EfficientNet-Lite0: 1 80.0, 2 70.0, 3 60.0, 4 50.0, "
    "5 40.0; EfficientNet-Lite1: 1 77.0, ",
    "bars": "Bar plot, noise, CE in percent: gaussian noise: EfficientNet-Lite0 48.0, EfficientNet-Lite1 51.6, "
    "EfficientNet-Lite2 55.2; shot noise: ",
    "heat map": "Heat map, EfficientNet-Lite0, accuracy in percent by decoder: pillow-nearest: pillow 75.0, "
    "ffmpeg 50.0; opencv-area: pillow 74.0.",
    "reliability": "Reliability diagram, EfficientNet-Lite0, accuracy in percent by confidence: severity 1: "
    "9.0 at 10.0, 45.0 at 50.0, 81.0 at 90.0; severity 2: 4.5 at 10.0, ",
    "scatter": "Scatter plot, by size, mCE in percent by parameters (millions): EfficientNet-Lite0: 60.0 at 5.0; ",
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_alternative_texts_have_all_values(name: str) -> None:
    plot = PLOTS[name]
    assert described(plot, plot.panels[0]).startswith(DESCRIPTIONS[name])
    assert f'aria-label="{DESCRIPTIONS[name]}' in panels(plot, MODELS)[0]


def test_alternative_texts_have_marked_points_and_texts_of_ticks() -> None:
    budget = Axis("budget", COUNT, ticks={0: "0", 2: "8/255"})
    points = [Point("one", x, y, marked=x != 1) for x, y in enumerate((0.7, 0.5, 0.1))]
    panel = Panel("", points, budget, Axis("accuracy"))
    assert (
        described(Plot("lines", [panel]), panel) == "Line plot, accuracy in percent by budget: one: 0 70.0, 8/255 10.0."
    )


@pytest.mark.parametrize("name", PLOTS)
def test_equal_plots_have_equal_bytes(name: str) -> None:
    plot = replace(PLOTS[name], panels=PLOTS[name].panels[:1])
    assert panels(plot, MODELS) == panels(plot, MODELS)


@pytest.mark.parametrize(("form", "start", "has_text"), [("pdf", b"%PDF", b"/FontFile2"), ("svg", b"<?xml", b"<text")])
def test_files_have_no_date_and_need_no_fonts(form: str, start: bytes, has_text: bytes) -> None:
    found = drawn(PLOTS["bars"], MODELS)[form]
    assert found == drawn(PLOTS["bars"], MODELS)[form]
    assert found.startswith(start)
    assert b"Date" not in found
    assert (has_text in found) == (form == "pdf")


def test_figures_have_the_width_of_columns() -> None:
    assert figure(PLOTS["line"], MODELS).get_figwidth() == 3.35
    for name in ("small lines", "bars", "heat map", "reliability"):
        assert figure(PLOTS[name], MODELS).get_figwidth() == 7


def test_bars_and_marks_are_at_the_values() -> None:
    (axes, _) = figure(PLOTS["bars"], MODELS).axes
    assert [
        bar.get_path().transformed(bar.get_patch_transform()).get_extents().width for bar in axes.patches[:3]
    ] == pytest.approx([0.48, 0.492, 0.504])
    (axes,) = figure(PLOTS["line"], MODELS).axes
    assert axes.lines[1].get_ydata() == pytest.approx([0.77, 0.67, 0.57, 0.47, 0.37])


def test_models_have_one_look_in_all_figures_and_differ() -> None:
    names = [f"model {index}" for index in range(24)]
    (axes,) = figure(curves(names, ["mean"]), names).axes
    looks = [(line.get_color(), line.get_marker()) for line in axes.lines]
    assert len(set(looks)) == 24
    (axes, _) = figure(bars(names), names).axes
    assert len({(each[0].get_facecolor(), each[0].get_hatch()) for each in axes.containers}) == 24
    (alone,) = figure(curves(names[5:6], ["mean"]), names).axes
    assert (alone.lines[0].get_color(), alone.lines[0].get_marker()) == looks[5]


def test_published_points_are_hollow() -> None:
    (axes,) = figure(PLOTS["scatter"], MODELS).axes
    assert [line.get_color() == PAPER for line in axes.lines] == [False, False, False, True]
    assert [key.kind for key in legend(PLOTS["scatter"], MODELS)] == ["published"]


def test_labels_of_points_do_not_overlap() -> None:
    (panel,) = scatter(MODELS).panels
    size = room_of(scatter(MODELS), panel, 3.3).inner
    assert all(place for _, place in places(panel, size, {}))
    crowd = scatter([f"model number {index}" for index in range(30)])
    keys = legend(crowd, [])
    assert keys[0].text == "1 model number 0"
    (axes,) = figure(crowd, []).axes
    assert [text.get_text() for text in axes.texts] == [str(index) for index in range(1, 32)]


def test_dense_lines_have_no_marks() -> None:
    for marked, count in ((range(100), 0), ((0, 50), 2)):
        points = [Point("one", x, 0.5, marked=x in marked) for x in range(100)]
        plot = Plot("lines", [Panel("", points, Axis("bandwidth", COUNT), Axis("accuracy"))])
        assert len(figure(plot, ["one"]).axes[0].lines[0].get_markevery()) == count


def test_texts_of_close_levels_do_not_overlap() -> None:
    points = [Point("one", x, 0.5) for x in (1, 2, 3, 8, 16, 32, 64, 159)]
    (axes,) = figure(Plot("lines", [Panel("", points, Axis("bandwidth", COUNT), Axis("accuracy"))]), ["one"]).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "32", "64", "159"]


def test_infinite_and_missing_values_are_left_out() -> None:
    values = [float("inf"), float("nan"), 0.5]
    panel = Panel("", [Point("one", x, y) for x, y in zip("abc", values, strict=True)], Axis(""), Axis("CE"))
    (svg,) = panels(Plot("bars", [panel]), ["one"])
    assert "Bar plot, CE in percent: c: one 50.0." in svg
    assert not re.search("nan|inf", svg)
    assert panels(Plot("bars", [replace(panel, points=[])]), [])


def test_long_names_are_shortened_in_the_middle_and_differ() -> None:
    assert shortened(["EfficientNet-Lite0"], 20) == {"EfficientNet-Lite0": "EfficientNet-Lite0"}
    names = [f"{'a' * 30}{middle}{'b' * 30}" for middle in ("x", "y")]
    texts = shortened([*names, "c" * 50], 20)
    assert texts["c" * 50] == f"{'c' * 10}…{'c' * 9}"
    assert texts[names[0]] != texts[names[1]]
    assert {len(text) for text in texts.values()} == {20}
    assert all(one != other for one, other in combinations(shortened(["模型", "样本"], 20).values(), 2))


def test_hostile_names_are_drawn_as_they_are() -> None:
    document = hostile_document()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for table in document.tables:
            assert table.plot
            for svg in panels(table.plot, document.models):
                assert "<script" not in svg
                assert "&lt;script&gt;" in svg
        assert drawn(bars([HOSTILE]), document.models)


def test_the_settings_of_the_process_are_neither_used_nor_changed() -> None:
    import matplotlib

    plain = drawn(PLOTS["line"], MODELS)
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "text.usetex": True, "lines.linewidth": 9}):
        before = dict(matplotlib.rcParams)
        assert drawn(PLOTS["line"], MODELS) == plain
        assert dict(matplotlib.rcParams) == before


def test_pyplot_is_not_imported() -> None:
    code = (
        "import sys; from tests.factories.documents import *; from pipeline.evaluate.report.figures import drawn;"
        "drawn(bars(MODELS), MODELS); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=re.escape("pip install 'robustshards[evaluate]'")):
        panels(PLOTS["line"], MODELS)
