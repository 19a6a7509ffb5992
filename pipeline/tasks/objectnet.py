"""A comparison of the task of ObjectNet with the mappings that its download contains.

The classes of ObjectNet's challenge are numbered by display name, and class folders sort otherwise. So this module
never uses these numbers: it goes from folder to display name to the text of ImageNet's labels.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.config import strict_json
from pipeline.errors import UserError
from pipeline.storage import SMALL_FILE, LocalStore
from pipeline.tasks.lists import IMAGENET
from pipeline.tasks.schema import LoadedTask
from pipeline.text import shown

TASK = "objectnet"

DISPLAY_NAMES = "folder_to_objectnet_label.json"
"""Folder -> display name."""

IMAGENET_LABELS = "objectnet_to_imagenet_1k.json"
"""Display name -> labels of ImageNet, separated by ``LABEL_SEPARATOR``."""

LABEL_LINES = "imagenet_to_label_2012_v2"
"""Labels of ImageNet, one per line, in the order of the development kit of 2012."""

LINE_OF_OUTPUT = "pytorch_to_imagenet_2012_id.json"
"""Index of an output -> line of its label in ``LABEL_LINES``, from 0."""

LABEL_SEPARATOR = "; "

_OUTPUTS = frozenset(map(str, range(len(IMAGENET))))


def check_mappings(task: LoadedTask, folder: str) -> None:
    """Compare the folder ``mappings`` of a download with the shipped task.

    Raises:
        UserError: A file is missing or invalid, or a folder has other classes of ImageNet than in the task.
    """
    downloaded = read_mappings(folder)
    shipped = {name: frozenset(task.task.groups[label]) for name, label in task.folders.items()}
    for name in sorted(downloaded.keys() | shipped.keys()):
        theirs, ours = downloaded.get(name, frozenset()), shipped.get(name, frozenset())
        if theirs != ours:
            raise UserError(
                f"{folder}: the folder {shown(name)} has {_classes(theirs)} of ImageNet, but {_classes(ours)} in the "
                f"task {TASK}: use the mappings of objectnet-1.0, or write a task of your own for other mappings"
            )


def read_mappings(folder: str) -> dict[str, frozenset[int]]:
    """Return the indices of the ImageNet classes of each folder of ObjectNet that has some, by a folder ``mappings``.

    Raises:
        UserError: A file is missing or invalid.
    """
    store = LocalStore(folder)
    names, labels = _texts(store, DISPLAY_NAMES), _texts(store, IMAGENET_LABELS)
    output_of_label = _outputs(store)
    found = {}
    for name, display_name in names.items():
        if display_name in labels:
            texts = [text.strip() for text in labels[display_name].split(LABEL_SEPARATOR)]
            for text in texts:
                if text not in output_of_label:
                    raise UserError(
                        f"{folder}/{IMAGENET_LABELS}: {shown(text)} is not the label of one line of {LABEL_LINES}: "
                        "download ObjectNet again"
                    )
            found[name] = frozenset(output_of_label[text] for text in texts)
    return found


def _outputs(store: LocalStore) -> dict[str, int]:
    """Return the index of the output of each label of ImageNet, without labels that two classes have."""
    lines = [line.strip() for line in _read(store, LABEL_LINES).removesuffix("\n").split("\n")]
    unique = {text for text, count in Counter(lines).items() if count == 1}
    outputs = _object(store, LINE_OF_OUTPUT)
    for output, line in outputs.items():
        if output not in _OUTPUTS or type(line) is not int or not 0 <= line < len(lines):
            raise UserError(
                f"{store.root}/{LINE_OF_OUTPUT}: {shown(output)} must be an output from 0 to {len(IMAGENET) - 1}, and "
                f"its value the number of one of the {len(lines)} lines of {LABEL_LINES}: download ObjectNet again"
            )
    return {lines[line]: int(output) for output, line in outputs.items() if lines[line] in unique}


def _texts(store: LocalStore, name: str) -> Mapping[str, str]:
    """Return a JSON object of texts. Raise UserError if the file is something else."""
    content = _object(store, name)
    for key, value in content.items():
        if not isinstance(value, str):
            raise UserError(f"{store.root}/{name}: the value of {shown(key)} must be text: download ObjectNet again")
    return content


def _object(store: LocalStore, name: str) -> dict[str, Any]:
    """Return a JSON object. Raise UserError if the file is something else."""
    try:
        content = strict_json(_read(store, name))
    except ValueError as error:
        raise UserError(f"{store.root}/{name} is not valid JSON: download ObjectNet again") from error
    if not isinstance(content, dict):
        raise UserError(f"{store.root}/{name} is not a JSON object: download ObjectNet again")
    return content


def _read(store: LocalStore, name: str) -> str:
    """Return the content of a text file. Raise UserError if it cannot be read."""
    try:
        return store.read(name, limit=SMALL_FILE).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{store.root}/{name} is not UTF-8 text: download ObjectNet again") from error
    except OSError as error:
        raise UserError(
            f"cannot read {store.root}/{name}: {error.strerror or error}; give the folder mappings of the download of "
            "ObjectNet"
        ) from error


def _classes(outputs: Iterable[int]) -> str:
    return ", ".join(IMAGENET[output] for output in sorted(outputs)) or "no class"
