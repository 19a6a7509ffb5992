"""The state that the results of one report share: clean images, baseline, bootstrap, warnings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.report.combine import check_duplicates, display_names, identity
from pipeline.evaluate.report.join import (
    BaselineValues,
    CleanError,
    check_clean,
    clean_counterpart,
    clean_error,
    match,
    match_baseline,
)
from pipeline.evaluate.report.load import LOSSY, Evaluation
from pipeline.evaluate.report.measures import FamilyReport, Results
from pipeline.evaluate.report.real_labels import RealImages, RealLabels, Reason, real_images
from pipeline.evaluate.report.scores import Images, Key, Scores, Untransformed, digest_of_ids, read_untransformed
from pipeline.storage import Store
from pipeline.tasks.library import load, shipped
from pipeline.text import printable


class Context:
    """The shared state of a report.

    Attributes:
        evaluations: All evaluations of the report.
        baseline: Evaluations of the model that metrics are normalised by; empty if none was given.
        chosen: Locations of the evaluations on clean images to use if several are possible.
        resamples: Number of bootstrap draws.
        warnings: Warnings for the reader, without duplicates.
        images: Images of each evaluation, by its location.
    """

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        baseline: Sequence[Evaluation],
        chosen: Collection[str],
        resamples: int,
        real: RealLabels | Reason,
    ) -> None:
        self.evaluations, self.baseline, self.chosen = evaluations, baseline, chosen
        self.resamples, self.warnings, self._real = resamples, list[str](), real
        _check_baseline(baseline)
        self._names = display_names(evaluations, self.warn)
        self._clean = {each.location: read_untransformed(each) for each in evaluations if each.role == "clean"}
        self._clean_of_baseline = [read_untransformed(each) for each in baseline if each.role == "clean"]
        check_clean(self._clean.values(), chosen)
        for each in (*self._clean.values(), *self._clean_of_baseline):
            if each.evaluation.encoded.endswith(LOSSY):
                self.warn(
                    f"{each.evaluation.folder}: its clean images were compressed again, {each.evaluation.encoded}, so "
                    "clean errors are too high, and relative mCE, residual robustness and drops too small: for figures "
                    "to publish, build the clean images without loss"
                )
        self._mistaken = {each.evaluation.location for each in self._clean.values() if self._may_be_mistaken(each)}
        self._photographs: dict[str, Images] = {}
        self.images: dict[str, Images] = {location: each.images for location, each in self._clean.items()}

    def warn(self, text: str) -> None:
        """Add a warning, unless the report already has it."""
        if text not in self.warnings:
            self.warnings.append(text)

    def folders(self) -> list[tuple[str, str, Store]]:
        """Return the model, the data set as the report names it, and the folder of each evaluation."""
        return [(each.table.model.name, self._names[each.location], each.store) for each in self.evaluations]

    def results(self, report: FamilyReport, evaluation: Evaluation, images: Images, **fields: Any) -> Results:
        """Return results with the fields that all families take from their evaluation, and record the images.

        Args:
            report: Report on the family.
            evaluation: The evaluation.
            images: Images that the measures are computed on.
            fields: Further fields of the results. ``counts`` precede the number of failed samples, and ``images`` is
                the first of them by default. The section is titled by the data set by default.
        """
        self.images[evaluation.location] = images
        data_set, name = evaluation.table.data_set, self._names[evaluation.location]
        counts = fields.pop("counts", {"images": (len(images.ids), 0)})
        common = {
            "section": name,
            "data_set": name,
            "model": evaluation.table.model.name,
            "counts": {**counts, "failed": (data_set.failed, 0)},
            "seed": data_set.seed,
            "manifest_sha256": data_set.manifest_sha256,
            "pixel_root": data_set.pixel_root or "",
            "source_ids_sha256": self._digest_of(images),
            "order_sha256": digest_of_ids(images.ids),
        }
        return Results(report, **{**common, **fields})

    def _digest_of(self, images: Images) -> str:
        """Return the digest of the source ids, and of the photographs if others with these ids were seen before."""
        ids = digest_of_ids(sorted(images.ids))
        first = self._photographs.setdefault(ids, images) if images.digests.any() else images
        if not match(images, first).namesakes:
            return ids
        return digest_of_ids(sorted(map(str, zip(images.ids, images.digests.tolist(), strict=True))))

    def clean_images(self, evaluation: Evaluation) -> Untransformed:
        """Return the predictions of an evaluation on clean images."""
        return self._clean[evaluation.location]

    def baseline_values(
        self,
        evaluation: Evaluation,
        scores: Scores[Key],
        read: Callable[[Evaluation], Scores[Key] | None],
        benchmark: Callable[[Key], bool],
    ) -> BaselineValues[Key] | None:
        """Return the values of the evaluated baseline for the images of an evaluation; None if it has none.

        Args:
            evaluation: Evaluation to normalise.
            scores: Its scores.
            read: Reads the scores of an evaluation of the baseline; None if it has none of these.
            benchmark: Returns whether means are over a column.

        Raises:
            UserError: If the evaluations of the baseline do not match.
        """
        family, digest = evaluation.table.data_set.family, evaluation.groups_digest
        same = [each for each in self.baseline if (each.table.data_set.family, each.groups_digest) == (family, digest)]
        name = self.baseline[0].table.model.name
        if not same:
            self.warn(
                f"{evaluation.folder}: the baseline {name!r} has no evaluation of {family}, so its metrics are not "
                "normalised"
            )
            return None
        candidates = [(each, found) for each in same if (found := read(each))]
        return match_baseline(name, evaluation, scores, candidates, benchmark, self.warn) if candidates else None

    def clean_error_of_baseline(self, evaluation: Evaluation, images: Images) -> CleanError | None:
        """Return the clean error of the baseline for some images of one of its evaluations; None if there is none."""
        return clean_error(evaluation, images, self._clean_of_baseline, self.chosen, self.warn)

    def clean_error(self, evaluation: Evaluation, images: Images) -> CleanError | None:
        """Return the error of the same model on the clean versions of some images; None if there are none.

        Raises:
            UserError: If several evaluations fit, or if images with the same id have different labels.
        """
        return clean_error(evaluation, images, self._clean_of_model(evaluation), self.chosen, self.warn)

    def clean_error_of_attacked(self, evaluation: Evaluation, images: Images) -> CleanError | None:
        """Return the error of the attacked model on the clean versions of adversarial images; None if there is none.

        The model is recognised by its digest, and by its name if several names have this digest.

        Raises:
            UserError: If several evaluations fit, or if images with the same id have different labels.
        """
        if evaluation.table.attack is None:
            return None
        attacked = evaluation.table.attack.model
        same = [clean for clean in self._clean.values() if clean.evaluation.table.model.digest == attacked.digest]
        named = [clean for clean in same if clean.evaluation.table.model.name == attacked.name]
        return clean_error(evaluation, images, named or same, self.chosen, lambda text: None)

    def name_of_attacked(self, evaluation: Evaluation) -> str:
        """Return the printable name of the attacked model: that of an evaluation of it, or that in the data set."""
        if evaluation.table.attack is None:
            return ""
        attacked = evaluation.table.attack.model
        names = [
            each.model
            for each in self.evaluations
            if (each.table.model.digest, each.table.model.code) == (attacked.digest, attacked.code)
        ]
        recorded = printable(attacked.name)
        return recorded if recorded in names or not names else names[0]

    def clean_counterpart(self, evaluation: Evaluation, metric: str) -> Untransformed | None:
        """Return the same model's evaluation on clean images with the same labels; None if there is none.

        Args:
            evaluation: Evaluation on other natural images.
            metric: Name of the metric that needs it, for the warning that no evaluation on clean images fits.

        Raises:
            UserError: If several evaluations fit.
        """
        of_model = self._clean_of_model(evaluation)
        candidates = [clean for clean in of_model if clean.evaluation.location not in self._mistaken]
        clean = clean_counterpart(evaluation, candidates, self.chosen, self.warn)
        if clean is None and (candidates or evaluation.role == "anomalous"):
            task = evaluation.table.task
            index = f" (index them with --task {task.name} --role clean)" if task and task.groups else ""
            self.warn(
                f"{evaluation.folder}: no {metric}, because no evaluation of {evaluation.model!r} is on clean images "
                f"with the same labels and profile: evaluate clean images of these classes{index} and add the "
                "evaluation"
            )
        return clean

    def real_images(self, evaluation: Evaluation, images: Images) -> RealImages | None:
        """Return the images of an evaluation that have reassessed labels; None if there are none.

        Raises:
            UserError: If the user gave the labels, and they do not fit the images or the model.
        """
        return real_images(evaluation, images, self._real, self.warn)

    def _clean_of_model(self, evaluation: Evaluation) -> list[Untransformed]:
        """Return the same model's clean evaluations; warn if the same weights have one under another name only."""
        same_name = [
            clean for clean in self._clean.values() if clean.evaluation.table.model.name == evaluation.table.model.name
        ]
        if not same_name:
            for clean in self._clean.values():
                if identity(clean.evaluation) == identity(evaluation):
                    self.warn(
                        f"{evaluation.folder}: {clean.evaluation.folder} evaluates the same weights under another "
                        f"name, {clean.evaluation.model!r}, so it gives no clean error for {evaluation.model!r}"
                    )
        return same_name

    def _may_be_mistaken(self, clean: Untransformed) -> bool:
        """Return whether images that count as clean may be those of a known set; warn if they may."""
        names, folder = _mistaken_for(clean), clean.evaluation.folder
        if not names or clean.evaluation.location in self.chosen:
            return False
        self.warn(
            f"{folder} counts as clean, but it has no task and exactly the classes of {' and '.join(names)}: if it is "
            "that data set, its error rate has no meaning; index it again with --task. If it is clean, choose it with "
            f"--clean {folder}, since other natural images are not compared with it otherwise"
        )
        return True


def _check_baseline(evaluations: Sequence[Evaluation]) -> None:
    """Raise UserError if evaluations of the baseline are of several models, or two are on the same data set."""
    names = sorted({each.model for each in evaluations})
    if len(names) > 1:
        raise UserError(
            f"the baseline evaluations are of {len(names)} models ({', '.join(names)}): give evaluations of one model"
        )
    check_duplicates(evaluations)


def _mistaken_for(clean: Untransformed) -> tuple[str, ...]:
    """Return the shipped tasks whose images these may be: those with the same classes, if the images have no task."""
    table = clean.evaluation.table
    if table.task is not None:
        return ()
    return _tasks_by_classes().get((table.model.classes, frozenset(clean.images.labels.tolist())), ())


@cache
def _tasks_by_classes() -> Mapping[tuple[int, frozenset[int]], tuple[str, ...]]:
    """Return the tasks that have part of the classes, other than clean ones, by number of outputs and classes."""
    tasks: dict[tuple[int, frozenset[int]], tuple[str, ...]] = {}
    for loaded in map(load, shipped()):
        task = loaded.task
        classes = frozenset(chain.from_iterable(task.groups)) or frozenset(loaded.folders.values())
        if task.role != "clean" and len(classes) < task.outputs:
            key = (task.outputs, classes)
            tasks[key] = (*tasks.get(key, ()), task.name)
    return tasks
