"""The wheel, as installed by ``pip install robustshards``, works without the checkout."""

import hashlib
import json
import sys
import tomllib
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement

from pipeline.software import PACKAGES
from tests.conftest import ROOT, Run
from tests.face.installed import build_wheel, copied_project, environment_with, run

pytestmark = pytest.mark.large

DATA = ("*.toml", "*.jpg", "*.j2", "*.json", "py.typed")
"""Data files that the wheel must contain."""

UV = str(Path(sys.executable).with_name("uv"))

MODEL = """
import torch

def classifier():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 7))
"""

PROGRAM = """
import importlib, json, sys
import robustshards as rs
from mine import classifier

rs.build("imagenet-c", sys.argv[1], "by-python", only="contrast", severities=(1, 3), workers=1)
data = rs.open("by-python")
evaluation = rs.evaluate(classifier(), data)
report = rs.report(evaluation, out="python-report")
print(json.dumps({
    "samples": sum(sample.intact for sample in data.samples()),
    "frames": evaluation.done.frames,
    "error": evaluation.figures(),
    "recipes": rs.recipes.shipped(),
    "version": rs.__version__,
    "files": {name: importlib.import_module(name).__file__ for name in sys.argv[2:]},
    "prefix": sys.prefix,
}))
"""


def digests(folder: Path) -> dict[str, str]:
    files = sorted(folder.glob("shards/**/*.tar"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_editable_installs_are_a_path_that_type_checkers_follow(tmp_path: Path) -> None:
    copy = copied_project(tmp_path / "source")
    name = run([sys.executable, "-c", "import setuptools.build_meta as b; print(b.build_editable('.'))"], copy)
    with zipfile.ZipFile(copy / name.splitlines()[-1]) as wheel:
        assert [wheel.read(each).decode().strip() for each in wheel.namelist() if each.endswith(".pth")] == [str(copy)]
        assert not [each for each in wheel.namelist() if each.endswith(".py")]


def test_distributions_are_complete_and_agree(tmp_path: Path) -> None:
    run([UV, "build", "--quiet", "--out-dir", str(tmp_path), str(copied_project(tmp_path / "source"))], tmp_path)
    (source,), (from_source,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    run([UV, "tool", "run", "--quiet", "twine", "check", "--strict", str(source), str(from_source)], tmp_path)
    run([UV, "tool", "run", "--quiet", "check-wheel-contents", "--ignore", "W009", str(from_source)], tmp_path)
    from_checkout = zipfile.ZipFile(build_wheel(tmp_path / "wheel")).infolist()
    contents = {each.filename: each.CRC for each in zipfile.ZipFile(from_source).infolist()}
    assert {each.filename: each.CRC for each in from_checkout} == contents


def test_lowest_and_newest_versions_make_the_same_shards(small_source: Path, robustshards: Run, tmp_path: Path) -> None:
    """The newest ones are those of every Python that this machine has."""
    chosen = ("--limit", 1, "--only", "noise,elastic_transform,jpeg_compression", "--executor", "local", "--workers", 1)
    build = ("build", "imagenet-c", "--source", small_source, *chosen, "--out")
    assert robustshards(*build, tmp_path / "ours").returncode == 0
    pythons = json.loads(run([UV, "python", "list", "--only-installed", "--output-format", "json"], tmp_path))
    newest = {".".join(each["version"].split(".")[:2]): each["path"] for each in pythons}
    project = copied_project(tmp_path / "source")  # of a wheel, uv counts what it requires as indirect
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for python, resolution in [(sys.executable, "lowest-direct"), *((each, "highest") for each in newest.values())]:
        folder = tmp_path / f"{python.replace('/', '-')}-{resolution}"
        run([UV, "venv", "--quiet", "--python", python, str(folder)], tmp_path)
        environment = ["--python", str(folder / "bin" / "python")]
        run([UV, "pip", "install", "--quiet", *environment, "--resolution", resolution, str(project)], tmp_path)
        if resolution == "lowest-direct":
            listed = json.loads(run([UV, "pip", "list", *environment, "--format", "json"], tmp_path))
            installed = {each["name"]: each["version"] for each in listed}
            lowest = [Requirement(f"{each.replace('>=', '==')}.*") for each in dependencies]
            assert [each.name for each in lowest if installed[each.name] not in each.specifier] == []
        run([*map(str, (folder / "bin" / "robustshards", *build, folder / "theirs"))], tmp_path)
        assert digests(folder / "theirs") == digests(tmp_path / "ours"), (python, resolution)
        tables = [pq.read_table(each / "manifest.parquet") for each in (folder / "theirs", tmp_path / "ours")]
        assert tables[0].equals(tables[1])


def test_wheel_builds_verifies_and_evaluates_from_command_and_python(small_source: Path, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "wheel")
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for kind in DATA
        for path in (ROOT / package).rglob(kind)
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())
    assert any(name.endswith(".j2") for name in expected)

    python = environment_with(wheel, tmp_path / "environment")
    command = str(python.with_name("robustshards"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.py").write_text(MODEL)
    (elsewhere / "program.py").write_text(PROGRAM)

    chosen = ["--only", "contrast", "--severities", "1,3", "--workers", "1"]
    run([command, "build", "imagenet-c", "--source", str(small_source), "--out", "by-command", *chosen], elsewhere)
    verified = json.loads(run([command, "verify", "by-command", "--deep", "--samples", "2", "--json"], elsewhere))
    assert (verified["samples"], verified["faults"], verified["regenerated"]) == (12, [], 2)
    run([command, "evaluate", "by-command", "--model", "mine:classifier", "--out", "results"], elsewhere)
    figures = json.loads(run([command, "report", "results", "--out", "report", "--json"], elsewhere))
    assert (elsewhere / "report" / "report.html").stat().st_size > 10_000

    output = json.loads(run([str(python), "program.py", str(small_source), *PACKAGES], elsewhere))
    assert (output["samples"], output["frames"]) == (12, 12)
    (results,) = figures["results"]
    of_data_set = [row for row in results["measures"] if not row["transform"] and row["level"] is None]
    assert output["error"] == {row["metric"]: row["value"] for row in of_data_set if row["metric"] in output["error"]}
    assert "mean corruption error (unnormalised)" in output["error"]
    assert digests(elsewhere / "by-python") == digests(elsewhere / "by-command")
    assert len(digests(elsewhere / "by-python")) == 2
    assert len(output["recipes"]) == 2 * len(list((ROOT / "pipeline" / "recipes" / "shipped").glob("*.toml")))
    assert Path(output["prefix"]) == tmp_path / "environment"
    assert all(Path(file).is_relative_to(tmp_path / "environment" / "lib") for file in output["files"].values())
