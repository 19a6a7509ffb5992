"""The HTML report: valid, self-contained, with all values, and readable in a browser."""

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
from functools import cache
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import UserError
from pipeline.evaluate.report.panels import COLOURS
from pipeline.evaluate.report.views import Document
from pipeline.evaluate.report.write import _template, frame, page
from tests.conftest import UNDER_CI
from tests.factories.documents import HOSTILE, MANY, MODELS, document, hostile_document

VOID = {"meta", "link", "br", "img", "hr", "input"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60
"""Time limit of a browser in seconds."""

RGB = tuple(tuple(bytes.fromhex(colour[1:])) for colour in COLOURS[:3])
"""Colours of the first three models in the light theme."""

WIDTHS = (360, 390, 768, 1200)

MEASURE = """
<!doctype html><meta charset="utf-8"><pre id="found"></pre>TEMPLATES
<script>
const found = [], box = each => each.getBoundingClientRect();
const size = (view, each) => {
  const scale = each.getScreenCTM();
  return parseFloat(view.getComputedStyle(each).fontSize) * Math.hypot(scale.a, scale.b);
};
const name = each => each.tagName + " " + each.textContent.trim();
function measure(view, page) {
  for (const each of page.querySelectorAll("details")) each.open = true;
  const outside = [...page.body.querySelectorAll("*")].filter(each => !each.closest(".scroll, figure"))
    .filter(each => box(each).right > view.innerWidth + 0.5 || box(each).left < -0.5).map(name);
  const covered = [], letters = [];
  for (const plot of page.querySelectorAll("svg.plot")) {
    const texts = [...plot.querySelectorAll("text")];
    texts.forEach(each => letters.push(size(view, each)));
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


EMPTY = Document("Title", [], [], {}, {}, 0, [], [], [])
DOCUMENTS: dict[str, Callable[[], Document]] = {
    "one": lambda: document(MODELS[:1]),
    "three": document,
    "many": lambda: document(MANY),
    "hostile": hostile_document,
    "empty": lambda: EMPTY,
}


@cache
def shown(name: str) -> tuple[Document, str]:
    """Return a document and its page."""
    found = DOCUMENTS[name]()
    return found, page(found)


@pytest.mark.parametrize("case", DOCUMENTS)
def test_the_page_is_valid_and_self_contained(case: str) -> None:
    _, text = shown(case)
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
            for reference in re.findall(r"url\((.*?)\)", value) if name in {"style", "clip-path", "fill"} else ():
                assert reference[0] == "#", each
                assert reference[1:] in ids
            if name == "aria-labelledby":
                assert value in ids
    assert not of(elements, "link")
    (style,) = of(elements, "style")
    assert not re.search(r"url\(|@import|expression", style.text)
    assert "://" not in text
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", "".join(str(each.attributes) for each in elements))


@pytest.mark.parametrize("case", DOCUMENTS)
def test_the_page_contains_all_tables_and_figures(case: str) -> None:
    found, text = shown(case)
    elements = parsed(text)
    cells = [squeezed(each.text) for each in elements if each.tag in {"td", "th"} and "tbody" in each.parents]
    assert cells == [squeezed(str(cell)) for each in found.tables for row in each.rows for cell in row]
    plots = of(elements, "svg", "plot")
    assert len(plots) == sum(len(each.plot.panels) for each in found.tables if each.plot)
    for each in plots:
        assert each.attributes["role"] == "img"
        assert re.search(r"\d", each.attributes["aria-label"])


def test_names_are_escaped() -> None:
    _, text = shown("hostile")
    assert "<script" not in text
    elements = parsed(text)
    for tag in ("h1", "h2", "h3", "h4", "article", "figure", "li", "th", "footer"):
        assert any(HOSTILE in each.text for each in of(elements, tag)), tag


def test_the_page_is_deterministic() -> None:
    assert page(document(MODELS[:1])) == shown("one")[1]


def test_key_figures_are_cards_after_the_warnings() -> None:
    _, text = shown("three")
    cards = [squeezed(each.text) for each in of(parsed(text), "article", "card")]
    assert cards[0] == (
        "EfficientNet-Lite0 a note ImageNet-CmCE 70.0[69.6, 70.4]baseline: AlexNet (published)over 14 of 15 corruptions"
    )
    assert len(cards) == 3
    assert text.index("resnet18: 3 samples had failed") < text.index("<article")
    assert 'class="warnings"' not in page(EMPTY)
    assert "No results" in page(EMPTY)


def test_glossary_sources_and_provenance_are_at_the_end() -> None:
    (footer,) = of(parsed(shown("three")[1]), "footer")
    text = squeezed(footer.text)
    assert "CE, mCE Corruption error." in text or "CE, mCECorruption error." in text
    assert "Hendrycks and Dietterich, ICLR 2019." in text
    assert text.endswith("commandrobustshards report one two seed0")


def test_each_plot_has_one_legend_with_full_names() -> None:
    found, text = shown("many")
    elements = parsed(text)
    legends = of(elements, "ul", "legend")
    plots = [each.plot for each in found.tables if each.plot]
    assert len(legends) == sum(plot.kind != "heat map" for plot in plots)
    assert all(model in legends[0].text for model in MANY)
    assert "baseline: AlexNet (published)" in legends[1].text
    swatches = [each.attributes["class"] for each in of(elements, "i", "swatch") if "li" in each.parents]
    assert len(set(swatches)) == len(MANY)


def test_a_document_without_plots_needs_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = document()
    tables = [replace(each, plot=None) for each in found.tables]
    assert "70.0" in page(replace(found, chapters=[replace(found.chapters[0], tables=tables)]))
    with pytest.raises(UserError, match=re.escape("pip install 'robustshards[evaluate]'")):
        page(found)


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    (element,) = parsed(frame(page(EMPTY), HOSTILE))
    assert element.attributes["title"] == HOSTILE
    assert element.attributes["srcdoc"].startswith(
        '<!doctype html>\n<html lang="en">\n<head><base href="about:srcdoc">'
    )


def test_without_jinja_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UserError, match=re.escape("pip install 'robustshards[evaluate]'")):
        page(EMPTY)


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
    file.write_text(shown("three")[1], encoding="utf-8")
    return file


@pytest.mark.parametrize(("width", "height"), [(390, 2000), (1200, 2400)])
def test_a_screenshot_shows_all_parts(browse: Browse, three: Path, tmp_path: Path, width: int, height: int) -> None:
    browse(three, f"--screenshot={tmp_path / 'picture.png'}", f"--window-size={width},{height}")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == (width, height)
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert len(np.unique(pixels @ (256**2, 256, 1))) > 50  # one number per pixel, since sorting rows is slow
    for colour in RGB:
        assert (np.abs(pixels - colour).max(axis=2) < 8).sum() > 300
    for part in np.array_split(pixels, 8):
        assert part.std() > 4  # no part is empty
    assert (pixels[:, -3:] == pixels[0, 0]).all()  # nothing reaches the edge


def test_nothing_is_clipped_or_overlaps(browse: Browse, tmp_path: Path) -> None:
    """One browser shows all pages, since starting it takes longer than measuring a page."""
    names = ("three", "many", "hostile")
    templates = [f'<template data-name="{name}">{html.escape(shown(name)[1])}</template>' for name in names]
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
        assert found["smallest"] >= 9, where


def test_the_page_can_be_printed(browse: Browse, three: Path, tmp_path: Path) -> None:
    browse(three, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
    assert len(content) > 50_000
