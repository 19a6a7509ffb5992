"""The report on streams: errors of a model that may adapt, by condition, by visit and over time."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow.parquet as pq

from pipeline.errors import UserError
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.join import Images
from pipeline.evaluate.report.load import Evaluation, reading
from pipeline.evaluate.report.measures import FamilyReport, Measure, Metric, Pivot, Results, TransformNames
from pipeline.evaluate.report.views import PLAIN, Column, Table
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, StreamTable
from pipeline.loaders.order import cut, label_facts
from pipeline.loaders.orders import CANONICAL
from pipeline.loaders.protocols import CCC, PROTOCOLS, PUBLISHED_SEVERITY
from pipeline.text import printable

WINDOW, MIN_WINDOWS = 50_000, 10
"""Samples in a window, and the number of windows below which there are 20 smaller ones."""

MAX_WINDOWS = 10_000  # maximum number of windows of a stream
PUBLISHED_LENGTH = 7_500_000  # images of the published streams of CCC
ERROR = Metric("error over all samples", -1)
PER_CONDITION = Metric("mean error over conditions", -1)
PER_LABEL = Metric("mean error over labels in each condition", -1)
LAST_VISIT = Metric("error of the last visit", -1)
RUN = Metric("mean run of equal labels", 0, "samples", PLAIN)
IN_BATCH = Metric("labels in a batch", 0, "labels", PLAIN)
BY_CONDITION = Metric("error in the stream", -1)
BY_VISIT = Metric("error by visit", -1)
OVER_TIME = Metric("error over time", -1)


def _protocol(stream: StreamTable, parameters: Mapping[str, str | int | float | bool]) -> str:
    """Return the name of a protocol, and the parameters that differ from the published ones."""
    defaults = PROTOCOLS[stream.protocol].defaults if stream.protocol in PROTOCOLS else {}
    published = {**defaults, "severity": defaults.get("severity") or PUBLISHED_SEVERITY}
    given = (f"{key} {value}" for key, value in parameters.items() if value != published.get(key))
    return ", ".join([stream.protocol, *given])


def measure(evaluation: Evaluation, context: Context, window: int = 0) -> Iterator[Results]:
    """Yield the results of an evaluation in the order of a protocol; none if it has no order. ``window`` 0 chooses.

    Values have no intervals, because predictions depend on the samples before.
    """
    stream, batch = evaluation.table.stream, evaluation.table.run.batch
    if stream is None:
        return
    with reading(evaluation.folder):
        names = ["source_id", "transform", "level", "label", "top1", "source_digest"]
        table = pq.read_table(evaluation.store.path(PREDICTIONS_FILE), columns=names)
    labels = table["label"].to_numpy()
    if len(labels) != sum(stream.entries) or not len(labels):
        raise evaluation.damaged_error(f"it has {len(labels)} rows, but the stream {sum(stream.entries)} samples")
    wrong = (table["top1"].to_numpy() != labels).astype(np.float64)
    levels = [None] * len(labels) if stream.protocol == CCC else table["level"].to_pylist()
    pairs = list(zip(table["transform"].to_pylist(), levels, strict=True))
    conditions = list(dict.fromkeys(pairs))
    number = {pair: place for place, pair in enumerate(conditions)}
    which = np.array([number[pair] for pair in pairs])
    entry = np.repeat(np.arange(len(stream.entries)), stream.entries)
    visit = _visits(which, entry)
    sizes = [len(labels)] if stream.parameters.get("across") else stream.entries
    run, in_batch = label_facts(labels, cut(sizes, batch))
    if not window:
        window = WINDOW if len(wrong) >= MIN_WINDOWS * WINDOW else max(-(-len(wrong) // 20), batch)
    if len(wrong) > MAX_WINDOWS * window:
        least = -(-len(wrong) // MAX_WINDOWS)
        raise UserError(f"invalid window {window} for {len(wrong):,} samples: use {least:,} or more")
    errors = _means(wrong, which)
    by_label = [_means(wrong[which == place], labels[which == place]).mean() for place in range(len(conditions))]
    visits = _means(wrong, visit)
    values = [
        (ERROR, wrong.mean()),
        (PER_CONDITION, errors.mean()),
        (PER_LABEL, np.mean(by_label)),
        *([(LAST_VISIT, visits[-1])] if len(visits) > 1 else []),
        (RUN, run),
        (IN_BATCH, in_batch),
    ]
    measures = [Measure(metric.name, float(value), images=len(wrong)) for metric, value in values]
    measures += [
        Measure(BY_CONDITION.name, float(error), transform=transform, level=level)
        for (transform, level), error in zip(conditions, errors, strict=True)
    ]
    if len(visits) > 1:
        measures += [Measure(BY_VISIT.name, float(error), level=place) for place, error in enumerate(visits, 1)]
    for start in range(0, len(wrong), window):
        part = wrong[start : start + window]
        measures.append(Measure(OVER_TIME.name, float(part.mean()), level=start + len(part), images=len(part)))
    ids, first = np.unique(table["source_id"].to_numpy(zero_copy_only=False), return_index=True)
    digests = table["source_digest"].to_numpy()[first]
    images = Images(tuple(ids.tolist()), labels[first].astype(np.int32), digests)
    results = context.results(
        REPORT,
        evaluation,
        images,
        measures=measures,
        counts={"samples": (len(wrong), 0), "images": (len(ids), 0)},
        transforms={name: TransformNames("all transforms") for name, _ in conditions},
        published=_published(evaluation, stream, conditions),
        details={"stream": stream.model_dump(mode="json", exclude_none=True), "window": window},
    )
    title = f"{results.data_set}, stream {_protocol(stream, stream.parameters)}, seed {stream.seed}"
    alike = {name: value for name, value in stream.parameters.items() if name not in ("order", "speed")}
    results.details.update(streamed=results.data_set, alike=_protocol(stream, alike))
    yield replace(results, section=title, data_set=title)


def _means(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the mean of each group that has values."""
    _, groups = np.unique(groups, return_inverse=True)
    return np.bincount(groups, values) / np.bincount(groups)


def _visits(which: np.ndarray, entry: np.ndarray) -> np.ndarray:
    """Return the number of the visit of each sample: how many entries before its own show the same conditions."""
    starts = np.flatnonzero(np.diff(entry, prepend=-1))
    before = defaultdict[frozenset[int], Iterator[int]](count)
    visits = [next(before[frozenset(part.tolist())]) for part in np.split(which, starts[1:])]
    return np.repeat(visits, np.diff([*starts, len(entry)]))


def _published(evaluation: Evaluation, stream: StreamTable, conditions: Sequence[tuple[str, int | None]]) -> str:
    """Return the name of the stream in the table of published figures; empty if it is another one."""
    if stream.protocol == CCC:
        whole = evaluation.table.labels == 1000 and sum(stream.entries) >= PUBLISHED_LENGTH
        return f"stream ccc {stream.parameters['baseline']}" if whole else ""
    if {*conditions} != {(name, 5) for name in CANONICAL} or evaluation.table.labels != 1000:
        return ""
    return f"stream {stream.protocol}"


def _over_seeds(found: Sequence[Results]) -> Iterable[Table]:
    """Yield the mean and standard deviation over streams that differ in seed, order or speed only."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for each in found:
        key = (each.model, each.details["streamed"], each.details["alike"])
        groups.setdefault(key, []).extend(one.value for one in each.measures if one.metric == ERROR.name)
    rows = [
        [*map(printable, key), str(len(values)), f"{statistics.mean(values):.2%}", f"{statistics.stdev(values):.2%}"]
        for key, values in groups.items()
        if len(values) > 1
    ]
    titles = ("model", "data set", "protocol", "streams", "mean error", "standard deviation")
    note = "Error over all samples; mean and standard deviation over seeds, orders of conditions and speeds."
    if rows:
        columns = [Column(title, number=place > 2) for place, title in enumerate(titles)]
        yield Table("Streams", "error over several streams", note, columns, rows)


REPORT = FamilyReport(
    family="streams",
    key="streams",
    measure=measure,
    metrics=(ERROR, PER_CONDITION, PER_LABEL, LAST_VISIT, RUN, IN_BATCH, BY_CONDITION, BY_VISIT, OVER_TIME),
    leads=(ERROR.name,),
    note="Errors in percent, of a model that may adapt, in the order of the stream. Lower is better. A model that does "
    "not adapt has the same error in every order without repeats.",
    tables=(
        Pivot(
            "error by condition",
            [BY_CONDITION.name],
            "Percent, over all visits of a condition.",
            rows="transform, model",
            columns="level",
            level="level ",
        ),
        Pivot(
            "error by visit",
            [BY_VISIT.name],
            "Percent, over all conditions of a visit.",
            rows="level",
            head=["visit"],
            plot="lines",
        ),
        Pivot(
            "error over time",
            [OVER_TIME.name],
            "Percent, in windows of equally many samples, which end at the given sample of the stream.",
            rows="level",
            head=["samples"],
            plot="lines",
        ),
    ),
    joint=_over_seeds,
    glossary={
        "Stream": "Images in the order of a protocol, for models that adapt at test time. The mean run of equal labels "
        "and the number of labels in a batch tell how much labels are correlated."
    },
    sources=(
        "Döbler et al., arXiv 2211.13081 (test-time-adaptation: published figures of continual and mixed)",
        "Hoang et al., arXiv 2311.18193 (PeTTA: recurring)",
        "Niu et al., arXiv 2302.12400 (SAR: label shift; accuracies are shown as errors)",
    ),
)
