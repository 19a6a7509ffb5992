"""The order of a stream: its steps, the order of samples in a step, and the shares of ranks and loader processes."""

import hashlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corruptions.validation import is_integer
from pipeline.errors import UserError
from pipeline.text import shown
from pipeline.transforms.family import Condition
from pipeline.transforms.seeds import SEED_LIMIT

Step = tuple[Condition, ...]
"""One condition, or several whose samples are mixed. A condition that occurs twice is visited twice."""

MAX_NAMED = 20
"""Number of conditions that a message names."""


def parse_steps(conditions: Any, counts: Mapping[Condition, int], name: str) -> tuple[Step, ...]:
    """Return the steps that the user asks for.

    Args:
        conditions: A sequence whose members are pairs (transform, level), names of transforms with a single level, or
            sequences of these, which are mixed. None for all conditions.
        counts: Number of samples of each condition of the data set.
        name: Name of the data set, for messages.

    Raises:
        UserError: If an entry is invalid, or the data set has no samples of it.
    """
    if conditions is None:
        return tuple((condition,) for condition in counts)
    if not isinstance(conditions, Sequence) or isinstance(conditions, str) or not conditions or _is_pair(conditions):
        raise UserError(
            f"invalid conditions {shown(repr(conditions))}: pass a list of pairs (transform, level), for example "
            '[("fog", 5), ("snow", 5)]; the argument protocol takes the name of a protocol'
        )
    return tuple(_parse_step(entry, counts, name) for entry in conditions)


def _parse_step(entry: Any, counts: Mapping[Condition, int], name: str) -> Step:
    is_mixture = isinstance(entry, Sequence) and not isinstance(entry, str) and not _is_pair(entry)
    parts = entry if is_mixture else [entry]
    if not parts:
        raise UserError("invalid conditions: a mixture is empty; list at least one pair (transform, level) in it")
    if not all(isinstance(part, Sequence) for part in parts) or any(_is_number(part, counts) for part in parts):
        raise UserError(_invalid_condition(entry))
    return tuple(_parse_condition(part, counts, name) for part in parts)


def _is_pair(entry: Sequence[Any]) -> bool:
    return len(entry) == 2 and isinstance(entry[0], str) and is_integer(entry[1])


def _is_number(part: Any, counts: Mapping[Condition, int]) -> bool:
    """Return whether a part is a level as text, as in ``("fog", "5")``, and not the name of a transform."""
    is_number = isinstance(part, str) and part.isdecimal()
    return is_number and all(condition.transform != part for condition in counts)


def _parse_condition(entry: Any, counts: Mapping[Condition, int], name: str) -> Condition:
    """Return a condition that the data set has. Raise UserError if it has none, or if the level is ambiguous."""
    if isinstance(entry, str):
        named = [condition for condition in counts if condition.transform == entry]
        if len(named) > 1:
            levels = ", ".join(str(condition.level) for condition in named)
            raise UserError(
                f"{name} has the levels {levels} of {entry}: name one of them, for example {(entry, named[-1].level)}"
            )
        if named:
            return named[0]
    elif isinstance(entry, Sequence) and _is_pair(entry):
        condition = Condition(entry[0], operator.index(entry[1]))
        if condition in counts:
            return condition
    else:
        raise UserError(_invalid_condition(entry))
    raise UserError(f"{name} has no samples of {shown(repr(entry))}; it has {named_conditions(counts)}")


def _invalid_condition(entry: Any) -> str:
    return f'invalid condition {shown(repr(entry))}: pass a pair (transform, level), for example ("fog", 5)'


def named_conditions(conditions: Mapping[Condition, int]) -> str:
    """Return conditions for a message: ``fog-1, fog-2 ...``, or that there are none."""
    names = ", ".join(map(str, list(conditions)[:MAX_NAMED]))
    return (f"{names} ..." if len(conditions) > MAX_NAMED else names) or "none"


def check_seed(seed: Any, name: str = "seed") -> int:
    """Return the seed of a stream, 0 for None; raise UserError, which calls it ``name``, for other values."""
    if seed is None:
        return 0
    if not is_integer(seed) or not 0 <= operator.index(seed) < SEED_LIMIT:
        raise UserError(
            f"invalid {name} {seed!r}: pass a seed, an integer from 0 to 2**64 - 1, or None for 0; the protocol "
            "manifest shows images in the order of the manifest"
        )
    return operator.index(seed)


def visiting_order(counts: Sequence[int], seed: int | None, number: int) -> NDArray[np.int64]:
    """Return the order in which a step visits its samples.

    Args:
        counts: Number of samples of each condition of the step.
        seed: Seed of the stream. None: the conditions take turns, each in the order of the manifest.
        number: Number of the step in the stream, from 0. Each step has another random order.

    Returns:
        Indices (total,) into the samples of all conditions, listed one after another.
    """
    if seed is None:
        turns = np.concatenate([np.arange(count) for count in counts])
        return np.lexsort((np.repeat(np.arange(len(counts)), counts), turns))
    # NumPy promises that the raw numbers of a bit generator stay the same in all versions; permutations may change.
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=16, person=b"stream").digest()
    generator = np.random.Philox(key=int.from_bytes(digest, "little"))
    return np.argsort(generator.random_raw(sum(counts)), kind="stable")


def cut(sizes: Sequence[int], batch_size: int, drop_last: bool = False) -> NDArray[np.int64]:
    """Return the first sample and the end of each batch, (batches, 2); no batch spans two of the sizes.

    Args:
        sizes: Numbers of samples that batches are cut from, one after another.
        batch_size: Samples in a batch; the last one of each size may have fewer.
        drop_last: Whether to leave out batches with fewer samples.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    spans = zip(sizes, ends.tolist(), strict=True)
    starts = [np.arange(end - size, end, batch_size, dtype=np.int64) for size, end in spans]
    first = np.concatenate([np.zeros(0, np.int64), *starts])
    stops = np.minimum(first + batch_size, np.repeat(ends, [len(each) for each in starts]))
    full = np.stack([first, stops], axis=1)
    return full[stops - first == batch_size] if drop_last else full


def label_facts(labels: NDArray[Any], batches: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mean run of equal labels, and the mean number of labels in a batch.

    Args:
        labels: Labels of the samples of a stream, in order.
        batches: First sample and end of each batch, as :func:`cut` returns them.
    """
    run = len(labels) / (1 + int(np.count_nonzero(np.diff(labels))))
    return run, float(np.mean([len(np.unique(labels[start:stop])) for start, stop in batches]))


@dataclass(frozen=True)
class Share:
    """The part of a stream that one loader process of one rank reads.

    Units (batches or samples) are dealt to the ranks in turn, and those of a rank to its loader processes in turn,
    beginning with unit ``origin`` of the rank.
    """

    rank: int = 0
    world_size: int = 1
    loader: int = 0
    loaders: int = 1
    origin: int = 0

    def units(self, first: int, stop: int, reached: int = 0) -> range:
        """Return the units of this share in ``first`` .. ``stop`` - 1, without the first ``reached`` of the rank."""
        stride = self.world_size * self.loaders
        own = (self.origin + self.loader) * self.world_size + self.rank
        start = max(first, reached * self.world_size)
        return range(start + (own - start) % stride, stop, stride)

    def length(self, units: int) -> int:
        """Return the number of units of the rank, out of ``units`` of the stream."""
        return len(range(self.rank, units, self.world_size))
