"""A summary as files: a page, Markdown, CSV and JSON."""

from __future__ import annotations

import json

from pipeline.evaluate.outputs import to_csv, to_markdown
from pipeline.evaluate.page import page
from pipeline.evaluate.summary import Summary
from pipeline.evaluate.tables import tables
from pipeline.storage import open_store


def write_report(summary: Summary, title: str, folder: str) -> None:
    """``report.html``, ``.md``, ``.csv`` and ``.json`` in a folder. Raises UserError where it cannot be written."""
    store = open_store(folder)
    shown = tables(summary)
    texts = {
        "report.html": page(summary, title),
        "report.md": f"# {title}\n\n{to_markdown(shown)}",
        "report.csv": to_csv(summary),
        "report.json": json.dumps(summary.facts(), indent=1) + "\n",
    }
    with store.exclusive():
        for name, text in texts.items():
            store.publish_bytes(text.encode(), name)
