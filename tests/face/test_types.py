# mypy: enable-error-code="arg-type"
"""What type checkers accept: an unused ignore below is an error of mypy."""

from collections.abc import Collection
from typing import Any, get_args

import numpy as np
import pytest

import corruptions
import perturbations
import robustshards as rs
from corruptions import literals
from corruptions.catalogue import PROFILES
from corruptions.low_pass import SHAPES, ShapeName
from perturbations.catalogue import DIFFICULTIES
from pipeline.evaluate.predict.classifier import PRECISIONS
from pipeline.evaluate.results.folder import Precision
from pipeline.execution.pools import Executor, ExecutorName
from pipeline.images.encoders import ENCODERS, EncoderName

IMAGE = np.zeros((32, 32, 3), np.uint8)


def members(literal: Any) -> list[Any]:
    """Return the values of a Literal, or of a union of several."""
    return [value for each in get_args(literal) for value in (members(each) if get_args(each) else [each])]


@pytest.mark.parametrize(
    ("literal", "registered"),
    [
        (literals.ImageNetCName, corruptions.names("all")),
        (literals.Name, corruptions.TRANSFORMS),
        (literals.PerturbationName, perturbations.names("all")),
        (literals.Group, corruptions.ALL_GROUPS),
        (literals.Severity, corruptions.SEVERITIES),
        (literals.Difficulty, DIFFICULTIES),
        (literals.Profile, PROFILES),
        (ShapeName, SHAPES),
        (Precision, PRECISIONS),
        (ExecutorName, tuple(Executor)),
        (EncoderName, ENCODERS),
    ],
)
def test_literals_are_those_of_the_registries(literal: Any, registered: Collection[Any]) -> None:
    assert sorted(members(literal)) == sorted(registered)


def test_wrong_names_and_levels_are_refused_by_type_checkers_and_functions() -> None:
    with pytest.raises(ValueError, match="unknown corruption"):
        rs.corrupt(IMAGE, "fogg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="severity must be"):
        rs.corrupt(IMAGE, "fog", severity=9)
    with pytest.raises(ValueError, match="unknown group"):
        rs.corruptions.names("noises")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown profile"):
        rs.perturb(IMAGE, "rotate", profile="cifar-10")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="difficulty must be"):
        rs.perturb(IMAGE, "rotate", difficulty=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fogg"):
        rs.Augmentation("fogg")  # type: ignore[arg-type]
    with pytest.raises(rs.UserError, match="invalid executor"):
        rs.build("imagenet-c", "photographs", "out", executor="nope")  # type: ignore[arg-type]
    with pytest.raises(rs.UserError, match="precision"):
        rs.evaluate("model", "data", precision="fp8")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["fog"])
def test_type_checkers_accept_computed_names(name: str) -> None:
    for severity in range(1, 6):
        expected = rs.corruptions.corruptor(name, severity)(IMAGE, 1)
        if severity in rs.corruptions.SEVERITIES:
            assert np.array_equal(rs.corrupt(IMAGE, "fog", severity, seed=1), expected)
    errors = {name: [0.5 for severity in (1, 5)] for name in rs.corruptions.names("noise")}
    made = [rs.corrupt(IMAGE, each, severity, seed=1) for each in errors for severity in (1, 5)]
    assert len(made) == 6
