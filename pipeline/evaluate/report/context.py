"""What the report on one evaluation may use of all that were given: clean images, baseline, draws, warnings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from numpy.typing import ArrayLike

from pipeline.evaluate.metrics.bootstrap import Bootstrap
from pipeline.evaluate.report.baseline import OwnBaseline
from pipeline.evaluate.report.belonging import CleanError, clean_error, identity, shown_names
from pipeline.evaluate.report.scores import About, Clean, Evaluation, Images, clean_of, is_clean


class ReportContext:
    """The evaluations of a report.

    Attributes:
        evaluations: All of them.
        clean: Those of clean images, read.
        own: The evaluated model that figures are divided by, if one was given.
        resamples: Draws of the bootstrap.
        warnings: What readers must know, each sentence once.
        images: Folder of an evaluation -> the images that its figures are over.
    """

    def __init__(self, evaluations: Sequence[Evaluation], baseline: Sequence[Evaluation], resamples: int) -> None:
        self.evaluations, self.resamples = evaluations, resamples
        self.warnings: list[str] = []
        self.own = OwnBaseline(baseline, self.warn) if baseline else None
        self._names = shown_names(evaluations, self.warn)
        self._clean = {each.place: clean_of(each) for each in evaluations if is_clean(each)}
        self.images: dict[str, Images] = {place: each.images for place, each in self._clean.items()}

    @property
    def clean(self) -> list[Clean]:
        """The evaluations of clean images."""
        return list(self._clean.values())

    def warn(self, text: str) -> None:
        """Add a warning."""
        if text not in self.warnings:
            self.warnings.append(text)

    def bootstrap(self, values: ArrayLike) -> Bootstrap:
        """Draw images: values (images, columns) -> means of the columns, and the same in each draw."""
        return Bootstrap.of(values, resamples=self.resamples)

    def about(self, each: Evaluation, images: Images) -> About:
        """Return what a summary says of its evaluation, given the images that its figures are over."""
        self.images[each.place] = images
        data_set = each.table.data_set
        ids = hashlib.sha256("\n".join(sorted(images.ids)).encode()).hexdigest()
        return About(each.table.model.name, self._names[each.place], data_set.failed, data_set.manifest_sha256, ids)

    def clean_images(self, each: Evaluation) -> Clean:
        """Return what an evaluation of clean images found."""
        return self._clean[each.place]

    def clean_error(self, each: Evaluation, images: Images) -> CleanError | None:
        """Return the error of the same model on clean versions of these images, as far as there are any.

        Raises:
            UserError: Two evaluations serve equally well, or labels of the same image differ.
        """
        return clean_error(each, images, self._clean_of_model(each), self.warn)

    def _clean_of_model(self, each: Evaluation) -> list[Clean]:
        """Return the clean images of the same model; warn where there are some under another name only."""
        found = [clean for clean in self.clean if clean.evaluation.table.model.name == each.table.model.name]
        if not found:
            for clean in self.clean:
                if identity(clean.evaluation) == identity(each):
                    self.warn(
                        f"{each.folder}: {clean.evaluation.folder} is of the same weights under another name, "
                        f"{clean.evaluation.model!r}, and gives no clean error for {each.model!r}"
                    )
        return found
