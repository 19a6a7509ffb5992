"""The generated page on the Python functions."""

from __future__ import annotations

import inspect

import robustshards as rs
from tests.docs import python_page


def test_page_describes_every_public_name() -> None:
    lines = python_page.page().splitlines()
    described = {line.removeprefix("### rs.") for line in lines if line.startswith("### rs.")}
    described |= {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert [name for name in rs.__all__ if name not in described] == []


def test_page_describes_every_argument_of_functions() -> None:
    text = python_page.page()
    functions = [getattr(rs, name) for name in rs.__all__ if inspect.isfunction(getattr(rs, name))]
    names = {parameter for function in functions for parameter in inspect.signature(function).parameters}
    assert [name for name in sorted(names) if f"\n- `{name}`: " not in text] == []


def test_docstrings_are_split_into_sections() -> None:
    docstring = "Return it.\n\nArgs:\n    one: First,\n        and more.\n\nSource: A paper."
    assert python_page.sections(docstring) == [
        ("", "Return it."),
        ("Args", "one: First,\n    and more."),
        ("Source", "A paper."),
    ]
