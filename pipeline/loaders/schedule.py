"""What a protocol shows of a data set: entries, the images of each in order, and batches.

A schedule is a function of the labels of the data set, the protocol, its parameters and a seed. ``Stream``,
``evaluate`` and ``robustshards stream`` all use it.
"""

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.loaders.order import Step, check_seed, cut, label_facts, parse_steps
from pipeline.loaders.orders import CANONICAL, ORDERS, checked_labels
from pipeline.loaders.protocols import (
    CCC,
    IN_OUT,
    KINDS,
    MANIFEST,
    PUBLISHED_SEVERITY,
    Draw,
    Parameters,
    Protocol,
    find,
)
from pipeline.transforms.clean import CLEAN
from pipeline.transforms.family import Condition

Labels = Mapping[Condition, NDArray[np.int32]]
"""Labels of the samples of each condition, in the order of the manifest."""


@dataclass(frozen=True)
class Schedule:
    """What a stream shows: its entries, and the images of each in order.

    Attributes:
        protocol: The protocol, with ``reset`` and ``across`` as requested.
        parameters: Its parameters.
        seed: Seed.
        steps: Conditions of each entry.
        labels: Labels of the samples.
        content: Digest of the images, if they depend on the protocol. Else an empty text.
        listed: The images of each condition in the order of the user, if this decides.
    """

    protocol: Protocol
    parameters: Parameters
    seed: int
    steps: Sequence[Step]
    labels: Labels = field(repr=False)
    content: str = ""
    listed: Mapping[Condition, NDArray[Any]] = field(default_factory=dict, repr=False)
    _orders: dict[int, NDArray[np.int32]] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without the orders that were computed since."""
        return {**self.__dict__, "_orders": {}}

    def order(self, entry: int) -> NDArray[np.int32]:
        """Return the images of an entry in order: indices into the samples of its conditions, one after another."""
        if entry not in self._orders:
            step = self.steps[entry]
            draw = Draw(
                np.concatenate([self.labels[condition] for condition in step]),
                [len(self.labels[condition]) for condition in step],
                self.seed,
                self.protocol.name,
                entry,
            )
            if self.listed:
                starts = np.cumsum([0, *draw.sizes[:-1]])
                order = np.concatenate([start + self.listed[each] for start, each in zip(starts, step, strict=True)])
            else:
                order = self.protocol.order(draw, self.parameters) if self.protocol.order else draw.random
            self._orders[entry] = order.astype(np.int32)
        return self._orders[entry]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of samples of each entry."""
        if self.protocol.repeats:
            return [len(self.order(entry)) for entry in range(len(self.steps))]
        return [sum(len(self.labels[condition]) for condition in step) for step in self.steps]

    @property
    def repeats(self) -> bool:
        """Whether an image may come twice under one condition, or be left out."""
        return self.protocol.repeats or len(self.shown) < sum(map(len, self.steps))

    @property
    def shown(self) -> list[Condition]:
        """The conditions, in order of first appearance."""
        return list(dict.fromkeys(condition for step in self.steps for condition in step))

    @cached_property
    def visits(self) -> list[int]:
        """The number of the visit of each entry, from 0: how often its conditions came before."""
        before = defaultdict[Step, Iterator[int]](count)
        return [next(before[step]) for step in self.steps]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the order: of the conditions and indices of each entry."""
        digest = hashlib.sha256(self.content.encode())
        for entry, step in enumerate(self.steps):
            digest.update("".join(f"{condition}\n" for condition in step).encode("utf-8", "surrogatepass"))
            digest.update(self.order(entry).astype("<i8").tobytes())
        return digest.hexdigest()

    def batches(self, batch_size: int, drop_last: bool = False) -> NDArray[np.int64]:
        """Return the first sample and the end of each batch, counted in the stream: (batches, 2)."""
        return cut([sum(self.sizes)] if self.protocol.across else self.sizes, batch_size, drop_last)

    def samples(self) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
        """Yield for each entry: its number; for its samples the number of the condition in it, the index, the label."""
        for entry, step in enumerate(self.steps):
            order, sizes = self.order(entry), [len(self.labels[condition]) for condition in step]
            which = np.repeat(np.arange(len(step), dtype=np.int32), sizes)[order]
            starts = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
            labels = np.concatenate([self.labels[condition] for condition in step])[order]
            yield entry, which, order - starts[which], labels

    def facts(self, batch_size: int) -> dict[str, Any]:
        """Return facts of the stream: entries, samples, batches, mean run of equal labels, labels in a batch."""
        labels = np.concatenate([labels for *_, labels in self.samples()])
        batches = self.batches(batch_size)
        run, in_batch = label_facts(labels, batches)
        return {
            "entries": len(self.steps),
            "samples": len(labels),
            "batches": len(batches),
            "mean run of equal labels": run,
            "labels in a batch": in_batch,
        }


def schedule_of(
    labels: Labels, protocol: str | None, given: Mapping[str, Any], seed: Any, name: str, conditions: Any = None
) -> Schedule:
    """Return what a protocol shows of a data set with this name, from the labels of its samples.

    The other arguments are those of ``read_schedule``.

    Raises:
        UserError: The protocol or a parameter is invalid, or the data set lacks something that it needs.
    """
    chosen = find(protocol)
    if chosen.name == CCC:
        raise UserError(
            "the protocol ccc shows no data set, since it makes its images from photographs: give their folder to "
            "evaluate or to robustshards stream, use robustshards.torch.CCC to read them, or robustshards ccc to store "
            "them"
        )
    parameters = checked_parameters(chosen, given)
    if not labels:
        raise UserError(f"{name} has no samples that a stream could show: all of them failed")
    across, reset = parameters["across"], parameters["reset"]
    if across and reset == "condition":
        if "across" in given:
            raise UserError("across cannot be combined with reset 'condition': a batch must not span a reset")
        parameters["across"] = across = False
    named = {each: labels[each] for each in labels if chosen.name != IN_OUT or each != CLEAN}
    steps = parse_steps(conditions, {condition: len(each) for condition, each in named.items()}, name)
    if conditions is None:
        steps = tuple((condition,) for condition in _conditions(named, parameters, given, name))
    else:
        parameters |= {"severity": None, "order": None}
    if chosen.name == MANIFEST:
        warnings.warn(
            "the protocol manifest shows the images of most sources class by class, with which models that adapt get "
            "much larger errors than published: use continual",
            stacklevel=3,
        )
    if chosen.order and chosen.name != IN_OUT:
        for condition in dict.fromkeys(condition for step in steps for condition in step):
            checked_labels(labels[condition])
    chosen = replace(chosen, across=across, reset=reset)
    return Schedule(chosen, parameters, check_seed(seed), tuple(chosen.steps(steps, parameters)), labels)


def checked_parameters(protocol: Protocol, given: Mapping[str, Any]) -> Parameters:
    """Return all parameters of a protocol, from values or text. Raise UserError if one is invalid."""
    defaults = protocol.defaults
    if unknown := sorted(given.keys() - defaults.keys()):
        raise UserError(
            f"invalid parameters {', '.join(unknown)} of the protocol {protocol.name}: use {', '.join(defaults)}"
        )
    return defaults | {
        key: None if value is None and defaults[key] is None else KINDS[key].checked(value, key)
        for key, value in given.items()
    }


def _conditions(labels: Labels, parameters: Parameters, given: Mapping[str, Any], name: str) -> list[Condition]:
    """Return the conditions that a protocol shows, in order; complete the parameters."""
    order, present = parameters["order"], list(dict.fromkeys(condition.transform for condition in labels))
    if order in (None, "canonical"):
        transforms = present
    else:
        transforms = [transform for transform in ORDERS[order] if transform in present]
        if not transforms and "order" in given:
            raise UserError(f"{name} has none of the 15 corruptions of ImageNet-C that order {order} is of: omit order")
        transforms = transforms or present
        parameters["order"] = order if set(transforms) <= {*CANONICAL} else None
    levels = {condition.level for condition in labels}
    if (severity := parameters["severity"]) is None:
        parameters["severity"] = severity = PUBLISHED_SEVERITY if PUBLISHED_SEVERITY in levels else "all"
    if severity != "all" and severity not in levels:
        raise UserError(f"{name} has no samples of severity {severity}; it has {', '.join(map(str, sorted(levels)))}")
    return [
        condition
        for transform in transforms
        for condition in labels
        if condition.transform == transform and severity in ("all", condition.level)
    ]
