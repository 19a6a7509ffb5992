"""The evaluation of a model on a data set as Python and notebooks show it, and the report on several."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from corruptions.registry import unknown
from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.requirements import check_requirements
from pipeline.evaluate.predict.result import EvaluationResult, PredictionCounts
from pipeline.evaluate.report import figures
from pipeline.evaluate.report.pivots import bars_of_models
from pipeline.evaluate.report.report import ReportData, make_report
from pipeline.evaluate.report.settings import ReportSettings
from pipeline.evaluate.report.text import to_markdown_page, to_text
from pipeline.evaluate.report.views import Document
from pipeline.evaluate.report.write import By, frame, latex_tables, page, tidy_table, write_report
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, EvaluationTable, require_finished
from pipeline.settings import as_list
from pipeline.storage import open_store
from pipeline.text import LONGEST_MESSAGE, counted, printable
from robustshards._calls import Location, data_location, described_by, location, public_call


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The evaluation of a model on a data set: its predictions and its figures.

    A notebook shows the report with its plots, and ``print`` the key figures.

    Attributes:
        result: The run of ``evaluate``: counts of chunks, duration, labels.
        temporary: Whether the folder is deleted together with this object.
    """

    result: EvaluationResult
    temporary: bool = False

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

            place = data_location(data)
            given: dict[str, Any] = {"data_set": place.folder, "model": model, "name": model, "note": note}
            given |= {"data": place.data, "pixels": place.pixels, "cache": place.cache}
            return written(out, lambda folder: evaluate_given(EvaluationRequest.of(given, out=folder), predictions))

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

        Those of ImageNet-P are of the lowest difficulty; those of a stream are added. ``report().table()`` has all
        metrics with their intervals.

        Raises:
            UnfinishedError: If predictions are missing.
        """
        (of_model,) = self.report().data.figures().values()
        figures = list(of_model.values())
        return figures[0] | (figures[-1] if self.table.stream else {})

    def facts(self) -> dict[str, Any]:
        """Return facts about the run as JSON values, as ``robustshards evaluate --json`` prints them."""
        return self.result.facts()

    def summary(self) -> str:
        """Return the key figures as plain text; if predictions are missing, which ones and why."""
        return str(self.report()) if self.complete else "\n".join(self.result.summary(self.output))

    def __repr__(self) -> str:
        model, data_set = printable(self.table.model.name), printable(self.table.data_set.name)
        samples = counted(self.table.data_set.samples, "sample")
        state = "" if self.complete else "unfinished, "
        return f"<Evaluation of {model!r} on {data_set!r}: {samples}, {state}in {printable(self.output)}>"

    __str__ = summary

    def _repr_html_(self) -> str:
        """Return the report for a notebook, or what is missing."""
        return self.report()._repr_html_() if self.complete else f"<pre>{escape(self.summary())}</pre>"

    @cached_property
    def _report(self) -> Report:
        return report(self)


def written(out: Location | None, write: Callable[[str], EvaluationResult]) -> Evaluation:
    """Return the evaluation written to ``out``. Default: a temporary folder, deleted together with the evaluation."""
    if out is not None:
        return Evaluation(write(location(out, "out")))
    temporary = tempfile.mkdtemp(prefix="robustshards-")
    remove = partial(shutil.rmtree, temporary, ignore_errors=True)
    try:
        result = Evaluation(write(temporary), temporary=True)
    except BaseException:
        remove()
        raise
    weakref.finalize(result, remove)
    return result


Evaluations = Location | Evaluation | EvaluationResult | Iterable[Location | Evaluation | EvaluationResult]
"""One or more evaluations: results of ``evaluate``, or folders or URLs of predictions."""


@dataclass(frozen=True, repr=False)
class Report:
    """The metrics of one or more evaluations, each with a 95 % confidence interval over images.

    A notebook shows the page with its plots, and ``print`` the key figures.

    Attributes:
        data: The contents: the measures of each model on each data set, and warnings.
        title: Title of the page.
        evaluations: What the report was made of. As long as the report exists, so do temporary folders of evaluations.
    """

    data: ReportData
    title: str
    evaluations: Sequence[Any] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Differences between the evaluations that limit a comparison of their metrics."""
        return tuple(self.data.warnings)

    @cached_property
    def predictions(self) -> pa.Table:
        """The predictions of all evaluations as an Arrow table, with the columns ``model`` and ``data_set`` in front.

        These are dictionary-encoded names as the report shows them; docs/evaluation.md describes the other columns.
        """
        with public_call():
            return self.data.predictions()

    def facts(self) -> dict[str, Any]:
        """Return the metrics as nested dictionaries and lists, as in report.json."""
        return self.data.facts()

    def table(
        self,
        metric: str | None = None,
        *,
        by: By | None = None,
        library: Literal["arrow", "pandas", "polars"] = "arrow",
    ) -> Any:
        """Return the tidy table of all measures, as in report.parquet, or part of it.

        Args:
            metric: Name of a metric, for example ``"mCE"``. Default: all.
            by: What the measures are of: the whole data set (``"data_set"``), a transform, a level of all transforms,
                or a transform at a level (``"condition"``). Default: all of these.
            library: Library of the result: an Arrow table, or a data frame.

        Raises:
            UserError: If no measure has this name, or an argument is invalid.
        """
        rows = tidy_table(self.data, metric, by)
        if library == "pandas":
            return rows.to_pandas()
        if library == "polars":
            import polars

            return polars.from_arrow(rows)
        return rows

    def markdown(self) -> str:
        """Return the title, the warnings and the tables as Markdown, as in report.md."""
        return to_markdown_page(self._document)

    def html(self) -> str:
        """Return the page with its plots and tables, as in report.html. It loads nothing from the network."""
        return page(self._document)

    def latex(self, table: str = "key figures", *, intervals: bool = False) -> str:
        """Return tables in LaTeX, for articles that load the package booktabs.

        Args:
            table: Title of the tables, as on the page, for example ``"corruption error (CE)"``. There is one for each
                data set that has it.
            intervals: Whether numbers have their confidence intervals.

        Raises:
            UserError: If no table has this title.
        """
        titles = [each.title for each in self._document.tables]
        if table not in titles:
            raise UserError(unknown("table", table, reported=list(dict.fromkeys(titles))))
        found = latex_tables(self._document, intervals)
        return "\n".join(text for text, title in zip(found.values(), titles, strict=True) if title == table)

    def figure(self, name: str) -> Any:
        """Return a figure of matplotlib, which a notebook shows.

        Args:
            name: Title of a table whose plot is drawn, for example ``"accuracy by severity"``, or name of a metric of
                whole data sets, whose values by model are drawn as bars, for example ``"mCE"``.

        Raises:
            UserError: If there is no such plot or metric, or matplotlib is not installed.
        """
        plots = {each.title: each.plot for each in self._document.tables if each.plot}
        plot = plots.get(name) or bars_of_models(self.data.sections, name)
        if plot is None:
            names = dict.fromkeys((*plots, *self.table(by="data_set")["metric"].to_pylist()))
            raise UserError(unknown("figure", name, reported=list(names)))
        return figures.figure(plot, self._document.models)

    @cached_property
    def _document(self) -> Document:
        return self.data.document(self.title)

    def __repr__(self) -> str:
        models, data_sets = {each.model for each in self.data.results}, {each.data_set for each in self.data.results}
        counts = f"{counted(len(models), 'model')} on {counted(len(data_sets), 'data set')}"
        return f"<Report {printable(self.title)!r}: {counts}>"

    def __str__(self) -> str:
        warnings = "".join(f"warning: {printable(each, LONGEST_MESSAGE)}\n" for each in self.warnings)
        return warnings + to_text(table for table in self._document.tables if table.title == "key figures")

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        return frame(self.html(), self.title)

    def write(self, out: Location, *, latex_intervals: bool = False) -> None:
        """Write the page, Markdown, the tidy table (CSV, Parquet), JSON, tables in LaTeX and figures (PDF, SVG).

        An earlier report in the folder is replaced.

        Args:
            out: Folder or URL. Created if missing.
            latex_intervals: Whether numbers of the tables in LaTeX have their confidence intervals.

        Raises:
            UserError: If the folder cannot be written, or has a file of one of these names that is not a report.
            OSError: If the disk is full or fails. No file of an earlier report has been replaced.
        """
        with public_call():
            write_report(self.data, self.title, location(out, "out"), intervals=latex_intervals)


@described_by(ReportSettings)
def report(
    evaluations: Evaluations = (),
    *,
    results: Location | Iterable[Location] = (),
    baseline: Evaluations = (),
    clean: Evaluations = (),
    real: Location | None = None,
    published: bool = False,
    window: int = 0,
    rename: Mapping[str, str] | None = None,
    out: Location | None = None,
    title: str = "Robustness report",
) -> Report:
    """Compute the metrics of one or more evaluations, as ``robustshards report`` does.

    Include an evaluation on clean images to get the clean error of its model, and the metrics relative to it.

    Args:
        evaluations: Results of ``evaluate``, or folders or URLs that ``evaluate`` or the command ``budgets`` wrote, of
            one or more models and data sets.
        results: CSV files with the performance of detectors, with the columns corruption, severity, value and clean,
            and optionally model, data_set and measure. They give mPC and rPC.
        baseline: Evaluations of the reference model, on the same images, by which errors are divided (CE, mCE, FR).
            Default: the published AlexNet figures, for models of 1000 classes on images of 224 x 224.
        clean: Evaluations on clean images to use for clean errors if a model has several.
        rename: Names to display for models: recorded name -> name. Default: the recorded ones.
        out: Folder or URL for all files of the report. Default: nothing is written.

    Returns:
        The metrics. ``table()`` returns the tidy table, ``markdown()`` and ``latex()`` tables for documents,
        ``figure()`` plots, and ``write(folder)`` writes all files.

    Raises:
        UserError: If a folder holds no evaluation, two evaluations on clean images could give the same clean error, the
            evaluations cannot be combined, ``real`` is invalid or does not fit the images, or a name of ``rename`` is
            unknown or invalid.
        UnfinishedError: If an evaluation is incomplete.
    """
    evaluations, baseline, clean = map(as_list, (evaluations, baseline, clean))  # an iterator can be read once
    settings = ReportSettings.of(locals())
    if not (settings.evaluations or settings.results):
        raise UserError("no evaluations to report on: pass at least one, or a CSV file as results")
    with public_call():
        temporary = [
            str(Path(each.output).resolve())
            for each in (*evaluations, *baseline, *clean)
            if isinstance(each, Evaluation) and each.temporary
        ]
        result = Report(make_report(settings, temporary=temporary), settings.title, (*evaluations, *clean))
    if settings.out is not None:
        result.write(settings.out)
    return result
