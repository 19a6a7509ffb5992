"""Tables as Markdown and as text: complete cells at any width, and names without effect."""

import io
from collections.abc import Sequence

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from pipeline.evaluate.report.text import plain_cell, to_markdown, to_markdown_page, to_terminal, to_text
from pipeline.evaluate.report.views import COUNT, NOTHING, PLAIN, Number, Table
from pipeline.text import printable
from tests.factories.documents import (
    HOSTILE,
    MANY,
    MODELS,
    by_model_table,
    document,
    error_table,
    hostile_document,
    key_table,
)


def terminal_text(found: Sequence[Table], width: int = 100) -> str:
    """Return the output of a terminal of this width."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None, soft_wrap=True)
    with console.capture() as captured:
        for part in to_terminal(found):
            console.print(part)
    return captured.get()


def test_markdown_has_all_parts() -> None:
    text = to_markdown_page(document())
    assert text.startswith(
        "# Robustness report\n\n**Warnings**\n\n- resnet18: 3 samples had failed\n\n### ImageNet-C: key"
    )
    assert "| mCE | 70.0 [69.6, 70.4] \\#1 | 72.0 [71.6, 72.4] \\#2 \\* |" in text
    assert text.endswith("## Provenance\n\n- command: robustshards report one two\n- seed: 0\n")
    assert to_markdown([]) == ""
    assert to_terminal([]) == []


@pytest.mark.parametrize("width", [80, 100, 200])
def test_cells_are_not_broken_at_any_width(width: int) -> None:
    for table in (key_table(MANY), error_table(MANY), by_model_table(MANY)):
        lines = terminal_text([table], width).splitlines()
        assert max(map(len, lines)) <= width
        for row in table.rows:
            assert all(str(cell) in "\n".join(lines) for cell in row if isinstance(cell, Number))
        for model in MODELS:
            assert any(model in line for line in lines)


def test_columns_of_a_model_stay_together() -> None:
    lines = terminal_text([error_table(MANY)], 80).splitlines()
    heads = [line.split()[1:] for line in lines if line.startswith("corruption ")]
    assert heads == [["CE", "relative", "CE"] * (len(head) // 3) for head in heads]
    assert sum(map(len, heads)) == 3 * len(MANY)


def test_files_have_whole_lines() -> None:
    text = to_text([key_table(MANY)])
    (line,) = [line for line in text.splitlines() if line.startswith("mCE")]
    assert line.count("[") == len(MANY)
    assert max(map(len, to_text([key_table(MANY)], 80).splitlines())) <= 80
    piped = io.StringIO()
    for part in to_terminal([key_table(MANY)]):
        Console(width=80, file=piped, soft_wrap=True).print(part)
    assert line in piped.getvalue()


def test_numbers_are_aligned_to_the_right() -> None:
    lines = to_text([key_table(MODELS[:1])]).splitlines()
    assert len({len(line) for line in lines[1:6]}) == 1


def test_markup_in_names_is_escaped() -> None:
    found = hostile_document().tables
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(found))
    for tag in ("<script", "<a ", "<em>", "<code>"):
        assert tag not in rendered
    assert "&lt;script&gt;alert(1)&lt;/script&gt;|`*a*`" in rendered
    assert rendered.count("<table>") == len(found)
    assert rendered.count("<tr>") == len(found) + sum(len(each.rows) for each in found)
    assert HOSTILE in to_text(found)


@pytest.mark.parametrize(
    ("name", "cell"), [("=1+1", "'=1+1"), ("\uff1d1", "'\uff1d1"), ("a=1", "a=1"), ("\x1b[31m", "\\x1b[31m")]
)
def test_spreadsheets_and_terminals_do_not_obey_cells(name: str, cell: str) -> None:
    assert plain_cell(name) == cell


def test_numbers_are_formatted() -> None:
    found = Number(0.2336, 0.2291, 0.2388)
    assert (found.figure, found.interval) == ("23.4", "[22.9, 23.9]")
    assert str(found) == "23.4 [22.9, 23.9]"
    assert str(Number(0.2336, 0.2291, 0.2388, partial=True, rank="2-3")) == "23.4 [22.9, 23.9] #2-3 *"
    assert str(Number(0.234, 0.229, 0.239, short=True)) == "23.4 ±0.5"
    assert str(Number(-1.434, format=PLAIN)) == "-1.43"
    assert str(Number(-0.0004, -0.001, 0.0, PLAIN)) == "0.00 [0.00, 0.00]"
    assert str(Number(9, format=COUNT, total=10)) == "9 of 10"
    assert str(Number(float("nan"), 0, 0, short=True, partial=True)) == NOTHING


def test_names_are_printable() -> None:
    assert printable("a\n\u202eb\x00") == "a  b"
    assert printable(" \t") == "unnamed"
