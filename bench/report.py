"""Markdown tables, and the page of all measurements."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence

from pipeline.builder.doctor import processor


def markdown_line(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table. All columns but the first ``left`` are aligned to the right."""
    aligned = "|" + "---|" * left + "---:|" * (len(head) - left)
    return "\n".join([markdown_line(head), aligned, *map(markdown_line, rows)])


def section(*parts: str) -> str:
    """Return a heading, tables and notes with empty lines between."""
    return "\n\n".join(parts)


def page(sections: Sequence[str]) -> str:
    """Return the whole page."""
    about = f"Python {platform.python_version()}, {platform.machine()}, {processor()}, one thread."
    head = "# Benchmark\n\nWritten by `make bench`. Medians in milliseconds unless stated otherwise. " + about
    return section(head, *sections) + "\n"
