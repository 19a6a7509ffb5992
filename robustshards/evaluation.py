"""The evaluation of a model on a data set, as Python and notebooks show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, EvaluationTable, require_finished
from pipeline.storage import open_store
from pipeline.text import counted, printable
from robustshards._calls import public_call

if TYPE_CHECKING:
    import pyarrow as pa

    from robustshards.reporting import Report


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The evaluation of a model on a data set: its predictions and its figures.

    A notebook shows the report with its plots, and ``print`` the key figures.

    Attributes:
        result: The run of ``evaluate``: counts of chunks, duration, labels.
    """

    result: EvaluationResult

    @property
    def complete(self) -> bool:
        """Whether every image was predicted."""
        return self.result.complete

    @property
    def output(self) -> str:
        """Path or URL of the folder with the predictions."""
        return self.result.output

    @property
    def table(self) -> EvaluationTable:
        """Settings that determine the predictions (``evaluation.toml``): model, input, device, data set, software."""
        return self.result.table

    @property
    def done(self) -> PredictionCounts:
        """Counts of this call, without predictions of earlier ones."""
        return self.result.done

    @property
    def lost(self) -> list[tuple[str, str]]:
        """Name of each chunk that failed in every attempt, and the reason."""
        return self.result.lost

    @property
    def chunks_before(self) -> int:
        """Number of chunks that an earlier call had predicted."""
        return self.result.chunks_before

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.result.seconds

    @cached_property
    def predictions(self) -> pa.Table:
        """The predictions as an Arrow table, one row per image or frame, in the order of the manifest.

        docs/evaluation.md describes the columns. Raises UnfinishedError if predictions are missing.
        """
        import pyarrow.parquet as pq

        with public_call():
            store = open_store(self.output)
            require_finished(store)
            with pq.ParquetFile(store.path(PREDICTIONS_FILE)) as file:
                return file.read()

    def report(self) -> Report:
        """Return the figures as ``robustshards.report`` computes them for this evaluation alone.

        Raises:
            UnfinishedError: If predictions are missing.
        """
        return self._report

    def figures(self) -> dict[str, float]:
        """Return the metrics of the whole data set by name, for example ``{"mCE": 0.76, "clean error": 0.24}``.

        Those of ImageNet-P are of the lowest difficulty. ``report().table()`` has all metrics with their intervals.

        Raises:
            UnfinishedError: If predictions are missing.
        """
        (of_model,) = self.report().data.figures().values()
        return next(iter(of_model.values()))

    def facts(self) -> dict[str, Any]:
        """Return facts about the run as JSON values, as ``robustshards evaluate --json`` prints them."""
        return self.result.facts()

    def summary(self) -> str:
        """Return the key figures as plain text; if predictions are missing, which ones and why."""
        return str(self.report()) if self.complete else "\n".join(self.result.summary(self.output))

    def __repr__(self) -> str:
        """Return the model, the data set, the number of images and the state."""
        model, data_set = printable(self.table.model.name), printable(self.table.data_set.name)
        samples = counted(self.table.data_set.samples, "sample")
        state = "" if self.complete else "unfinished, "
        return f"<Evaluation of {model!r} on {data_set!r}: {samples}, {state}in {printable(self.output)}>"

    def __str__(self) -> str:
        """Return what ``summary`` returns."""
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the report for a notebook, or what is missing."""
        return self.report()._repr_html_() if self.complete else f"<pre>{escape(self.summary())}</pre>"

    @cached_property
    def _report(self) -> Report:
        from robustshards.reporting import report

        return report(self)
