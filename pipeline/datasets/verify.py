"""Full verification: compares the manifest with every payload, digest, count and label."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby, islice

import manifests
from manifests import Row
from pipeline.datasets.adversarial import CleanPixels, check_perturbation, clean_pixels
from pipeline.datasets.base import DamagedShardError, DataSet
from pipeline.datasets.built import Built
from pipeline.datasets.coverage import ClassNames, Coverage
from pipeline.datasets.findings import Findings
from pipeline.datasets.indexed import CHUNK_ROWS
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import MANIFEST_FILE
from pipeline.datasets.rendered import Rendered
from pipeline.datasets.samples import Sample, pixel_digest
from pipeline.datasets.verify_rendered import verify_rendered
from pipeline.errors import UserError
from pipeline.images.fingerprints import changes
from pipeline.recipes.schema import MAX_SHARD_SIZE
from pipeline.storage import thread_pool
from pipeline.text import shown
from pipeline.transforms.family import Condition


def verify(
    output: str,
    threads: int = 1,
    checked: Callable[[Findings], None] = lambda findings: None,
    data: str | None = None,
    source: str | None = None,
) -> Findings:
    """Compare every byte of a finished data set with its manifest.

    Args:
        output: Path or URL of the data set.
        threads: Number of shards checked concurrently.
        checked: Function called after each shard with the results so far.
        data: Files of an index, or source of a rendered data set, see ``open_data_set``.
        source: For adversarial images: path or URL of the clean data set, see ``clean_pixels``.

    Returns:
        The results.

    Raises:
        UserError: The folder is not a finished data set.
    """
    data_set = open_data_set(output, data)
    if isinstance(data_set, Rendered):
        return verify_rendered(data_set, False, threads, checked)
    tars = data_set.store.listing("shards", ".tar") if isinstance(data_set, Built) else ()
    coverage = Coverage(data_set.conditions, tars)
    manifest_checks = _ManifestChecks(data_set, coverage)
    total = Findings(warnings=list(changes(data_set.decoders, data_set.resizers)))
    clean = clean_pixels(output, source) if data_set.attack else None
    if data_set.attack and clean is None:
        total.warnings.append(
            "the perturbations were not compared with their budgets, because the clean images are not known on this "
            "machine: give --source with the clean data set"
        )
    with thread_pool(threads) as pool:
        pending: deque[Future[Findings]] = deque()
        for chunk in _shard_chunks(data_set, clean):
            manifest_checks.add(chunk)
            pending.append(pool.submit(_check_chunk, data_set, chunk))
            # Limit the number of pending shards, so that memory does not grow with the data set.
            while len(pending) > 2 * threads:
                total.add(pending.popleft().result())
                checked(total)
        for check in pending:
            total.add(check.result())
            checked(total)
    total.add(coverage.finish())
    return total


@dataclass(frozen=True)
class _ShardChunk:
    """Rows of one condition in one shard.

    ``sha256`` is the digest of the shard in the first of its rows. ``clean`` has the images that were attacked; None if
    there are none.
    """

    shard: str
    condition: Condition
    rows: Sequence[Row]
    sha256: str
    is_first: bool
    clean: CleanPixels | None


def _shard_chunks(data_set: DataSet, clean: CleanPixels | None) -> Iterator[_ShardChunk]:
    """Yield the manifest by shards. Files of an index may have many rows, which are split."""
    most = MAX_SHARD_SIZE if isinstance(data_set, Built) else CHUNK_ROWS
    for (shard, transform, level), group in groupby(data_set.rows(), key=_shard_key):
        sha256 = None
        while rows := list(islice(group, most)):
            if sha256 is not None and isinstance(data_set, Built):
                raise UserError(
                    f"{MANIFEST_FILE} has more than {most} rows for {shown(shard)}: it is damaged; copy or download "
                    "it again"
                )
            is_first, sha256 = sha256 is None, sha256 or rows[0].shard_sha256
            yield _ShardChunk(shard, Condition(transform, level), rows, sha256, is_first, clean)


def _shard_key(row: Row) -> tuple[str, str, int]:
    """Return a key that is the same for consecutive rows of one condition in one shard."""
    return row.shard, row.transform, row.level


class _ManifestChecks:
    """Checks across shards in addition to the coverage: unique keys, and labels that match the class names."""

    def __init__(self, data_set: DataSet, coverage: Coverage) -> None:
        self._coverage = coverage
        self._class_names = ClassNames(data_set)
        self._ids: set[str] = set()
        self._latest: Condition | None = None

    def add(self, chunk: _ShardChunk) -> None:
        """Add the rows of one condition in one shard."""
        shard, condition, rows, found = chunk.shard, chunk.condition, chunk.rows, self._coverage.found
        if condition != self._latest:
            # Keep the ids of one condition only, so that memory does not grow with the data set.
            self._ids, self._latest = set(), condition
        ids = {row.source_id for row in rows}
        content = "".join(f"{row.source_id}\n{row.label}\n{row.source_sha256}\n" for row in rows).encode()
        self._coverage.add(condition, len(rows), content)
        self._coverage.add_shard(shard)
        if ids <= self._ids:
            found.fault(shard, "is listed twice in the manifest")
        elif len(ids) != len(rows) or ids & self._ids:
            found.fault(shard, "has the same key twice")
        self._ids |= ids
        for row in rows:
            if row.key != f"{row.source_id}-{condition}":
                found.fault(row.key, f"does not belong in {shard}")
            if what := self._class_names.fault(row.label, row.class_name):
                found.fault(row.key, what)


def _check_chunk(data_set: DataSet, chunk: _ShardChunk) -> Findings:
    """Compare rows of one shard with its content, and perturbations with their budgets."""
    shard, rows = chunk.shard, chunk.rows
    failed = sum(row.status == manifests.FAILED for row in rows)
    found = Findings(shards=int(chunk.is_first), samples=len(rows), failed=failed)
    try:
        _check_digest(data_set, chunk, found)
        for checked in data_set.read(shard, rows):
            for fault in checked.faults:
                found.fault(fault.where, fault.what)
            _check_payload(checked.sample, data_set.family.sequences, found)
            if chunk.clean and checked.sample.intact:
                check_perturbation(data_set, chunk.clean, checked.sample, found)
    except DamagedShardError as error:
        found.fault(error.fault.where, error.fault.what)
    except FileNotFoundError:
        found.fault(shard, "is missing")
    except OSError as error:
        found.fault(shard, f"cannot be read: {error.strerror or error}")
    except UserError as error:
        found.fault(shard, f"cannot be read: {error}")
    return found


def _check_digest(data_set: DataSet, chunk: _ShardChunk, found: Findings) -> None:
    """Compare the digest of a shard, which is read once, with its rows."""
    sha256 = chunk.sha256
    if chunk.is_first:
        with data_set.files.open(chunk.shard) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    wrong = next((row.shard_sha256 for row in chunk.rows if row.shard_sha256 not in ("", sha256)), None)
    if wrong is not None:
        found.fault(chunk.shard, f"sha256 is {sha256}, the manifest has {wrong}")


def _check_payload(sample: Sample, sequence: bool, found: Findings) -> None:
    """Compare a payload and its decoded pixels with the manifest."""
    row = sample.row
    if not sample.intact:
        found.fault(row.key, "has a payload that was changed: its sha256 differs from the manifest")
        return
    try:
        pixels = sample.pixels()
    except ValueError as error:
        found.fault(row.key, f"cannot be decoded: {error}")
        return
    wanted = (*((row.frames,) if sequence else ()), row.height, row.width)
    if pixels.shape[:-1] != wanted:
        found.fault(row.key, f"has the size {pixels.shape[:-1]}; the manifest has {wanted}")
    elif pixel_digest(pixels) != row.pixel_sha256:
        if sample.encoder.bare:
            found.fault(row.key, "has an intact payload, but other pixels than the manifest")
        else:
            found.decoder_changed += 1
