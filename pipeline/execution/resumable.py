"""Jobs that write parts into a folder one by one and merge them last, so that the same command continues them.

Build, render, evaluate, attack and budgets say what their settings and parts are; the rest is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

import manifests
from pipeline.errors import UserError
from pipeline.execution.pools import Crew, open_pool
from pipeline.execution.work import Counts, Event, Lost, Progress, Tally, Work
from pipeline.storage import Store, read_ahead, read_groups_ahead
from pipeline.text import counted

NAMED = 5
"""Maximum number of foreign files that an error names."""

FACT_FAILED = "failed"
"""Metadata of a part and of the merged file: number of failed samples."""


@dataclass(frozen=True)
class JobFolder:
    """The files that a job writes into its output.

    Attributes:
        what: What they are, for messages, for example "data set".
        settings: File with the settings, which marks the output as one of this job.
        merged: File that is merged from the parts, which exists only if all are committed. Empty if there are none.
        parts: Folder of the parts; empty if all is written at once.
        fact: Metadata key of a part: digest of everything that decides its content.
        remedy: What to do instead of using another folder, for messages.
    """

    what: str
    settings: str
    merged: str = ""
    parts: str = ""
    fact: str = ""
    remedy: str = "or the same options"

    def part(self, name: str) -> str:
        """Return the path of a part."""
        return f"{self.parts}/{name}.parquet"

    def claim(
        self, store: Store, content: Callable[[Store], Sequence[str]], conflicts: Callable[[], Sequence[str]]
    ) -> None:
        """Check that an output has no settings and no content, or the same settings.

        Args:
            store: The output.
            content: Returns the names of what it contains, called if it has no settings.
            conflicts: Returns the differences of its settings and those requested, called if it has settings.

        Raises:
            UserError: It contains something else. The message names some of it, or the differences.
        """
        if store.size(self.settings) >= 0:
            if differences := conflicts():
                raise UserError(
                    f"{store.root} contains another {self.what} ({'; '.join(differences)}): use another folder, "
                    f"{self.remedy}"
                )
        elif names := content(store):
            some = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
            raise UserError(
                f"{store.root} contains {some} but no {self.settings}, so it is not a folder of this command: use an "
                f"empty folder, or a new one in it, for example {store.root.rstrip('/')}/data"
            )

    def files_of(self, store: Store, others: Iterable[str] = ()) -> list[str]:
        """Return the names of the merged file, the parts and other files, as far as they exist."""
        found = [name for name in (self.merged, *others) if store.size(name) >= 0]
        return found + [f"{self.parts}/"] * any(True for _ in store.listing(self.parts, ".parquet"))

    def facts(self, store: Store) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the path and metadata of each part; the metadata of a damaged part is empty."""
        for part in read_ahead(store, store.listing(self.parts, ".parquet")):
            yield part[0], manifests.part_facts(part)

    def publish(
        self, store: Store, name: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, facts: Mapping[str, str]
    ) -> None:
        """Write a part with its metadata and seal it. Raises OSError."""
        content = pa.BufferOutputStream()
        with pq.ParquetWriter(content, schema, use_dictionary=False, write_statistics=False) as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            writer.add_key_value_metadata(manifests.with_blank_seal(facts))
        store.publish_bytes(manifests.seal(content.getvalue().to_pybytes()), self.part(name))

    def merge(
        self,
        store: Store,
        parts: Iterable[Sequence[str]],
        facts: Mapping[str, str],
        schema: pa.Schema,
        summed: Sequence[str] = (),
        rows: int | None = None,
    ) -> dict[str, str]:
        """Write the merged file and seal it.

        Args:
            store: The output.
            parts: Names of the parts in order, in groups that become row groups.
            facts: Metadata of the merged file.
            schema: Columns of the parts.
            summed: Metadata keys of the parts, whose sums become metadata of the merged file.
            rows: Number of rows that the parts must have. None for any.

        Returns:
            The metadata of the merged file.

        Raises:
            UserError: A part cannot be read, or the number of rows differs.
        """
        scratch = store.scratch()
        groups = read_groups_ahead(store, ([self.part(name) for name in names] for names in parts))
        try:
            merged = manifests.merge(groups, manifests.with_blank_seal(facts), scratch, schema, summed)
        except manifests.MergeError as error:
            raise UserError(f"{error}: delete it and run the same command again") from error
        if rows not in (None, merged.rows):
            raise UserError(
                f"the parts in {store.root} contain {merged.rows} rows instead of {rows}: delete the folder "
                f"{self.parts} in it and run the same command again"
            )
        manifests.seal_file(scratch)
        store.publish(scratch, self.merged)
        return dict(merged.facts)


class JobResult(Protocol[Counts]):
    """What a job has done."""

    done: Counts
    lost: list[Any]
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether every part is committed."""


class Preparing(Protocol):
    """An observer of the steps before a job."""

    def preparing(self, what: str) -> None:
        """Handle the start of a preparation step, before any work."""


class JobWatcher(Preparing, Protocol[Work, Counts]):
    """An observer of a job."""

    def on_event(self, event: Event[Counts, Work]) -> None:
        """Handle a work item that is finished, is retried or is given up."""


class ImageWatcher(JobWatcher[Work, Counts], Protocol[Work, Counts]):
    """An observer of a job that processes images one by one."""

    def counting(self, frames: int, predicted: int) -> None:
        """Handle the number of images, and of those that earlier runs finished."""

    def advanced(self, frames: int) -> None:
        """Handle the number of images finished in this run."""


class SilentWatcher:
    """A watcher of a build or an evaluation that ignores all events."""

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Ignore an event."""

    preparing = started = reported = on_event = counting = advanced = _ignore


class ResumableJob(ABC, Generic[Work, Counts]):
    """A job whose parts are committed one by one. Its methods run in the order in which they stand here.

    Attributes:
        folder: The files of the output.
        store: The output.
        result: What was done; complete at the end of the job.
    """

    folder: ClassVar[JobFolder]
    result: JobResult[Counts]

    def __init__(self, store: Store, watcher: JobWatcher[Work, Counts]) -> None:
        self.store = store
        self._watcher = watcher
        self._start = perf_counter()

    @abstractmethod
    def claim(self) -> None:
        """Check that the output is empty or belongs to this job, and write the settings. Raises UserError."""

    @abstractmethod
    def find_missing(self) -> bool:
        """Find the parts that are not committed, and return whether there are any."""

    @abstractmethod
    def crew(self) -> Crew[Any, Work, Counts]:
        """Return the workers to start."""

    @abstractmethod
    def rounds(self, workers: int) -> Iterator[Iterator[Work]]:
        """Yield rounds of missing work items; a round is finished before the next is requested."""

    def handle(self, event: Event[Counts, Work], tally: Tally[Counts]) -> None:
        """Record work items that are given up, and notify the watcher; ``tally`` already includes the event."""
        if isinstance(event, Lost):
            self.lose(event)
        if not isinstance(event, Progress) or event.finished:
            self._watcher.on_event(event)
        self.advanced(tally)

    @abstractmethod
    def lose(self, event: Lost[Work]) -> None:
        """Record a work item that is given up."""

    @abstractmethod
    def advanced(self, tally: Tally[Counts]) -> None:
        """Notify the watcher of the work done so far."""

    @abstractmethod
    def kept(self, done: Counts) -> str:
        """Return what an interruption keeps, for a message, given the sum of the work done."""

    def finish(self, done: Counts) -> bool:
        """Store the sum of the work done, and return whether every part is committed."""
        self.result.done = done
        return self.result.complete

    @abstractmethod
    def merge(self) -> None:
        """Write the merged file unless it exists and is complete."""

    def record(self) -> None:
        """Record facts about this run."""
        self.result.seconds = perf_counter() - self._start


class NamedPart(Protocol):
    """What one part of a job over images stands for. Its name is unique in the job."""

    @property
    def name(self) -> str:
        """Return the name of the part."""

    @property
    def frames(self) -> int:
        """Return its number of images."""


AnyPart = TypeVar("AnyPart", bound=NamedPart)


class ImageJob(ResumableJob[Sequence[AnyPart], Counts]):
    """A job with one result per image, whose parts are listed in advance.

    Attributes:
        parts: All parts, in the order of the merged file.
        missing: Those that are not committed.
    """

    _watcher: ImageWatcher[Sequence[AnyPart], Counts]

    def __init__(
        self, store: Store, watcher: ImageWatcher[Sequence[AnyPart], Counts], parts: Sequence[AnyPart]
    ) -> None:
        super().__init__(store, watcher)
        self.parts = parts
        self.missing: Sequence[AnyPart] = ()

    @abstractmethod
    def digest(self, part: AnyPart) -> str:
        """Return the digest of everything that decides the content of a part."""

    def without_part(self, retry_failed: bool = False) -> list[AnyPart]:
        """Return the parts that are missing, damaged or of other settings, or have failed images to retry."""
        done = {
            name: facts.get(self.folder.fact)
            for name, facts in self.folder.facts(self.store)
            if not (retry_failed and facts.get(FACT_FAILED) != "0")
        }
        return [part for part in self.parts if done.get(self.folder.part(part.name)) != self.digest(part)]

    def count_missing(self) -> bool:
        """Report the numbers of images to the watcher, and return whether parts are missing."""
        self._start, frames = perf_counter(), count_frames(self.parts)
        self._watcher.counting(frames, frames - count_frames(self.missing))
        return bool(self.missing)

    def lose(self, event: Lost[Sequence[AnyPart]]) -> None:
        """Record the parts of a work item that is given up."""
        self.result.lost += [(part.name, event.reason) for part in event.work]

    def kept(self, done: Counts) -> str:
        """Return how many parts are kept."""
        return f"{len(self.parts) - len(self.missing) + done.parts:,} of {counted(len(self.parts), 'part')} are kept"


def count_frames(parts: Iterable[NamedPart]) -> int:
    """Return the number of images of parts."""
    return sum(part.frames for part in parts)


def run_resumable(job: ResumableJob[Work, Counts], blank: Callable[[], Counts]) -> None:
    """Make the missing parts of a job, then merge all parts.

    After an interruption, the same call continues: parts are committed one by one, and the merged file, which marks a
    complete output, is removed before the work and written after it.

    Args:
        job: The job, whose output is locked against other runs.
        blank: Returns the counts of no work.

    Raises:
        UserError: The output contains something else, or another run is writing to it.
        KeyboardInterrupt: The work was interrupted; the message says what is kept.
    """
    tally = Tally(blank)

    def handle(events: Iterator[Event[Counts, Work]]) -> None:
        for event in events:
            tally.add(event)
            job.handle(event, tally)

    with job.store.exclusive():
        job.claim()
        if job.find_missing():
            with open_pool(job.crew()) as pool:
                job.store.remove(job.folder.merged)  # not earlier: if no worker can start, the file is kept
                try:
                    for items in job.rounds(pool.workers):
                        handle(pool.run(items))
                except KeyboardInterrupt as interruption:
                    handle(pool.drain())
                    raise KeyboardInterrupt(job.kept(tally.total())) from interruption
        if job.finish(tally.total()):
            job.merge()
        job.record()
