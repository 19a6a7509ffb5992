"""Tests of models from the user's own code: module search, detection of changed code, and errors."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from tests.factories.evaluator import outcome

CODE = """
import torch
from {package} import constants
from {package}.constants import FACTOR

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = torch.nn.Linear(3, 7)
        self.norm = torch.nn.BatchNorm2d(3)
    def forward(self, images):
        return FACTOR * self.head(self.norm(images).mean((2, 3)))

def factory():
    print("not to standard output")
    return Scaled()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a package in the current folder, which is not in ``sys.path``."""
    folder = tmp_path / f"users_{tmp_path.name.replace('-', '_')}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "made.py").write_text(CODE.format(package=folder.name))
    (folder / "constants.py").write_text("FACTOR = 1\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.meta_path)
    yield folder
    sys.meta_path[:] = before
    forget(folder.name)


def forget(package: str) -> None:
    """Remove a package from ``sys.modules``, so that the next import reads its files again."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_changed_code_is_rejected_as_another_evaluation(
    built_once: Path, tmp_path: Path, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"{package.name}.made:factory"
    assert outcome(built_once, tmp_path / "r", model=spec).complete
    assert "not to standard output" not in capsys.readouterr().out
    for file, text in (("constants.py", "FACTOR = 12\n"), ("made.py", CODE.replace("(3)", "(3, eps=.25)"))):
        before = (package / file).read_text()
        forget(package.name)
        (package / file).write_text(text.format(package=package.name) if file == "made.py" else text)
        with pytest.raises(
            UserError, match=r"another evaluation \(model.code is \w{64}, but \w{64} was requested\): use"
        ):
            outcome(built_once, tmp_path / "r", model=spec)
        (package / file).write_text(before)
    forget(package.name)
    assert outcome(built_once, tmp_path / "r", model=spec).chunks_before == 8


def test_module_settings_change_the_code_digest(package: Path) -> None:
    """Load models with equal source code and weights, whose epsilon is read from a file."""
    source = (package / "made.py").read_text()
    (package / "made.py").write_text(source.replace("(3)", "(3, eps=float(open('eps').read()))"))
    digests = set()
    for epsilon in ("0.001", "0.1", "0.001"):
        Path("eps").write_text(epsilon)
        forget(package.name)
        digests.add(load_model(f"{package.name}.made:factory").code)
    assert len(digests) == 2


def test_the_users_folder_is_searched_last(package: Path) -> None:
    Path("statistics.py").write_text("raise SystemExit(0)")
    Path("manifests.py").write_text("raise SystemExit(0)")
    with pytest.raises(
        UserError, match=r"statistics:mean refers to .*statistics.py, not to .*both are called statistics; rename"
    ):
        load_model("statistics:mean")
    assert str(Path.cwd()) not in sys.path  # otherwise child processes would inherit it
    load_model(f"{package.name}.made:factory")
    assert str(Path.cwd()) not in sys.path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise SystemExit(0)", "cannot be loaded: SystemExit: 0; write it as package.module:function"),
        ("raise GeneratorExit", "cannot be loaded: GeneratorExit"),
        ("return 3", "returns int: return a torch.nn.Module"),
        ("return torch.nn.LazyLinear(3)", "use a module whose weights are plain tensors"),
        (
            "return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3, device='meta'))",
            r"has no weights \(device meta\) in 1.weight, 1.bias: create it .*assign=True\), before it is evaluated$",
        ),
    ],
)
def test_exceptions_in_factories_become_user_errors(package: Path, body: str, message: str) -> None:
    (package / "bad.py").write_text(f"import torch\ndef factory():\n    {body}\n")
    with pytest.raises(UserError, match=message):
        load_model(f"{package.name}.bad:factory")


@pytest.mark.parametrize("spec", ["..:x", "os..path:join", "1a:b", "os:.", "os:a..b"])
def test_invalid_function_names_are_rejected(spec: str) -> None:
    with pytest.raises(UserError, match=r"invalid function name '.*': write it as package\.module:function"):
        load_model(spec)


@pytest.mark.parametrize("spec", ["pipeline.cli.app:main", "manifests:merge", "__main__:main"])
def test_modules_of_this_project_are_rejected(spec: str) -> None:
    with pytest.raises(UserError, match="is part of this project; give a function from your own code"):
        load_model(spec)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x * float('inf')", "returns NaN or infinite values"),
        ("x[:, :0]", r"returns \(2, 0\) of torch.float32 for 2 images"),
        ("x[:1]", r"returns \(1, 7\) of torch.float32 for 2 images"),
        ("x + 0j", r"returns \(2, 7\) of torch.complex64"),
        ("x > 0", r"returns \(2, 7\) of torch.bool .* returns logits: numbers of shape \(images, classes\), a tuple"),
        ("{'coarse': x, 'fine': x}", "returns dict with 'coarse', 'fine' for 2 images; .* with them as 'logits'"),
        ("sys.exit(0)", "fails on a batch of 2 images of 224 x 224: SystemExit: 0"),
        ("{}[0]", "fails on a batch of 2 images of 224 x 224: KeyError: 0"),
        ("x.sum().backward()", "gradients are disabled; a model that adapts at test time needs --ordered"),
    ],
)
def test_failures_and_invalid_outputs_of_models_are_errors(
    built_once: Path, tmp_path: Path, package: Path, body: str, message: str
) -> None:
    (package / "failing.py").write_text(
        f"import sys\nfrom {package.name}.made import Scaled\nclass Bad(Scaled):\n    def forward(self, images):\n"
        f"        x = super().forward(images)\n        return {body}\n"
    )
    with pytest.raises(UserError, match=message):
        outcome(built_once, tmp_path / "r", model=f"{package.name}.failing:Bad")
