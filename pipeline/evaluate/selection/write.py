"""The files of an analysis: HTML, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipeline.evaluate.report.text import to_markdown_page
from pipeline.evaluate.report.views import Chapter, Document
from pipeline.evaluate.report.write import (
    GENERATOR,
    MARKDOWN_MARK,
    Recognise,
    is_markdown,
    is_page,
    replace_files,
)
from pipeline.evaluate.selection.page import page
from pipeline.evaluate.selection.records import Selection
from pipeline.evaluate.selection.tables import CSV_COLUMNS, tables, to_csv
from pipeline.text import LONGEST_MESSAGE, printable

KINDS: Mapping[str, Recognise] = {
    "selection.html": is_page,
    "selection.md": is_markdown,
    "selection.csv": lambda text: text.startswith(",".join(CSV_COLUMNS) + "\n"),
    "selection.json": lambda text: text.startswith(f'{{\n "generator": "{GENERATOR}"'),
}
"""Function that recognises an earlier analysis, by file name."""


def write_selection(selection: Selection, title: str, folder: str) -> None:
    """Write ``selection.html``, ``.md``, ``.csv`` and ``.json``, replacing those of an earlier analysis.

    Args:
        selection: The analysis.
        title: Title of the page.
        folder: Folder or URL.

    Raises:
        UserError: If the folder is not writable, or contains a file with one of these names that is not an analysis.
        OSError: If a write fails. No file has been replaced then.
    """
    warnings = [printable(warning, LONGEST_MESSAGE) for warning in selection.warnings]
    about = Document(printable(title), warnings, (), {}, {}, 0, [Chapter("", (), (), tables(selection))], (), ())
    texts = {
        "selection.html": page(selection, title),
        "selection.md": to_markdown_page(about) + "\n" + MARKDOWN_MARK,
        "selection.csv": to_csv(selection),
        "selection.json": json.dumps({"generator": GENERATOR, **selection.facts()}, indent=1) + "\n",
    }
    replace_files(folder, texts, KINDS)
