"""The committed pages that are generated from the code are up to date."""

import re

import pytest

from pipeline.cli.app import COMMANDS
from tests.conftest import ROOT
from tests.docs import cli_page
from tests.docs.__main__ import PAGES
from tests.golden import fidelity


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_up_to_date(name: str) -> None:
    path = ROOT / "docs" / name
    if not path.exists() or path.read_text() != PAGES[name]():
        pytest.fail(f"docs/{name} differs from the code: run make docs and commit the page", pytrace=False)


def test_page_of_the_command_line_has_every_command_with_its_example() -> None:
    text = cli_page.page()
    assert [name for name in COMMANDS if f"\n### {name}\n" not in text] == []
    assert [name for name, each in COMMANDS.items() if f"```bash\n{each.example}\n```" not in text] == []


def test_page_of_fidelity_gives_the_cause_of_each_difference() -> None:
    text = fidelity.PAGE.read_text()
    assert text.startswith(fidelity.INTRODUCTION)
    for family, section in re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        for name, cause in re.findall(r"^\| `(.+?)` .* \| ([^|]+) \|$", section, re.MULTILINE):
            assert cause == fidelity.REASONS[family][name]
