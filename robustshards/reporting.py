"""The public function that computes metrics of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.report.settings import ReportSettings
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.summary import Summary
from pipeline.text import LONGEST_MESSAGE, counted, printable
from robustshards._arguments import Location, described_by, location
from robustshards._calls import public_call
from robustshards.evaluation import Evaluation

Evaluations = Location | Evaluation | EvaluationResult | Iterable[Location | Evaluation | EvaluationResult]
"""One or more evaluations: results of ``evaluate``, or folders or URLs of predictions."""


@dataclass(frozen=True, repr=False)
class Report:
    """The metrics of one or more evaluations, each with a 95 % confidence interval over images.

    A notebook shows the page with its plots, and ``print`` the key figures.

    Attributes:
        summary: The metrics as typed records, as fractions and not percent. ``summary.families["corruptions"]`` lists
            the results on ImageNet-C, one per evaluation.
        title: Title of the page.
    """

    summary: Summary
    title: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """Differences between the evaluations that limit a comparison of their metrics."""
        return tuple(self.summary.warnings)

    def facts(self) -> dict[str, Any]:
        """Return the metrics as nested dictionaries and lists, as in report.json."""
        return self.summary.facts()

    def markdown(self) -> str:
        """Return the title, the warnings and the tables as Markdown, as in report.md."""
        from pipeline.evaluate.report.sections import tables
        from pipeline.evaluate.report.text import to_markdown_page

        return to_markdown_page(self.summary, self.title, tables(self.summary))

    def html(self) -> str:
        """Return the page with its plots and tables, as in report.html. It loads nothing from the network."""
        from pipeline.evaluate.report.html import page

        return page(self.summary, self.title)

    def __repr__(self) -> str:
        """Return the title, and the numbers of models and data sets."""
        summaries = [each for of_family in self.summary.families.values() for each in of_family]
        models, data_sets = {each.model for each in summaries}, {each.data_set for each in summaries}
        counts = f"{counted(len(models), 'model')} on {counted(len(data_sets), 'data set')}"
        return f"<Report {printable(self.title)!r}: {counts}>"

    def __str__(self) -> str:
        """Return the warnings and the key figures as plain text."""
        from pipeline.evaluate.report.sections import key_tables
        from pipeline.evaluate.report.text import to_text

        warnings = "".join(f"warning: {printable(each, LONGEST_MESSAGE)}\n" for each in self.warnings)
        return warnings + to_text(key_tables(self.summary))

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        from pipeline.evaluate.report.html import frame

        return frame(self.html(), self.title)

    def write(self, out: Location) -> None:
        """Write report.html, report.md, report.csv and report.json. An earlier report in the folder is replaced.

        Args:
            out: Folder or URL. Created if missing.

        Raises:
            UserError: If the folder cannot be written, or has a file of one of these names that is not a report.
            OSError: If the disk is full or fails. No file of an earlier report has been replaced.
        """
        from pipeline.evaluate.report.write import write_report

        with public_call():
            write_report(self.summary, self.title, location(out, "out"))


@described_by(ReportSettings)
def report(
    evaluations: Evaluations,
    *,
    baseline: Evaluations = (),
    clean: Evaluations = (),
    real: Location | None = None,
    published: bool = False,
    rename: Mapping[str, str] | None = None,
    out: Location | None = None,
    title: str = "Robustness report",
) -> Report:
    """Compute the metrics of one or more evaluations, as ``robustshards report`` does.

    Include an evaluation on clean images to get the clean error of its model, and the metrics relative to it.

    Args:
        evaluations: Results of ``evaluate``, or folders or URLs that ``evaluate`` or the command ``budgets`` wrote, of
            one or more models and data sets.
        baseline: Evaluations of the reference model, on the same images, by which errors are divided (CE, mCE, FR).
            Default: the published AlexNet figures, for models of 1000 classes on images of 224 x 224.
        clean: Evaluations on clean images to use for clean errors if a model has several.
        rename: Names to display for models: recorded name -> name. Default: the recorded ones.
        out: Folder or URL for report.html, .md, .csv and .json. Default: nothing is written.

    Returns:
        The metrics. ``markdown()`` returns tables, ``facts()`` nested dictionaries, ``summary`` holds typed records,
        and ``write(folder)`` writes the files.

    Raises:
        UserError: If a folder holds no evaluation, two evaluations on clean images could give the same clean error, the
            evaluations cannot be combined, ``real`` is invalid or does not fit the images, or a name of ``rename`` is
            unknown or invalid.
        UnfinishedError: If an evaluation is incomplete.
    """
    settings = ReportSettings.of(locals())
    if not settings.evaluations:
        raise UserError("no evaluations to report on: pass at least one")
    with public_call():
        summary = summarise(
            settings.evaluations, settings.baseline, settings.clean, real=settings.real, published=settings.published,
            rename=settings.rename,
        )  # fmt: skip
    result = Report(summary, settings.title)
    if settings.out is not None:
        result.write(settings.out)
    return result
