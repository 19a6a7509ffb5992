"""Report on evaluations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.summary import Summary
from robustshards._arguments import Location, location, several
from robustshards._calls import public_call

Evaluations = Location | EvaluationResult | Iterable[Location | EvaluationResult]
"""One or more evaluations: what ``evaluate`` returned, or their folders or URLs."""


@dataclass(frozen=True)
class Report:
    """The papers' figures of one or more evaluations, each with its 95 % confidence interval over images.

    Attributes:
        summary: The figures as typed records: ``summary.families["corruptions"]`` lists those of ImageNet-C, one for
            each evaluation. Fractions, not percent.
        title: Title of the page.
    """

    summary: Summary
    title: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not belong together in every respect, and is shown all the same."""
        return tuple(self.summary.warnings)

    def facts(self) -> dict[str, Any]:
        """Return the figures as nested dictionaries and lists, as in report.json."""
        return self.summary.facts()

    def markdown(self) -> str:
        """Return title, warnings and tables as Markdown, as in report.md."""
        from pipeline.evaluate.report.sections import tables
        from pipeline.evaluate.report.text import to_markdown_page

        return to_markdown_page(self.summary, self.title, tables(self.summary))

    def write(self, out: Location) -> None:
        """Write report.html, report.md, report.csv and report.json into a folder; an earlier report is replaced.

        Raises:
            UserError: The folder cannot be written, or has a file of one of these names that is not a report.
            OSError: The disk is full or fails. No file of an earlier report has been replaced.
        """
        from pipeline.evaluate.report.write import write_report

        with public_call():
            write_report(self.summary, self.title, location(out, "out"))


def report(
    evaluations: Evaluations,
    *,
    baseline: Evaluations = (),
    anomalous: Location | EvaluationResult | None = None,
    out: Location | None = None,
    title: str = "Robustness report",
) -> Report:
    """Compute the papers' figures of one or more evaluations, as ``robustshards report`` does.

    Evaluations of clean images among them give the clean error of their model.

    Args:
        evaluations: What ``evaluate`` returned, or folders or URLs of predictions, of one or more models and data sets.
        baseline: Evaluations of the model to divide by, on the same images. Default: AlexNet as published, for models
            of 1000 classes on images of 224 x 224.
        anomalous: An evaluation of images that belong to no class (ImageNet-O), for the area under the
            precision-recall curve.
        out: Folder or URL for report.html, .md, .csv and .json. Default: nothing is written.
        title: Title of the page.

    Returns:
        The figures: ``markdown()`` shows them as tables, ``facts()`` gives nested dictionaries, ``summary`` typed
        records, and ``write(folder)`` writes the files.

    Raises:
        UserError: There is no evaluation in a folder, or evaluations do not belong together.
        UnfinishedError: An evaluation is not complete.
    """
    folders = [_folder(each) for each in several(evaluations)]
    if not folders:
        raise UserError("there are no evaluations to report on: give at least one")
    with public_call():
        summary = summarise(
            folders,
            [_folder(each) for each in several(baseline)],
            None if anomalous is None else _folder(anomalous),
        )
    made = Report(summary, title)
    if out is not None:
        made.write(out)
    return made


def _folder(evaluation: Any) -> str:
    """Return where the predictions of an evaluation are. Raises UserError."""
    return evaluation.output if isinstance(evaluation, EvaluationResult) else location(evaluation, "evaluation")
