"""The state that the evaluations of one report share: clean images, baseline, bootstrap, warnings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.bootstrap import Bootstrap
from pipeline.evaluate.report.baseline import EvaluatedBaseline
from pipeline.evaluate.report.matching import CleanError, clean_error, display_names, identity
from pipeline.evaluate.report.scores import About, Clean, Evaluation, Images, is_clean, read_clean


class ReportContext:
    """The shared state of a report.

    Attributes:
        evaluations: All evaluations of the report.
        evaluated_baseline: The evaluated model that metrics are normalised by; None if none was given.
        resamples: Number of bootstrap draws.
        warnings: Warnings for the reader, without duplicates.
        images: Images of each evaluation, by its location.
    """

    def __init__(self, evaluations: Sequence[Evaluation], baseline: Sequence[Evaluation], resamples: int) -> None:
        self.evaluations, self.resamples = evaluations, resamples
        self.warnings: list[str] = []
        self.evaluated_baseline = EvaluatedBaseline(baseline, self.warn) if baseline else None
        self._names = display_names(evaluations, self.warn)
        self._clean = {each.location: read_clean(each) for each in evaluations if is_clean(each)}
        self.images: dict[str, Images] = {location: each.images for location, each in self._clean.items()}

    @property
    def clean(self) -> list[Clean]:
        """The evaluations on clean images."""
        return list(self._clean.values())

    def warn(self, text: str) -> None:
        """Add a warning, unless the report already has it."""
        if text not in self.warnings:
            self.warnings.append(text)

    def bootstrap(self, values: ArrayLike) -> Bootstrap:
        """Return the column means of per-image values, and the same means in each bootstrap draw of images.

        Args:
            values: Shape (images, columns).
        """
        return Bootstrap.of(values, resamples=self.resamples)

    def about(self, evaluation: Evaluation, images: Images) -> About:
        """Return the fields that a summary takes from its evaluation, and record the images.

        Args:
            evaluation: The evaluation.
            images: Images that the summary's metrics are computed on.
        """
        self.images[evaluation.location] = images
        data_set = evaluation.table.data_set
        ids = hashlib.sha256("\n".join(sorted(images.ids)).encode()).hexdigest()
        name = self._names[evaluation.location]
        return About(evaluation.table.model.name, name, data_set.failed, data_set.manifest_sha256, ids)

    def clean_images(self, evaluation: Evaluation) -> Clean:
        """Return the errors of an evaluation on clean images."""
        return self._clean[evaluation.location]

    def clean_error(self, evaluation: Evaluation, images: Images) -> CleanError | None:
        """Return the error of the same model on the clean versions of some images; None if there are none.

        Raises:
            UserError: If two evaluations fit equally well, or if images with the same id have different labels.
        """
        return clean_error(evaluation, images, self._clean_of_model(evaluation), self.warn)

    def _clean_of_model(self, evaluation: Evaluation) -> list[Clean]:
        """Return the same model's clean evaluations; warn if the same weights have one under another name only."""
        same_name = [clean for clean in self.clean if clean.evaluation.table.model.name == evaluation.table.model.name]
        if not same_name:
            for clean in self.clean:
                if identity(clean.evaluation) == identity(evaluation):
                    self.warn(
                        f"{evaluation.folder}: {clean.evaluation.folder} evaluates the same weights under another "
                        f"name, {clean.evaluation.model!r}, so it gives no clean error for {evaluation.model!r}"
                    )
        return same_name
