"""The command in unusual environments: closed and full outputs, early signals, locales, users without a home."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import pytest
from PIL import Image

from corruptions.cache import user_cache
from pipeline import software
from pipeline.errors import UserError
from pipeline.execution.processes import default_workers
from pipeline.storage import trusted_locations
from pipeline.storage.temporary import can_hold_sockets
from tests.conftest import RAY, ROOT, Run
from tests.factories.commands import ONE_WORKER, PROGRAM, python
from tests.pipeline.test_storage import WITHOUT_LOCKS

AS_NOBODY = """
import os
os.setgroups([])
os.setgid(12345)
os.setuid(12345)
import numpy, corruptions
from corruptions.cache import user_cache
from corruptions.kernels import COMPILED
image = corruptions.corrupt(numpy.full((32, 32, 3), 99, numpy.uint8), "contrast", 3, profile="cifar")
print(user_cache(), COMPILED, image.mean())
"""


def run(arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, which can close and redirect its standard files."""
    command = f"{PROGRAM} {arguments}"
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False, env=env)


@pytest.mark.parametrize("command", ["list --json", "--help"])
def test_full_standard_output_is_an_error(command: str) -> None:
    done = run(f"{command} > /dev/full")
    assert done.returncode == 3
    assert done.stderr == "error: cannot write to standard output: No space left on device; files are not affected\n"


def test_closed_standard_output_is_an_error() -> None:
    done = run("list --json >&-")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "it is closed" in done.stderr


def test_closed_standard_output_is_not_reused_for_another_file(small_source: Path, tmp_path: Path) -> None:
    """An opened file gets the lowest free descriptor; if standard output is closed, that is 1."""
    arguments = f"plan tiny-imagenet-c --source {small_source} --only contrast >&- 2>{tmp_path / 'errors'} <&-"
    assert run(arguments).returncode == 3
    assert "Traceback" not in (tmp_path / "errors").read_text()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu.max": "900000 100000\n"}, 4),
        ({"cpu.max": "max 100000\n"}, 4),
        ({"cpu.max": "damaged"}, 4),
        ({"cpu.max": "100000\n"}, 4),
        ({"a/cpu.max": "max 100000\n", "cpu.max": "300000 100000\n"}, 3),
        ({"a/cpu.max": "100000 100000\n", "b/cpu.max": "50000 100000\n", "cpu.max": "max 100000\n"}, 1),
        ({"cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({}, 4),
    ],
)
def test_cpus_are_those_that_a_container_may_keep_busy(
    files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_control_groups(files, tmp_path, monkeypatch)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)
    assert software.cpu_count() == expected


@pytest.mark.parametrize(
    ("files", "gib", "workers"),
    [
        ({}, 64, 64),
        ({"memory.max": "max\n", "a/memory.max": "max\n"}, 64, 64),
        ({"memory.max": "max\n", "a/memory.max": f"{2**33}\n"}, 8, 13),
        ({"memory.max": f"{2**32}\n", "a/memory.max": f"{2**33}\n", "b/memory.max": "0\n"}, 4, 6),
        ({"memory/x/memory.limit_in_bytes": f"{2**29}\n"}, 0.5, 1),
        ({"memory/x/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, 64, 64),
    ],
)
def test_default_workers_fit_into_the_memory_of_a_container(
    files: dict[str, str], gib: float, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_control_groups(files, tmp_path, monkeypatch)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**24}.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(64), raising=False)
    assert software.memory_bytes() == gib * 2**30
    assert default_workers() == workers


def write_control_groups(files: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write files of control groups of both versions, for a process in group ``a`` and in ``x``."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "own").write_text("5:memory:/x\n4:cpu,cpuacct:/x\n1:name=systemd:/x\n0::/a\n")
    monkeypatch.setattr(software, "CONTROL_GROUP", folder)
    monkeypatch.setattr(software, "OWN_CONTROL_GROUPS", folder / "own")


def test_full_or_closed_standard_error_is_ignored(small_source: Path, tmp_path: Path) -> None:
    command = f"{PROGRAM} build tiny-imagenet-c --source {small_source} --only contrast --dry-run --json"
    begun: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}
    for redirection in ("2>/dev/full", "2>&-", "2>&- <&-", ">&- 2>&- <&-"):
        for arguments, code in (("", 0), ("--seed -1", 2)):
            whole = f"{command} --out {tmp_path / str(len(begun))} {arguments} {redirection}"
            begun[whole] = code, subprocess.Popen(whole, shell=True, stdout=subprocess.DEVNULL)
    for whole, (code, process) in begun.items():
        assert process.wait(120) == code, whole


@pytest.mark.parametrize("executor", ["local", RAY])
def test_build_works_without_standard_error_and_current_folder(
    small_source: Path, tmp_path: Path, executor: str
) -> None:
    """Ray uses both."""
    (gone := tmp_path / "gone").mkdir()
    command = (
        f"build tiny-imagenet-c --source {small_source} --out {tmp_path}/out --only contrast --severities 1 --json"
    )
    whole = f"cd {gone} && rmdir {gone} && {PROGRAM} {command} --executor {executor} --workers 1 2>&- <&-"
    done = subprocess.run(whole, shell=True, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    assert json.loads(done.stdout)["samples_made"] == 6
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/tmp/robustshards-abc", True),
        ("/tmp/my files", True),
        ("tmp", False),
        ("/tmp/ö", False),
        ("/tmp/it's", False),
        ('/tmp/"x"', False),
        ("/tmp/a\nb", False),
        (f"/{'x' * 40}", False),
    ],
)
def test_folders_of_sockets_have_short_and_plain_paths(folder: str, expected: bool) -> None:
    assert can_hold_sockets(folder) is expected


@pytest.mark.large
@pytest.mark.parametrize("name", ["relative", "ö", "it's"])
def test_ray_starts_whatever_the_temporary_folder_is_called(small_source: Path, tmp_path: Path, name: str) -> None:
    """Ray itself uses TMPDIR as it is, and fails."""
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        (folder := Path(parent) / name).mkdir()
        environment = {**os.environ, "TMPDIR": name if name == "relative" else str(folder)}
        arguments = ["build", "tiny-imagenet-c", "--source", small_source, "--out", tmp_path / "out"]
        arguments += ["--only", "contrast", "--executor", "ray", "--workers", "1"]
        done = python(PROGRAM, *arguments, cwd=parent, env=environment)
        assert done.returncode == 0, done.stderr
        assert not list(folder.iterdir())


def test_reader_that_closes_the_pipe_causes_no_message() -> None:
    assert run("list | head -1 > /dev/null").stderr == ""


@pytest.mark.large
def test_missing_shared_memory_is_one_line_and_not_a_hang(built_once: Path, tmp_path: Path) -> None:
    """Containers have little of it. A mount in a namespace of its own does not change that of this machine."""
    alone = (
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64k none /dev/shm && "$@"',
        "sh",
    )
    if shutil.which("unshare") is None or subprocess.run((*alone, "true"), capture_output=True, check=False).returncode:
        pytest.skip("mounting in a namespace needs unshare and the permission to use it")
    options = ("--model", "tests.factories.small_models:tiny", "--out", tmp_path / "out", "--loaders", "2")
    command = (*alone, PROGRAM, "evaluate", built_once, *options)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "error: loader processes need shared memory, but /dev/shm is full" in done.stderr


INTERRUPTED_AT = """
import builtins, os, signal, sys
from pipeline.cli import start
real, module = builtins.__import__, sys.argv.pop(1)
def importing(name, *rest, **more):
    if name == module:
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *rest, **more)
builtins.__import__ = importing
start.main()
"""


@pytest.mark.parametrize("module", ["pipeline.cli.app", "rich.console", "pipeline.sources.kinds"])
def test_interrupt_during_imports_is_one_line(module: str, small_source: Path) -> None:
    """Ctrl-C right after the start prints no traceback."""
    arguments = ["plan", "tiny-imagenet-c", "--source", str(small_source), "--only", "contrast"]
    done = python("-c", INTERRUPTED_AT, module, *arguments)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1].endswith("again")


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 3)])
def test_signal_before_the_command_runs_is_one_line(number: str, code: int) -> None:
    program = f"""
import os, signal
from pipeline.cli import app, signals
install = signals.install
signals.install = lambda: (install(), os.kill(os.getpid(), signal.{number}))
app.main()
"""
    done = python("-c", program, "list")
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    # The listening thread may print its line before or after the error.
    assert sum(line.startswith("error: ") for line in done.stderr.splitlines()) == 1


def test_ascii_locale_accepts_other_file_names(tmp_path: Path, small_source: Path) -> None:
    shutil.copytree(small_source / "class0", tmp_path / "Straße")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(f"plan tiny-imagenet-c --source {tmp_path} --only contrast --json", env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images"] == 3


def test_file_names_with_unusual_spaces_are_accepted(tmp_path: Path, robustshards: Run) -> None:
    (tmp_path / "c").mkdir()
    names = ("Bildschirmfoto\u202f10", "图\u3000片", "a\u00a0b", "👩‍🔬")
    for name in names:
        Image.new("RGB", (64, 64), (200, 30, 30)).save(tmp_path / "c" / f"{name}.png")
    assert robustshards.facts("plan", "tiny-imagenet-c", "--source", tmp_path, "--only", "contrast")["images"] == len(
        names
    )


def test_a_missing_library_of_the_system_is_named_with_what_installs_it(tmp_path: Path) -> None:
    reason = "libGL.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "cv2.py").write_text(f"raise ImportError({reason!r})")
    done = run("list", {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: ImportError: {reason}; install this library of the system, for OpenCV on Debian by apt-get install "
        "libgl1 libglib2.0-0, or without root by pip install --force-reinstall --no-deps "
        f"opencv-python-headless=={metadata.version('opencv-python')}\n"
    )


def test_packages_that_do_not_fit_are_named_instead_of_a_bug(tmp_path: Path) -> None:
    """Such as after another package was installed that needs an old NumPy."""
    (tmp_path / "numpy.py").write_text("")
    (tmp_path / "numpy-1.26.4.dist-info").mkdir()
    (tmp_path / "numpy-1.26.4.dist-info" / "METADATA").write_text("Name: numpy\nVersion: 1.26.4\n")
    done = run("list", {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert "robustshards needs numpy>=2.0 (installed: 1.26.4): run pip install 'numpy>=2.0'\n" in done.stderr


def test_without_the_means_to_check_no_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as in a checkout that is not installed."""
    assert software.unmet_requirements() == ""
    monkeypatch.setattr(metadata, "requires", lambda name: metadata.distribution(f"no-{name}").requires)
    monkeypatch.setattr(software, "_version", lambda name: None)
    assert software.unmet_requirements() == ""


def test_versions_that_were_not_tested_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pixels may differ, although all works."""
    of_others = software._version
    monkeypatch.setattr(software, "_version", lambda name: "9.5" if name == "pillow" else of_others(name))
    with pytest.raises(UserError, match=r"needs pillow>=11 \(installed: 9\.5\): run pip install 'pillow>=11'"):
        software.versions()


@pytest.mark.parametrize(("text", "accepted"), [('opencv_version = "4.11.0.86"\n', False), ("", True), (None, True)])
def test_another_variant_of_opencv_in_the_same_folder_is_an_error(
    text: str | None, accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version would be recorded wrongly."""
    if text is not None:
        (tmp_path / "version.py").write_text(text)
    monkeypatch.setattr(software, "_origin", lambda module: str(tmp_path / "__init__.py"))
    expected = "its files are those of version 4.11.0.86: .*Run pip uninstall .*, then pip install opencv-python"
    with nullcontext() if accepted else pytest.raises(UserError, match=expected):
        assert software.versions()["opencv-python"] == metadata.version("opencv-python")


def test_the_command_compiles_although_others_should_not(small_source: Path) -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = run(f"plan tiny-imagenet-c --source {small_source} --only contrast", environment)
    assert (done.returncode, done.stderr.count("error")) == (0, 0), done.stderr


def test_an_evaluation_may_use_all_cpus_even_if_threads_should_be_bound() -> None:
    """OpenMP binds the first thread to one CPU when torch is imported, and loaders and workers inherit that."""
    program = """
import os
from pipeline.evaluate.predict.requirements import set_up_process
before = os.sched_getaffinity(0)
set_up_process()
import torch
print(os.sched_getaffinity(0) == before)
"""
    assert python("-c", program, env={**os.environ, "OMP_PROC_BIND": "true"}).stdout == "True\n"


@pytest.mark.large
def test_a_build_on_file_systems_without_locks(small_source: Path, tmp_path: Path) -> None:
    """Lustre is often mounted without them. Nothing is compiled before."""
    program = f"{WITHOUT_LOCKS}from pipeline.cli.start import main; main()"
    out, environment = tmp_path / "out", {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    arguments = ["build", "tiny-imagenet-c", "--source", small_source, "--out", out, "--only", "contrast"]
    done = python("-c", program, *arguments, *ONE_WORKER, env=environment)
    assert done.returncode == 0, done.stderr
    assert run(f"verify {out}").stdout.startswith("checked 30 samples")
    assert not list((out / ".lease").iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_user_without_home_and_name_can_compile_kernels() -> None:
    """Run as with ``docker run --user 12345``: no HOME, no passwd entry, a package that is not writable."""
    if not all(folder.stat().st_mode & 0o001 for folder in Path(sys.executable).resolve().parents):
        pytest.skip(f"another user cannot run {Path(sys.executable).resolve()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        package = folder / "package"  # installed by root: readable by all, writable only by root
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).parents[2] / "corruptions", package / "corruptions", ignore=ignore)
        (folder / "temporary").mkdir()
        (folder / "temporary").chmod(0o1777)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "TMPDIR": str(folder / "temporary")}
        done = python("-c", AS_NOBODY, cwd="/", env=environment)
        assert done.returncode == 0, done.stderr
        cache, kernels, mean = done.stdout.split()
        assert Path(cache) == folder / "temporary" / "robustshards-cache-12345"
        assert Path(kernels).parent == Path(cache)
        assert float(mean) == 99


def test_cache_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled kernels are code, which would run as the user who loads them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "robustshards").mkdir()
    (tmp_path / "robustshards").chmod(0o777)
    user_cache.cache_clear()
    try:
        assert user_cache().parent == tmp_path / "temporary"
        assert user_cache().stat().st_mode & 0o077 == 0
        user_cache.cache_clear()
        (tmp_path / "robustshards").chmod(0o755)
        assert user_cache() == tmp_path / "robustshards"
    finally:
        user_cache.cache_clear()


def test_source_is_remembered_outside_of_the_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    user_cache.cache_clear()
    try:
        trusted_locations.remember(str(tmp_path / "a"), "source", str(tmp_path / "photographs"))
        assert trusted_locations.recall(str(tmp_path / "b" / ".." / "a"), "source") == str(tmp_path / "photographs")
        assert trusted_locations.recall(str(tmp_path / "a"), "data") is None
        assert trusted_locations.recall(str(tmp_path / "b"), "source") is None
        assert not (tmp_path / "a").exists()
    finally:
        user_cache.cache_clear()
