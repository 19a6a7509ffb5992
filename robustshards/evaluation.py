"""The evaluation of a model on a data set, as Python and notebooks show it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any

from pipeline.evaluate.predict.counts import PredictionCounts
from pipeline.evaluate.predict.requirements import check_requirements
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, EvaluationTable, require_finished
from pipeline.storage import open_store
from pipeline.text import counted, printable
from robustshards._arguments import Location, data_location, location, text
from robustshards._calls import public_call

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.datasets.base import DataSet
    from robustshards.reporting import Report


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The evaluation of a model on a data set: its predictions and its figures.

    A notebook shows the report with its plots, and ``print`` the key figures.

    Attributes:
        result: The run of ``evaluate``: counts of chunks, duration, labels.
    """

    result: EvaluationResult

    @classmethod
    def from_predictions(
        cls,
        predictions: Any,
        data: Location | DataSet,
        model: str,
        out: Location | None = None,
        *,
        note: str | None = None,
    ) -> Evaluation:
        """Return the evaluation of a model whose predictions exist already, for example those of a loop of one's own.

        Columns of the predictions are the sample's ``key`` in the data set (``sample.row.key``), or ``source_id``,
        ``transform`` and ``level``; for sequences the number ``frame`` of each frame, from 0; and ``logits`` or
        ``probabilities``, with one number for each output of the model. All of ``top5``, ``label_probability``,
        ``confidence`` and ``squared_probability`` replace these, and so do rows of the attribute ``predictions`` of
        other evaluations. Rows may be in any order.

        Args:
            predictions: An Arrow table, a data frame of pandas or polars, a mapping of columns (lists, arrays of shape
                (N,), and for logits an array or tensor of shape (N, outputs)), or an iterable of these, such as a
                generator of batches, whose logits are not kept in memory.
            data: Folder or URL of the data set, or a ``DataSet`` returned by ``open`` or ``render``. Each of its
                samples that did not fail must be predicted exactly once.
            model: Name of the model in reports. Evaluations of equal names are of one model.
            out: Folder or URL for the evaluation. Default: a temporary folder, deleted together with the returned
                object.
            note: Remark about the model for reports.

        Raises:
            UserError: If predictions are missing, repeated, of unknown samples, NaN or otherwise invalid, their outputs
                do not fit the labels, or ``out`` holds another evaluation.
            OSError: If a file cannot be read or written.
        """
        with public_call(check_requirements):
            from pipeline.evaluate.predict.given import evaluate_given
            from pipeline.evaluate.predict.settings import EvaluationRequest

            place, name, remark = data_location(data), text(model, "model"), text(note, "note")
            return written(
                out,
                lambda folder: evaluate_given(
                    EvaluationRequest(
                        place.folder,
                        name or "",
                        folder,
                        name=name or "",
                        note=remark,
                        data=place.data,
                        pixels=place.pixels,
                        cache=place.cache,
                    ),
                    predictions,
                ),
            )

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

    def figures(self) -> dict[str, Any]:
        """Return the figures as nested dictionaries and lists, as in report.json.

        ``report().summary`` has the same figures as typed records.

        Raises:
            UnfinishedError: If predictions are missing.
        """
        return self.report().facts()

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


def written(out: Location | None, write: Callable[[str], EvaluationResult]) -> Evaluation:
    """Return the evaluation written to ``out``. Default: a temporary folder, deleted together with the evaluation."""
    if out is not None:
        return Evaluation(write(location(out, "out")))
    temporary = tempfile.mkdtemp(prefix="robustshards-")
    remove = partial(shutil.rmtree, temporary, ignore_errors=True)
    try:
        result = Evaluation(write(temporary))
    except BaseException:
        remove()
        raise
    weakref.finalize(result, remove)
    return result
