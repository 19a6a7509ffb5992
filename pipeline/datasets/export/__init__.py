"""Exports: finished data sets in layouts of other tools. An interrupted export continues when it is run again."""

from collections.abc import Iterable

from pipeline.datasets.base import DataSet
from pipeline.datasets.export.layouts import LAYOUTS
from pipeline.datasets.export.names import refuse_overlaps
from pipeline.datasets.export.state import Export, survey
from pipeline.datasets.export.target import OWN_FILES, ExportRecord, Target
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.storage import LocalStore, is_url, local_path

__all__ = ["LAYOUTS", "Export", "export"]


def export(data_set: str, layout: str, out: str, classes: Iterable[str] = (), data: str | None = None) -> Export:
    """Write a finished data set to a folder in another layout.

    Files are written atomically, and existing files with the right content are kept. ``export.toml`` in the folder
    records the digest of the exported manifest.

    Args:
        data_set: Path or URL of the data set.
        layout: One of ``LAYOUTS``.
        out: Local folder: empty, or with an earlier export of the same data set in the same layout.
        classes: Names of all classes, for layouts with class folders. Their folders are created even if empty.
        data: Path or URL of the files of an index, see ``open_data_set``.

    Returns:
        The finished export, with its counts.

    Raises:
        UserError: The layout is unknown or unsuitable, the data set is unfinished or damaged, or the folder contains
            other files.
        UnfinishedError: The disk is full.
        OSError: The folder cannot be written.
    """
    if layout not in LAYOUTS:
        raise UserError(f"invalid layout {layout!r}; allowed: {', '.join(LAYOUTS)}")
    plan, wanted = LAYOUTS[layout], tuple(classes)
    if wanted and not plan.class_folders:
        fit = ", ".join(name for name, each in LAYOUTS.items() if each.class_folders)
        raise UserError(f"layout {layout} has no class folders: omit --classes, or use {fit}")
    opened, target = open_data_set(data_set, data), Target(LocalStore(out))
    _refuse_nesting(opened, out)
    running = Export(data_set=opened, target=target, survey=survey(opened), wanted=wanted)
    paths = plan.paths(running)
    refuse_overlaps([*paths, *OWN_FILES])
    record = ExportRecord(name=opened.name, layout=layout, manifest=running.manifest_digest)
    with target.locked(record):
        plan.write(running)
        running.check(paths)
        totals = {"state": "finished", "samples": running.samples, "files": target.written + target.there}
        unlabelled = running.folders.unlabelled if plan.class_folders else ()
        target.write_record(record.model_copy(update={**totals, "unlabelled": unlabelled}))
    return running


def _refuse_nesting(data_set: DataSet, out: str) -> None:
    """Raise UserError for an output folder inside the data set, whose files would be mixed with the export."""
    for store in (data_set.store, data_set.files):
        if not is_url(store.root) and local_path(out).resolve().is_relative_to(local_path(store.root).resolve()):
            raise UserError(f"{out} is inside the folder of the data set, {store.root}: choose a folder outside of it")
