"""``import robustshards``: what it offers, and what it loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

import robustshards as rs
from pipeline.software import PACKAGES

HEAVY = {"cv2", "jinja2", "numba", "numpy", "pyarrow", "pydantic", "ray", "rich", "torch"}


def loaded_by(program: str, folder: Path) -> set[str]:
    """The top-level modules that a program leaves loaded, in a Python of its own."""
    told = "; import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", program + told], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    assert not HEAVY & loaded_by("import robustshards", tmp_path)


def test_errors_and_version_load_nothing_heavy(tmp_path: Path) -> None:
    program = "import robustshards as rs; rs.UserError, rs.UnfinishedError, rs.__version__, dir(rs)"
    assert not HEAVY & loaded_by(program, tmp_path)


@pytest.mark.parametrize("names", ["rs.corrupt, rs.corruptions", "rs.perturb, rs.perturbations"])
def test_pixels_load_neither_engine_nor_model_library(names: str, tmp_path: Path) -> None:
    loaded = loaded_by(f"import robustshards as rs; {names}", tmp_path)
    assert "numpy" in loaded
    assert not {"ray", "torch", "pyarrow", "pipeline"} & loaded


def test_functions_and_types_load_neither_ray_nor_torch(tmp_path: Path) -> None:
    program = "import robustshards as rs; [getattr(rs, name) for name in rs.__all__]"
    assert not {"ray", "torch"} & loaded_by(program, tmp_path)


def _imported(node: ast.Import | ast.ImportFrom, name: str) -> object:
    if isinstance(node, ast.Import):
        return import_module(name)
    home = import_module(node.module or "")
    return getattr(home, name) if hasattr(home, name) else import_module(f"{node.module}.{name}")


def test_every_public_name_is_what_type_checkers_see() -> None:
    tree = ast.parse(Path(rs.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names:
            seen[alias.asname or alias.name] = _imported(node, alias.name)
    assert seen.keys() == {*rs.__all__, "__version__"}
    assert all(getattr(rs, name) is found for name, found in seen.items())


def test_dir_lists_the_public_names() -> None:
    assert {*rs.__all__, "__version__"} <= set(dir(rs))
    assert sorted(rs.__all__) == rs.__all__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'robustshards' has no attribute 'nothing'"):
        _ = rs.nothing


def test_version_is_that_of_the_distribution() -> None:
    assert rs.__version__ == metadata.version("robustshards")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_typed(package: str) -> None:
    assert Path(import_module(package).__file__ or "").with_name("py.typed").exists()


@pytest.mark.parametrize("name", ["build", "open", "evaluate", "report"])
def test_help_describes_arguments_result_and_errors(name: str) -> None:
    function = getattr(rs, name)
    text = function.__doc__
    assert text.index("Args:") < text.index("Returns:") < text.index("Raises:")
    arguments = text[text.index("Args:") : text.index("Returns:")]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    assert [each for each in parameters if f"\n        {each}: " not in arguments] == []


def test_help_of_the_package_can_be_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import robustshards; help(robustshards)"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "corrupted = rs.corrupt(image" in done.stdout
    assert "build(recipe:" in done.stdout
