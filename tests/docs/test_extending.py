"""The worked examples of docs/extending.md, applied to a copy of the packages in the order of the page."""

import os
import re
import shutil
from pathlib import Path

import pytest

from pipeline.software import PACKAGES
from tests.conftest import ROOT
from tests.docs.test_examples import WORKED_EXAMPLES, Block, blocks
from tests.factories.commands import python

PAGE = "docs/extending.md"
ABOVE, HEADING, EXAMPLES = (ROOT / PAGE).read_text().partition(WORKED_EXAMPLES)
BLOCKS = blocks(PAGE, "\n" * (ABOVE + HEADING).count("\n") + EXAMPLES)
NEW_FILE = re.compile(r"# New file \./(\S+)\n")
EXTENSION_POINTS = ("corruption", "family", "source", "encoder", "metric", "figure", "engine")


def apply_diff(block: Block, root: Path) -> None:
    """Replace the removed lines of each hunk, which must occur once in the file, by the added ones."""
    header, *hunks = re.split(r"^@@.*\n", block.code, flags=re.MULTILINE)
    path = root / header.split("+++ b/")[1].strip()
    text = path.read_text()
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        if text.count(before) != 1:
            pytest.fail(f"{block.name}: {path.relative_to(root)} has not exactly one of:\n{before}", pytrace=False)
        text = text.replace(before, after)
    path.write_text(text)


@pytest.mark.large
def test_worked_examples_run(photographs: Path, tmp_path: Path) -> None:
    copy, folder = tmp_path / "copy", tmp_path / "folder"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(photographs, folder / "photographs")
    programs = []
    for block in BLOCKS:
        if block.language == "diff":
            apply_diff(block, copy)
        elif match := NEW_FILE.match(block.code):
            assert not (copy / match[1]).exists()
            (copy / match[1]).write_text(block.code[match.end() :])
        elif block.language == "python":
            programs.append(f"print({block.name!r}, flush=True)\n{block.code}")
    environment = {**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    done = python("-c", "\n".join(programs), cwd=folder, env=environment, timeout=500)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert len(programs) == len(EXTENSION_POINTS)


def test_page_has_an_example_for_every_extension_point() -> None:
    headings = re.findall(r"^### An? (\w+)$", EXAMPLES, re.MULTILINE)
    assert headings == list(EXTENSION_POINTS)
