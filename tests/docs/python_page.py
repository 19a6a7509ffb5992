"""The page ``docs/python.md``: examples, and a reference generated from the signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from textwrap import dedent
from types import ModuleType
from typing import Any, NamedTuple

import robustshards as rs

INTRODUCTION = """\
# Python

<!-- Generated from tests/docs/python_page.py and the docstrings by `make docs`. Do not edit. -->

`import robustshards as rs` offers the functions of the command line and those for single images. Functions print
nothing, except for the progress bar of `rs.benchmark`, which `progress=False` turns off. They return typed values, and
leave signal handlers, the current folder, the environment, and the random generators and settings of torch, NumPy,
OpenCV and Python unchanged. Heavy libraries are imported on first use, so that the import itself is fast.

## Images in memory

Images are uint8 RGB arrays of shape (height, width, 3). Inputs are never modified. Equal seeds give equal images, so
give every image its own seed; without seeds, all images get the same noise, and the second one a warning:

```python
import numpy as np
import robustshards as rs

images = [np.full((224, 224, 3), level, np.uint8) for level in (64, 128)]
for index, image in enumerate(images):
    for name in rs.corruptions.names("benchmark"):
        corrupted = rs.corrupt(image, name, severity=3, seed=index)
        assert corrupted.shape == image.shape
```

`seed` uses a fast generator of this package. To draw in the order of the published scripts, pass NumPy's legacy
generator instead:

```python
import numpy as np
import robustshards as rs

image = np.full((224, 224, 3), 128, np.uint8)
published = rs.corrupt(image, "gaussian_noise", 3, rng=np.random.RandomState(1003))
```

The candidates of ImageNet-Syn2Nat have one setting each. What they draw is available on its own, and can be applied
again:

```python
import numpy as np
import robustshards as rs

image = np.full((224, 224, 3), 128, np.uint8)
for name in rs.corruptions.names("syn2nat"):
    draws = rs.corruptions.draw(image, name, seed=1)
    assert (rs.corruptions.apply(image, name, draws) == rs.corrupt(image, name, seed=1)).all()
```

A perturbation makes a sequence of frames. It starts from the whole photograph, since moving frames show content from
outside of the centre crop. `rs.perturbations.frame` makes one frame without the others:

```python
import numpy as np
import robustshards as rs

photograph = np.full((375, 500, 3), 128, np.uint8)
frames = rs.perturb(photograph, "rotate", seed=1)
assert frames.shape == (31, 224, 224, 3)
assert (rs.perturbations.frame(photograph, "rotate", 17, seed=1) == frames[17]).all()
```

System noise (ImageNet-S) is the choice of decoder and resize operator, so it starts from an encoded file:

```python
from pathlib import Path

import robustshards as rs

photograph = next(Path("photographs").rglob("*.jpg"))
prepared = rs.system_noise(photograph.read_bytes(), decoder="opencv", resize="opencv-area")
assert prepared.shape == (224, 224, 3)
```

## Data sets

`rs.build` writes what `robustshards build` writes, and resumes in the same way. `rs.open` reads it; each sample is
compared with its digest. `len(data)` is the number of samples. Notebooks show a data set as a table, a sample as a
picture:

```python
import robustshards as rs

result = rs.build("imagenet-c", "photographs", "snow", only="snow", severities=(1, 5), encoder="png", limit=2)
assert result.complete and result.failed == 0
for sample in rs.open("snow").samples("snow", level=5):
    image, label = sample.pixels(), sample.row.label  # uint8 (224, 224, 3), int
```

To change any other field of a recipe, load it and call `changed`, or pass `fields`:

```python
import robustshards as rs

recipe = rs.recipes.load("imagenet-c").changed(encoder={"name": "jpeg", "quality": 90}, transforms={"levels": [1, 3]})
rs.build(recipe, "photographs", "foggy", only="fog", limit=2)
```

## Models

A `torch.nn.Module` in memory is evaluated in the calling process; it is copied and not modified. Models can also be
given by name, as on the [command line](evaluation.md#models). [Evaluation](evaluation.md#from-python) has more examples
of models that adapt at test time and of `rs.benchmark`, which renders, evaluates and reports in one call:

```python
import robustshards as rs
import torch

model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, 5))
evaluation = rs.evaluate(model, "snow", name="linear")
print(evaluation.summary())
error = evaluation.figures()["mean corruption error (unnormalised)"]  # a fraction
report = rs.report(evaluation, out="report")
```

Metrics are functions of arrays, also without models and files. Errors are fractions; their axes are corruptions and
severities ([definitions](metrics.md)):

```python
import robustshards as rs

ce = rs.metrics.corruption_error([[0.2, 0.3, 0.4]], baseline=[[0.4, 0.5, 0.6]])
assert abs(ce[0] - 0.6) < 1e-9
```

## Types

The package is typed. Type checkers refuse unknown names of corruptions and perturbations, severities, profiles,
precisions and executors, as in `rs.corrupt(image, "fogg")`. For a name or a severity that is known only when the
program runs, `rs.corruptions.corruptor` accepts any. Transforms of data sets are `str`, since
[packages can add families](extending.md).

```python
import numpy as np
import robustshards as rs

image = np.full((224, 224, 3), 128, np.uint8)
for name in "fog,snow".split(","):
    corrupted = rs.corruptions.corruptor(name, severity=3)(image, 1)
```

## Errors

Invalid input raises `rs.UserError`. Its message says what is wrong, what is allowed, and what to do. A message may name
an option of the command line: `--batch-size` is the argument `batch_size`.

```python
import robustshards as rs

try:
    rs.build("imagenet-c", "photographs", "nowhere", only="foggy")
except rs.UserError as error:
    print(error)
```"""

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
    parts = [INTRODUCTION, "## Functions"]
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
