"""The generated page on the Python functions."""

import inspect
from dataclasses import MISSING, fields
from typing import Any

import pytest

import robustshards as rs
from pipeline.builder.settings import BuildSettings, RenderSettings
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.report.settings import ReportSettings
from tests.docs import python_page


def test_page_describes_every_public_name() -> None:
    lines = python_page.page().splitlines()
    described = {line.removeprefix("### rs.") for line in lines if line.startswith("### rs.")}
    described |= {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert [name for name in rs.__all__ if name not in described] == []


@pytest.mark.parametrize(
    ("function", "settings", "python_only", "command_only"),
    [
        (
            rs.evaluate,
            EvaluationRequest,
            {"progress"},
            {"data_set", "model", "out", "data", "pixels", "cache", "parameters"},  # parameters: keywords of any name
        ),
        (rs.report, ReportSettings, set(), {"evaluations", "latex_intervals"}),
        (rs.build, BuildSettings, {"difficulty"}, {"recipe", "source", "out"}),
        (rs.render, RenderSettings, {"pixels", "cache"}, {"recipe", "source", "out"}),
    ],
)
def test_keywords_are_the_settings_of_the_command(
    function: Any, settings: Any, python_only: set[str], command_only: set[str]
) -> None:
    """Signatures are written out, for editors and type checkers."""
    known = {each.name: None if each.default is MISSING else each.default for each in fields(settings)}
    signature = inspect.signature(function).parameters
    keywords = {name: each.default for name, each in signature.items() if each.kind is each.KEYWORD_ONLY}
    expected = {name: default for name, default in known.items() if name not in command_only}
    assert {name: default for name, default in keywords.items() if name not in python_only} == expected
    assert python_only <= keywords.keys()


def test_docstrings_are_split_into_sections() -> None:
    docstring = "Return it.\n\nArgs:\n    one: First,\n        and more.\n\nSource: A paper."
    assert python_page.sections(docstring) == [
        ("", "Return it."),
        ("Args", "one: First,\n    and more."),
        ("Source", "A paper."),
    ]
