"""The report on evaluations and searches: their results, the tidy table of all measures, and the document."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import UserError
from pipeline.evaluate.metrics.bootstrap import RESAMPLES
from pipeline.evaluate.report import across, combine, comparison, subject
from pipeline.evaluate.report.context import Context
from pipeline.evaluate.report.families import budgets, detection, report_on, reports, streams
from pipeline.evaluate.report.load import BudgetSearch, Evaluation, Tested, open_evaluation, open_folders, reading
from pipeline.evaluate.report.measures import Facts, FamilyReport, Results, Section, is_whole, row, table_of
from pipeline.evaluate.report.pivots import cell
from pipeline.evaluate.report.real_labels import find_real_labels, read_real_labels
from pipeline.evaluate.report.sections import sections_of, tables_of
from pipeline.evaluate.report.settings import ReportSettings
from pipeline.evaluate.report.views import Chapter, Document, Headline, Table
from pipeline.evaluate.results.folder import PREDICTIONS_FILE, pixels_changed
from pipeline.software import versions
from pipeline.storage import Store
from pipeline.text import LONGEST_MESSAGE, printable

BASELINE: Mapping[str, str] = {
    "Baseline": "In normalised metrics, a model's results are divided by those of the baseline. Default: the published "
    "results of AlexNet, for models of 1000 classes on images of 224 \u00d7 224 pixels."
}


@dataclass(frozen=True)
class ReportData:
    """The contents of a report."""

    results: Sequence[Results]
    warnings: Sequence[str]
    models: Sequence[comparison.ReportModel]
    published: Sequence[across.PublishedFigure]  # of reference models on the same data sets
    provenance: Mapping[str, str]  # how the values came about
    folders: Sequence[tuple[str, str, Store]] = ()  # model, name of the data set, and folder of each evaluation

    @cached_property
    def sections(self) -> list[Section]:
        """The results by data set; models of one data set share a section."""
        return sections_of(self.results)

    @cached_property
    def rankings(self) -> list[across.Ranking]:
        """The ranks of the models on each data set that at least two can be compared on."""
        found = (across.ranking(section, across.leading_metric(section)) for section in self.sections)
        return list(filter(None, found))

    def rows(self) -> Iterator[Facts]:
        """Yield the rows of the tidy table: measures, counts, sizes of models, ranks, published figures."""
        yield from table_of(self.results)
        for model in self.models:
            for attribute, _ in comparison.SIZES.values():
                if (size := getattr(model, attribute)) is not None:
                    name = attribute.replace("_", "-")
                    yield row(model=model.name, family="models", metric=name, value=size, unit="count")
        for each in self.rankings:
            where = {"data_set": each.section.title, "family": each.section.report.key, "unit": "rank"}
            for name, (first, last) in each.ranks.items():
                rank = f"rank by {each.metric.name}"
                yield row(**where, model=name, metric=rank, value=(first + last) / 2, low=first, high=last)
        for name, mean in self.mean_ranks.items():
            yield row(model=name, family="comparison", metric="mean rank", value=mean, unit="rank")
        for figure in self.published:
            facts = {key: value for key, value in asdict(figure).items() if key not in ("section", "source")}
            yield row(**facts, data_set=figure.section)

    @property
    def mean_ranks(self) -> dict[str, float]:
        """The mean rank of each model; empty if fewer than two data sets have all models."""
        models = dict.fromkeys(model for each in self.sections for model in each.models)
        complete = [each for each in self.rankings if each.ranks.keys() == models.keys()]
        return {
            model: float(np.mean([each.ranks[model] for each in complete])) for model in models if len(complete) > 1
        }

    def figures(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the metrics of whole data sets by model, data set and name; of several levels, those of the lowest."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for each in self.results:
            whole = {measure.metric: measure.value for measure in each.measures if is_whole(measure)}
            found.setdefault(each.model, {}).setdefault(each.data_set, whole)
        return found

    def predictions(self) -> pa.Table:
        """Return the predictions of all evaluations, with dictionary-encoded names of their models and data sets."""
        parts = []
        for model, data_set, store in self.folders:
            part = pq.read_table(store.path(PREDICTIONS_FILE)).replace_schema_metadata(None)
            for name, value in (("data_set", data_set), ("model", model)):
                column = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(part)), [value])
                part = part.add_column(0, name, column)
            parts.append(part)
        return pa.concat_tables(parts, promote_options="default").unify_dictionaries() if parts else pa.table({})

    def facts(self) -> Facts:
        """Return the contents as built-in types that can be written as JSON: the tidy table, grouped by results."""
        return {
            "provenance": dict(self.provenance),
            "warnings": list(self.warnings),
            "results": [_facts(each) for each in self.results],
            "models": [asdict(model) for model in self.models],
            "rankings": [
                {
                    "data_set": each.section.title,
                    "family": each.section.report.key,
                    "metric": each.metric.name,
                    "higher_is_better": each.metric.better > 0,
                    "ranks": each.ranks,
                }
                for each in self.rankings
            ],
            "mean_ranks": self.mean_ranks,
            "published": [asdict(each) for each in self.published],
        }

    def document(self, title: str = "") -> Document:
        """Return the report as it is shown."""
        models = list(dict.fromkeys(model for section in self.sections for model in section.models))
        overview = [
            *comparison.model_table(self.models),
            *comparison.tables(self.sections, self.rankings, self.mean_ranks, self.models, self.published),
        ]
        joint = [
            table
            for report, group in groupby(self.results, key=lambda each: each.report)
            for table in report.joint(list(group))
        ]
        chapters = [
            *_chapters(overview),
            *(Chapter(section.title, tables_of(section, self.published)) for section in self.sections),
            *_chapters(joint),
        ]
        used = list({each.report.key: each.report for each in self.results}.values())
        calibrated = any(report.calibrated for report in used)
        glossaries = [BASELINE] if any(report.normalised_note for report in used) else []
        glossaries += [report.glossary for report in used] + [subject.GLOSSARY] * calibrated
        sources = subject.SOURCES if calibrated else ()
        return Document(
            printable(title),
            [printable(warning, LONGEST_MESSAGE) for warning in self.warnings],
            models,
            {printable(model.name): printable(model.note, LONGEST_MESSAGE) for model in self.models if model.note},
            {model: list(_headlines(self.sections, model)) for model in models},
            len(self.sections),
            chapters,
            [*chain.from_iterable(each.items() for each in glossaries)],
            list(dict.fromkeys([*(each for report in used for each in report.sources), *sources])),
            list(self.provenance.items()),
        )


def _facts(results: Results) -> Facts:
    """Return results as built-in types; the columns that all rows of the tidy table share are given once."""
    shared = ("model", "data_set", "family", "pixel_root")
    rows = [{key: value for key, value in row.items() if key not in shared} for row in table_of([results])]
    names = (
        *("section", "data_set", "model", "baseline", "clean_images"),
        *("manifest_sha256", "pixel_root", "source_ids_sha256"),
    )
    return {
        "family": results.report.key,
        **{name: getattr(results, name) for name in names},
        **results.details,
        "measures": rows,
    }


def _chapters(tables: Iterable[Table]) -> Iterator[Chapter]:
    """Yield the chapters of tables that are not about one data set."""
    for title, group in groupby((table for table in tables if table.rows), key=lambda table: table.section):
        yield Chapter(title, list(group))


def _headlines(sections: Iterable[Section], model: str) -> Iterator[Headline]:
    """Yield the most important metric of a model on each data set."""
    for section in sections:
        results = section.models.get(model)
        lead = next((name for name in section.report.leads if results and results.whole(name)), None)
        if results is None or lead is None:
            continue
        metric, measure = section.report.metric(lead), results.whole(lead)
        number = cell(results, metric, measure)
        part = (measure.covers if measure else "") or across.missing_images(results)
        baseline = printable(results.baseline) if metric.normalised else ""
        yield Headline(section.title, lead, number, baseline, part, results.clean_images if number.lossy else "")


def make_report(
    settings: ReportSettings, *, resamples: int = RESAMPLES, command: str = "", temporary: Collection[str] = ()
) -> ReportData:
    """Compute the metrics of one or more evaluations.

    An evaluation on clean images provides the clean error of its model for its other evaluations.

    Args:
        settings: Evaluations, and how they are compared.
        resamples: Number of bootstrap draws.
        command: Command that made the report; empty for none.
        temporary: Locations of folders that messages call by what is in them.

    Raises:
        UserError: If a folder has no evaluation, a family has no report, two models have the same name, a model was
            evaluated twice on one data set, two evaluations could give the same clean error, the baseline has other
            images, the reassessed labels are invalid or do not fit, or a name to replace is unknown or invalid.
        UnfinishedError: If an evaluation is incomplete.
    """
    baseline = [open_evaluation(folder) for folder in settings.baseline]
    evaluations, searches = open_folders(settings.evaluations)
    chosen = [_open_clean(folder) for folder in settings.clean]
    warnings: list[str] = []
    tested = [*evaluations, *searches, *chosen, *baseline]
    names = combine.model_names(tested, settings.rename or {}, warnings.append)
    manifests = combine.manifests_of_content([*evaluations, *baseline, *chosen])
    evaluations, baseline, chosen = (
        [combine.as_built(combine.renamed(each, names, temporary), manifests) for each in group]
        for group in (evaluations, baseline, chosen)
    )
    searches = [combine.renamed(each, names) for each in searches]
    added = {each.location: each for each in chosen}
    given = {each.location for each in (*evaluations, *baseline)}
    evaluations += [each for location, each in added.items() if location not in given]
    found = [report_on(each.table.data_set.family, each.table.task) for each in evaluations]
    combine.check_model_names([*evaluations, *searches, *baseline])
    combine.check_duplicates(evaluations)
    _check_effects(settings, evaluations, found)
    labels = find_real_labels() if settings.real is None else read_real_labels(settings.real)
    context = Context(evaluations, baseline, added.keys(), resamples, labels)
    for warning in warnings:
        context.warn(warning)
    results: list[Results] = []
    seen = set[tuple[str, str]]()
    for evaluation, report in zip(evaluations, found, strict=True):
        stream, key = evaluation.table.stream, (evaluation.model, evaluation.table.data_set.manifest_sha256)
        if stream:
            results += streams.measure(evaluation, context, settings.window)
        if not stream or not (stream.repeats or key in seen):
            results += report.measure(evaluation, context)
        seen.add(key)
    several = list(across.natural_robustness(results))
    results += budgets.measure_searches(searches, resamples)
    results += detection.measure_files(settings.results)
    order = list(reports())
    results = sorted(results, key=lambda each: order.index(each.report.key)) + several
    combine.warn_of_different_images(evaluations, context.images, context.warn)
    for evaluation in evaluations:
        _warn_of_samples(evaluation, context)
    figures = list(across.published_figures(sections_of(results))) if settings.published else []
    models = comparison.models_of(each.table.model for each in (*evaluations, *searches))
    provenance = _provenance(evaluations, baseline, searches, resamples, command)
    provenance |= {f"results {printable(path)}": "performance as given" for path in settings.results}
    return ReportData(results, context.merged_warnings(), models, figures, provenance, context.folders())


def _check_effects(settings: ReportSettings, evaluations: Sequence[Evaluation], found: Sequence[FamilyReport]) -> None:
    """Raise UserError if a setting has no effect on any evaluation."""
    if settings.window and not any(each.table.stream for each in evaluations):
        raise UserError(f"invalid window {settings.window}: no evaluation is of a stream; omit it")
    reassessed = any(of.reassessed and not each.groups_digest for each, of in zip(evaluations, found, strict=True))
    if settings.real is not None and not reassessed:
        raise UserError(
            f"--real {settings.real} has no effect, because no evaluation is on validation images of ImageNet, clean "
            "or with corruptions: omit it, or add such an evaluation"
        )


def _open_clean(folder: str) -> Evaluation:
    """Open an evaluation on clean images. Raise UserError if its images are not clean."""
    evaluation = open_evaluation(folder)
    if evaluation.role != "clean":
        images = f"of the role {evaluation.role!r}" if evaluation.role else "with a transform"
        raise UserError(f"{evaluation.folder} has images {images}: choose an evaluation on clean images")
    return evaluation


def _warn_of_samples(evaluation: Evaluation, context: Context) -> None:
    """Warn of samples that failed, or that decoded to other pixels than when they were built."""
    with reading(evaluation.folder):
        changed, checked = pixels_changed(evaluation.store)
    if changed:
        context.warn(
            f"{evaluation.folder}: {changed:,} of {checked:,} checked samples were decoded to other pixels than when "
            "they were built, because the decoder differs: results may differ too"
        )
    if failed := evaluation.table.data_set.failed:
        context.warn(f"{evaluation.folder}: {failed:,} samples of the data set failed to build and are not included")


def _provenance(
    evaluations: Sequence[Evaluation],
    baseline: Sequence[Evaluation],
    searches: Sequence[BudgetSearch],
    resamples: int,
    command: str,
) -> dict[str, str]:
    """Return facts on how the values of a report came about, by name."""
    facts = {
        "software": ", ".join(f"{name} {version}" for name, version in versions().items()),
        **({"command": printable(command, LONGEST_MESSAGE)} if command else {}),
        "confidence intervals": f"bootstrap over images, {resamples:,} draws, seed 0",
    }
    tested: Sequence[Tested] = (*baseline, *evaluations, *searches)
    roles = {each.location: "budgets, " for each in searches} | {each.location: "baseline, " for each in baseline}
    for location, each in {each.location: each for each in tested}.items():
        table, role = each.table, roles.get(location, "")
        data_set, run = table.data_set, table.run
        how = f"predictions given, {run.predictions[:12]}" if run.predictions else ""
        facts[f"{role}{each.model} on {printable(data_set.name)}"] = (
            f"{data_set.samples:,} samples, {data_set.failed:,} failed, {each.encoded}, "
            f"seed {'unknown' if data_set.seed is None else data_set.seed}; recipe and images "
            f"{(data_set.content_sha256 or 'unknown')[:12]}; manifest {data_set.manifest_sha256[:12]}; "
            f"pixel root {data_set.pixel_root or 'unknown'}; "
            + (how or f"weights {table.model.digest[:12]}; batch {run.batch}, {run.precision}, {run.device}")
        )
    return facts
