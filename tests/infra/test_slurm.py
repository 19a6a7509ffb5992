"""Tests of slurm.sh on a real Slurm of two machines, each with an address, processes and a /tmp of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import robustshards as rs
from tests.conftest import ROOT
from tests.factories.processes import wait_until
from tests.infra.commands import INFRA
from tests.photographs import CLASSES, write_photographs

pytestmark = pytest.mark.large

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "ip", "nsenter", "ray", "robustshards")
SLOT = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Number of the test process; each has a Slurm of its own."""

PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
MACHINES = (f"rs{SLOT}-a", f"rs{SLOT}-b")
BRIDGE, NETWORK, PORT = f"rs{SLOT}-bridge", f"10.{77 + SLOT}.0", 16800 + 10 * SLOT

CONFIGURATION = """
ClusterName=robustshards
SlurmctldHost={host}({network}.254)
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
AuthType=auth/none
CredType=cred/none
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdTimeout=5
KillWait=5
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES
"""
MACHINE = "NodeName={name} NodeHostname={host} NodeAddr={network}.{number} Port={port} CPUs=1 RealMemory=6000\n"


class Slurm:
    """Two machines of Slurm on this one: network namespaces at a bridge, with /tmp replaced by a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SLURM_"))},
            "PATH": PATH,
            "SLURM_CONF": str(folder / "slurm.conf"),
        }

    def run(self, *command: object, check: bool = True) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            [*map(str, command)], env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert not (check and done.returncode), done.stderr
        return done.stdout.strip()

    def start(self) -> None:
        """Start the controller and all machines. Raise AssertionError if this machine does not allow it."""
        host = os.uname().nodename.partition(".")[0]
        text = CONFIGURATION.format(host=host, folder=self.folder, network=NETWORK, port=PORT)
        self.run("ip", "link", "add", BRIDGE, "type", "bridge")
        self.run("ip", "address", "add", f"{NETWORK}.254/24", "dev", BRIDGE)
        self.run("ip", "link", "set", BRIDGE, "up")
        for number, name in enumerate(MACHINES, 1):
            text += MACHINE.format(name=name, host=host, network=NETWORK, number=number, port=PORT + number)
            self.run("ip", "netns", "add", name)
            self.run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            self.run("ip", "link", "set", name, "master", BRIDGE)
            self.run("ip", "-n", name, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self.run("ip", "-n", name, "link", "set", device, "up")
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "state").mkdir()
        self.run("slurmctld")
        for name in MACHINES:
            (self.folder / f"spool.{name}").mkdir()
            (self.folder / f"tmp.{name}").mkdir(mode=0o777)
            self.connect(name)
        wait_until(lambda: self.run("sinfo", "--noheader", "--states=idle", "--format=%D") == str(len(MACHINES)))

    def connect(self, name: str) -> None:
        """Start a machine."""
        self.run("ip", "link", "set", name, "up")
        script = f"mount --bind '{self.folder}/tmp.{name}' /tmp && exec slurmd -N {name}"
        self.run("nsenter", f"--net=/run/netns/{name}", "unshare", "--mount", "sh", "-c", script)

    def lose(self, name: str) -> None:
        """Disconnect a machine and kill all its processes."""
        self.run("ip", "link", "set", name, "down", check=False)
        for process in self.run("ip", "netns", "pids", name, check=False).split():
            try:
                os.kill(int(process), signal.SIGKILL)
            except ProcessLookupError:
                continue

    def stop(self) -> None:
        """End all processes and delete the network."""
        for name in MACHINES:
            self.lose(name)
            self.run("ip", "netns", "delete", name, check=False)
        controller = self.folder / "slurmctld.pid"
        if controller.exists():
            os.kill(int(controller.read_text()), signal.SIGTERM)
        self.run("ip", "link", "delete", BRIDGE, check=False)

    def submit(self, *arguments: str, nodes: int = 2, **variables: str) -> str:
        """Submit slurm.sh and return the id of the job."""
        environment = {**self.environment, **variables}
        options = (f"--nodes={nodes}", "--cpus-per-task=1", "--mem-per-cpu=3G", "--time=30", "--chdir=/")
        command = ["sbatch", "--parsable", *options, f"--output={self.folder}/%j.log", INFRA / "slurm.sh", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def job(self, number: str) -> Mapping[str, str]:
        """Return the fields of a job. A requeued job starts at once instead of after two minutes."""
        found = dict(re.findall(r"(\S+?)=(\S*)", self.run("scontrol", "--oneliner", "show", "job", number)))
        if found["JobState"] == "PENDING" and found["Reason"] == "BeginTime":
            self.run("scontrol", "update", f"JobId={number}", "StartTime=now", check=False)
        return found

    def exit_code(self, number: str) -> int:
        """Wait until a job has ended, and return the exit code of the script."""
        ended = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")
        wait_until(lambda: self.job(number)["JobState"] in ended)
        return int(self.job(number)["ExitCode"].partition(":")[0])

    def log(self, number: str) -> str:
        """Return what a job has printed."""
        return (self.folder / f"{number}.log").read_text()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder that all machines see."""
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("the checkout lies in /tmp, and each machine has a /tmp of its own")
    (ROOT / "build").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir=ROOT / "build"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def slurm(folder: Path) -> Iterator[Slurm]:
    if os.environ.get("SLURM") != "1":
        pytest.skip("set SLURM=1 to start Slurm, which adds network devices to this machine")
    if missing := [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]:
        pytest.skip(
            f"not on PATH: {', '.join(missing)}; Debian's slurmctld, slurmd, slurm-client and iproute2 have them"
        )
    cluster = Slurm(folder)
    try:
        cluster.start()
    except AssertionError as error:
        cluster.stop()
        pytest.skip(f"cannot start Slurm: {error}")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    """Return photographs that a machine corrupts for longer than Slurm needs to notice that the other is lost."""
    classes = {f"{name}-{copy}": files for name, files in CLASSES.items() for copy in range(6)}
    write_photographs(folder / "photographs", classes)
    return folder / "photographs"


def test_a_lost_machine_and_a_signal_change_no_byte(slurm: Slurm, folder: Path, source: Path) -> None:
    data = folder / "data"
    number = slurm.submit("--encoder", "png", "--shard-size", "10", SOURCE=str(source), OUT=str(data))

    def has_made(shards: int) -> bool:
        assert slurm.job(number)["JobState"] != "COMPLETED", slurm.log(number)
        return len(list(data.glob("shards/**/*.tar"))) >= shards

    wait_until(lambda: has_made(20))
    slurm.lose(MACHINES[1])
    try:
        wait_until(lambda: has_made(0) and slurm.job(number)["Restarts"] == "1")
    finally:
        slurm.connect(MACHINES[1])
    made = len(list(data.glob("shards/**/*.tar")))
    wait_until(lambda: has_made(made + 20))
    slurm.run("scancel", "--batch", "--signal=TERM", number)
    assert slurm.exit_code(number) == 0, slurm.log(number)
    assert slurm.job(number)["Restarts"] == "2"
    here = folder / "here"
    rs.build("imagenet-c", source=source, out=here, encoder="png", shard_size=10, executor="local")
    names = sorted(path.relative_to(here) for path in here.glob("shards/**/*.tar"))
    for name in (*names, Path("manifest.parquet")):
        assert (data / name).read_bytes() == (here / name).read_bytes(), name
    assert len(names) > made + 20
    wait_until(lambda: all(len(slurm.run("ip", "netns", "pids", name).split()) == 1 for name in MACHINES))


def test_a_refused_build_is_not_requeued(slurm: Slurm, folder: Path) -> None:
    number = slurm.submit(nodes=1, SOURCE=str(folder / "missing"), OUT=str(folder / "refused"))
    assert slurm.exit_code(number) == 2, slurm.log(number)
    assert slurm.job(number)["Restarts"] == "0"
    assert f"{folder}/missing" in slurm.log(number)


def test_a_machine_that_does_not_start_requeues_until_the_limit(slurm: Slurm, folder: Path, source: Path) -> None:
    limits = {"START_S": "15", "MAX_RESTARTS": "1", "HEAD_IP": "192.0.2.1"}  # an address that no machine has
    number = slurm.submit(SOURCE=str(source), OUT=str(folder / "never"), **limits)
    assert slurm.exit_code(number) == 3, slurm.log(number)
    assert slurm.job(number)["Restarts"] == "1"
    assert slurm.log(number).count(f"Ray on {MACHINES[0]} did not start within 15 s") == 2
    assert not (folder / "never").exists()


@pytest.mark.parametrize("missing", ["ray", "robustshards"])
def test_a_missing_program_is_named_at_once(slurm: Slurm, folder: Path, source: Path, missing: str) -> None:
    programs = folder / f"without-{missing}"
    programs.mkdir()
    for name in {"ray", "robustshards"} - {missing}:
        (programs / name).symlink_to(shutil.which(name, path=PATH) or "")
    number = slurm.submit(SOURCE=str(source), OUT=str(folder / "none"), PATH=f"{programs}:/usr/bin:/bin")
    assert slurm.exit_code(number) == 2
    assert slurm.log(number).startswith(f"{missing} is not on PATH")
    assert slurm.job(number)["Restarts"] == "0"
