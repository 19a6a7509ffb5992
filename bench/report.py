"""Markdown tables, and the page of all measurements."""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence

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


def measured_here(text: str) -> str:
    """Return a section followed by what measured it."""
    return section(text, f"Measured with Python {platform.python_version()}, {platform.machine()}, {processor()}.")


def page(named: Mapping[str, str]) -> str:
    """Return the whole page of named sections."""
    head = "# Benchmark\n\nWritten by `make bench`. Medians in milliseconds on one thread unless stated otherwise."
    return section(head, *(section(f"<!-- {name} -->", text) for name, text in named.items())) + "\n"


def sections(text: str) -> dict[str, str]:
    """Return the named sections of a page."""
    parts = re.split(r"^<!-- ([\w-]+) -->$", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
