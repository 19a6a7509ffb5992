"""Writes the generated pages of docs/: ``python -m tests.docs docs``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs import cli_page, python_page

PAGES: Mapping[str, Callable[[], str]] = {"cli.md": cli_page.page, "python.md": python_page.page}
"""File name in docs/ -> function that returns its content."""


def main(folder: str) -> None:
    """Write all generated pages to a folder."""
    for name, page in PAGES.items():
        (Path(folder) / name).write_text(page())


if __name__ == "__main__":
    main(*sys.argv[1:])
