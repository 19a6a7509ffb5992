"""The report on LAION-C: accuracy among superclasses and classes, of the images whose class is in a superclass."""

from pathlib import Path

import numpy as np
import pytest

import robustshards as rs
from pipeline.evaluate.report.report import ReportData
from pipeline.tasks.library import load
from pipeline.tasks.lists import IMAGENET
from tests.evaluate.test_tasks import write_photographs
from tests.factories.reports import has, only, report_on, value, values

TENCH, BEAGLE, BASSET, BEACON = "n01440764", "n02088364", "n02088238", "n02814860"
"""A fish, two dogs, and a class in no superclass."""

PREDICTED = {
    (TENCH, "glitched", 1): TENCH,
    (TENCH, "glitched", 5): BEAGLE,
    (TENCH, "vertical_lines", 1): TENCH,
    (TENCH, "vertical_lines", 5): BEACON,
    (BEAGLE, "glitched", 1): BEAGLE,
    (BEAGLE, "glitched", 5): BASSET,
    (BEAGLE, "vertical_lines", 1): BASSET,
    (BEAGLE, "vertical_lines", 5): TENCH,
}


def report(root: Path, wnids: list[str]) -> ReportData:
    """Return the report of predictions for photographs of these classes; others are all predicted to be beacons."""
    photographs = write_photographs(root / "photographs", wnids)
    made = rs.render("laion-c", photographs, root / "data", only=["glitched", "vertical_lines"], severities=[1, 5])
    rows = [(row.source_id, row.class_name, row.transform, row.level) for row in made.rows()]
    ids, classes, transforms, levels = zip(*rows, strict=True)
    answers = [PREDICTED.get(place, BEACON) for place in zip(classes, transforms, levels, strict=True)]
    logits = np.zeros((len(rows), 1000), np.float32)
    logits[range(len(rows)), [IMAGENET.index(answer) for answer in answers]] = 20
    given = {"source_id": ids, "transform": transforms, "level": levels, "logits": logits}
    rs.Evaluation.from_predictions(given, made, "made", root / "evaluation")
    return report_on(str(root / "evaluation"))


def test_another_class_of_the_superclass_is_right_among_superclasses_only(tmp_path: Path) -> None:
    found = only(report(tmp_path, [TENCH, BEAGLE, BEACON]), "laion_c")
    assert values(found, "superclass accuracy") == {
        "glitched": 0.75,
        ("glitched", 1): 1.0,
        ("glitched", 5): 0.5,
        "vertical_lines": 0.5,
        ("vertical_lines", 1): 1.0,
        ("vertical_lines", 5): 0.0,
    }
    assert values(found, "accuracy")["glitched"] == 0.5
    assert value(found, "mean superclass accuracy") == pytest.approx(0.625)
    assert value(found, "mean accuracy") == pytest.approx(0.375)
    assert found.counts == {"images": (2, 0), "of no superclass": (1, 0), "failed": (0, 0)}


def test_images_of_no_superclass_have_no_figures(tmp_path: Path) -> None:
    made = report(tmp_path, [BEACON])
    assert not has(only(made, "laion_c"), "mean superclass accuracy")
    assert any("no image is of one of the 16 superclasses" in warning for warning in made.warnings)


def test_the_classes_of_these_tests_are_where_they_are_said_to_be() -> None:
    fish, dog = (
        next(group for group in load("laion-c").task.groups if IMAGENET.index(wnid) in group)
        for wnid in (TENCH, BEAGLE)
    )
    assert fish != dog
    assert IMAGENET.index(BASSET) in dog
    assert not any(IMAGENET.index(BEACON) in group for group in load("laion-c").task.groups)
