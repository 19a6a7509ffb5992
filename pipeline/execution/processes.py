"""What the worker processes of both engines have in common: how many there may be, and their environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipeline.errors import UserError
from pipeline.software import cpu_count

LOCAL_WORKERS, LOCAL_WORKERS_PER_CPU, MAX_WORKERS = 64, 16, 10_000
"""Maximum number of workers: on this machine, per CPU of it where that is more, and on a cluster."""

_KEPT = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=134217728"

WORKER_ENVIRONMENT: Mapping[str, str] = MappingProxyType({"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{_KEPT}"})
"""Environment variables of local workers. glibc requests huge pages (madvise) and keeps freed memory for reuse."""


def check_workers(workers: int | None, address: str | None) -> None:
    """Check the number of workers asked for; None means one per CPU. Raises UserError if it is too large."""
    most = LOCAL_WORKERS_PER_CPU * cpu_count() if address is None else MAX_WORKERS
    if workers is not None and workers > max(most, LOCAL_WORKERS):
        where = "on this machine" if address is None else "on a cluster"
        raise UserError(f"invalid --workers {workers}: up to {max(most, LOCAL_WORKERS)} are allowed {where}")
