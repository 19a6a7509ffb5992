"""The analysis of candidates: overlaps, categories, benchmarks, and how well these predict natural robustness."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import comb
from typing import Any

import numpy as np

import corruptions
from pipeline.errors import UserError
from pipeline.evaluate.metrics import residual_robustness
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.selection import measures
from pipeline.evaluate.selection.accuracies import Measurements
from pipeline.evaluate.selection.measures import Indices
from pipeline.text import shown

SYN2NAT, CANDIDATES = "ImageNet-Syn2Nat", "the accuracies on candidates"

SIZES, LENGTHS, PER_CATEGORY = ((2, 3), (3, 2), (6, 1), (4, 3), (6, 2), (6, 3)), (6, 12, 18), (1, 2, 3)
"""Published sizes of benchmarks and their numbers of corruptions, and numbers for benchmarks of all categories."""

DRAWS = 20
"""Maximum number of draws for each benchmark of a group: some benchmarks of small groups may be unlikely."""

SUBSTITUTED_LENGTH, SUBSTITUTIONS = 2, 5
"""Number of corruptions of each category before substitutions, and number of successive substitutions."""

LEAST_PART = 0.2
"""A spread is listed if it has more benchmarks than this part of the balanced ones: 200 of 1000 in the paper."""

Size = tuple[int, int]
"""Number of categories, and number of corruptions of each."""

Members = Mapping[str, Sequence[str]]
"""Corruptions by name of a category or benchmark."""

Facts = dict[str, Any]
"""Results, or a part of them, as built-in types that can be written as JSON."""


@dataclass(frozen=True)
class SelectionSettings:
    """The settings of an analysis.

    Attributes:
        normalised: Whether overlaps divide accuracies by the clean accuracy of the model.
        threshold: Mean correlation within categories that must be exceeded, -1..1.
        benchmarks: Benchmarks that the user chose.
        sizes: Sizes of random benchmarks. Default: those of the paper that are possible.
        count: Number of random benchmarks of each size.
        seed: Seed of categories and random benchmarks.
    """

    normalised: bool = True
    threshold: float = 0.5
    benchmarks: Members = field(default_factory=dict)
    sizes: Sequence[Size] = ()
    count: int = 1000
    seed: int = 0


def analyse(
    settings: SelectionSettings,
    trained: tuple[Sequence[str], Floats] | None = None,
    measured: Measurements | None = None,
    members: Members | None = None,
    warnings: Sequence[str] = (),
    on_step: Callable[[str], None] = lambda step: None,
) -> Facts:
    """Return the analysis of candidates, the content of ``selection.json``.

    Args:
        settings: Settings.
        trained: Names and accuracies of models trained with corruptions, as ``read_trained`` returns them.
        measured: Accuracies of models on candidates and natural images.
        members: Categories. Default: those of the overlaps; without overlaps, benchmarks have no categories.
        warnings: Warnings about the input.
        on_step: Called with each step before it begins.

    Returns:
        ``settings``, ``models``, ``overlaps`` (names and scores), ``categories`` (members and correlations of pairs),
        ``benchmarks`` (the chosen ones), ``by_size`` and ``by_spread`` (predictions), and ``warnings``. What needs data
        that was not given is None or empty.

    Raises:
        UserError: There is nothing to analyse, a corruption is unknown, or a value is undefined.
    """
    pool, scores = list(trained[0] if trained else measured.names if measured else ()), None
    if not pool:
        raise UserError(
            "nothing to analyse: give --trained, or accuracies of several models on candidates and natural images "
            "(evaluations, or --candidates and --natural)"
        )
    if trained:
        listed = ", ".join(f"{index} {name}" for index, name in enumerate(pool))
        with _explained(f"no overlaps of the corruptions {shown(listed)}"):
            scores = measures.overlap_scores(trained[1], settings.normalised)
        if members is None:
            with _explained("no categories (--categories gives them, --threshold changes the threshold)"):
                found = measures.categories(
                    scores,
                    settings.threshold,
                    settings.seed,
                    lambda count: on_step(f"grouping {len(pool)} corruptions into {count} categories ..."),
                )
            members = {str(number): [pool[each] for each in group] for number, group in enumerate(found, 1)}
    groups = [
        indices(names, pool, "--trained" if trained else CANDIDATES) for names in (members or {"": pool}).values()
    ]
    by_size = {size: balanced(groups, size, settings) for size in sizes(groups, settings.sizes)}
    published = corruptions.names("syn2nat")
    available = measured.names if measured else pool
    chosen: dict[str, Sequence[str]] = {SYN2NAT: published} if set(published) <= set(available) else {}
    chosen |= settings.benchmarks
    if scores is not None and (several := [size for size in by_size if size[1] > 1]):
        n, k = size = max(several, key=_length)
        best = min(by_size[size], key=lambda each: measures.mean_overlap(each, scores, groups))
        chosen[f"least overlap (n={n}, k={k})"] = [pool[each] for each in best]
    on_step("comparing benchmarks ...")
    facts: Facts = {
        "settings": asdict(settings),
        "models": measured.models if measured else [],
        "overlaps": None if scores is None else {"names": pool, "scores": scores.tolist()},
        "categories": None,
        "benchmarks": [_benchmark(name, names, pool, groups, members, scores) for name, names in chosen.items()],
        "by_size": [],
        "by_spread": [],
        "warnings": warnings,
    }
    if members:
        overlaps = None if scores is None else _pair_correlations(scores, groups)
        facts["categories"] = {"members": members, "overlaps": overlaps, "robustness": None}
    if measured is None:
        return facts
    losses = np.asarray(residual_robustness(measured.clean[:, None], measured.candidates))
    if members:
        of_models = [indices(group, measured.names, CANDIDATES) for group in members.values()]
        facts["categories"]["robustness"] = _pair_correlations(losses.T, of_models)

    def compared(title: str, benchmarks: Sequence[Sequence[str]]) -> Facts:
        columns = [indices(names, measured.names, CANDIDATES) for names in benchmarks]
        return _prediction(title, measures.benchmark_scores(losses, columns), measured)

    def drawn(title: str, benchmarks: Sequence[Indices]) -> Facts:
        return compared(title, [[pool[each] for each in benchmark] for benchmark in benchmarks])

    titles = {(n, k): f"n={n}, k={k}" if members else f"{k} random" for n, k in by_size}
    facts["by_size"] = [
        *(drawn(titles[size], group) for size, group in by_size.items()),
        *(_prediction(name, values[None], measured) for name, values in measured.scores.items()),
        *(compared(name, [names]) for name, names in chosen.items()),
    ]
    facts["by_spread"] = [drawn(value, group) for value, group in spread_groups(groups, settings).items()]
    return facts


def indices(names: Sequence[str], among: Sequence[str], where: str) -> Indices:
    """Return the indices of names among others. Raise UserError if one is unknown."""
    if missing := [name for name in names if name not in among]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"{where} lacks {shown(missing[0])}{more}: add it, or leave it out of categories and benchmarks"
        )
    return tuple(among.index(name) for name in names)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Convert the ValueError of a metric into a UserError."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{what}: {error}") from error


def _pair_correlations(vectors: Floats, groups: Sequence[Indices]) -> Facts | None:
    """Return mean correlations of pairs, None without such pairs; None if a corruption has equal values only."""
    try:
        means = measures.category_correlations(vectors, groups)
    except ValueError:
        return None
    return {kind: None if np.isnan(mean) else mean for kind, mean in zip(("same", "different"), means, strict=True)}


def _benchmark(
    name: str, names: Sequence[str], pool: Sequence[str], groups: Sequence[Indices], members: Any, scores: Floats | None
) -> Facts:
    """Return a chosen benchmark; without a spread or an overlap where a corruption is in no category."""
    facts: Facts = {"name": name, "corruptions": names, "spread": None, "overlap": None}
    if members and set(names) <= {pool[each] for group in groups for each in group}:
        benchmark = indices(names, pool, name)
        overlap = np.nan if scores is None else measures.mean_overlap(benchmark, scores, groups)
        facts |= {"spread": measures.spread(benchmark, groups), "overlap": None if np.isnan(overlap) else overlap}
    return facts


def _prediction(title: str, scores: Floats, measured: Measurements) -> Facts:
    """Return how well scores (B, M) predict natural robustness on average: correlations and p-values by natural set."""
    found = {}
    for name, natural in measured.natural.items():
        with _explained(f"{title} on {shown(name)}"):
            found[name] = measures.score_predictiveness(measured.clean, natural, scores)
    correlations, p_values = ({name: pair[at] for name, pair in found.items()} for at in (0, 1))
    return {"title": title, "benchmarks": len(scores), "correlations": correlations, "p_values": p_values}


# Random benchmarks


def sizes(categories: Sequence[Indices], wanted: Sequence[Size] = ()) -> list[Size]:
    """Return the sizes of random benchmarks of categories, of which a single one stands for no categories.

    Default: the possible ones of the paper, and those of all categories; without categories, the numbers of corruptions
    of the paper. Raise UserError if a chosen size is impossible.
    """
    if impossible := [size for size in wanted if not _is_possible(size, categories)]:
        n, k = impossible[0]
        lengths = ", ".join(str(len(members)) for members in categories)
        raise UserError(f"the size {n}x{k} is impossible, since the categories have {lengths} corruptions: use another")
    single = len(categories) == 1
    usual = [(1, each) for each in LENGTHS] if single else [*SIZES, *((len(categories), k) for k in PER_CATEGORY)]
    return list(wanted) or sorted({size for size in usual if _is_possible(size, categories)}, key=_length)


def _length(size: Size) -> Size:
    return size[0] * size[1], size[0]


def _is_possible(size: Size, categories: Sequence[Indices]) -> bool:
    n, k = size
    return 1 <= n <= sum(len(members) >= k for members in categories) and k >= 1


def balanced(categories: Sequence[Indices], size: Size, settings: SelectionSettings) -> list[Indices]:
    """Return different random benchmarks of a size: as many as wanted, and fewer if there are fewer."""
    n, k = size
    ways = [1] + [0] * n  # number of different benchmarks by number of categories
    for members in categories:
        ways = [1, *(ways[i] + ways[i - 1] * comb(len(members), k) for i in range(1, n + 1))]
    rng, wanted = np.random.default_rng([settings.seed, *size]), min(settings.count, ways[n])
    found: dict[Indices, None] = {}
    for _ in range(DRAWS * wanted):
        if len(found) == wanted:
            break
        found[measures.balanced_benchmark(categories, n, k, rng)] = None
    return list(found)


def spread_groups(categories: Sequence[Indices], settings: SelectionSettings) -> Mapping[str, list[Indices]]:
    """Return random benchmarks by spread, rounded to one decimal as in the paper's table 3.

    Balanced benchmarks of all categories are made less balanced by one to five substitutions. Spreads with few
    benchmarks are left out. There are no groups for a single category, or for one with a single corruption.
    """
    size = len(categories), SUBSTITUTED_LENGTH
    if len(categories) == 1 or not _is_possible(size, categories):
        return {}
    even = balanced(categories, size, settings)
    groups: dict[str, dict[Indices, None]] = {f"{0:.1f}": dict.fromkeys(even)}
    rng = np.random.default_rng([settings.seed, *size, SUBSTITUTIONS])
    for each in even:
        current = each
        for _ in range(SUBSTITUTIONS):
            current = measures.substituted(current, categories, rng)
            groups.setdefault(f"{measures.spread(current, categories):.1f}", {})[current] = None
    listed = sorted((name for name in groups if len(groups[name]) > LEAST_PART * len(even)), key=float)
    return {name: list(groups[name]) for name in listed}
