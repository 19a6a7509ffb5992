"""Calls of a store that are retried once and at once, also in workers."""

import pytest
import s3fs
import tenacity

from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.storage import retry


def impatient(patch: pytest.MonkeyPatch) -> None:
    """Retry calls of a store once, without a wait."""
    patch.setenv("AWS_MAX_ATTEMPTS", "1")
    patch.setattr(s3fs.S3FileSystem, "retries", 1)
    quick = tenacity.Retrying(retry=retry._RETRYING.retry, stop=tenacity.stop_after_attempt(2))
    patch.setattr(retry, "_RETRYING", quick)


class StrandedWorker(BuildWorker):
    """A worker of a build whose process cannot reach the store."""

    def __init__(self, job: BuildJob) -> None:
        patch = pytest.MonkeyPatch()
        impatient(patch)
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        super().__init__(job)
