"""Orders of images in streams, as functions of labels: those of the published code, number for number.

    order = temporal(labels, gamma=0.1, rng=0)      # indices into labels

``rng`` is a ``numpy.random.RandomState`` or its seed; NumPy keeps its numbers the same in all versions.
"""

import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

import corruptions
from corruptions.validation import is_integer
from pipeline.errors import UserError
from pipeline.settings import integer
from pipeline.text import counted

Order = NDArray[np.int64]
"""Indices of images, in the order in which they are shown."""

Chain = tuple[float, float]
"""Correlation and imbalance of a Markov chain: the probability to stay in the first state, and the ratio of the shares
of the first and the last state."""

MAX_TRIES = 1000
"""Number of tries of ``dirichlet``."""

_ORDERS = (
    (10, 13, 0, 5, 6, 4, 2, 14, 3, 12, 1, 8, 7, 9, 11),
    (14, 1, 6, 8, 11, 9, 3, 12, 0, 10, 4, 2, 13, 7, 5),
    (11, 3, 0, 1, 7, 8, 4, 6, 12, 14, 13, 10, 2, 5, 9),
    (1, 9, 4, 13, 7, 12, 10, 2, 3, 8, 11, 0, 5, 14, 6),
    (13, 4, 6, 7, 9, 2, 10, 5, 8, 14, 0, 1, 11, 3, 12),
    (5, 7, 9, 1, 3, 11, 6, 10, 8, 12, 4, 0, 13, 14, 2),
    (8, 2, 14, 11, 6, 4, 13, 7, 3, 5, 10, 12, 1, 9, 0),
    (4, 6, 2, 9, 7, 14, 0, 8, 1, 10, 11, 5, 13, 3, 12),
    (3, 5, 6, 1, 0, 4, 14, 9, 11, 13, 8, 7, 10, 12, 2),
    (11, 0, 3, 6, 8, 4, 14, 9, 13, 12, 1, 2, 7, 5, 10),
)

CANONICAL = corruptions.names("all")[:15]
"""The 15 corruptions of ImageNet-C in published order."""

ORDERS = tuple(tuple(CANONICAL[number] for number in order) for order in _ORDERS)
"""The ten orders of the 15 corruptions that CoTTA uses."""


def temporal(labels: ArrayLike, gamma: float = 0.1, slots: int | None = None, *, rng: RandomState | int) -> Order:
    """Return an order in which labels are correlated in time, as in PTTA (RoTTA, PeTTA).

    The images of each label are cut into slots of time, whose sizes are drawn; each slot shows its labels one after
    another.

    Args:
        labels: Label of each image, (N,), from 0; they may have gaps.
        gamma: Concentration of the Dirichlet distribution of sizes; the smaller, the more correlated.
        slots: Number of slots. Default: the number of labels, at most 100.
        rng: Random numbers, or their seed.

    Returns:
        Indices (N,): each image once.

    Raises:
        UserError: If an argument is invalid.
    """
    rng = random_state(rng)
    _, classes, counts = np.unique(checked_labels(labels), return_inverse=True, return_counts=True)
    kinds = len(counts)
    slots = min(kinds, 100) if slots is None else integer(1).checked(slots, "slots")
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = rng.dirichlet([_positive(gamma, "gamma")] * slots, kinds)
    for row in np.flatnonzero(~np.isfinite(shares).all(axis=1)):  # all gamma numbers of the row were 0
        shares[row] = np.arange(slots) == rng.randint(0, slots)
    cuts = _cuts(shares, counts[:, None])
    sizes = np.diff(cuts, axis=1, prepend=0, append=counts[:, None])
    by_class = np.argsort(classes, kind="stable")
    slot = np.repeat(np.tile(np.arange(slots), kinds), sizes.ravel())
    turns = np.argsort(np.stack([rng.permutation(kinds) for _ in range(slots)]), axis=1)
    return by_class[np.lexsort((turns[slot, classes[by_class]], slot))]


def dirichlet(labels: ArrayLike, delta: float = 0.1, *, minimum: int = 10, rng: RandomState | int) -> Order:
    """Return an order of chunks in which labels are correlated, as in NOTE and in test-time-adaptation.

    Args:
        labels: Label of each image, (N,), from 0; they may have gaps.
        delta: Concentration of the Dirichlet distribution of the sizes of chunks; the smaller, the more correlated.
        minimum: Smallest number of images of each chunk. There are as many chunks as the largest label + 1.
        rng: Random numbers, or their seed.

    Returns:
        Indices (N,): each image once.

    Raises:
        UserError: If an argument is invalid, or no chunks with so many images are found in 1,000 tries.
    """
    rng, known = random_state(rng), checked_labels(labels)
    delta, minimum, kinds = _positive(delta, "delta"), integer(0).checked(minimum, "minimum"), int(known.max()) + 1
    members = [np.flatnonzero(known == label) for label in range(kinds)]
    for _ in range(MAX_TRIES if minimum * kinds <= len(known) else 0):
        chunks = _chunks(members, delta, rng, len(known))
        if chunks and min(sum(map(len, chunk)) for chunk in chunks) >= minimum:
            order = []
            for chunk in chunks:
                rng.shuffle(turns := list(range(kinds)))
                order += [chunk[label] for label in turns]
            return np.concatenate(order)
    raise UserError(
        f"no {kinds:,} chunks of at least {minimum} images were found in {MAX_TRIES:,} tries, of "
        f"{counted(len(known), 'image')} with delta {delta:g}: use a larger delta, a smaller minimum or more images"
    )


def _chunks(members: list[Order], delta: float, rng: RandomState, images: int) -> list[list[Order]] | None:
    """Return the images of each label in each chunk; None if no chunk with room has a share."""
    kinds = len(members)
    chunks: list[list[Order]] = [[] for _ in members]
    sizes = np.zeros(kinds)
    for label in range(kinds):
        own = members[label].copy()
        rng.shuffle(own)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = rng.dirichlet([delta] * kinds) * (sizes < images / kinds)
            shares = shares / shares.sum()
        if not np.isfinite(shares).all():
            return None
        for chunk, part in zip(chunks, np.split(own, _cuts(shares, len(own))), strict=True):
            chunk.append(part)
        sizes += [len(chunk[-1]) for chunk in chunks]
    return chunks


def label_shift(
    labels: ArrayLike,
    total: int = 100_000,
    ratio: float = 500_000,
    *,
    class_order: ArrayLike | None = None,
    rng: RandomState | int,
) -> Order:
    """Return images drawn with repeats, whose most frequent label changes in the course of time, as in SAR and DeYO.

    Args:
        labels: Label of each image, (N,), from 0; they may have gaps.
        total: Number of images to draw, a multiple of the number of labels.
        ratio: How much more probable the most frequent label is than each other one.
        class_order: The labels, in the order in which they are the most frequent one. Default: a random order.
        rng: Random numbers, or their seed.

    Returns:
        Indices (total,).

    Raises:
        UserError: If an argument is invalid.
    """
    rng = random_state(rng)
    names, classes = np.unique(checked_labels(labels), return_inverse=True)
    kinds, total, ratio = len(names), integer(1).checked(total, "total"), _positive(ratio, "ratio")
    if total % kinds:
        raise UserError(
            f"invalid total {total}: use a multiple of the number of labels {kinds}, for example "
            f"{max(total // kinds, 1) * kinds}"
        )
    order = names[rng.permutation(kinds)] if class_order is None else np.asarray(class_order)
    if not np.array_equal(np.sort(order, axis=None), names) or order.ndim != 1:
        raise UserError(f"invalid class_order of shape {order.shape}: pass each of the {kinds} labels of images once")
    uniforms = rng.random_sample(total).reshape(kinds, -1)
    minor = 1 / (ratio + kinds - 1)
    drawn = np.empty(uniforms.shape, np.int64)
    for stretch, label in enumerate(np.searchsorted(names, order)):
        shares = np.full(kinds, minor)
        shares[label] = ratio * minor
        drawn[stretch] = _searched(shares, uniforms[stretch])
    when, counts = np.argsort(drawn, axis=None, kind="stable"), np.bincount(drawn.ravel(), minlength=kinds)
    chosen = np.empty(total, np.int64)
    for label, places in enumerate(np.split(when, np.cumsum(counts)[:-1])):
        if len(places):
            own = np.flatnonzero(classes == label)
            chosen[places] = own[rng.randint(0, len(own), len(places))]
    return chosen


def class_groups(labels: ArrayLike, *, zipf: float | None = None, rng: RandomState | int) -> Order:
    """Return images with all of one label after another, in the order of first appearance, as in LAME.

    Args:
        labels: Label of each image in a random order, (N,), from 0; they may have gaps.
        zipf: Exponent of the Zipf distribution that the shares of labels are drawn from, above 1; images are then drawn
            with repeats. Default: each image once.
        rng: Random numbers, or their seed; only used with ``zipf``.

    Returns:
        Indices: (N,), or fewer with ``zipf``.

    Raises:
        UserError: If an argument is invalid.
    """
    rng, known = random_state(rng), checked_labels(labels)
    order = np.arange(len(known))
    if zipf is not None:
        names, classes = np.unique(known, return_inverse=True)
        top, limit = math.ceil(len(names) / 10), 0.9
        for _ in range(MAX_TRIES):
            drawn = rng.zipf(_positive(zipf, "zipf", above=1), len(names))
            shares = drawn / drawn.sum()
            if len(names) <= 1 or np.sort(shares)[::-1][:top].sum() < limit:
                break
        else:
            raise UserError(f"no shares of {len(names)} labels were drawn for zipf {zipf}: use a larger exponent")
        members = (np.flatnonzero(classes == label) for label in range(len(names)))
        order = np.concatenate(
            [own[rng.randint(0, len(own), int(share * len(known)))] for own, share in zip(members, shares, strict=True)]
        )
        rng.shuffle(order)
    _, first, groups = np.unique(known[order], return_index=True, return_inverse=True)
    return order[np.argsort(first[groups], kind="stable")]


def long_tail(labels: ArrayLike, imbalance: float = 100, *, fixed: bool = True, rng: RandomState | int) -> Order:
    """Return random images of which each label has fewer than the one before, as in GLI-TTA.

    Args:
        labels: Label of each image, (N,), from 0; they may have gaps.
        imbalance: Number of images of the first label divided by that of the last one, from 1.
        fixed: Whether labels become rarer in ascending order. False: in a random order.
        rng: Random numbers, or their seed.

    Returns:
        Indices in ascending order.

    Raises:
        UserError: If an argument is invalid.
    """
    rng = random_state(rng)
    names, classes = np.unique(checked_labels(labels), return_inverse=True)
    imbalance, turns = (
        _positive(imbalance, "imbalance"),
        np.arange(len(names)) if fixed else rng.permutation(len(names)),
    )
    most = np.count_nonzero(classes == turns[0])
    kept = []
    for place, label in enumerate(turns):
        own = np.flatnonzero(classes == label)
        wanted = int(most * (1 / imbalance) ** (place / max(len(names) - 1, 1)))
        kept.append(rng.permutation(own)[:wanted])
    return np.sort(np.concatenate(kept))


def markov(conditions: int, classes: int, condition: Chain, label: Chain, uniforms: ArrayLike) -> Order:
    """Return the states of two independent Markov chains, of conditions and labels, as in UniTTA.

    Args:
        conditions: Number of conditions.
        classes: Number of labels.
        condition: Correlation c and imbalance m of conditions: c < 1 and m (1 - c) <= 1 - 1 / conditions.
        label: Correlation and imbalance of labels.
        uniforms: Random numbers (T, 2) from 0 to 1, for conditions and labels.

    Returns:
        Condition and label, (T + 1, 2), of which the first is (0, 0).

    Raises:
        UserError: If a chain is invalid.
    """
    numbers = np.asarray(uniforms, np.float64)
    if numbers.ndim != 2 or numbers.shape[1] != 2 or not ((numbers >= 0) & (numbers < 1)).all():
        raise UserError(f"invalid uniforms of shape {numbers.shape}: pass numbers from 0 to 1 of shape (T, 2)")
    states = np.zeros((len(numbers) + 1, 2), np.int64)
    for column, (count, chain) in enumerate(((conditions, condition), (classes, label))):
        if not is_valid(count, chain):
            raise UserError(f"invalid chain {chain} of {count} states: use c < 1 and m (1 - c) <= 1 - 1 / {count}")
        rows = np.cumsum(_transitions(count, chain), axis=1)
        state = 0
        for step, uniform in enumerate(numbers[:, column], 1):
            state = int(np.searchsorted(rows[state] / rows[state, -1], uniform, side="right"))
            states[step, column] = state
    return states


def is_valid(count: int, chain: Chain) -> bool:
    """Return whether a chain of some states has the shares that its imbalance asks for."""
    correlation, imbalance = chain
    return count == 1 or (
        0 <= correlation < 1 <= imbalance and imbalance * (1 - correlation) <= (1 - 1 / count) * (1 + 1e-12)
    )


def markov_states(
    sizes: tuple[int, int], chains: tuple[Chain, Chain], most: int, rng: RandomState
) -> Iterator[tuple[int, int]]:
    """Yield the states (condition, label) of a scenario of UniTTA.

    Chains that are not valid keep their correlation in every state; a quota ends each state.

    Args:
        sizes: Numbers of conditions and labels.
        chains: Correlation and imbalance of both.
        most: Number of times that the most frequent state occurs.
        rng: Random numbers.
    """
    valid = [is_valid(*each) for each in zip(sizes, chains, strict=True)]
    tails = [_ratio(count, chain) ** -np.arange(count) for count, chain in zip(sizes, chains, strict=True)]
    rows = [
        _transitions(count, chain if good else (chain[0], 1))
        for count, chain, good in zip(sizes, chains, valid, strict=True)
    ]
    quotas = np.rint(most * np.outer(*tails)).astype(np.int64)
    if all(valid):
        left = np.full(sizes, most)
    else:  # of both chains, or of the only one that is not valid
        left = quotas.sum(axis=tuple(axis for axis in (0, 1) if valid[axis]), keepdims=True)
    state = (0, 0)
    while True:
        yield state
        place = tuple(0 if left.shape[axis] == 1 else state[axis] for axis in (0, 1))
        left[place] -= 1
        if not left.any() or (all(valid) and not left[place]):
            return
        law = np.outer(rows[0][state[0]], rows[1][state[1]]) * (left > 0)
        step = 0
        while not law.any():  # no way out of a condition with correlation 1: take the next one
            step += 1
            law = np.zeros(sizes)
            law[(state[0] + step) % sizes[0]] = rows[1][state[1]]
            law = law * (left > 0)
        state = divmod(int(_searched(law.ravel(), rng.random_sample())), sizes[1])


def _ratio(count: int, chain: Chain) -> float:
    return chain[1] ** (1 / max(count - 1, 1))


def _transitions(count: int, chain: Chain) -> NDArray[np.float64]:
    """Return the probabilities of the next state, (states, states)."""
    if count == 1:
        return np.ones((1, 1))
    correlation, imbalance = chain
    leave = imbalance * (1 - correlation) * _ratio(count, chain) ** -(count - 1.0 - np.arange(count))
    rows = np.repeat((leave / (count - 1))[:, None], count, axis=1)
    np.fill_diagonal(rows, 1 - leave)
    return rows


def _searched(shares: NDArray[np.float64], uniforms: Any) -> Any:
    """Return the indices that uniform numbers draw with probabilities in proportion to shares."""
    sums = np.cumsum(shares)
    return np.searchsorted(sums / sums[-1], uniforms, side="right")


def _cuts(shares: NDArray[np.float64], count: Any) -> Order:
    """Return where the images of a label are cut, as the published code rounds."""
    return (np.cumsum(shares, axis=-1)[..., :-1] * count).astype(np.int64)


def checked_labels(labels: ArrayLike) -> Order:
    """Return labels as integers. Raise UserError if there are none, or if an image has none."""
    known = np.asarray(labels)
    if known.ndim != 1 or not known.size or known.dtype.kind not in "iu":
        raise UserError(
            f"invalid labels of shape {known.shape} and type {known.dtype}: pass one integer for each of at least one "
            "image"
        )
    if missing := int(np.count_nonzero(known < 0)):
        raise UserError(
            f"{counted(missing, 'image')} without labels, which this order needs: use labelled images, or a random "
            "order such as that of the protocol continual"
        )
    return known.astype(np.int64)


def random_state(rng: Any) -> RandomState:
    """Return the random numbers of a seed, or those given. Raise UserError for other values."""
    if isinstance(rng, RandomState):
        return rng
    if is_integer(rng) and 0 <= operator.index(rng) < 2**32:
        return RandomState(operator.index(rng))
    raise UserError(f"invalid rng {rng!r}: pass a numpy.random.RandomState, or a seed from 0 to 2**32 - 1")


def _positive(value: Any, name: str, above: float = 0) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not above < number < math.inf:
        raise UserError(f"invalid {name} {value!r}: use a number above {above}")
    return number
