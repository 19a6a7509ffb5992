"""An example of a user's report, on the family own-waves: accuracy under each wave and under the worst one."""

from collections.abc import Iterator

from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.load import Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.subject import Subject

WORST, ACCURACY = Metric("accuracy under the worst wave", 1), Metric("accuracy", 1)


def measure(evaluation: Evaluation, context: Context) -> Iterator[Results]:
    subject = Subject(evaluation, context)
    grid = subject.grid
    measures = [
        *grid.estimate(WORST, lambda means: 1 - means.cells.max(axis=(-2, -1))),
        *grid.estimate(ACCURACY, lambda means: 1 - means.cells[..., 0], "transform"),
    ]
    names = {name: TransformNames("waves") for name in grid.transforms}
    yield subject.results(REPORT, measures, transforms=names)


REPORT = FamilyReport(
    family="own-waves",
    key="waves",
    measure=measure,
    metrics=(WORST, ACCURACY),
    leads=(WORST.name,),
    note="Percent. Higher is better.",
    tables=(Pivot("accuracy by wave", [ACCURACY.name], "Percent.", head=["wave"], plot="bars"),),
    glossary={"Worst wave": "The wave with the lowest accuracy."},
    sources=("Nobody, 2026 (waves)",),
)
