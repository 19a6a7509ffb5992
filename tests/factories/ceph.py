"""A real object store on the loopback interface: Ceph of one machine, in memory, with its S3 gateway.

Needs root, and Debian's packages ceph-mon, ceph-mgr, ceph-osd, radosgw, ceph-common and ceph-base.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.factories.object_store import KEY, ObjectStore, free_port, wait_until_ready

PROGRAMS = ("ceph", "ceph-authtool", "ceph-mgr", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
COMMAND_S = 60
"""Seconds in which each command must end."""

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]
public network = 127.0.0.0/8
run dir = {folder}
admin socket = {folder}/$name.socket
log file = {folder}/$name.log
pid file = {folder}/$name.pid
mon data = {folder}/mon
mgr data = {folder}/mgr
osd data = {folder}/osd
keyring = {folder}/admin.keys
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
mon allow pool size one = true
[mon]
keyring = {folder}/mon/keyring
[mgr]
keyring = {folder}/mgr/keyring
[osd]
keyring = {folder}/osd/keyring
[client.rgw.a]
keyring = {folder}/rgw/keyring
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{ports[2]}
"""


@dataclass(frozen=True)
class Ceph(ObjectStore):
    """A monitor, a manager, a disk in memory, and a gateway, all in ``folder``."""

    folder: Path = Path()

    def start(self, ports: Sequence[int]) -> None:
        """Start all servers: the monitor at the first two ports, the gateway at the third.

        Raises:
            subprocess.CalledProcessError: A command fails.
        """
        folder, fsid, disk = self.folder, uuid.uuid4(), uuid.uuid4()
        for name in ("mon", "mgr", "osd", "rgw"):
            (folder / name).mkdir()
        (folder / "ceph.conf").write_text(CONFIGURATION.format(fsid=fsid, folder=folder, ports=ports))
        keys, admin, secret = folder / "keys", folder / "admin.keys", folder / "osd/keyring"
        monitor = f"[v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]"
        all_rights = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
        self._run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._run("ceph-authtool", "--create-keyring", admin, "--gen-key", "-n", "client.admin", *all_rights)
        self._run("ceph-authtool", keys, "--import-keyring", admin)
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", monitor, folder / "map")
        self._run("ceph-mon", "-i", "a", "--mkfs", "--monmap", folder / "map", "--keyring", keys)
        self._run("ceph-mon", "-i", "a")
        rights = ("mon", "allow profile mgr", "osd", "allow *", "-o", folder / "mgr/keyring")
        self._run("ceph", "auth", "get-or-create", "mgr.x", *rights)
        self._run("ceph-mgr", "-i", "x")
        self._run("ceph-authtool", "--create-keyring", secret, "--gen-key", "-n", "osd.0")
        key = self._run("ceph-authtool", secret, "-n", "osd.0", "-p").strip()
        self._run("ceph", "osd", "new", disk, "-i", "-", given=json.dumps({"cephx_secret": key}))
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        self._run("ceph-osd", "-i", "0")
        rights = ("mon", "allow rw", "osd", "allow rwx", "-o", folder / "rgw/keyring")
        self._run("ceph", "auth", "get-or-create", "client.rgw.a", *rights)
        self.start_gateway()
        secrets = ("--uid=test", "--display-name=test", f"--access-key={KEY}", f"--secret-key={KEY}")
        self._run("radosgw-admin", "user", "create", *secrets)
        self.files().call_s3("create_bucket", Bucket=self.bucket)

    def start_gateway(self) -> None:
        """Start the gateway, and wait until it answers."""
        self._run("radosgw", "-n", "client.rgw.a")
        wait_until_ready(int(self.endpoint.rpartition(":")[2]))

    def kill(self, name: str = "client.rgw.a") -> None:
        """Kill a server: the gateway."""
        os.kill(int((self.folder / f"{name}.pid").read_text()), signal.SIGKILL)

    def stop(self) -> None:
        """Kill all servers."""
        for file in self.folder.glob("*.pid"):
            try:
                self.kill(file.stem)
            except (OSError, ValueError):
                continue

    def _run(self, program: str, *arguments: object, given: str | None = None) -> str:
        command = [program, *(() if program in {"ceph-authtool", "monmaptool"} else ("-c", self.folder / "ceph.conf"))]
        return subprocess.run(
            [*map(str, command), *map(str, arguments)],
            input=given,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=True,
        ).stdout


@contextmanager
def ceph() -> Iterator[Ceph]:
    """Provide Ceph with an empty bucket for the duration of a test, which is skipped where Ceph is not installed."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing or os.geteuid():
        pytest.skip(f"Ceph needs root and these programs: {', '.join(missing) or 'all found'}")
    with tempfile.TemporaryDirectory(prefix="ceph") as folder:  # a short path, which sockets need
        ports = [free_port() for _ in range(3)]
        servers = Ceph(f"http://127.0.0.1:{ports[2]}", folder=Path(folder))
        try:
            servers.start(ports)
            yield servers
        finally:
            servers.stop()
            time.sleep(0.5)  # the killed servers write into the folder until they have ended
