"""Orders of images against those of the published code, their laws, and the schedules of protocols."""

import pickle
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

from pipeline.errors import UserError
from pipeline.loaders.orders import markov_states
from pipeline.loaders.protocols import CCC, PROTOCOLS
from pipeline.loaders.schedule import Schedule, schedule_of
from pipeline.transforms.clean import CLEAN
from pipeline.transforms.family import Condition
from robustshards import streams

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "streams.npz")
LABELS = np.repeat(np.arange(10), 30)


def golden(kind: str, case: int) -> dict[str, Any]:
    start = f"{kind}/{case}/"
    return {name.removeprefix(start): GOLDEN[name] for name in GOLDEN.files if name.startswith(start)}


@pytest.mark.parametrize("case", range(6))
def test_temporal_order_is_that_of_the_published_code(case: int) -> None:
    given = golden("temporal", case)
    gamma, slots, seed = given["arguments"]
    order = streams.temporal(given["labels"], gamma, int(slots) or None, rng=int(seed))
    assert order.tolist() == given["order"].tolist()


@pytest.mark.parametrize("case", range(4))
def test_dirichlet_order_is_that_of_the_published_code(case: int) -> None:
    given = golden("dirichlet", case)
    delta, minimum, seed = given["arguments"]
    order = streams.dirichlet(given["labels"], delta, minimum=int(minimum), rng=RandomState(int(seed)))
    assert order.tolist() == given["order"].tolist()


@pytest.mark.parametrize("case", range(4))
def test_label_shift_order_is_that_of_the_published_code(case: int) -> None:
    given = golden("label_shift", case)
    total, ratio, seed = given["arguments"]
    order = streams.label_shift(given["labels"], int(total), ratio, class_order=given["class_order"], rng=int(seed))
    assert order.tolist() == given["order"].tolist()
    assert given["labels"][order].tolist() == given["classes"].tolist()


@pytest.mark.parametrize("case", range(4))
def test_markov_states_are_those_of_the_formulas(case: int) -> None:
    given = golden("markov", case)
    conditions, classes, *chains = given["arguments"]
    states = streams.markov(int(conditions), int(classes), tuple(chains[:2]), tuple(chains[2:]), given["uniforms"])
    assert states.tolist() == given["states"].tolist()


def test_orders_of_conditions_are_the_ten_published_ones() -> None:
    assert len({*streams.ORDERS}) == 10
    assert all(sorted(order) == sorted(streams.CANONICAL) for order in streams.ORDERS)
    assert streams.ORDERS[5][:3] == ("motion_blur", "snow", "fog")
    assert streams.ORDERS[9][-2:] == ("motion_blur", "brightness")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "order",
    [
        lambda labels, seed: streams.temporal(labels, 0.1, rng=seed),
        lambda labels, seed: streams.temporal(labels, 1e-9, slots=3, rng=seed),  # rows of gamma numbers underflow
        lambda labels, seed: streams.dirichlet(labels, 1, minimum=2, rng=seed),
        lambda labels, seed: streams.class_groups(labels, rng=seed),
    ],
)
def test_orders_keep_every_image_of_labels_with_gaps(order: Callable[[Any, int], Any], seed: int) -> None:
    labels = RandomState(seed).choice([0, 3, 4, 9], 200)
    assert sorted(order(labels, seed)) == list(range(200))


def mean_run(labels: Any) -> float:
    return len(labels) / (1 + np.count_nonzero(np.diff(labels)))


def test_smaller_gamma_correlates_more() -> None:
    runs = [
        np.mean([mean_run(LABELS[streams.temporal(LABELS, gamma, rng=seed)]) for seed in range(5)])
        for gamma in (0.01, 1, 100)
    ]
    assert runs[0] > 2 * runs[1] > 2 * runs[2]


def test_label_shift_shows_the_frequent_label_as_often_as_its_ratio_says() -> None:
    order, turns = streams.label_shift(LABELS, 20_000, 9, class_order=range(10), rng=1), np.repeat(np.arange(10), 2000)
    assert np.mean(LABELS[order] == turns) == pytest.approx(0.5, abs=0.02)  # 9 / (9 + 9)
    assert np.bincount(LABELS[order]) == pytest.approx(2000, rel=0.1)


def test_zipf_draws_unequal_shares_and_groups_them() -> None:
    order = streams.class_groups(LABELS, zipf=2, rng=0)
    shown = LABELS[order]
    assert np.count_nonzero(np.diff(shown)) + 1 == len({*shown})
    counts = Counter(shown.tolist()).most_common()
    assert counts[0][1] > 3 * counts[-1][1]
    assert len({*order}) < len(order)


def test_long_tail_keeps_fewer_images_of_each_label() -> None:
    assert np.bincount(LABELS[streams.long_tail(LABELS, 10, rng=0)]).tolist() == [30, 23, 17, 13, 10, 8, 6, 5, 3, 3]
    counts = np.bincount(LABELS[streams.long_tail(LABELS, 10, fixed=False, rng=0)])
    assert sorted(counts) == [3, 3, 5, 6, 8, 10, 13, 17, 23, 30]
    assert counts.tolist() != sorted(counts)


def test_markov_chain_has_its_shares_and_runs() -> None:
    uniforms = RandomState(0).random_sample((60_000, 2))
    states = streams.markov(4, 5, (0.8, 3), (0.9, 1), uniforms)
    shares = np.bincount(states[:, 0]) / len(states)
    assert shares[0] / shares[3] == pytest.approx(3, rel=0.15)
    assert mean_run(states[:, 1]) == pytest.approx(10, rel=0.05)
    assert np.mean(states[1:, 0][states[:-1, 0] == 0] == 0) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("kind", ["i", "n", "1"])
def test_quotas_end_the_states_of_markov_chains_that_are_not_valid(kind: str) -> None:
    chain = {"i": (1 / 3, 5.0), "n": (0.85, 5.0), "1": (1.0, 5.0)}[kind]
    states = list(markov_states((3, 4), (chain, (0.25, 10.0)), 20, RandomState(0)))
    shares = np.rint(20 * np.outer(5 ** -np.array([0, 0.5, 1]), 10 ** -(np.arange(4) / 3)))
    if kind != "n":  # neither chain is valid
        seen = Counter(states)
        assert [[seen[row, column] for column in range(4)] for row in range(3)] == shares.tolist()
    if kind == "1":  # a condition lasts until its quota is used up
        assert [condition for condition, _ in states] == sorted(condition for condition, _ in states)
    if kind == "n":  # conditions would be valid with fewer, labels are not: their totals end them
        assert Counter(label for _, label in states) == dict(enumerate(shares.sum(axis=0)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: streams.temporal(LABELS, 0, rng=0), "invalid gamma 0: use a number above 0"),
        (lambda: streams.temporal(LABELS, float("nan"), rng=0), "invalid gamma nan"),
        (lambda: streams.temporal(LABELS, slots=0, rng=0), "invalid slots 0: use an integer of at least 1"),
        (lambda: streams.temporal([0, -1], rng=0), "1 image without labels"),
        (lambda: streams.temporal([], rng=0), r"invalid labels of shape \(0,\)"),
        (lambda: streams.temporal(LABELS, rng=None), "invalid rng None"),
        (lambda: streams.dirichlet(LABELS, minimum=31, rng=0), "no 10 chunks of at least 31 images.*a smaller minimum"),
        (lambda: streams.dirichlet(LABELS, 1e-5, minimum=29, rng=0), "in 1,000 tries, of 300 images with delta 1e-05"),
        (lambda: streams.label_shift(LABELS, 99, rng=0), "invalid total 99.*for example 90"),
        (lambda: streams.label_shift(LABELS, 100, class_order=[0, 1], rng=0), "each of the 10 labels"),
        (lambda: streams.markov(3, 3, (1, 1), (0.5, 1), np.zeros((1, 2))), r"invalid chain \(1, 1\) of 3 states"),
        (lambda: streams.markov(3, 3, (0.5, 1), (0.5, 1), np.ones((1, 2))), "invalid uniforms"),
        (lambda: streams.long_tail(LABELS, float("inf"), rng=0), "invalid imbalance inf"),
    ],
)
def test_invalid_arguments_of_orders_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def scheduled(protocol: str | None = None, seed: int = 0, levels: range = range(1, 6), **given: Any) -> Schedule:
    conditions = [Condition(name, level) for name in ("shot_noise", "fog", "brightness") for level in levels]
    conditions += [CLEAN] * (protocol == "in-out")
    return schedule_of(dict.fromkeys(conditions, LABELS.astype(np.int32)), protocol, given, seed, "data")


SMALL: dict[str, dict[str, Any]] = {
    "dirichlet": {"delta": 1, "minimum": 1},
    "label-shift": {"total": 300},
    "markov": {"max_state_samples": 30},
}
"""Parameters for few images."""


@pytest.mark.filterwarnings("ignore:the protocol manifest")
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != CCC])  # its orders need a matrix
def test_schedule_depends_on_the_seed_alone(protocol: str) -> None:
    first, again, other = (scheduled(protocol, seed, **SMALL.get(protocol, {})) for seed in (1, 1, 2))
    assert pickle.loads(pickle.dumps(first)).digest == again.digest == first.digest
    assert (first.digest != other.digest) == (protocol != "manifest")
    last = len(first.steps) - 1  # no entry depends on another
    assert again.order(last).tolist() == first.order(last).tolist()
    assert [len(order) for order in map(first.order, range(last + 1))] == first.sizes
    assert sum(stop - start for start, stop in first.batches(7)) == sum(first.sizes)
    if not PROTOCOLS[protocol].repeats:  # a fixed model has the same mean error under every protocol
        correct = {condition: RandomState(9).random_sample(300) for condition in first.labels}
        errors = [
            correct[first.steps[entry][one]][index]
            for entry, which, images, _ in first.samples()
            for one, index in zip(which, images, strict=True)
        ]
        expected = np.mean([correct[condition].mean() for step in first.steps for condition in step])
        assert np.mean(errors) == pytest.approx(expected, abs=1e-12)


def test_entries_are_those_of_the_protocol() -> None:
    def names(schedule: Schedule) -> list[str]:
        return ["+".join(map(str, step)) for step in schedule.steps]

    published = ["brightness-5", "fog-5", "shot_noise-5"]  # order 5: 9, 8, 1, with the places of others left out
    assert names(scheduled()) == ["shot_noise-5", "fog-5", "brightness-5"]
    assert sorted(names(scheduled("temporal"))) == published
    assert names(scheduled("recurring", visits=3)) == names(scheduled("temporal")) * 3
    assert scheduled("recurring", visits=3).visits == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert names(scheduled("mixed", severity=2)) == ["shot_noise-2+fog-2+brightness-2"]
    assert names(scheduled(severity="all", order=0))[:5] == [f"brightness-{level}" for level in range(1, 6)]
    assert names(scheduled(levels=range(1, 3)))[:3] == ["shot_noise-1", "shot_noise-2", "fog-1"]  # no severity 5
    walk = names(scheduled("gradual"))
    assert [name[-1] for name in walk] == list("54321" + "123454321" * 2)
    assert len(scheduled("gradual", walk="symmetric").steps) == 27
    recurring = scheduled("recurring", visits=2)
    assert recurring.order(0).tolist() != recurring.order(3).tolist()


def test_in_out_mixes_shares_of_clean_and_other_images() -> None:
    schedule = scheduled("in-out", share=0.4)
    assert schedule.steps == tuple((CLEAN, Condition(name, 5)) for name in ("shot_noise", "fog", "brightness"))
    entries = [(which, index) for _, which, index, _ in schedule.samples()]
    chosen = [index[which == place] for which, index in entries for place in (0, 1)]
    assert [len(set(each.tolist())) for each in chosen] == [120] * 6  # 0.4 of 300, without repeats
    assert all(40 < len({*one.tolist()} & {*other.tolist()}) < 56 + 12 for one, other in pairwise(chosen))  # about 48
    firsts = np.array(
        [which[:120].mean() for seed in range(40) for _, which, *_ in scheduled("in-out", seed).samples()]
    )
    assert abs(firsts.mean() - 0.5) < 0.02
    assert scheduled("in-out", severity="all", levels=range(2)).sizes == [300] * 6


def test_batches_span_entries_only_across() -> None:
    sizes = {across: np.diff(scheduled(across=across).batches(64))[:, 0].tolist() for across in (False, True)}
    assert sizes == {False: [64, 64, 64, 64, 44] * 3, True: [64] * 14 + [4]}
    assert np.diff(scheduled().batches(64, drop_last=True)).min() == 64


def test_facts_measure_labels() -> None:
    facts = scheduled("sorted").facts(30)
    assert facts == {
        "entries": 3,
        "samples": 900,
        "batches": 30,
        "mean run of equal labels": pytest.approx(30),
        "labels in a batch": pytest.approx(1),
    }


@pytest.mark.parametrize(
    ("protocol", "given", "message"),
    [
        ("ccc", {}, "makes its images from photographs: give their folder"),
        ("walk", {}, "invalid protocol 'walk': use single, continual"),
        ("single", {"gamma": 1}, "invalid parameters gamma of the protocol single: use severity, order, reset, across"),
        ("temporal", {"gamma": "nan"}, "invalid gamma 'nan': use a number"),
        ("temporal", {"across": "maybe"}, "invalid across 'maybe': use true or false"),
        ("temporal", {"order": 10}, "invalid order 10: use 0 to 9, or canonical"),
        ("temporal", {"severity": 6}, "data has no samples of severity 6; it has 1, 2, 3, 4, 5"),
        ("temporal", {"reset": "condition", "across": True}, "across cannot be combined with reset 'condition'"),
        ("markov", {"scenario": "nnnn"}, "invalid scenario 'nnnn': use i1i1, i1iu"),
    ],
)
def test_invalid_protocols_and_parameters_are_refused(protocol: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        scheduled(protocol, **given)


def test_unlabelled_images_are_refused_where_labels_matter() -> None:
    labels = {Condition("fog", 5): np.full(4, -1, np.int32)}
    assert schedule_of(labels, "continual", {}, 0, "data").sizes == [4]
    with pytest.raises(UserError, match="4 images without labels"):
        schedule_of(labels, "temporal", {}, 0, "data")
    with pytest.raises(UserError, match="data has no samples that a stream could show"):
        schedule_of({}, "continual", {}, 0, "data")
