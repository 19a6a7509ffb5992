"""The page ``docs/python.md``: examples, and a reference generated from the signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any, NamedTuple

import robustshards as rs

INTRODUCTION = Path(__file__).with_suffix(".md")
"""The examples, above the reference."""

SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Source):(?:\n| (.*)\n?)", re.MULTILINE)
ENTRY = re.compile(r"^(\w+): ")
LIST_SECTIONS = {"Args": "Arguments", "Attributes": "Attributes", "Raises": "Raises"}
ROLE = re.compile(r":\w+:`~?([^`]+)`")
WIDTH = 100


class Section(NamedTuple):
    """A section of a docstring: its title, empty for the text above all others, and its paragraphs."""

    title: str
    text: str


def page() -> str:
    """Return the page as Markdown."""
    values = {name: getattr(rs, name) for name in rs.__all__}
    parts = [INTRODUCTION.read_text().strip(), "## Functions"]
    for name, value in values.items():
        if inspect.isfunction(value):
            parts += _function(f"rs.{name}", value)
    parts.append("## Classes")
    for name, value in values.items():
        if inspect.isclass(value) and not issubclass(value, Exception):
            parts += _class(name, value)
    parts += ["## Exceptions", _table("exception", {n: v for n, v in values.items() if _is_exception(v)})]
    parts.append("## Modules")
    for name, value in values.items():
        if inspect.ismodule(value):
            parts += _module(name, value)
    return "\n\n".join(parts) + "\n"


def sections(docstring: str) -> list[Section]:
    """Return the sections of a docstring in Google style, the text above them first."""
    matches = list(SECTION.finditer(docstring))
    starts = [match.start() for match in matches] + [len(docstring)]
    result = [Section("", docstring[: starts[0]].strip())]
    for match, end in zip(matches, starts[1:], strict=True):
        body = dedent(docstring[match.end() : end]).strip()
        result.append(Section(match[1], "\n".join(filter(None, (match[2], body)))))
    return result


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield f"### {name}"
    yield f"```text\n{_signature(name, function)}\n```"
    yield from _markdown(inspect.getdoc(function) or "")


def _class(name: str, cls: type) -> Iterator[str]:
    yield f"### rs.{name}"
    yield from _markdown(inspect.getdoc(cls) or "")
    members = {key: inspect.getattr_static(cls, key) for key in dir(cls) if not key.startswith("_")}
    rows = {}
    for key, member in members.items():
        if isinstance(member, property | cached_property):
            rows[key] = _first_line(member)
        elif inspect.isfunction(member):
            rows[_signature(key, member, bound=True).replace("\n", " ")] = _first_line(member)
    if rows:
        yield "\n".join(
            ["| member | |", "| --- | --- |", *(f"| `{_cell(key)}` | {text} |" for key, text in rows.items())]
        )
    for key in (key for key, member in members.items() if isinstance(member, classmethod)):
        yield from _function(f"rs.{name}.{key}", getattr(cls, key))


def _module(name: str, module: ModuleType) -> Iterator[str]:
    yield f"### rs.{name}"
    yield _text((inspect.getdoc(module) or "").split("\n\n")[0])
    exported = getattr(module, "__all__", None) or [
        key for key, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    exported = exported or sorted(key for key, value in vars(module).items() if not inspect.ismodule(value))
    functions = {key: getattr(module, key) for key in exported if not key.startswith("_")}
    calls = {_call(key, value): value for key, value in functions.items() if inspect.isroutine(value)}
    if calls:
        yield _table("function", calls)
    for key, value in functions.items():
        if inspect.isclass(value) and any(each.title == "Args" for each in sections(inspect.getdoc(value) or "")):
            yield from _constructor(f"rs.{name}.{key}", value)


def _constructor(name: str, cls: type) -> Iterator[str]:
    """Yield the description of a class whose docstring describes the arguments of its constructor."""
    yield from _function(name, cls)
    methods = {key: value for key, value in vars(cls).items() if inspect.isfunction(value) and not key.startswith("_")}
    if methods:
        yield _table("method", {_signature(key, method, bound=True): method for key, method in methods.items()})


def _table(title: str, values: dict[str, Any]) -> str:
    rows = (f"| `{_cell(name)}` | {_first_line(value)} |" for name, value in values.items())
    return "\n".join([f"| {title} | |", "| --- | --- |", *rows])


def _is_exception(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def _signature(name: str, function: Callable[..., Any], bound: bool = False) -> str:
    """Return a signature as in the source, one parameter per line if it is long."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[int(bound) :]
    words = []
    for index, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and (not index or parameters[index - 1].kind is not parameter.kind):
            words.append("*")
        words.append(_parameter(parameter))
    result = "" if inspect.isclass(function) else f" -> {_annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(words)}){result}"
    if len(line) <= WIDTH or bound:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])


def _call(name: str, function: Callable[..., Any]) -> str:
    """Return the name of a function with the names of its parameters."""
    return f"{name}({', '.join(inspect.signature(function).parameters)})"


def _parameter(parameter: inspect.Parameter) -> str:
    text = parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {_literal(parameter.default)}"
    return text


def _literal(value: object) -> str:
    """Return a default as in the source; an object without a short literal as an ellipsis."""
    if isinstance(value, str):
        return f'"{value}"'
    return repr(value) if isinstance(value, int | float | tuple | None) else "..."


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _markdown(docstring: str) -> Iterator[str]:
    for title, body in sections(docstring):
        if title in LIST_SECTIONS:
            yield f"**{LIST_SECTIONS[title]}**"
            yield "\n".join(f"- {entry}" for entry in _entries(body))
        elif body:
            yield f"**{title}**: {_text(body)}" if title else _text(body)


def _entries(body: str) -> Iterator[str]:
    """Yield the entries of a section, each as one line with its name in code."""
    for block in re.split(r"\n(?=\S)", body):
        yield ENTRY.sub(lambda match: f"`{match[1]}`: ", _text(" ".join(block.split())))


def _first_line(value: Any) -> str:
    """Return the first sentence of a docstring as the text of a table cell."""
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return _cell(_text(paragraph))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(text: str) -> str:
    """Return text of a docstring as Markdown."""
    return ROLE.sub(r"`\1`", text).replace("``", "`")
