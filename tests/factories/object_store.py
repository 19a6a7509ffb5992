"""A real S3 server on loopback: moto's, as a process of its own, with one bucket."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import s3fs

_STARTING_S = 60
_ENDING_S = 10


@dataclass(frozen=True)
class ObjectStore:
    """Where the server answers, and the bucket that is there."""

    endpoint: str
    bucket: str = "robustshards"

    @property
    def url(self) -> str:
        """The bucket as users name it."""
        return f"s3://{self.bucket}"

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """What a user's shell would have set; ``endpoint``: of a proxy to go through."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def files(self) -> s3fs.S3FileSystem:
        """The store as a file system, straight to the server and without a cache of listings."""
        return s3fs.S3FileSystem(
            key="testing",
            secret="testing",
            endpoint_url=self.endpoint,
            client_kwargs={"region_name": "us-east-1"},
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server with an empty bucket, for the time of a test. Raises RuntimeError if it does not answer in a minute."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_answers(server, port)
        store = ObjectStore(f"http://127.0.0.1:{port}")
        store.files().call_s3("create_bucket", Bucket=store.bucket)
        yield store
    finally:
        server.terminate()
        try:
            server.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def upload(store: ObjectStore, folder: Path, name: str) -> str:
    """Copy a folder into the bucket; its URL there."""
    store.files().put(f"{folder}/", f"{store.bucket}/{name}/", recursive=True)
    return f"{store.url}/{name}"


def free_port() -> int:
    """A port of the loopback interface on which nobody listens."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int) -> None:
    limit = time.monotonic() + _STARTING_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"moto's S3 server does not answer on port {port}") from error
            time.sleep(0.05)
