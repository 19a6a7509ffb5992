"""Compiled kernels that are kept on disk: only those of today's sources are used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corruptions.cache import UNUSED_S, compiled_folder

ROOT = Path(__file__).parents[2]

HELPER = """from corruptions.kernels import inlined
@inlined
def step(x):
    return x + {step}
"""
CALLER = """from corruptions.kernels import kernel
from corruptions.kernels.helper import step
@kernel
def stepped(x):
    return step(x)
"""
CALL = """
import json, numba
from corruptions.kernels import COMPILED, caller
result = caller.stepped(1)
hits = sum(caller.stepped.stats.cache_hits.values())
print(json.dumps([result, hits, str(COMPILED), numba.config.CACHE_DIR]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package and one more kernel in it."""
    shutil.copytree(ROOT / "corruptions", tmp_path / "corruptions", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "corruptions" / "kernels" / "caller.py").write_text(CALLER)
    return tmp_path


def stepped(package: Path, step: int, **environment: str) -> list[Any]:
    """Write the helper that the kernel inlines, and call the kernel in a new process."""
    (package / "corruptions" / "kernels" / "helper.py").write_text(HELPER.format(step=step))
    settings = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    settings |= {"PYTHONPATH": str(package), **environment}
    command = [sys.executable, "-c", CALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env=settings)
    found: list[Any] = json.loads(done.stdout)
    return found


def test_a_changed_helper_of_another_module_is_compiled_anew(package: Path) -> None:
    kernels = package / "corruptions" / "kernels"
    (result, hits, first, elsewhere), again = stepped(package, 1), stepped(package, 1)
    assert (result, hits, elsewhere) == (2, 0, "")
    assert again == [2, 1, first, ""]
    assert Path(first).parent == kernels / "__pycache__"
    result, hits, second, _ = stepped(package, 10)
    assert (result, hits) == (11, 0)
    assert second != first
    assert stepped(package, 1)[:2] == [2, 1]


def test_the_folder_that_the_environment_names_is_used_and_stays_numbas(package: Path) -> None:
    named = str(package / "named")
    _, _, folder, elsewhere = stepped(package, 1, NUMBA_CACHE_DIR=named)
    assert (str(Path(folder).parent), elsewhere) == (named, named)
    assert list(Path(folder).rglob("caller.stepped*.nbc"))
    result, hits, *_ = stepped(package, 10, NUMBA_CACHE_DIR=named)
    assert (result, hits) == (11, 0)


def test_kernels_of_a_moved_source_are_not_used(tmp_path: Path) -> None:
    """What is kept names the modules of its types: they must be found again under the same names."""
    (tmp_path / "a.py").write_text("x = 1")
    before = compiled_folder([tmp_path / "a.py"], tmp_path)
    assert compiled_folder([tmp_path / "a.py"], tmp_path) == before
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert compiled_folder([tmp_path / "b.py"], tmp_path) != before


def test_what_was_compiled_long_ago_is_removed_and_nothing_else(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("robustshards-0123456789abcdef", "robustshards-mine", "kernels_ab")}
    recent = tmp_path / "robustshards-fedcba9876543210"
    for folder in (*folders.values(), recent):
        folder.mkdir()
        (folder / "x.nbc").write_bytes(b"x")
    for folder in folders.values():
        long_ago = folder.stat().st_mtime - UNUSED_S - 60
        os.utime(folder, (long_ago, long_ago))
    source = tmp_path / "a.py"
    source.write_text("x = 1")
    made = compiled_folder([source], tmp_path)
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {"robustshards-mine", "kernels_ab", recent.name, made.name}
    assert (recent / "x.nbc").exists()
