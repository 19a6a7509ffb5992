"""Files, folders, modules, make targets and links that the documents name exist."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import yaml

from pipeline.evaluate.report import families as reports
from pipeline.transforms import registry
from tests.conftest import ROOT
from tests.docs.site_hook import on_page_content

PRODUCT = ("corruptions", "manifests", "perturbations", "pipeline", "robustshards")
TOP = "|".join((*PRODUCT, "bench", "docs", "infra", "tests"))
PATH = re.compile(rf"(?<![\w./~-])(?:{TOP})/[\w./-]*")
MODULE = re.compile(rf"(?<![\w./~-])(?:{TOP})(?:\.\w+)+")
BESIDE = re.compile(r"(?<![\w./])\w+(?:\.py|/)(?!\w)")
NEW_MODULE = re.compile(r"^# New file \./([\w/]+)\.py$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)\)")
SECTION_LINK = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PAGE_IN_NAVIGATION = re.compile(r"'([^']*\.md)'")
TARGET = re.compile(r"(?:`|^ {4}|^\$ )make ([a-z]+)", re.MULTILINE)
ENTRY_POINTS = {registry.ENTRY_POINTS, reports.ENTRY_POINTS}

ARCHITECTURE = ROOT / "docs" / "architecture.md"
DECISIONS = ROOT / "docs" / "decisions"
DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "infra/*.md", "examples/*.md") for path in ROOT.glob(pattern)
)
CURRENT = [document for document in DOCUMENTS if document.name != "CHANGELOG.md"]


def named_paths(text: str) -> list[str]:
    """Return every path from the root of the project; of a path with a placeholder, the folder before it."""
    return [path.rstrip(".") for path in PATH.findall(text)]


def is_module_or_attribute(name: str) -> bool:
    """Return whether a dotted name is a module, or occurs in the source of the longest module that it begins with."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if source.is_file():
            text = source.read_text()
            return all(re.search(rf"\b{part}\b", text) for part in parts[length:])
    return False


def picture() -> str:
    """Return the indented lines of the section on layers."""
    section = ARCHITECTURE.read_text().split("## Layers")[1].split("\n## ")[0]
    return "\n".join(line for line in section.splitlines() if line.startswith("    "))


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def missing_by_page(find: Callable[[Path, str], Iterable[str]], documents: Iterable[Path]) -> dict[str, list[str]]:
    """Return what a function finds missing on each page."""
    found = {str(path.relative_to(ROOT)): list(find(path, path.read_text())) for path in documents}
    return {page: missing for page, missing in found.items() if missing}


def missing_modules(document: Path, text: str) -> Iterator[str]:
    new_modules = {path.replace("/", ".") for path in NEW_MODULE.findall(text)}
    names = set(MODULE.findall(text)) - ENTRY_POINTS - new_modules
    return (name for name in sorted(names) if not is_module_or_attribute(name))


def missing_headings(document: Path, text: str) -> Iterator[str]:
    for target, anchor in SECTION_LINK.findall(text):
        page = document.parent / target if target else document
        if page.exists() and anchor not in anchors(page.read_text()):
            yield f"{target}#{anchor}"


def test_named_paths_modules_and_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert missing_by_page(lambda _, text: (p for p in named_paths(text) if not (ROOT / p).exists()), CURRENT) == {}
    assert missing_by_page(missing_modules, CURRENT) == {}
    assert missing_by_page(lambda _, text: set(TARGET.findall(text)) - targets, CURRENT) == {}


def test_links_lead_to_existing_files_and_headings() -> None:
    files = missing_by_page(
        lambda page, text: (each for each in LINK.findall(text) if not (page.parent / each).exists()), DOCUMENTS
    )
    assert files == {}
    assert missing_by_page(missing_headings, DOCUMENTS) == {}


def test_files_beside_those_of_the_picture_exist() -> None:
    for line in picture().splitlines():
        if paths := named_paths(line):
            place = ROOT / paths[0]
            folder = place if place.is_dir() else place.parent
            assert [name for name in BESIDE.findall(PATH.sub("", line)) if not (folder / name).exists()] == [], line


def test_picture_has_every_package() -> None:
    packages = {file.parent.relative_to(ROOT) for name in PRODUCT for file in (ROOT / name).rglob("__init__.py")}
    assert len(packages) > 20
    assert [str(package) for package in sorted(packages) if f"{package}/" not in picture()] == []


def test_picture_has_the_layers_of_the_contract_in_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["pipeline"])
    level = {name: depth for depth, names in enumerate(layers) for name in names.split(" : ")}
    named = [name for line in picture().splitlines() for name in re.findall(r"pipeline/(\w+)", line.split("  ")[2])]
    assert set(named) == set(level)
    assert [level[name] for name in named] == sorted(level[name] for name in named)


def test_every_decision_is_linked() -> None:
    decisions = {path.name for path in DECISIONS.glob("[0-9]*.md")}
    assert decisions
    assert decisions <= set(LINK.findall((DECISIONS / "README.md").read_text()))


def test_index_and_navigation_of_the_site_have_every_page() -> None:
    pages = {str(path.relative_to(ROOT)) for path in DOCUMENTS} - {"infra/README.md"}
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(PAGE_IN_NAVIGATION.findall(str(navigation))) == sorted(pages)
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    others = {path for path in DOCUMENTS if path.parent.name not in {"decisions", "infra"} and path != index}
    assert others - {ROOT / "README.md"} <= linked


def test_site_shows_bars_in_tables_without_backslashes() -> None:
    page = r"<pre>a\|b</pre><td><code>auto\|ray</code></td>"
    assert on_page_content(page) == r"<pre>a\|b</pre><td><code>auto|ray</code></td>"


def test_missing_paths_and_modules_are_detected() -> None:
    text = "See `pipeline/builder/nothing.py`, `pipeline/transforms/<family>.py` and pipeline/builder/plan.py."
    assert named_paths(text) == ["pipeline/builder/nothing.py", "pipeline/transforms/", "pipeline/builder/plan.py"]
    assert not (ROOT / "pipeline/builder/nothing.py").exists()
    assert is_module_or_attribute("pipeline.transforms.family.Family")
    assert not is_module_or_attribute("pipeline.transforms.family.Kin")
    assert not is_module_or_attribute("pipeline.families.Family")
