"""The protocols of test-time adaptation, as a table."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.random import RandomState

from corruptions.ccc import check_baseline
from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.loaders import orders
from pipeline.loaders.order import Step, visiting_order
from pipeline.loaders.orders import Chain, Order
from pipeline.render.ccc import LONGEST_STREAM
from pipeline.settings import Kind, choice, integer, number
from pipeline.sources.base import lines_at
from pipeline.transforms.clean import CLEAN

Parameters = dict[str, Any]

DEFAULT, MANIFEST, CCC, IN_OUT = "continual", "manifest", "ccc", "in-out"
"""Names of the default protocol, and of those in the order of the manifest, of photographs, and with clean images."""

PUBLISHED_SEVERITY = 5
"""Severity of most published figures."""


@dataclass(frozen=True)
class Draw:
    """What the image order of one entry depends on.

    Attributes:
        labels: Labels of the samples of all conditions of the entry, one condition after another.
        sizes: Number of samples of each condition.
        seed: Seed of the stream.
        protocol: Name of the protocol.
        entry: Number of the entry, from 0.
    """

    labels: Order
    sizes: Sequence[int]
    seed: int
    protocol: str
    entry: int

    @property
    def random(self) -> Order:
        """A random order of all samples; that of the data set for the protocols manifest and ccc."""
        return visiting_order(self.sizes, None if self.protocol in (MANIFEST, CCC) else self.seed, self.entry)

    @cached_property
    def state(self) -> RandomState:
        """The random numbers of orders that depend on labels."""
        digest = hashlib.blake2b(f"{self.seed} {self.protocol} {self.entry}".encode()).digest()
        return RandomState(np.frombuffer(digest, "<u4"))


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A protocol: which conditions and images come in which order, and when the model is reset.

    Attributes:
        name: Name.
        conditions: How conditions follow one another, for people.
        images: How the images of a condition follow one another, for people.
        reported: What the papers report.
        source: Where it is from.
        parameters: Parameters of its own and their defaults.
        order: Returns the order of the images of an entry, by their labels; None for a random order.
        steps: Returns the entries for conditions.
        reset: When the model is reset: at the start, or also before each entry (``condition``) or batch.
        across: Whether batches may span two entries.
        batch_size: Default batch size.
        repeats: Whether images may be repeated or left out within an entry.
    """

    name: str
    conditions: str
    images: str
    reported: str
    source: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    order: Callable[[Draw, Parameters], Order] | None = None
    steps: Callable[[Sequence[Step], Parameters], Sequence[Step]] = lambda steps, given: steps
    reset: str = "start"
    across: bool = False
    batch_size: int = 64
    repeats: bool = False

    def __reduce__(self) -> Any:
        """Return how to find it in another process, since its functions cannot be pickled."""
        return _restored, (self.name, self.reset, self.across)

    @property
    def defaults(self) -> Parameters:
        """All parameters and their defaults. None as severity is 5, or all levels where there is no level 5."""
        common = {"severity": None, "order": None, "reset": self.reset, "across": self.across}
        return (common if self.name != CCC else {}) | dict(self.parameters)


_ABOVE_ZERO, _COUNT = number(0, 1e12), integer(1)
_FLAG = Kind(lambda value: bool(("false", "true").index(str(value).lower())), "true or false")

_CLASS_CHAINS: Mapping[str, Any] = {"i1": (None, 1), "iu": (None, 10), "n1": (0.95, 1), "nu": (0.95, 10)}
_CONDITION_CHAINS: Mapping[str, Chain] = {
    f"{name}{imbalance}": (correlation, ratio)
    for name, correlation in (("i", 0.067), ("n", 0.85), ("1", 1.0))
    for imbalance, ratio in (("1", 1), ("u", 5))
}
"""Correlation and imbalance of labels and conditions in UniTTA's scenarios. None: 1 / number of labels."""

KINDS: Mapping[str, Kind] = {
    "severity": Kind(lambda value: value if value == "all" else integer(0).read(value), "a level, or all"),
    "order": Kind(lambda value: value if value == "canonical" else integer(0, 9).read(value), "0 to 9, or canonical"),
    "reset": choice("start", "condition", "batch"),
    "across": _FLAG,
    "clean": Kind(
        lambda value: value if isinstance(value, DataSet) else os.fspath(value), "a data set of clean images"
    ),
    "share": number(1e-9, 1),
    "gamma": _ABOVE_ZERO,
    "delta": _ABOVE_ZERO,
    "ratio": _ABOVE_ZERO,
    "imbalance": number(1, 1e12),
    "zipf": _ABOVE_ZERO,
    "slots": _COUNT,
    "minimum": integer(0),
    "visits": integer(1, 10_000),
    "total": _COUNT,
    "fixed": _FLAG,
    "walk": choice("cotta", "symmetric"),
    "scenario": choice(*(labels + conditions for labels in _CLASS_CHAINS for conditions in _CONDITION_CHAINS)),
    "max_state_samples": _COUNT,
    "listed": Kind(lambda value: tuple(lines_at(value) if isinstance(value, str) else value), "ids, or a file of them"),
    "baseline": Kind(lambda value: check_baseline(number(0, 100).read(value)), "an accuracy in percent, 0 to 100"),
    "speed": integer(1, LONGEST_STREAM),
    "images": integer(1, LONGEST_STREAM),
    "matrix": Kind(lambda value: value if isinstance(value, Mapping) else os.fspath(value), "an .npz file"),
}
"""Values of each parameter."""


def _gradual(steps: Sequence[Step], given: Parameters) -> Sequence[Step]:
    """Return a walk through the levels of each transform: up and down; the first one of CoTTA only goes down."""
    walks: list[list[Step]] = []
    for _, levels in groupby(steps, key=lambda step: step[0].transform):
        up = sorted(levels, key=lambda step: step[0].level)
        down = up[::-1]
        walks.append(down if given["walk"] == "cotta" and not walks else up + down[1:])
    return [step for walk in walks for step in walk]


def _mixed(steps: Sequence[Step], given: Parameters) -> Sequence[Step]:
    return [tuple(condition for step in steps for condition in step)]


def _in_out(draw: Draw, given: Parameters) -> Order:
    """Return a part of the images of each condition in one random order.

    Quirk: as in the published code, the share is that of the clean images and that of the others.
    """
    starts = np.cumsum([0, *draw.sizes[:-1]])
    drawn = (draw.state.permutation(size)[: int(given["share"] * size)] for size in draw.sizes)
    order = np.concatenate([start + each for start, each in zip(starts, drawn, strict=True)])
    return draw.state.permutation(order)


def _temporal(draw: Draw, given: Parameters) -> Order:
    return orders.temporal(draw.labels, given["gamma"], given["slots"], rng=draw.state)


def _sorted(draw: Draw, given: Parameters) -> Order:
    order, labels = draw.random, orders.checked_labels(draw.labels)
    return order[np.argsort(labels[order], kind="stable")]


def _class_groups(draw: Draw, given: Parameters) -> Order:
    return draw.random[orders.class_groups(draw.labels[draw.random], zipf=given["zipf"], rng=draw.state)]


def _long_tail(draw: Draw, given: Parameters) -> Order:
    kept = orders.long_tail(draw.labels, given["imbalance"], fixed=given["fixed"], rng=draw.state)
    return kept[orders.temporal(draw.labels[kept], given["gamma"], given["slots"], rng=draw.state)]


def _markov(draw: Draw, given: Parameters) -> Order:
    """Return the images of a scenario: those of a condition and label, shuffled once, are a ring."""
    names, classes = np.unique(orders.checked_labels(draw.labels), return_inverse=True)
    kinds, conditions, scenario = len(names), len(draw.sizes), given["scenario"]
    correlation, imbalance = _CLASS_CHAINS[scenario[:2]]
    chains = (_CONDITION_CHAINS[scenario[2:]], (1 / kinds if correlation is None else correlation, imbalance))
    of_imagenet = 100 if scenario[0] == scenario[2] == "n" else 50 if scenario[0] + scenario[2:] == "ni1" else 10
    most = given["max_state_samples"] or (1000 if kinds <= 10 else 100 if kinds <= 100 else of_imagenet)
    state = np.repeat(np.arange(conditions), draw.sizes) * kinds + classes
    rings = np.split(np.argsort(state, kind="stable"), np.cumsum(np.bincount(state, minlength=conditions * kinds))[:-1])
    if empty := [place for place, ring in enumerate(rings) if not len(ring)]:
        raise UserError(
            f"condition {empty[0] // kinds} of the stream has no image of label {names[empty[0] % kinds]}: "
            "markov needs images of each label in each condition"
        )
    rings = [draw.state.permutation(ring) for ring in rings]
    states = orders.markov_states((conditions, kinds), chains, most, draw.state)
    seen = [0] * len(rings)
    order = []
    for condition, label in states:
        place = condition * kinds + label
        order.append(rings[place][seen[place] % len(rings[place])])
        seen[place] += 1
    return np.array(order, np.int64)


_ONE_BY_ONE, _RANDOM, _CORRELATED = "one after another", "random order", "labels correlated in time"
_TTA, _SAR, _ROTTA = "test-time-adaptation (Döbler et al.)", "SAR (Niu et al., 2023)", "RoTTA (Yuan et al., 2023)"
_PER_CONDITION, _OVER_SAMPLES = "mean error over conditions", "error over all samples, and per condition"

PROTOCOLS: Mapping[str, Protocol] = {
    each.name: each
    for each in (
        Protocol(
            name="single",
            conditions=_ONE_BY_ONE,
            images=_RANDOM,
            reset="condition",
            parameters={"listed": None},
            reported=_PER_CONDITION,
            source="Tent (Wang et al., 2021)",
        ),
        Protocol(
            name="continual",
            conditions=f"{_ONE_BY_ONE}, canonical or in one of ten orders",
            images=_RANDOM,
            parameters={"listed": None},
            reported="error per condition and mean; mean and deviation over ten orders",
            source="CoTTA (Wang et al., 2022)",
        ),
        Protocol(
            name="gradual",
            conditions="severities of each corruption up and down",
            images=_RANDOM,
            parameters={"severity": "all", "walk": "cotta", "listed": None},
            steps=_gradual,
            reported="mean error over all, and at severity 5",
            source="CoTTA (Wang et al., 2022)",
        ),
        Protocol(
            name="mixed",
            conditions="all in one random order",
            images="-",
            steps=_mixed,
            reported="error per condition, their mean, and over all samples",
            source=_TTA,
        ),
        Protocol(
            name="sorted",
            conditions=_ONE_BY_ONE,
            images="sorted by label, in a random order within a label",
            order=_sorted,
            reported="mean error",
            source=_TTA,
        ),
        Protocol(
            name="dirichlet",
            conditions=_ONE_BY_ONE,
            images=f"{_CORRELATED}: chunks of Dirichlet sizes",
            parameters={"delta": 0.1, "minimum": 10},
            order=lambda draw, given: orders.dirichlet(
                draw.labels, given["delta"], minimum=given["minimum"], rng=draw.state
            ),
            reported="mean error",
            source="NOTE (Gong et al., 2022)",
        ),
        Protocol(
            name="temporal",
            conditions=f"{_ONE_BY_ONE}, in order 5",
            images=f"{_CORRELATED}: slots of Dirichlet sizes",
            parameters={"order": 5, "gamma": 0.1, "slots": None},
            order=_temporal,
            across=True,
            reported=_OVER_SAMPLES,
            source=_ROTTA,
        ),
        Protocol(
            name="recurring",
            conditions=f"{_ONE_BY_ONE}, in order 5, in each of many visits",
            images=f"{_CORRELATED}, anew in each visit",
            parameters={"order": 5, "gamma": 0.1, "slots": None, "visits": 20},
            order=_temporal,
            steps=lambda steps, given: [*steps] * given["visits"],
            across=True,
            reported="error per visit, their mean, and of the last visit",
            source="PeTTA (Hoang et al., 2024)",
        ),
        Protocol(
            name="label-shift",
            conditions=_ONE_BY_ONE,
            images="drawn with repeats; the most frequent label changes",
            parameters={"total": 100_000, "ratio": 500_000},
            order=lambda draw, given: orders.label_shift(draw.labels, given["total"], given["ratio"], rng=draw.state),
            reset="condition",
            repeats=True,
            reported="mean accuracy over conditions, mean and deviation over seeds",
            source=_SAR,
        ),
        Protocol(
            name="bs1",
            conditions=_ONE_BY_ONE,
            images=f"{_RANDOM}, one at a time",
            reset="condition",
            batch_size=1,
            parameters={"listed": None},
            reported="mean accuracy over conditions",
            source=_SAR,
        ),
        Protocol(
            name="markov",
            conditions="a Markov chain of conditions and labels",
            images="a ring for each condition and label",
            parameters={"scenario": "n1n1", "max_state_samples": None},
            order=_markov,
            steps=_mixed,
            across=True,
            repeats=True,
            reported="error over all samples; mean over labels in each condition",
            source="UniTTA (Du et al., 2024)",
        ),
        Protocol(
            name="class-groups",
            conditions=_ONE_BY_ONE,
            images="labels one after another, in a random order",
            parameters={"zipf": None},
            order=_class_groups,
            reset="condition",
            batch_size=16,
            repeats=True,
            reported="mean accuracy over ten runs",
            source="LAME (Boudiaf et al., 2022)",
        ),
        Protocol(
            name="long-tail",
            conditions=f"{_ONE_BY_ONE}, in order 5",
            images="as temporal, of fewer and fewer images of each label",
            parameters={"order": 5, "gamma": 0.1, "slots": None, "imbalance": 100, "fixed": True},
            order=_long_tail,
            across=True,
            repeats=True,
            reported="error over all samples, and per label",
            source="GLI-TTA, in UniTTA (Du et al., 2024)",
        ),
        Protocol(
            name=IN_OUT,
            conditions=f"{_ONE_BY_ONE}, each mixed with clean images",
            images=f"{_RANDOM} of a share of both, drawn independently",
            parameters={"clean": None, "share": 0.5},
            order=_in_out,
            steps=lambda steps, given: [(CLEAN, *step) for step in steps],
            repeats=True,
            reported="mean accuracy",
            source="TTAB (Zhao et al., 2023)",
        ),
        Protocol(
            name=CCC,
            conditions="pairs of corruptions that change continuously",
            images="photographs, drawn for each step",
            parameters={"baseline": 20, "speed": 1000, "images": 7_500_000, "matrix": None},
            across=True,
            repeats=True,
            reported="accuracy over time; mean and deviation over nine streams",
            source="CCC (Press et al., 2023)",
        ),
        Protocol(
            name=MANIFEST,
            conditions=f"{_ONE_BY_ONE}, as in the data set",
            images="as in the manifest, which is sorted by class for most sources",
            parameters={"severity": "all"},
            reported="nothing published",
            source="-",
        ),
    )
}
"""The protocols by name."""


def find(protocol: str | None) -> Protocol:
    """Return a protocol. Raise UserError if there is none of this name."""
    found = PROTOCOLS.get(DEFAULT if protocol is None else protocol)
    if found is None:
        raise UserError(f"invalid protocol {protocol!r}: use {', '.join(PROTOCOLS)}")
    return found


def _restored(name: str, reset: str, across: bool) -> Protocol:
    return replace(PROTOCOLS[name], reset=reset, across=across)
