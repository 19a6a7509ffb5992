"""The parts of ``make emulate``, without emulators and downloads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import tests.emulation.__main__ as program
from tests.conftest import ROOT
from tests.emulation import results
from tests.emulation.cpus import CPUS, Cpu, Emulator
from tests.emulation.downloads import LIBRARIES, Downloads
from tests.emulation.page import summary
from tests.emulation.processes import TIME_LIMIT, Job, run
from tests.emulation.results import Outcome, exit_code
from tests.factories.processes import wait_until
from tests.golden.digests import Digest, committed

pytestmark = pytest.mark.large

SMALL, LARGE, FILE = "corruptions/cifar/fog/1", "corruptions/inception/fog/1", "decoders/pillow/odd.jpg"
EXPECTED = {LARGE: Digest(1, "a", "b"), SMALL: Digest(1, "c", "d"), FILE: Digest(1, "e", "f")}
HERE = Cpu(name="here", title="this machine", kernels="haswell", features="-avx2,-fma")
IN_FILES = [name for name in committed() if name.startswith(("decoders/pillow/", "encoders/png"))]
"""Digests that need no compiled kernels."""


@pytest.fixture
def downloads(tmp_path: Path) -> Downloads:
    """A folder in which everything counts as downloaded."""
    found = Downloads(tmp_path / "emulation")
    found.system.mkdir(parents=True)
    found.libraries.mkdir()
    (found.system / "packages.txt").write_text("qemu-user-static_7.2_amd64.deb\n")
    return found


def job(folder: Path, name: str, code: str, after: str = "") -> Job:
    """A job of a few lines of Python."""
    files = (folder / f"{name}.out", folder / f"{name}.log")
    return Job(name, [sys.executable, "-c", code], dict(os.environ), "[]", *files, after)


def test_digests_of_other_sources_and_software_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {path.relative_to(ROOT).as_posix() for path in results.source_files()}
    assert names >= {"corruptions/kernels/colour/contrast.py", "pipeline/images/decoders.py", "tests/golden/digests.py"}
    assert any(name.endswith(".jpg") for name in names)
    source = tmp_path / "corruptions" / "fog.py"
    source.parent.mkdir()
    source.write_text("1")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    files = {results.file_of(tmp_path, cpu, [numpy]) for cpu in CPUS[:2] for numpy in ("numpy 1", "numpy 2")}
    source.write_text("2")
    assert len({*files, results.file_of(tmp_path, CPUS[0], ["numpy 1"])}) == 5


def test_differences_are_named_and_decide_the_exit_code() -> None:
    changed = {SMALL: Digest(1, "c", "x"), LARGE: Digest(1, "x", "x")}
    different = Outcome(HERE, EXPECTED, digests=changed, errors={FILE: "OSError: no"})
    assert different.different == [f"{LARGE} (pixels, payload)", f"{SMALL} (payload)", f"{FILE} (OSError: no)"]
    unfinished = Outcome(HERE, EXPECTED, digests={FILE: EXPECTED[FILE]}, reason="exit code 9")
    assert (unfinished.equal, unfinished.missing, unfinished.different) == (1, [SMALL, LARGE], [])
    complete = Outcome(HERE, EXPECTED, digests=EXPECTED)
    assert [exit_code([complete, each]) for each in (complete, different, unfinished)] == [0, 1, 3]
    assert exit_code([unfinished, different]) == 1
    lines = list(summary([different, unfinished]))
    assert f"  different: {LARGE} (pixels, payload)" in lines
    assert f"  not computed: 2, the first is {SMALL} (exit code 9)" in lines


def test_jobs_run_in_order_wait_for_others_and_are_reported_if_they_fail(tmp_path: Path) -> None:
    note = f"open({str(tmp_path / 'trace')!r}, 'a').write"
    jobs = [
        job(tmp_path, "compile", f"import time; time.sleep(0.5); {note}('compiled ')"),
        job(tmp_path, "load", f"{note}('loaded '); import sys; print('half'); sys.exit('cpu not found')", "compile"),
        job(tmp_path, "last", f"{note}('last ')", "load"),
    ]
    assert run(jobs, 2, 60) == {"load": f"exit code 1: cpu not found (all messages: {tmp_path / 'load.log'})"}
    assert (tmp_path / "trace").read_text().split() == ["compiled", "loaded", "last"]
    assert (tmp_path / "load.out").read_text() == "half\n"


def test_jobs_are_killed_at_the_time_limit(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    jobs = [job(tmp_path, name, code) for name in ("first", "second")]
    assert run(jobs, 2, 3) == dict.fromkeys(("first", "second"), TIME_LIMIT)
    assert not any(psutil.pid_exists(int((tmp_path / f"{each.name}.out").read_text())) for each in jobs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_are_killed_when_the_command_is_stopped(number: signal.Signals, tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from tests.emulation.__main__ import end_on_sigterm
from tests.emulation.processes import run
from tests.emulation.test_emulation import job
end_on_sigterm()
run([job(Path({str(tmp_path)!r}), "job", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")], 2, 600)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)
    output = tmp_path / "job.out"
    wait_until(lambda: output.exists() and output.read_text().strip())
    process.send_signal(number)
    assert process.wait(30) != 0
    assert not psutil.pid_exists(int(output.read_text()))


def test_emulate_computes_compares_and_resumes(
    downloads: Downloads, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {name: committed()[name] for name in IN_FILES}
    (outcome,) = program.emulate([HERE], expected, downloads, 2, 120)
    assert (outcome.reason, outcome.missing, outcome.different) == ("", [], [])
    assert (outcome.kernels, outcome.versions["python"][:2]) == ("haswell -avx2,-fma", "3.")
    (file,) = (downloads.folder / "results").iterdir()
    file.write_text(file.read_text()[:-20])  # as a stopped process leaves it
    changed = {**expected, IN_FILES[0]: Digest(1, "other", "other"), "decoders/none/none": Digest(1, "a", "b")}
    capsys.readouterr()
    (outcome,) = program.emulate([HERE], changed, downloads, 2, 120)
    assert f"here: 2 of {len(changed)} digests to compute" in capsys.readouterr().out
    assert [line.partition(" ")[0] for line in outcome.different] == [IN_FILES[0], "decoders/none/none"]
    assert "KeyError" in outcome.different[1]
    names = iter("ab")  # the sources change while the processes run
    monkeypatch.setattr(program, "file_of", lambda folder, cpu, software: folder / next(names))
    monkeypatch.setattr(program, "run", lambda jobs, processes, seconds: {})
    (outcome,) = program.emulate([HERE], expected, downloads, 2, 120)
    assert (outcome.equal, outcome.reason) == (0, "the sources changed during the run")


def test_x86_loads_kernels_that_were_compiled_before() -> None:
    names = [cpu.name for cpu in CPUS]
    assert len(set(names)) == len(names)
    for cpu in CPUS:
        if cpu.emulator is Emulator.X86_64:
            (native,) = (other for other in CPUS if other.name == cpu.compiled_by)
            assert (native.emulator, native.kernels) == (None, cpu.kernels)
            assert names.index(native.name) < names.index(cpu.name)


IMPORT_ONLY = """
import sys
from importlib import metadata

class Finder:
    def find_spec(self, name, path=None, target=None):
        owners = metadata.packages_distributions().get(name.partition(".")[0], ())
        if owners and not {owner.lower().replace("_", "-") for owner in owners} & allowed:
            raise ImportError(f"{name} is not installed")

allowed = {name.lower().replace("_", "-") for name in sys.argv[1:]}
packages = metadata.packages_distributions()
metadata.packages_distributions = lambda: packages
sys.meta_path.insert(0, Finder())

from tests.golden.digests import committed, computations
functions = computations()
names = ("corruptions/cifar/frost/1", "decoders/ffmpeg/", "encoders/mp4", "operators/pillow-box")
for name in functions:
    if name.startswith(names):
        assert functions[name]() == committed()[name], name
        print(name)
"""
"""Compute digests in a process that can import only the distributions of its arguments."""


def test_digests_need_no_other_libraries() -> None:
    command = [sys.executable, "-c", IMPORT_ONLY, *LIBRARIES, "robustshards"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 15


def test_downloads_are_listed_first_and_need_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "emulation"
    assert program.main(["--dry-run", "--folder", str(folder)]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("qemu-user-static", "numpy=="))
    assert not folder.exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.main(["--folder", str(folder)]) == 2
    assert "apt-get is not installed: run make emulate on Debian 12" in capsys.readouterr().err
    assert not Downloads(folder).system.exists()
