"""A check of data sets that do not say what their labels count: those of earlier versions, and of WebDataset tars."""

from __future__ import annotations

from pipeline.datasets.base import DataSet
from pipeline.errors import UserError
from pipeline.sources.base import UNLABELLED
from pipeline.tasks.labels import is_number, label_folders
from pipeline.tasks.lists import IMAGENET
from pipeline.text import shown


def contradiction(data_set: DataSet, outputs: int) -> str | None:
    """Return why the outputs of a model cannot be the labels of a data set, by the names of its classes.

    Earlier versions numbered all class folders from 0 in sorted order, also numbers and a part of ImageNet's WordNet
    ids. Such labels fit only a model that was trained on these folders.

    Args:
        data_set: A data set that does not say what its labels count.
        outputs: Number of outputs of the model.

    Returns:
        The reason and what to do; None if no name contradicts its label.

    Raises:
        UserError: The data set is not finished, or the manifest is damaged.
    """
    labels: dict[str, int] = {}
    known = frozenset(IMAGENET)
    for table in data_set.tables(("class_name", "label")):
        for pair in table.group_by(["class_name", "label"]).aggregate([]).to_pylist():
            name, label = pair["class_name"], pair["label"]
            if label != UNLABELLED and not (is_number(name) or name in known):
                return None
            if label != UNLABELLED:
                labels[name] = label
    try:
        expected = label_folders(list(labels))
    except UserError:
        return None
    if expected.space.classes not in (0, outputs):
        return None
    for name, label in expected.labels.items():
        if labels[name] != label:
            return (
                f"its class {shown(name)} has the label {labels[name]}, but {label} if the labels are "
                f"{expected.space}, and it does not say what they count: build or index it again in another folder; "
                "for a model with classes in an order of its own, list them with --classes FILE"
            )
    return None
