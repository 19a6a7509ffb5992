"""Workers run the same code as the command: no code from the current folder and no other version."""

import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.execution.processes import MAX_WORKERS
from pipeline.execution.ray_cluster import cluster
from pipeline.software import PACKAGES, installation
from tests.conftest import RAY, ROOT, SELECTION, Run
from tests.factories.commands import PROGRAM
from tests.factories.data_sets import data_digests

HOSTILE = ("pipeline.py", "numpy.py", "corruptions/__init__.py", "sitecustomize.py", "ray.py", "multiprocessing.py")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder of modules that write to a file when they are imported."""
    folder = tmp_path / "hostile"
    for name in HOSTILE:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(folder / 'ran')!r}, 'a').write(__file__ + '\\n')\n")
    return folder


def build_in(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, without the PYTHONPATH of the tests."""
    command = [PROGRAM, "build", "imagenet-c", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.parametrize("engine", ["local", RAY, pytest.param("joined", marks=pytest.mark.large)])
def test_code_in_the_current_folder_is_not_run(
    hostile: Path, built_once: Path, small_source: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    (hostile / "photographs").symlink_to(small_source)
    places = ("--source", "photographs", "--out", "data", *SELECTION, "--workers", 2)
    pool = ("--address", request.getfixturevalue("ray_address")) if engine == "joined" else ("--executor", engine)
    done = build_in(hostile, *places, *pool)
    assert not (hostile / "ran").exists(), (hostile / "ran").read_text()
    assert done.returncode == 0, done.stderr
    assert data_digests(hostile / "data") == data_digests(built_once)


@pytest.mark.large
def test_a_cluster_with_another_version_is_refused(
    tmp_path: Path, small_source: Path, ray_address: str, robustshards: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tmp_path / "other" / name, ignore=shutil.ignore_patterns("__pycache__"))
    with open(tmp_path / "other" / "pipeline" / "transforms" / "seeds.py", "a", encoding="utf-8") as file:
        file.write("\n# another version\n")
    elsewhere = {"runtime_env": {"env_vars": {"PYTHONPATH": str(tmp_path / "other")}}}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(elsewhere))
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", *SELECTION)
    message = robustshards.refuse(*command, "--address", ray_address)
    assert "the source of robustshards has the digest" in message
    assert f"pipeline from {tmp_path / 'other' / 'pipeline' / '__init__.py'}, not {ROOT}" in message
    assert f"on {socket.gethostname()}" in message
    assert "Install the same versions there" in message
    assert "run the same command again" not in message
    assert not list(tmp_path.glob("data/shards/*"))


def test_differences_name_versions_and_files() -> None:
    here = installation()
    assert here.differences() == []
    elsewhere = type(here)("elsewhere", {**here.versions, "numpy": "1.0"}, here.source, {})
    assert elsewhere.differences() == [f"numpy {here.versions['numpy']}, not 1.0"]
    shadowed = {**here.files, "numpy": ("/elsewhere/numpy.py", "")}
    (fault,) = type(here)(here.host, here.versions, here.source, shadowed).differences()
    assert fault == f"numpy from {here.files['numpy'][0]}, not /elsewhere/numpy.py"


INVALID = ("", " ", "localhost", "host:", ":6379", "host:123456", "host:²", "ray://host:10001", "local", "-1")
UNREACHABLE = ("127.0.0.1:99999", "[::1]:1", "a..b:1", f"{'x' * 300}:1", "nul\0:1")


@pytest.mark.parametrize(
    ("workers", "address", "message"),
    [
        *((None, address, r"invalid address .*10\.0\.0\.1:6379") for address in INVALID),
        *((None, address, "no Ray cluster answers at") for address in UNREACHABLE),
        *((count, None, f"invalid --workers {count}: use at most") for count in (10**6, 10**30)),
        (MAX_WORKERS + 1, "127.0.0.1:1", f"invalid --workers {MAX_WORKERS + 1}: use at most"),
    ],
)
def test_invalid_clusters_are_refused(workers: int | None, address: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message), cluster(workers, address):
        pass


def test_a_server_that_is_not_ray_is_refused() -> None:
    """Ray itself would retry for two minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UserError, match="not a Ray head"), cluster(None, address):
            pass
