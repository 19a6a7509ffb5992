"""Cached kernels: only those compiled from the current sources are used."""

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

SLOWLY_CACHED = """
import sys, time
import numpy as np
from numba.core.caching import IndexDataCacheFile
save_index = IndexDataCacheFile._save_index
def save_slowly(self, overloads):
    time.sleep(2)
    save_index(self, overloads)
IndexDataCacheFile._save_index = save_slowly
from corruptions.kernels import caller
caller.stepped(np.dtype(sys.argv[1]).type(1))
"""
ALL_CACHED = """
import numpy as np
from corruptions.kernels import caller
results = [caller.stepped(np.dtype(name).type(1)) for name in ("float32", "uint8")]
print(*results, sum(caller.stepped.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package and one additional kernel."""
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
    printed: list[Any] = json.loads(done.stdout)
    return printed


def test_a_changed_helper_in_another_module_is_recompiled(package: Path) -> None:
    kernels = package / "corruptions" / "kernels"
    (result, hits, first, numba_folder), again = stepped(package, 1), stepped(package, 1)
    assert (result, hits, numba_folder) == (2, 0, "")
    assert again == [2, 1, first, ""]
    assert Path(first).parent == kernels / "__pycache__"
    result, hits, second, _ = stepped(package, 10)
    assert (result, hits) == (11, 0)
    assert second != first
    assert stepped(package, 1)[:2] == [2, 1]


def test_kernels_cannot_be_imported_to_run_as_python() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", "import corruptions"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr.endswith("ImportError: NUMBA_DISABLE_JIT is set, but kernels only run compiled: unset it\n")


def test_numba_cache_dir_is_used_and_not_changed(package: Path) -> None:
    named = str(package / "named")
    _, _, folder, numba_folder = stepped(package, 1, NUMBA_CACHE_DIR=named)
    assert (str(Path(folder).parent), numba_folder) == (named, named)
    assert list(Path(folder).rglob("caller.stepped*.nbc"))
    result, hits, *_ = stepped(package, 10, NUMBA_CACHE_DIR=named)
    assert (result, hits) == (11, 0)


@pytest.mark.large
def test_processes_that_compile_at_the_same_time_lose_no_kernel(package: Path) -> None:
    """Both read the cache's index before either writes it, unless one waits for the other."""
    (package / "corruptions" / "kernels" / "helper.py").write_text(HELPER.format(step=1))
    settings = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(package / "cache")}
    commands = [[sys.executable, "-c", SLOWLY_CACHED, kind] for kind in ("float32", "uint8")]
    processes = [subprocess.Popen(command, cwd="/", env=settings) for command in commands]
    assert [process.wait() for process in processes] == [0, 0]
    command = [sys.executable, "-c", ALL_CACHED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env=settings)
    assert done.stdout.split() == ["2.0", "2", "2"]


def test_renamed_sources_use_another_folder(tmp_path: Path) -> None:
    """Cached kernels contain module names, so they are valid only while the modules have the same names."""
    (tmp_path / "a.py").write_text("x = 1")
    before = compiled_folder([tmp_path / "a.py"], tmp_path)
    assert compiled_folder([tmp_path / "a.py"], tmp_path) == before
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert compiled_folder([tmp_path / "b.py"], tmp_path) != before


def test_only_old_folders_of_kernels_are_removed(tmp_path: Path) -> None:
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
    folder = compiled_folder([source], tmp_path)
    remaining = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert remaining == {"robustshards-mine", "kernels_ab", recent.name, folder.name}
    assert (recent / "x.nbc").exists()
