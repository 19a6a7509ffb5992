"""Functions of libraries that decide bytes of a data set: the tables of docs/cpu-independence.md are complete.

A name is one of four kinds: attributes of an imported module (``numpy.empty``), a method (``ndarray.sum``), a builtin
function (``round``) or an operator (``**``). Types of objects are not known, so a method stands for all calls of that
name.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cpu-independence.md"

SOURCES = ("corruptions", "perturbations", "pipeline/images", "pipeline/render", "pipeline/transforms", "manifests")
"""Folders of the modules that make pixels, payloads and manifests."""

NUMERIC = frozenset({"cmath", "decimal", "fractions", "math", "random", "statistics", "zlib"})
"""Modules of the standard library that compute. Its other modules are not listed."""

OWN = frozenset({"corruptions", "manifests", "perturbations", "pipeline"})
"""Packages of this project."""

BUILTINS = frozenset({"divmod", "pow", "round", "sum"})
"""Builtin functions that compute."""

OPERATORS: Mapping[type[ast.operator], str] = {ast.MatMult: "@", ast.Pow: "**"}
"""Operators that are functions of a library: of BLAS, and of the C library."""

CLASSES: Mapping[str, Mapping[str, type]] = {
    "PIL": {"Image": Image.Image},
    "av": {"CodecContext": av.CodecContext, "VideoFrame": av.VideoFrame},
    "numpy": {"ndarray": np.ndarray, "RandomState": np.random.RandomState},
}
"""Package -> classes whose methods are listed, by their name in the tables."""

OWN_METHODS = frozenset({"resize"})
"""Fields and methods of this project with the name of a method of arrays. Arrays are not resized in place."""

EVERYWHERE = "all modules"
"""Second column of a row that any module may use."""


class Use(NamedTuple):
    """A name, and the module that uses it, relative to the project."""

    name: str
    module: str


class Row(NamedTuple):
    """A row of the tables: names, modules (None for all), why the result is the same, and files of tests."""

    names: frozenset[str]
    modules: frozenset[str] | None
    reason: str
    tests: tuple[str, ...]


def _methods() -> Iterator[tuple[str, str, str]]:
    """Yield the methods of the classes: package, name, and name in the tables.

    Those of builtin types are left out. Newer Pythons give ``bytearray`` further ones, such as ``resize``.
    """
    types = [kind for kind in vars(builtins).values() if isinstance(kind, type) and kind is not bytearray]
    common = {name for kind in types for name in dir(kind)}
    for package, classes in CLASSES.items():
        for label, kind in classes.items():
            for name in dir(kind):
                if name not in common and callable(getattr(kind, name)):
                    yield package, name, f"{label}.{name}"


METHODS = {
    (package, name): listed
    for package, name, listed in _methods()
    if (package, name) not in {("numpy", own) for own in OWN_METHODS}
}
"""Package and name of a method -> its name in the tables."""


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of all tables of a page whose first column is called "function"."""
    listed = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            listed = False
        elif cells[0] == "function":
            listed = True
        elif listed and not cells[0].startswith("---"):
            names, modules, reason, tests = cells
            places = None if modules == EVERYWHERE else frozenset(re.findall("`([^`]+)`", modules))
            yield Row(frozenset(re.findall("`([^`]+)`", names)), places, reason, tuple(re.findall("`([^`]+)`", tests)))


def uses(source: str, module: str) -> Iterator[Use]:
    """Yield the listed kinds of names that a module uses."""
    tree = ast.parse(source)
    imported = dict(_imports(tree))
    packages = {"numpy", *map(_package, imported.values())}  # arrays need no import
    methods = {method: name for (package, method), name in METHODS.items() if package in packages}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
            if not _is_integer_literal(node):
                yield Use(OPERATORS[type(node.op)], module)
        elif isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            root, chain = _chain(node)
            name = ".".join([imported.get(root, root), *chain])
            if (root in imported and _is_listed(name)) or name in BUILTINS:
                yield Use(name, module)
        elif isinstance(node, ast.Call) and _method(node.func, imported) in methods:
            yield Use(methods[_method(node.func, imported)], module)


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that imports define, and what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _chain(node: ast.expr) -> tuple[str, list[str]]:
    """Return the name at which a chain of attributes begins (empty for an expression), and the attributes."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    return node.id if isinstance(node, ast.Name) else "", attributes


def _method(function: ast.expr, imported: Mapping[str, str]) -> str:
    """Return the name of a method that is called, or an empty string for a function."""
    root, chain = _chain(function)
    return "" if root in imported or not chain else chain[-1]


def _is_integer_literal(node: ast.AST) -> bool:
    """Return whether an expression consists of integers, like ``2**24``."""
    numbers = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return not any(isinstance(each, ast.Name) for each in ast.walk(node)) and all(type(n) is int for n in numbers)


def _is_listed(name: str) -> bool:
    """Return whether a name belongs to a library or a module that computes."""
    return _package(name) in NUMERIC or _package(name) not in sys.stdlib_module_names | OWN


def _package(name: str) -> str:
    return name.partition(".")[0]


def used() -> dict[Use, Any]:
    """Return all uses in this project, in order."""
    paths = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    modules = [(path.read_text(), path.relative_to(ROOT).as_posix()) for path in paths]
    return dict.fromkeys(use for text, module in modules for use in uses(text, module))


TABLE = tuple(rows(PAGE.read_text()))


def wildcard(use: Use) -> Use:
    """Return the use of any name of a package, as in ``numba.*``."""
    return Use(f"{_package(use.name)}.*", use.module)


def is_listed(use: Use) -> bool:
    """Return whether a row lists a name for a module, or the function of NumPy that an array's method is."""
    places = (row for row in TABLE if row.modules is None or use.module in row.modules)
    names = {use.name, wildcard(use).name, use.name.replace("ndarray.", "numpy.")}
    return any(names & row.names for row in places)


def test_each_function_is_listed_for_the_modules_that_use_it() -> None:
    assert [f"{use.name} in {use.module}" for use in used() if not is_listed(use)] == []


def test_each_listed_function_is_used_in_the_listed_modules() -> None:
    found = {each for use in used() for each in (use, wildcard(use))}
    names = {use.name for use in found}
    assert [name for row in TABLE for name in sorted(row.names) if name not in names] == []
    places = [(row.names, module) for row in TABLE for module in sorted(row.modules or ())]
    assert [place for place in places if not any(Use(name, place[1]) in found for name in place[0])] == []


def test_rows_name_existing_tests_and_give_a_reason() -> None:
    assert len(TABLE) > 20
    for row in TABLE:
        assert row.reason
        assert row.tests
        assert [test for test in row.tests if not (ROOT / test).is_file()] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import numpy as np\nnp.linalg.norm(x)", ["numpy.linalg.norm"]),
        ("from math import exp as e\ny = e(1)", ["math.exp"]),
        ("import numpy as np\ny = (a + b).cumsum()", ["ndarray.cumsum"]),
        ("import numpy as np\nrng.standard_normal(3)", ["RandomState.standard_normal"]),
        ("def f(a):\n    import scipy.ndimage\n    return scipy.ndimage.zoom(a, 2)", ["scipy.ndimage.zoom"]),
        ("c = a @ b", ["@"]),
        ("a **= 0.5", ["**"]),
        ("a = 2**24 + 2.0**-8", ["**"]),
        ("y = pow(a, b) + len(c)", ["pow"]),
        ("import os\nfrom corruptions import draws\ndraws.at(os.sep.join(x))", []),
    ],
)
def test_names_are_found(source: str, expected: list[str]) -> None:
    assert [use.name for use in uses(source, "module.py")] == expected
