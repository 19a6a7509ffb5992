"""A real S3 server on the loopback interface: moto's, in a process of its own, with one bucket."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import s3fs

KEY = "testing"
"""Access key and secret key."""

_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 10


@dataclass(frozen=True)
class ObjectStore:
    """Address of the server, and its bucket."""

    endpoint: str
    bucket: str = "robustshards"

    @property
    def url(self) -> str:
        """URL of the bucket."""
        return f"s3://{self.bucket}"

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the environment variables of a user's shell. ``endpoint`` is a proxy to use."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def files(self) -> s3fs.S3FileSystem:
        """Return the store as a file system that connects directly and does not cache listings."""
        return s3fs.S3FileSystem(
            key=KEY,
            secret=KEY,
            endpoint_url=self.endpoint,
            client_kwargs={"region_name": "us-east-1"},
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Provide a server with an empty bucket for the duration of a test.

    Raises:
        RuntimeError: If the server does not answer within a minute.
    """
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port, lambda: server.poll() is None)
        store = ObjectStore(f"http://127.0.0.1:{port}")
        store.files().call_s3("create_bucket", Bucket=store.bucket)
        yield store
    finally:
        server.terminate()
        try:
            server.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def upload(store: ObjectStore, folder: Path, name: str) -> str:
    """Copy a folder into the bucket, and return its URL."""
    store.files().put(f"{folder}/", f"{store.bucket}/{name}/", recursive=True)
    return f"{store.url}/{name}"


def free_port() -> int:
    """Return an unused port of the loopback interface."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(port: int, is_alive: Callable[[], bool] = lambda: True) -> None:
    """Return when a server accepts connections. Raises RuntimeError if it does not."""
    limit = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError as error:
            if not is_alive() or time.monotonic() > limit:
                raise RuntimeError(f"the S3 server does not answer on port {port}") from error
            time.sleep(0.05)
