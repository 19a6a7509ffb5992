"""Graphs of torch.export's format, run step by step: operators of aten, called one after the other."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from pipeline.evaluate.models.archives import Archive
from pipeline.evaluate.models.model_files import refused_operator

DTYPES: Mapping[int, torch.dtype] = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
MEMORY_FORMATS: Mapping[int, torch.memory_format] = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
LAYOUTS: Mapping[int, torch.layout] = {7: torch.strided}
"""The numbers of the format for what models of images hold. Source: torch/_export/serde/schema.py."""


def _region(_: bool, graph: Callable[..., list[Any]], *values: Any) -> list[Any]:
    """Steps under no_grad, which makes no difference to what they give."""
    return graph(*values)


def _autocast(
    kind: str, dtype: torch.dtype, enabled: bool, cache: bool, graph: Callable[..., list[Any]], *values: Any
) -> list[Any]:
    """Steps under autocast, on whatever kind of device the values are now."""
    kind = next((value.device.type for value in values if isinstance(value, torch.Tensor)), kind)
    with torch.autocast(kind, dtype, enabled, cache):
        return graph(*values)


REGIONS: Mapping[str, Callable[..., list[Any]]] = {
    "torch.ops.higher_order.wrap_with_set_grad_enabled": _region,
    "torch.ops.higher_order.wrap_with_autocast": _autocast,
}
ARITHMETIC = ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "and_", "or_")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BY_PLACE: Mapping[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in ARITHMETIC + COMPARISONS},
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc")},
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_int": int,
    "torch.sym_float": float,
    "torch.sym_not": operator.not_,
    "torch.sym_sum": sum,
    **REGIONS,
}
"""What programs call besides aten, its arguments without names: arithmetic of sizes, and regions of steps."""


@dataclass(frozen=True)
class _Name:
    """A value that an earlier step gave."""

    name: str


_DEVICE = object()
"""Wherever a program names a device: the images' one, so that it runs where they are."""


@dataclass(frozen=True)
class _Step:
    """One operator: its arguments, the names of its results (nested as they come), and the names not needed after."""

    call: Callable[..., Any]
    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    results: Any
    finished: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """Steps from named inputs to outputs."""

    inputs: tuple[str, ...]
    steps: tuple[_Step, ...]
    outputs: tuple[Any, ...]

    def run(self, device: torch.device, *inputs: Any) -> list[Any]:
        """The outputs. Values are let go once no later step needs them."""
        values = dict(zip(self.inputs, inputs, strict=True))
        for step in self.steps:
            positional = [_fill(value, values, device) for value in step.positional]
            named = {name: _fill(value, values, device) for name, value in step.named.items()}
            _bind(step.results, step.call(*positional, **named), values)
            for name in step.finished:
                del values[name]
        return [_fill(output, values, device) for output in self.outputs]


def read_graph(archive: Archive, graph: dict[str, Any]) -> Graph:
    """A graph of the file. Raises UserError for operators that may do more than compute."""
    inputs = [_argument(archive, item) for item in graph["inputs"]]
    outputs = [_argument(archive, item) for item in graph["outputs"]]
    steps = []
    needed = _names(outputs)
    for node in reversed(graph["nodes"]):
        arguments = {index: _argument(archive, item["arg"]) for index, item in enumerate(node["inputs"])}
        results = [_argument(archive, output) for output in node["outputs"]]
        call, by_place = _operator(archive, node["target"]), node["target"] in BY_PLACE
        names = _names(list(arguments.values())) | _names(results)
        steps.append(
            _Step(
                call,
                tuple(arguments.values()) if by_place else (),
                {} if by_place else {item["name"]: arguments[index] for index, item in enumerate(node["inputs"])},
                results[0] if len(results) == 1 and node["target"] not in REGIONS else results,
                tuple(sorted(names - needed)),
            )
        )
        needed |= names
    return Graph(tuple(item.name for item in inputs), tuple(reversed(steps)), tuple(outputs))


def _operator(archive: Archive, target: str) -> Callable[..., Any]:
    if target in BY_PLACE:
        return BY_PLACE[target]
    match = re.fullmatch(r"torch\.ops\.aten\.(\w+)\.(\w+)", target)
    if match and not refused_operator(match[1]):
        found = getattr(getattr(torch.ops.aten, match[1], None), match[2], None)
        if isinstance(found, torch._ops.OpOverload):
            return found
    raise archive.refusal(
        f"its program calls {target}; operators of aten that only compute are allowed. Name a factory and give the "
        "weights with --weights, or export to ONNX"
    )


def _number(union: Mapping[str, Any]) -> Any:
    """A size or condition in an argument: known, or the name of a result."""
    ((kind, value),) = union.items()
    return _Name(value) if kind == "as_name" else value


def _tensor_or_none(union: Mapping[str, Any]) -> Any:
    return _Name(union["as_tensor"]["name"]) if "as_tensor" in union else None


_ARGUMENTS: Mapping[str, Callable[[Any], Any]] = {
    **{f"as_{kind}": lambda value: value for kind in ("int", "ints", "bool", "bools", "string", "strings")},
    "as_none": lambda _: None,
    "as_float": float,
    "as_floats": lambda values: [float(value) for value in values],
    "as_complex": lambda value: complex(value["real"], value["imag"]),
    "as_tensor": lambda value: _Name(value["name"]),
    "as_tensors": lambda values: [_Name(value["name"]) for value in values],
    "as_optional_tensor": _tensor_or_none,
    "as_optional_tensors": lambda values: [_tensor_or_none(value) for value in values],
    **{f"as_sym_{kind}": _number for kind in ("int", "bool", "float")},
    **{f"as_sym_{kind}s": lambda values: [_number(value) for value in values] for kind in ("int", "bool", "float")},
    "as_scalar_type": DTYPES.__getitem__,
    "as_memory_format": MEMORY_FORMATS.__getitem__,
    "as_layout": LAYOUTS.__getitem__,
    "as_device": lambda _: _DEVICE,
}
"""Kind of an argument in the file -> what becomes of its value."""


def _argument(archive: Archive, union: Mapping[str, Any]) -> Any:
    """An argument, input or result of a step: a constant, or the name of a value."""
    ((kind, value),) = union.items()
    if kind == "as_graph":
        return read_graph(archive, value["graph"])
    if kind not in _ARGUMENTS:
        raise archive.refusal(f"it has an argument {kind}, which programs of plain tensors do not have")
    return _ARGUMENTS[kind](value)


def _names(value: Any) -> set[str]:
    if isinstance(value, _Name):
        return {value.name}
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


def _fill(value: Any, values: Mapping[str, Any], device: torch.device) -> Any:
    """An argument with the values that it names."""
    if isinstance(value, _Name):
        return values[value.name]
    if isinstance(value, list):
        return [_fill(item, values, device) for item in value]
    if isinstance(value, Graph):
        return partial(value.run, device)
    return device if value is _DEVICE else value


def _bind(results: Any, value: Any, values: dict[str, Any]) -> None:
    """Keeps what a step gave under its names."""
    if isinstance(results, _Name):
        values[results.name] = value
    elif isinstance(results, list) and results:
        for name, item in zip(results, value, strict=True):
            _bind(name, item, values)
