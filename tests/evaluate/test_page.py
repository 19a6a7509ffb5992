"""The HTML report: valid, self-contained, with all values, and readable in a browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import corruptions
import perturbations
from pipeline.errors import UserError
from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.bar_plots import bar_plots
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.plots import BarGroups
from pipeline.evaluate.report.sections import tables
from pipeline.evaluate.report.summary import Summary
from pipeline.transforms.imagenet_s import PAIRS
from tests.conftest import UNDER_CI
from tests.factories.summaries import (
    ALEXNET,
    EMPTY,
    HOSTILE,
    MODELS,
    attacked_models,
    hostile_summary,
    made_anomalies,
    made_clean,
    made_corruptions,
    made_perturbations,
    made_summary,
    made_system_noise,
    other_corruptions,
    summary_of,
    ten_models,
)

VOID = {"meta", "link", "br", "img", "hr", "input"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60
"""Time limit of a browser in seconds."""

COLOURS = ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73))
"""Colours of the first three models in the light theme."""

WIDTHS = (360, 390, 768, 1200)

MEASURE = """
<!doctype html><meta charset="utf-8"><pre id="found"></pre>TEMPLATES
<script>
const found = [], box = each => each.getBoundingClientRect();
const name = each => each.tagName + " " + each.textContent.trim();
function measure(view, page) {
  for (const each of page.querySelectorAll("details")) each.open = true;
  const outside = [...page.body.querySelectorAll("*")].filter(each => !each.closest(".scroll"))
    .filter(each => box(each).right > view.innerWidth + 0.5 || box(each).left < -0.5).map(name);
  const covered = [], letters = [];
  for (const plot of page.querySelectorAll("svg.plot")) {
    const texts = [...plot.querySelectorAll("text")];
    texts.forEach(each => letters.push(parseFloat(view.getComputedStyle(each).fontSize)));
    texts.forEach((one, index) => texts.slice(index + 1).forEach(other => {
      const a = box(one), b = box(other);
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 0.5 && down > 2.5) covered.push(name(one) + " / " + name(other));
    }));
  }
  const scroll = page.documentElement.scrollWidth, smallest = Math.min(...letters);
  return {width: view.innerWidth, scroll, outside, covered, smallest};
}
for (const template of document.querySelectorAll("template")) for (const width of WIDTHS) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `border: 0; height: 900px; width: ${width}px`;
  frame.onload = () => {
    found.push({name: template.dataset.name, ...measure(frame.contentWindow, frame.contentDocument)});
    document.querySelector("#found").textContent = JSON.stringify(found);
  };
  frame.srcdoc = template.content.textContent;
  document.body.append(frame);
}
</script>
"""
"""A page that shows reports in windows of several widths and lists clipped elements, overlapping texts, font sizes."""


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parents: tuple[str, ...]
    text: str = ""


@dataclass
class Strict(HTMLParser):
    """A parser that collects elements and rejects tags that are not closed exactly once."""

    elements: list[Element] = field(default_factory=list)
    _open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"duplicate attribute of {tag}"
        element = Element(tag, {key: value or "" for key, value in attrs}, tuple(each.tag for each in self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert any(each.tag == "svg" for each in self._open), f"self-closing {tag} outside of SVG"
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> without a start tag"
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def close(self) -> None:
        super().close()
        assert not self._open, [each.tag for each in self._open]


def parsed(text: str) -> list[Element]:
    parser = Strict()
    parser.feed(text)
    parser.close()
    return parser.elements


def of(elements: Sequence[Element], tag: str, class_: str | None = None) -> list[Element]:
    return [
        each
        for each in elements
        if each.tag == tag and (class_ is None or class_ in each.attributes.get("class", "").split())
    ]


def squeezed(text: str) -> str:
    return " ".join(text.split())


def partial_summary() -> Summary:
    """Return a summary of three models, of which the third was evaluated on part of ImageNet-C."""
    summary = made_summary(tuple(MODELS), warnings=["resnet18: 3 samples had failed"])
    part = made_corruptions("a large transformer", only=corruptions.names("all")[:11])
    return replace(summary, families={**summary.families, "corruptions": [*summary.families["corruptions"][:2], part]})


SUMMARIES: dict[str, Callable[[], Summary]] = {
    "one": made_summary,
    "three": lambda: made_summary(tuple(MODELS)),
    "partial": partial_summary,
    "no baseline": lambda: summary_of(
        corruptions=[made_corruptions(baseline=None)], perturbations=[made_perturbations(baseline=None)]
    ),
    "hostile": hostile_summary,
    "every pair": lambda: summary_of(system_noise=[made_system_noise(only=list(PAIRS))]),
    "other corruptions": lambda: summary_of(corruptions=[other_corruptions()]),
    "empty": lambda: EMPTY,
    "ten models": ten_models,
    "attacks": lambda: attacked_models(["ResNet-50", "DeiT-S", "a_model_with_a_very_long_name_that_somebody_chose"]),
    "one severity": lambda: summary_of(corruptions=[made_corruptions(severities=(3,), only=("fog",))]),
}


@pytest.fixture(params=SUMMARIES)
def summary(request: pytest.FixtureRequest) -> Summary:
    return SUMMARIES[request.param]()


def test_the_page_is_valid_and_self_contained(summary: Summary) -> None:
    text = page(summary, f"Title {HOSTILE}")
    assert text.startswith("<!doctype html>")
    elements = parsed(text)
    assert not of(elements, "script")
    ids = [each.attributes["id"] for each in elements if "id" in each.attributes]
    assert len(set(ids)) == len(ids)
    for each in elements:
        for name, value in each.attributes.items():
            assert not name.startswith("on"), each
            if name in {"src", "href", "xlink:href", "action", "data", "srcset"}:
                assert value.startswith("#"), each
                assert value[1:] in ids
            if name == "aria-labelledby":
                assert value in ids
    assert not of(elements, "link")
    style = "".join(each.text for each in of(elements, "style"))
    assert not re.search(r"url\(|@import|expression", style)
    assert "://" not in text
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", "".join(str(each.attributes) for each in elements))


def test_the_page_contains_all_tables(summary: Summary) -> None:
    elements = parsed(page(summary, "Title"))
    cells = [squeezed(each.text) for each in elements if each.tag in {"td", "th"} and "tbody" in each.parents]
    assert cells == [squeezed(str(cell)) for each in tables(summary) for row in each.rows for cell in row]
    for each in of(elements, "svg", "plot"):
        assert each.attributes["role"] == "img"
        assert re.search(r"\d", each.attributes["aria-label"])


def test_names_are_escaped() -> None:
    text = page(hostile_summary(), HOSTILE)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    elements = parsed(text)
    assert HOSTILE in of(elements, "h1")[0].text
    assert f"{HOSTILE}|`*a*`  [31m_b_" in of(elements, "article")[0].text


def test_the_page_is_deterministic() -> None:
    assert page(partial_summary(), "Title") == page(partial_summary(), "Title")


def test_key_figures_are_cards() -> None:
    elements = parsed(page(partial_summary(), "Title"))
    cards = [squeezed(each.text) for each in of(elements, "article", "card")]
    assert len(cards) == 3
    assert cards[0].startswith(f"ResNet-50 ImageNet-CmCE 76.9[76.6, 77.2]baseline: {ALEXNET}")
    assert "ImageNet-Smean accuracy 75.1[74.7, 75.5]" in cards[0]
    assert "only 11 of 15 corruptions" in cards[2]
    assert "only 7,490 of 7,500 images" in cards[0]
    assert cards[0].count("only") == 1


def test_warnings_come_first() -> None:
    text = page(partial_summary(), "Title")
    assert text.index("resnet18: 3 samples had failed") < text.index("<article")
    assert 'class="warnings"' not in page(made_summary(), "Title")


def test_sections_without_data_are_omitted() -> None:
    elements = parsed(page(summary_of(system_noise=[made_system_noise()]), "Title"))
    assert [squeezed(each.text) for each in of(elements, "h2")] == ["ImageNet-S"]
    assert {each.attributes["class"] for each in of(elements, "svg", "plot")} == {"plot heat", "plot reliability"}
    assert "No results" in page(EMPTY, "Title")
    assert not of(parsed(page(EMPTY, "Title")), "section")


def test_all_metrics_are_plotted() -> None:
    elements = parsed(page(made_summary(tuple(MODELS)), "Title"))
    plots = of(elements, "svg", "plot")
    labels = [each.attributes["aria-label"] for each in plots]
    assert sum(label.startswith("Line plot, accuracy in percent by severity") for label in labels) == 1 + 19 + 1 + 10
    for what in ("corruption error", "flip probability", "flip rate"):
        groups = [label for label in labels if label.startswith(f"Bar plot, {what} in percent, ")]
        assert [label.split(", ")[2].split(":")[0] for label in groups] == [
            "noise",
            "blur",
            "weather",
            "digital",
            "not in the benchmark",
        ]
    assert sum("by decoder and resize operator" in label for label in labels) == 3
    assert "fog: ResNet-50 66.0, ResNet-18 78.0, a large transformer 42.0" in " ".join(labels)
    assert "ResNet-50 51.4 at 1, 43.2 at 2, 37.8 at 3, 33.2 at 4, 29.7 at 5" in " ".join(labels)
    assert "pillow_pillow-nearest 71.9" in " ".join(labels)


def test_marks_are_at_the_values() -> None:
    summary = summary_of(corruptions=[made_corruptions()])
    elements = parsed(page(summary, "Title"))
    curve = summary.families["corruptions"][0].curve
    heights = [float(each.attributes["height"]) for each in of(elements, "svg", "plot")]
    marks = [each for each in of(elements, "svg") if "%" in each.attributes.get("x", "")][:5]
    assert [float(each.attributes["x"].rstrip("%")) for each in marks] == [4, 27, 50, 73, 96]
    for mark, each in zip(marks, curve.values(), strict=True):
        assert float(mark.attributes["y"]) == pytest.approx(heights[0] * (1 - each.value), abs=0.01)
    bars = of(elements, "rect", "bar")
    by_name = {each.text.split(":")[0]: each for each in of(elements, "title")}
    assert "ResNet-50, fog" in by_name
    assert by_name["ResNet-50, fog"].text == "ResNet-50, fog: 66.0 [65.5, 66.5] %"
    shares = [float(each.attributes["width"].rstrip("%")) for each in bars if "%" in each.attributes["width"]]
    limit = of(elements, "line", "limit")[-1].attributes["x1"]
    names = [row.name for row in summary.families["corruptions"][0].rows]
    assert shares[names.index("fog")] / float(limit.rstrip("%")) == pytest.approx(0.66, abs=0.001)


def test_unnormalised_errors_have_no_baseline_line() -> None:
    text = page(SUMMARIES["no baseline"](), "Title")
    elements = parsed(text)
    assert not of(elements, "line", "limit")
    assert "mCE" not in "".join(each.text for each in of(elements, "article"))
    assert "mean corruption error (unnormalised)" in of(elements, "article")[0].text
    assert any(each.attributes["aria-label"].startswith("Bar plot, mean error") for each in of(elements, "svg", "plot"))


def test_bars_have_the_whole_names_of_built_in_transforms() -> None:
    built_in = (name for group in ("all", "c-bar", "candidates") for name in corruptions.names(group))
    names = list(dict.fromkeys([*built_in, *perturbations.names("all"), "a_long_name_" * 9, "a" * 99]))
    one = {"model": Estimate(0.5, 0.4, 0.6)}
    (plot,) = bar_plots(BarGroups({"all": dict.fromkeys(names, one)}, "error"), {"model": 0})
    *shown, long, word = (each.label for each in plot.groups)
    assert [" ".join(label) for label in shown] == [name.replace("_", " ") for name in names[:-2]]
    assert (list(long), list(word)) == (["a long name a long", "name a long name a …"], ["a" * 20, f"{'a' * 19}…"])


def test_pairs_that_were_not_evaluated_are_empty() -> None:
    elements = parsed(page(summary_of(system_noise=[made_system_noise()]), "Title"))
    assert len(of(elements, "rect", "heat-fill")) == 13
    assert len(of(elements, "rect", "empty")) == 33 - 13
    strengths = [float(each.attributes["fill-opacity"]) for each in of(elements, "rect", "heat-fill")]
    assert min(strengths) == pytest.approx(0.04)
    assert max(strengths) == pytest.approx(0.7)


def test_many_models_differ_by_colour_or_shape() -> None:
    clean = [made_corruptions(name=f"model {index}", only=("fog",)) for index in range(12)]
    elements = parsed(page(summary_of(corruptions=clean), "Title"))
    legend = [each for each in of(elements, "path", "mark") if "li" in each.parents][:12]
    assert len({(each.attributes["class"], each.attributes["d"]) for each in legend}) == 12


def test_infinite_values_are_in_the_table_only() -> None:
    made = made_perturbations(baseline="mine", only=("tilt", "scale"))
    odd = replace(made.rows[0], flip_rate=Estimate(float("inf"), float("inf"), float("inf")))
    elements = parsed(page(summary_of(perturbations=[replace(made, rows=[odd, made.rows[1]])]), "Title"))
    assert not any("inf" in value for each in elements for value in each.attributes.values())
    assert any("inf" in each.text for each in of(elements, "td"))


def test_a_clean_evaluation_alone_has_a_page() -> None:
    clean = summary_of(clean=[replace(made_clean(), calibration=None)], anomalies=[made_anomalies()])
    text = page(clean, "Clean")
    assert "23.9" in text
    assert "<svg" not in text


def test_without_jinja_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UserError, match=re.escape("pip install 'robustshards[evaluate]'")):
        page(EMPTY, "Title")


def test_importing_the_module_does_not_load_jinja() -> None:
    code = "import sys, pipeline.evaluate.report.html; sys.exit('jinja2' in sys.modules or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=TIMEOUT)


# In a browser

Browse = Callable[..., str]


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Return a function that opens a file in headless Chromium and returns its standard output."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        message = f"no browser is on the PATH, tried {', '.join(BROWSERS)}; Debian: apt-get install chromium"
        pytest.fail(message) if UNDER_CI else pytest.skip(message)

    def run(file: Path, *options: str) -> str:
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        command += ["--no-first-run", "--hide-scrollbars", f"--user-data-dir={tmp_path / 'profile'}"]
        command += [*options, file.as_uri()]
        # A separate process group, so that child processes are killed as well.
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        assert process.returncode == 0, err
        return out

    return run


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Return the path of a page of three models."""
    file = tmp_path / "page.html"
    file.write_text(page(partial_summary(), "Robustness report"), encoding="utf-8")
    return file


@pytest.mark.parametrize(("width", "height"), [(390, 2000), (1200, 2400)])
def test_a_screenshot_shows_all_parts(browse: Browse, three: Path, tmp_path: Path, width: int, height: int) -> None:
    browse(three, f"--screenshot={tmp_path / 'picture.png'}", f"--window-size={width},{height}")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == (width, height)
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert len(np.unique(pixels @ (256**2, 256, 1))) > 50  # one number per pixel, since sorting rows is slow
    for colour in COLOURS:
        assert (np.abs(pixels - colour).max(axis=2) < 8).sum() > 300
    for part in np.array_split(pixels, 8):
        assert part.std() > 4  # no part is empty
    assert (pixels[:, -3:] == pixels[0, 0]).all()  # nothing reaches the edge


def test_nothing_is_clipped_or_overlaps(browse: Browse, tmp_path: Path) -> None:
    """One browser shows all pages, since starting it takes longer than measuring a page."""
    names = ("partial", "hostile", "no baseline", "every pair", "ten models", "attacks")
    templates = [
        f'<template data-name="{name}">{html.escape(page(SUMMARIES[name](), "Robustness report"))}</template>'
        for name in names
    ]
    wrapper = tmp_path / "wrapper.html"
    text = MEASURE.replace("WIDTHS", str(list(WIDTHS))).replace("TEMPLATES", "\n".join(templates))
    wrapper.write_text(text, encoding="utf-8")
    out = browse(wrapper, "--dump-dom", "--window-size=1400,1000", "--virtual-time-budget=5000")
    match = re.search(r'<pre id="found">(.*?)</pre>', out, re.DOTALL)
    assert match is not None
    measured = json.loads(html.unescape(match[1]))
    assert sorted((each["name"], each["width"]) for each in measured) == sorted(product(names, WIDTHS))
    for found in measured:
        where = f"{found['name']}, {found['width']} pixels wide"
        assert found["scroll"] <= found["width"], where
        assert found["outside"] == [], where
        assert found["covered"] == [], where
        assert found["smallest"] >= 11, where


def test_the_page_can_be_printed(browse: Browse, three: Path, tmp_path: Path) -> None:
    browse(three, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert 5 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 45  # a section of 40 candidates has about eight
    assert len(content) > 50_000
