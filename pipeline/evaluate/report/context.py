"""The state that the results of one report share: clean images, baseline, bootstrap, warnings."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pipeline.errors import UserError
from pipeline.evaluate.metrics.arrays import Floats
from pipeline.evaluate.report.combine import check_baseline, display_names, identity, mistaken_for
from pipeline.evaluate.report.join import (
    Conflict,
    Images,
    Match,
    Rows,
    Scores,
    Untransformed,
    Warn,
    condition_scores,
    differing_settings,
    digest_of_ids,
    join,
    label_conflict,
    list_names,
    match,
    read_untransformed,
    unfit,
)
from pipeline.evaluate.report.load import LOSSY, Evaluation, Flags
from pipeline.evaluate.report.measures import FamilyReport, Results
from pipeline.evaluate.report.real_labels import RealLabels, Reason
from pipeline.recipes.attacks import AttackedModel
from pipeline.storage import Store
from pipeline.text import printable
from pipeline.transforms.family import Condition


@dataclass(frozen=True)
class CleanError:
    """The clean errors of the images of a data set that have a clean version."""

    errors: Flags  # whether the clean version of each is misclassified, (len(rows),)
    rows: Rows  # of these images
    shortcuts: Floats | None  # probability of the class that a shortcut leads to; None if it was not recorded
    encoded: str  # how the clean images are stored

    @property
    def value(self) -> float:
        """The clean error."""
        return float(self.errors.mean())


class Context:
    """The shared state of a report, with its warnings and the images of each evaluation, by its location."""

    def __init__(
        self,
        evaluations: Sequence[Evaluation],
        baseline: Sequence[Evaluation],  # of the model that metrics are normalised by; empty if none was given
        chosen: Collection[str],  # locations of the evaluations on clean images to use if several are possible
        resamples: int,  # number of bootstrap draws
        real: RealLabels | Reason,
    ) -> None:
        self.evaluations, self.baseline, self.chosen = evaluations, baseline, chosen
        self.resamples, self.warnings, self.real = resamples, list[str](), real
        check_baseline(baseline)
        self._names = display_names(evaluations, self.warn)
        self.clean = {each.location: read_untransformed(each) for each in evaluations if each.role == "clean"}
        self.clean_of_baseline = [read_untransformed(each) for each in baseline if each.role == "clean"]
        self._check_clean()
        for each in (*self.clean.values(), *self.clean_of_baseline):
            if each.evaluation.encoded.endswith(LOSSY):
                self.warn(
                    f"{each.evaluation.folder}: its clean images were compressed again, {each.evaluation.encoded}, so "
                    "clean errors are too high, and relative mCE, residual robustness and drops too small: for figures "
                    "to publish, build the clean images without loss"
                )
        self._mistaken = {each.evaluation.location for each in self.clean.values() if self._may_be_mistaken(each)}
        self._photographs: dict[str, Images] = {}
        self.images: dict[str, Images] = {location: each.images for location, each in self.clean.items()}

    def warn(self, text: str) -> None:
        """Add a warning, unless the report already has it."""
        if text not in self.warnings:
            self.warnings.append(text)

    def merged_warnings(self) -> list[str]:
        """Return the warnings, those of several evaluations as one."""
        folders = {each.folder for each in self.evaluations}
        alike: dict[str, list[str]] = {}
        for warning in self.warnings:
            folder, _, text = warning.partition(": ")
            alike.setdefault(text if folder in folders else warning, []).extend(folders & {folder})
        return [f"{', '.join(several)}: {text}" if several else text for text, several in alike.items()]

    def folders(self) -> list[tuple[str, str, Store]]:
        """Return the model, the data set as the report names it, and the folder of each evaluation."""
        return [(each.table.model.name, self._names[each.location], each.store) for each in self.evaluations]

    def results(self, report: FamilyReport, evaluation: Evaluation, images: Images, **fields: Any) -> Results:
        """Return results with the fields that all families take from their evaluation, and record the images.

        ``fields`` are further ones, or replace these. ``counts`` precede the number of failed samples; the number of
        ``images``, which the measures are computed on, is the only one by default.
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

    def baseline_values(
        self,
        evaluation: Evaluation,
        scores: Scores,
        benchmark: Collection[str],  # transforms that means are over; over all if there are none of them
        read: Callable[[Evaluation], Scores | None] = condition_scores,
    ) -> tuple[Evaluation, dict[Condition, Floats]] | None:
        """Return an evaluation of the baseline, and its values of each column that it has, for the images of another.

        The values are (images, ...). None if the baseline has none of them, that is if ``read`` returns None.

        Raises:
            UserError: If no evaluation of the baseline has the same profile, images and labels, if two have the same
                column, or if a column is missing that a mean needs.
        """
        family, digest = evaluation.table.data_set.family, evaluation.groups_digest
        same = [each for each in self.baseline if (each.table.data_set.family, each.groups_digest) == (family, digest)]
        name = self.baseline[0].table.model.name
        if not same:
            self.warn(
                f"{evaluation.folder}: the baseline {name!r} has no evaluation of {family}, so its metrics are not "
                "normalised"
            )
        candidates = [(each, found) for each in same if (found := read(each))]
        if not candidates:
            return None
        columns: dict[Condition, tuple[Evaluation, Floats]] = {}
        reasons: list[str] = []
        for other, other_scores in candidates:
            common = match(scores.images, other_scores.images)
            if reason := _mismatch(evaluation, scores, other, other_scores, common):
                reasons.append(reason)
                continue
            if len(other_scores.images.ids) > len(common.rows):
                self.warn(
                    f"{evaluation.folder}: the baseline uses its {len(common.rows):,} images only; {other.folder} has "
                    f"{len(other_scores.images.ids):,}"
                )
            for column, key in enumerate(other_scores.keys):
                if key in columns and key in scores.keys:
                    raise UserError(
                        f"{evaluation.folder}: {columns[key][0].folder} and {other.folder} both contain the baseline "
                        f"of {key}: give one of them"
                    )
                columns[key] = other, other_scores.values[common.others, column]
        if not columns:
            raise UserError(
                f"the baseline {name!r} does not match {evaluation.folder}: {'; '.join(reasons)}; evaluate the "
                "baseline on the same data set"
            )
        missing = [key for key in scores.keys if key not in columns]
        counted = [key for key in scores.keys if key.transform in benchmark] or scores.keys
        needed = [key for key in missing if key in counted]
        what = f"the baseline {name!r} lacks {list_names([str(key) for key in needed or missing])}"
        if needed:
            raise UserError(
                f"{evaluation.folder}: {what}, so means cannot be normalised: evaluate the baseline on the same data "
                "set"
            )
        if missing:
            self.warn(f"{evaluation.folder}: {what}, so these are not normalised")
        values = {key: columns[key][1] for key in scores.keys if key in columns}
        return columns[next(iter(values))][0], values

    def clean_error(
        self,
        evaluation: Evaluation,
        images: Images,
        candidates: Sequence[Untransformed] | None = None,  # default: those of the evaluated model
        warn: Warn | None = None,  # default: warn in the report
    ) -> CleanError | None:
        """Return the error of a model on the clean versions of images; None if no candidate has them.

        Raises:
            UserError: If several evaluations fit, or if images with the same id have different labels.
        """
        candidates, warn = self._clean_of_model(evaluation) if candidates is None else candidates, warn or self.warn
        joined = [(clean, join(evaluation, images, clean.evaluation, clean.images)) for clean in candidates]
        fits = {clean.evaluation.location: (clean, common) for clean, common in joined if isinstance(common, Match)}
        if not fits:
            reasons = [reason for _, reason in joined if isinstance(reason, str)]
            if conflict := next((each for each in reasons if isinstance(each, Conflict)), None):
                raise UserError(conflict)
            if reasons:
                shown = "; ".join(map(printable, reasons))
                warn(f"{evaluation.folder}: no clean error, so metrics that need it are omitted: {shown}")
            return None
        only = self._only(f"versions of the images of {evaluation.folder}", [clean for clean, _ in fits.values()])
        clean, common = fits[only.evaluation.location]
        _warn_of_clean(evaluation, images, clean, common, warn)
        recorded = clean.predicted.shortcut_probability
        shortcuts = None if recorded is None else recorded[common.others, 0]
        return CleanError(clean.top1_errors[common.others], common.rows, shortcuts, clean.evaluation.encoded)

    def clean_error_of_attacked(
        self, attacked: AttackedModel, evaluation: Evaluation, images: Images
    ) -> CleanError | None:
        """Return the error of the attacked model on the clean versions of adversarial images; None if there is none.

        The model is recognised by its digest, and by its name if several names have this digest.
        """
        same = [clean for clean in self.clean.values() if clean.evaluation.table.model.digest == attacked.digest]
        named = [clean for clean in same if clean.evaluation.table.model.name == attacked.name]
        return self.clean_error(evaluation, images, named or same, lambda text: None)

    def _only(self, what: str, fits: Sequence[Untransformed]) -> Untransformed:
        """Return the only evaluation that fits, or the chosen one. Raise UserError if several are left."""
        left = [clean for clean in fits if clean.evaluation.location in self.chosen] or fits
        if len(left) > 1:
            folders = " and ".join(clean.evaluation.folder for clean in left)
            which = "both" if len(left) == 2 else "all"
            raise UserError(f"{folders} {which} have clean {what}: give one of them, or choose one with --clean FOLDER")
        return left[0]

    def _check_clean(self) -> None:
        """Raise UserError if two evaluations of a model can give the clean error of the same images."""
        for one, other in combinations(self.clean.values(), 2):
            first, second = one.evaluation, other.evaluation
            if first.table.model.name == second.table.model.name:
                common = join(first, one.images, second, other.images)
                if isinstance(common, Match):
                    self._only(f"versions of the same {len(common.rows):,} images by {first.model!r}", [one, other])

    def name_of_attacked(self, attacked: AttackedModel) -> str:
        """Return the printable name of the attacked model: that of an evaluation of it, or that in the data set."""
        names = [
            each.model
            for each in self.evaluations
            if (each.table.model.digest, each.table.model.code) == (attacked.digest, attacked.code)
        ]
        recorded = printable(attacked.name)
        return recorded if recorded in names or not names else names[0]

    def clean_counterpart(self, evaluation: Evaluation, metric: str) -> Untransformed | None:
        """Return the same model's evaluation on clean images with the same labels; None if there is none.

        ``metric`` is the one that needs it, for the warning that there is none.

        Raises:
            UserError: If several evaluations fit.
        """
        of_model = self._clean_of_model(evaluation)
        candidates = [clean for clean in of_model if clean.evaluation.location not in self._mistaken]
        if fits := [clean for clean in candidates if not unfit(evaluation, clean.evaluation)]:
            found = self._only(f"images to compare {evaluation.folder} with", fits)
            if differ := differing_settings(evaluation, found.evaluation):
                self.warn(
                    f"{evaluation.folder} and the clean images, {found.evaluation.folder}, were evaluated with "
                    f"different settings: {differ}"
                )
            return found
        if candidates or evaluation.role == "anomalous":
            task = evaluation.table.task
            index = f" (index them with --task {task.name} --role clean)" if task and task.groups else ""
            self.warn(
                f"{evaluation.folder}: no {metric}, because no evaluation of {evaluation.model!r} is on clean images "
                f"with the same labels and profile: evaluate clean images of these classes{index} and add the "
                "evaluation"
            )
        return None

    def _clean_of_model(self, evaluation: Evaluation) -> list[Untransformed]:
        """Return the same model's clean evaluations; warn if the same weights have one under another name only."""
        same_name = [
            clean for clean in self.clean.values() if clean.evaluation.table.model.name == evaluation.table.model.name
        ]
        if not same_name:
            for clean in self.clean.values():
                if identity(clean.evaluation) == identity(evaluation):
                    self.warn(
                        f"{evaluation.folder}: {clean.evaluation.folder} evaluates the same weights under another "
                        f"name, {clean.evaluation.model!r}, so it gives no clean error for {evaluation.model!r}"
                    )
        return same_name

    def _may_be_mistaken(self, clean: Untransformed) -> bool:
        """Return whether images that count as clean may be those of a known set; warn if they may."""
        names, folder = mistaken_for(clean.evaluation, clean.images.labels.tolist()), clean.evaluation.folder
        if not names or clean.evaluation.location in self.chosen:
            return False
        self.warn(
            f"{folder} counts as clean, but it has no task and exactly the classes of {' and '.join(names)}: if it is "
            "that data set, its error rate has no meaning; index it again with --task. If it is clean, choose it with "
            f"--clean {folder}, since other natural images are not compared with it otherwise"
        )
        return True


def _warn_of_clean(evaluation: Evaluation, images: Images, clean: Untransformed, matched: Match, warn: Warn) -> None:
    """Warn of differences between transformed images and the clean images that they are compared with."""
    total, clean_total, common = len(images.ids), len(clean.images.ids), len(matched.rows)
    folder, clean_folder = evaluation.folder, clean.evaluation.folder
    if common < total:
        warn(
            f"{clean_folder} contains only {common:,} of the {total:,} images of {folder}: metrics that need the clean "
            "error use only these"
        )
    elif common < clean_total:
        warn(f"{folder}: the clean error uses its {total:,} images only; {clean_folder} has {clean_total:,}")
    if matched.namesakes:
        warn(f"{folder}: {clean_folder} {matched.difference}")
    if matched.by_position:
        warn(f"{folder}: its images and those of {clean_folder} are matched by their positions in the array files")
    if differ := differing_settings(evaluation, clean.evaluation):
        warn(f"{folder} and its clean images, {clean_folder}, were evaluated with different settings: {differ}")
    if evaluation.table.data_set.profile != clean.evaluation.table.data_set.profile:
        warn(f"{folder} and its clean images, {clean_folder}, may be prepared differently: one has no profile")


def _mismatch(evaluation: Evaluation, scores: Scores, other: Evaluation, other_scores: Scores, common: Match) -> str:
    """Return why the baseline cannot be used: another profile, missing images or other labels; empty if it can."""
    profile, other_profile = evaluation.table.data_set.profile, other.table.data_set.profile
    if profile != other_profile:
        return f"{other.folder} has the profile {other_profile!r} instead of {profile!r}"
    if len(common.rows) < len(scores.images.ids):
        return f"{other.folder} {common.missing(scores.images)}"
    return label_conflict(evaluation, scores.images, other, other_scores.images, common) or ""
