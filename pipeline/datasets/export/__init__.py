"""From a finished data set to layouts that other tools read: streamed from the shards, resumed by running again."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.datasets.base import DataSet
from pipeline.datasets.export.layouts import LAYOUTS
from pipeline.datasets.export.names import refuse_overlaps
from pipeline.datasets.export.run import Export, survey
from pipeline.datasets.export.target import OWN_FILES, Statement, Target
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.storage import LocalStore, is_url, local_path

__all__ = ["LAYOUTS", "Export", "export"]


def export(data_set: str, layout: str, out: str, classes: Iterable[str] = (), data: str | None = None) -> Export:
    """Write a finished data set in another layout to a folder.

    Files appear whole or not at all; those that are there with the right content are left as they are. ``export.toml``
    beside them states the manifest that they are of.

    Args:
        data_set: Path or URL of the data set.
        layout: One of ``LAYOUTS``.
        out: A folder of this machine: new, or with an earlier export of the same data set in the same layout.
        classes: Names of all classes, in layouts with class folders: these are made even if they stay empty.
        data: Where the files of an index are, if the user names it.

    Raises:
        UserError: An unknown layout, an unfinished or unfit data set, a shard that is not what was built, or a folder
            that holds anything else.
        UnfinishedError: The disk is full.
        OSError: The folder cannot be written.
    """
    if layout not in LAYOUTS:
        raise UserError(f"no layout is called {layout!r}; allowed: {', '.join(LAYOUTS)}")
    plan, wanted = LAYOUTS[layout], tuple(classes)
    if wanted and not plan.class_folders:
        fit = ", ".join(name for name, each in LAYOUTS.items() if each.class_folders)
        raise UserError(f"{layout} has no class folders: --classes is for {fit}")
    opened, target = open_data_set(data_set, data), Target(LocalStore(out))
    _refuse_nesting(opened, out)
    under_way = Export(data_set=opened, target=target, survey=survey(opened), wanted=wanted)
    places = plan.places(under_way)
    refuse_overlaps([*places, *OWN_FILES])
    statement = Statement(name=opened.name, layout=layout, manifest=under_way.manifest_digest)
    with target.claimed(statement, places):
        plan.write(under_way)
        under_way.check(places)
        done = {"state": "finished", "samples": under_way.samples, "files": target.written + target.there}
        unlabelled = under_way.folders.unlabelled if plan.class_folders else ()
        target.state(statement.model_copy(update={**done, "unlabelled": unlabelled}))
    return under_way


def _refuse_nesting(data_set: DataSet, out: str) -> None:
    """Raise UserError for a folder among the files of the data set, which would be taken for some of them."""
    for store in (data_set.store, data_set.files):
        if not is_url(store.root) and local_path(out).resolve().is_relative_to(local_path(store.root).resolve()):
            raise UserError(f"{out} lies in the data set's own folder {store.root}: choose a folder outside of it")
