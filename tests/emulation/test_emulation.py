"""The parts of ``make emulate``, without emulators and downloads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.emulation import __main__ as program
from tests.emulation import records
from tests.emulation.cpus import CPUS, Cpu, Emulator
from tests.emulation.downloads import (
    LIBRARIES,
    PACKAGES,
    DownloadError,
    Downloads,
    apt_configuration,
    apt_sources,
    pins,
    run_program,
)
from tests.emulation.outcomes import Outcome, exit_code, missing
from tests.emulation.page import page, summary
from tests.emulation.processes import Job, command, environment, run
from tests.emulation.records import About, Record, about_line, digest_line, end_last_line, error_line, read_record
from tests.golden.digests import Digest, committed

pytestmark = pytest.mark.large

SMALL, LARGE, FILE = "corruptions/cifar/fog/1", "corruptions/inception/fog/1", "decoders/pillow/odd.jpg"
EXPECTED = {LARGE: Digest(1, "a", "b"), SMALL: Digest(1, "c", "d"), FILE: Digest(1, "e", "f")}
HERE = Cpu(name="here", title="this machine", kernels="generic")
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


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_small_images_come_first_and_finished_digests_are_left_out() -> None:
    assert missing(EXPECTED, []) == [FILE, SMALL, LARGE]
    assert missing(EXPECTED, {FILE, LARGE}) == [SMALL]


def test_a_stopped_run_keeps_its_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert read_record(path) == Record()
    about = About("haswell", {"numpy": "2"})
    complete = (
        about_line(about.kernels, about.versions)
        + digest_line(SMALL, EXPECTED[SMALL], 2)
        + error_line(LARGE, "MemoryError", 3)
    )
    path.write_text(complete + digest_line(FILE, EXPECTED[FILE], 1)[:20])
    assert read_record(path) == Record(about, {SMALL: EXPECTED[SMALL]}, {LARGE: "MemoryError"}, 5)
    end_last_line(path)
    with open(path, "a") as file:
        file.write(digest_line(FILE, EXPECTED[FILE], 1) + digest_line(LARGE, EXPECTED[LARGE], 1))
    assert read_record(path) == Record(about, EXPECTED, {}, 7)


def test_digests_of_other_sources_and_software_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "corruptions" / "fog.py"
    source.parent.mkdir()
    source.write_text("1")
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setattr(records, "SOURCES", ("corruptions",))
    first = records.record_path(tmp_path, CPUS[0], ["numpy 1"])
    assert records.record_path(tmp_path, CPUS[0], ["numpy 1"]) == first
    paths = {first, records.record_path(tmp_path, CPUS[0], ["numpy 2"])}
    paths.add(records.record_path(tmp_path, CPUS[1], ["numpy 1"]))
    source.write_text("2")
    paths.add(records.record_path(tmp_path, CPUS[0], ["numpy 1"]))
    assert len(paths) == 4


def test_sources_of_digests_exist() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in records.source_files(ROOT)}
    assert names >= {"corruptions/kernels/colour/contrast.py", "pipeline/images/decoders.py", "tests/golden/digests.py"}
    assert any(name.endswith(".jpg") for name in names)


def test_differences_are_named_and_decide_the_exit_code() -> None:
    changed = {**EXPECTED, SMALL: Digest(1, "c", "x"), LARGE: Digest(1, "x", "x")}
    broken = Record(digests={SMALL: changed[SMALL], LARGE: changed[LARGE]}, errors={FILE: "OSError: no"})
    different = Outcome(HERE, broken, EXPECTED)
    assert different.different == [f"{LARGE} (pixels, payload)", f"{SMALL} (payload)", f"{FILE} (OSError: no)"]
    unfinished = Outcome(HERE, Record(digests={FILE: EXPECTED[FILE]}), EXPECTED, "exit code 9")
    assert (unfinished.equal, unfinished.missing, unfinished.different) == (1, [SMALL, LARGE], [])
    complete = Outcome(HERE, Record(digests=dict(EXPECTED)), EXPECTED)
    assert [exit_code([complete, each]) for each in (complete, different, unfinished)] == [0, 1, 3]
    assert exit_code([unfinished, different]) == 1
    lines = list(summary([different, unfinished]))
    assert f"  different: {LARGE} (pixels, payload)" in lines
    assert f"  not computed: 2, the first is {SMALL} (exit code 9)" in lines


def test_page_has_a_row_for_each_cpu() -> None:
    about = About("generic -sve", {"python": "3.11.2", "numpy": "2.4.6"})
    digests = {**EXPECTED, SMALL: Digest(2, "c", "d")}
    del digests[LARGE]
    outcomes = [
        Outcome(CPUS[0], Record(about, digests, seconds=90), EXPECTED, "the time limit was reached"),
        Outcome(CPUS[1], Record(), EXPECTED, "exit code 4"),
    ]
    text = page(outcomes, EXPECTED)
    assert f"| {CPUS[0].name} | {CPUS[0].title} | generic -sve | 3 | 1 | 1 | 1 | 1.5 |" in text
    assert f"| {CPUS[1].name} | {CPUS[1].title} |  | 3 | 0 | 0 | 3 | 0.0 |" in text
    assert "Digests: 2 corruptions, 1 decoders." in text
    assert f"Libraries on {CPUS[0].name}: python 3.11.2, numpy 2.4.6." in text
    assert f"Different on {CPUS[0].name}:\n\n- {SMALL} (version)\n" in text
    assert f"Not computed on {CPUS[0].name} (the time limit was reached): 1 corruptions.\n" in text


def test_jobs_run_in_order_and_wait_for_others(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    note = f"open({str(trace)!r}, 'a').write"
    jobs = [
        job(tmp_path, "compile", f"import time; time.sleep(0.5); {note}('compiled ')"),
        job(tmp_path, "load", f"{note}('loaded ')", after="compile"),
        job(tmp_path, "other", f"{note}('other ')"),
    ]
    assert run(jobs, 2, 60) == {}
    assert trace.read_text().split() == ["other", "compiled", "loaded"]


def test_a_job_that_fails_is_reported_with_its_last_message(tmp_path: Path) -> None:
    jobs = [
        job(tmp_path, "bad", "import sys; print('half'); sys.exit('cpu not found')"),
        job(tmp_path, "next", "print(7)", "bad"),
    ]
    reasons = run(jobs, 2, 60)
    assert reasons.keys() == {"bad"}
    assert "exit code 1: cpu not found" in reasons["bad"]
    assert (tmp_path / "bad.out").read_text() == "half\n"
    assert (tmp_path / "next.out").read_text() == "7\n"


def test_jobs_are_killed_at_the_time_limit(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    jobs = [job(tmp_path, name, code) for name in ("first", "second", "third")]
    assert run(jobs, 2, 3) == dict.fromkeys(("first", "second", "third"), "the time limit was reached")
    assert not any(is_running(int((tmp_path / f"{name}.out").read_text())) for name in ("first", "second"))
    assert not (tmp_path / "third.out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_are_killed_when_the_command_is_stopped(number: signal.Signals, tmp_path: Path) -> None:
    code = f"""
import signal, sys
from pathlib import Path
from tests.emulation.__main__ import end_on_sigterm
from tests.emulation.processes import run
from tests.emulation.test_emulation import job
end_on_sigterm()
run([job(Path({str(tmp_path)!r}), "job", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")], 2, 600)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)
    output = tmp_path / "job.out"
    wait_for(lambda: output.exists() and output.read_text().strip())
    pid = int(output.read_text())
    assert is_running(pid)
    process.send_signal(number)
    assert process.wait(30) != 0
    assert not is_running(pid)


def test_emulate_computes_compares_and_resumes(downloads: Downloads, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {name: committed()[name] for name in IN_FILES}
    (outcome,) = program.emulate([HERE], expected, downloads, 2, 120)
    assert (outcome.reason, outcome.missing, outcome.different) == ("", [], [])
    assert outcome.record.about is not None
    assert outcome.record.about.kernels == "generic"
    assert outcome.record.about.versions["python"].startswith("3.")
    changed = {**expected, IN_FILES[0]: Digest(1, "other", "other"), "decoders/none/none": Digest(1, "a", "b")}
    capsys.readouterr()
    (outcome,) = program.emulate([HERE], changed, downloads, 2, 120)
    assert f"here: 1 of {len(changed)} digests to compute" in capsys.readouterr().out
    assert [line.partition(" ")[0] for line in outcome.different] == [IN_FILES[0], "decoders/none/none"]
    assert "KeyError" in outcome.different[1]


def test_digests_of_sources_that_changed_during_the_run_do_not_count(
    downloads: Downloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    monkeypatch.setattr(program, "record_path", lambda folder, cpu, software: folder / f"{next(numbers)}.jsonl")
    monkeypatch.setattr(program, "run", lambda jobs, processes, seconds: {})
    (outcome,) = program.emulate([HERE], EXPECTED, downloads, 2, 120)
    assert outcome.missing == [FILE, SMALL, LARGE]
    assert outcome.reason == "the sources changed during the run"


def test_features_of_kernels_can_be_overridden(downloads: Downloads) -> None:
    cpu = Cpu(name="here", title="", kernels="haswell", features="-avx2,-fma")
    done = subprocess.run(
        command(cpu, downloads),
        env=environment(cpu, downloads),
        cwd=ROOT,
        input="[]",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["about"]["kernels"] == "haswell -avx2,-fma"


def test_arm_runs_with_its_own_python_and_libraries(downloads: Downloads) -> None:
    (cpu,) = (cpu for cpu in CPUS if cpu.name == "neoverse-v1")
    qemu, *rest = command(cpu, downloads)
    assert qemu.endswith(f"/usr/bin/{Emulator.AARCH64}")
    assert rest[:4] == ["-cpu", cpu.model, "-L", str(downloads.system)]
    assert rest[4] == str(downloads.python)
    variables = environment(cpu, downloads)
    assert variables["PYTHONPATH"].split(":") == [str(ROOT), str(downloads.libraries)]
    assert variables["NUMBA_CPU_NAME"] == "neoverse-v1"


def test_x86_loads_kernels_that_were_compiled_before() -> None:
    names = [cpu.name for cpu in CPUS]
    assert len(set(names)) == len(names)
    for cpu in CPUS:
        if cpu.emulator is Emulator.X86_64:
            (native,) = (other for other in CPUS if other.name == cpu.compiled_by)
            assert native.emulator is None
            assert native.kernels == cpu.kernels
            assert names.index(native.name) < names.index(cpu.name)


def test_pins_are_those_of_the_constraints() -> None:
    constraints = "# comment\nNumPy==2.4.6\npydantic_core==2.1\n"
    assert pins(constraints, ["numpy", "pydantic-core"]) == ("NumPy==2.4.6", "pydantic_core==2.1")
    with pytest.raises(DownloadError, match=r"no version of pillow.*add it"):
        pins(constraints, ["numpy", "pillow"])


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
    allowed = (*LIBRARIES, "robustshards")
    command = [sys.executable, "-c", IMPORT_ONLY, *allowed]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 15


def test_apt_writes_only_to_its_folder(tmp_path: Path) -> None:
    sources = tmp_path / "debian.sources"
    with pytest.raises(DownloadError, match=r"debian\.sources: run make emulate on Debian 12"):
        apt_sources([sources])
    sources.write_text("Types: deb\n")
    assert apt_sources([tmp_path / "none", sources]) == sources
    text = apt_configuration(tmp_path, sources)
    assert 'APT::Architecture "arm64";' in text
    written = [line for line in text.splitlines() if line.startswith(("Dir::State", "Dir::Cache"))]
    assert len(written) == 3
    assert all(f'"{tmp_path}/' in line for line in written)


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho $0: No module named pip >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(DownloadError, match=rf"pip is not installed for {python}: run {python} -m ensurepip"):
        run_program(str(python), "-m", "pip", "install")
    with pytest.raises(DownloadError, match="false failed with exit code 1"):
        run_program("false")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="dpkg is not installed: run make emulate on Debian 12"):
        run_program("dpkg", "-x")


def test_command_refuses_without_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "emulation"
    assert program.main(["--folder", str(folder)]) == 2
    assert "apt-get is not installed" in capsys.readouterr().err
    assert not Downloads(folder).system.exists()


def test_dry_run_lists_downloads_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "emulation"
    assert program.main(["--dry-run", "--folder", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*PACKAGES, *LIBRARIES, "20 MB"))
    assert not folder.exists()


def test_unknown_cpus_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--cpus", "haswell,z80"])
    assert "unknown CPU z80: use names of aarch64, " in capsys.readouterr().err
