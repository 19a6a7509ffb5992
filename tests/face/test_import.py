"""``import robustshards``: its public names, and the modules that it loads."""

import ast
import inspect
import json
import re
from graphlib import TopologicalSorter
from importlib import import_module, metadata
from pathlib import Path

import grimp
import pytest

import robustshards as rs
from pipeline.software import PACKAGES
from tests.factories.commands import python

HEAVY = {"cv2", "jinja2", "matplotlib", "numba", "numpy", "pyarrow", "pydantic", "ray", "rich", "torch"}


def loaded_by(program: str, folder: Path) -> set[str]:
    """Return the modules in ``sys.modules`` after a program has run in a new interpreter."""
    suffix = "; import json, sys; print(json.dumps([*sys.modules]))"
    done = python("-c", program + suffix, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("robustshards as rs; rs.UserError, rs.UnfinishedError, rs.__version__, dir(rs)", HEAVY),
        ("robustshards as rs; rs.corrupt, rs.perturb, rs.Augmentation()", {"ray", "torch", "pyarrow", "pipeline"}),
        ("robustshards as rs; [getattr(rs, name) for name in rs.__all__]", {"ray", "torch"}),
        (
            "robustshards as rs, numpy as np; rs.corrupt(np.zeros((32, 32, 3), np.uint8), 'fog', 1, seed=0)",
            {"scipy.linalg"},
        ),
        ("corruptions, numba, numpy as np; assert numba.njit(lambda a: a @ a)(np.eye(2))[1, 1] == 1", {"ray", "torch"}),
        ("perturbations", {"ray", "torch", "pipeline"}),
        ("corruptions.textures as textures; textures.load(None, 0, 1.0)", {"imagecorruptions", "wand"}),
        ("manifests", {"cv2"}),
        ("pipeline.builder.build, pipeline.builder.worker, pipeline.datasets.verify, pipeline.cli.app", {"ray"}),
        ("pipeline.storage, pipeline.evaluate.report.report", {"fsspec", "torch"}),
        ("pipeline.images.decoders, pipeline.images.encoders", {"av", "torch", "nvidia"}),
        ("pipeline.evaluate.report.figures, pipeline.evaluate.report.write", {"jinja2", "matplotlib"}),
        ("pipeline.evaluate.metrics", {"torch", "ray", "pandas", "pyarrow", "sklearn", "scipy"}),
        ("pipeline.evaluate.selection", {"scipy", "torch"}),
        ("pipeline.evaluate.models.loading", {"timm", "torchvision", "transformers", "onnxruntime", "onnx", "ray"}),
    ],
)
def test_optional_and_heavy_modules_are_imported_when_used(imported: str, absent: set[str], tmp_path: Path) -> None:
    assert not absent & loaded_by(f"import {imported}", tmp_path)


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    """Also through other modules, and within functions. The error lists the circle."""
    graph = grimp.build_graph(*PACKAGES)
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


def _imported(node: ast.Import | ast.ImportFrom, name: str) -> object:
    if isinstance(node, ast.Import):
        return import_module(name)
    module = import_module(node.module or "")
    return getattr(module, name) if hasattr(module, name) else import_module(f"{node.module}.{name}")


def test_lazy_names_match_the_imports_for_type_checkers() -> None:
    tree = ast.parse(Path(rs.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {}
    for node in block.body:
        assert isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names:
            typed[alias.asname or alias.name] = _imported(node, alias.name)
    assert typed.keys() == {*rs.__all__, "__version__"}
    assert all(getattr(rs, name) is value for name, value in typed.items())


def test_dir_lists_the_public_names() -> None:
    assert {*rs.__all__, "__version__"} <= set(dir(rs))
    assert sorted(rs.__all__) == rs.__all__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'robustshards' has no attribute 'nothing'"):
        _ = rs.nothing


def test_version_equals_that_of_the_distribution() -> None:
    assert rs.__version__ == metadata.version("robustshards")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_py_typed_marker(package: str) -> None:
    assert Path(import_module(package).__file__ or "").with_name("py.typed").exists()


@pytest.mark.parametrize("name", ["benchmark", "build", "evaluate", "open", "report"])
def test_docstring_describes_every_argument_the_result_and_errors(name: str) -> None:
    function = getattr(rs, name)
    text = inspect.getdoc(function) or ""
    assert text.index("Args:") < text.index("Returns:") < text.index("Raises:")
    arguments = text[text.index("Args:") : text.index("Returns:")]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    assert [each for each in parameters if f"\n    {each}: " not in arguments] == []


def test_help_of_the_package_can_be_printed(tmp_path: Path) -> None:
    done = python("-c", "import robustshards; help(robustshards)", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "corrupted = rs.corrupt(image" in done.stdout
    assert re.search(r"build\(\s*recipe:", done.stdout)
