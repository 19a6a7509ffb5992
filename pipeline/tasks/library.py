"""The task library: shipped tasks by name, and tasks of users by path."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import cast, get_args

from corruptions.registry import unknown
from pipeline.config import read_toml, validated
from pipeline.errors import UserError
from pipeline.storage import SMALL_FILE, LocalStore, local_path
from pipeline.tasks import objectnet
from pipeline.tasks.lists import position_by_name, shipped_list
from pipeline.tasks.schema import LoadedTask, Role, Task, TaskFile
from pipeline.text import counted, shown

_SHIPPED = resources.files(__package__).joinpath("shipped")

SHIPPED_OUTPUTS: Mapping[str, str] = {
    "imagenet": "the WordNet ids of ILSVRC2012",
    "imagenet22k_superclasses": "the superclasses of the ImageNet-22K subclasses",
}
"""Outputs that a task can name instead of a file, which are also names of shipped lists -> description."""

ROLES: tuple[str, ...] = get_args(Role)

ReadLines = Callable[[str], Sequence[str]]
"""A function that returns the lines of a file that a task names."""

Named = tuple[str, tuple[str, ...]]
"""A name, which may be empty, and the names of outputs."""


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped tasks."""
    names = (file.name for file in _SHIPPED.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def read(name: str) -> TaskFile:
    """Return the content of a shipped task by name, or of a .toml file by path. Raise UserError if it is invalid."""
    return _read(name)[0]


def load(name: str) -> LoadedTask:
    """Load a shipped task by name, or a .toml file by path, and the lists that it names, which are in its folder.

    Raises:
        UserError: The task does not exist, or it or one of its lists is invalid.
    """
    return resolved(*_read(name))


def chosen(name: str | None, role: str | None = None, mappings: str | None = None) -> LoadedTask | None:
    """Return the task of a data set.

    Args:
        name: Name of a shipped task, or path of a .toml file. None for a data set without a task.
        role: Role of the images. None uses that of the task.
        mappings: Folder ``mappings`` of the download of ObjectNet, with which the shipped task is compared.

    Raises:
        UserError: The task or the role is invalid, the mappings differ from the task, or an option needs a task.
    """
    if name is None:
        for option, value in (("--role", role), ("--mappings", mappings)):
            if value is not None:
                raise UserError(f"{option} {value} has no effect without a task: give --task too, or omit {option}")
        return None
    if role not in (None, *ROLES):
        raise UserError(unknown("role", str(role), allowed=ROLES))
    task = load(name)
    if mappings is not None:
        if name != objectnet.TASK:
            raise UserError(f"--mappings is only for --task {objectnet.TASK}: omit it")
        objectnet.check_mappings(task, mappings)
    return task if role is None else task.with_role(cast(Role, role))


def resolved(file: TaskFile, lines: ReadLines, where: str) -> LoadedTask:
    """Return a task with the names of its outputs replaced by their indices. ``where`` names its file in messages.

    Raises:
        UserError: A list names an unknown output, or groups are empty or share an output.
    """
    names = _outputs(file, lines, where)
    positions = position_by_name(names)
    named_groups = tuple(_named(lines, file.groups)) if file.groups else ()
    groups = tuple(_indices(file.groups, named, positions) for named in named_groups)
    _check_groups(groups, names, f"{where}: {file.groups}")
    label_of_output = {output: label for label, group in enumerate(groups) for output in group}
    if not groups:
        label_of_output = {output: output for output in range(len(names))}
    described = SHIPPED_OUTPUTS.get(file.outputs, f"the lines of {file.outputs}")
    task = Task(
        name=file.name,
        outputs=len(names),
        outputs_are=described,
        groups=groups,
        combine=file.combine,
        role=file.role,
        steps=file.steps,
        resize=file.resize,
        images=file.images,
        classes=_class_names(named_groups, names) if file.by_class else None,
    )
    by_number = file.folders == "number"
    if file.folders == "wnid" or by_number:
        keys = map(str, range(len(names))) if by_number else names
        folders = {key: label_of_output[output] for output, key in enumerate(keys) if output in label_of_output}
    else:
        labels = {name: label_of_output.get(output) for name, output in positions.items()}
        labels |= {name: label for label, (name, _) in enumerate(named_groups) if name and name not in positions}
        folders = _table(file, lines, len(names), labels, where)
    return LoadedTask(task, file.name, folders, by_number, file.number_prefix, file.other_folders == "refuse")


def _read(name: str) -> tuple[TaskFile, ReadLines, str]:
    """Return the content of a task's file, the reader of its lists, and the name of the file for messages."""
    if name in shipped():
        where = f"task {name}"
        content = _SHIPPED.joinpath(f"{name}.toml").read_bytes()
        return validated(TaskFile, read_toml(content, where), where), shipped_list, where
    path = local_path(name)
    if path.suffix != ".toml":
        raise UserError(f"{unknown('task', name, shipped=shipped())}; or use the path of a .toml file")
    folder = LocalStore(str(path.parent))
    try:
        content = folder.read(path.name, limit=SMALL_FILE)
    except OSError as error:
        raise UserError(f"cannot read the task {path}: {error.strerror}") from error

    def lines(list_name: str) -> Sequence[str]:
        try:
            folder.path(list_name)  # raises UserError for a file outside of the folder
            text = folder.read(list_name, limit=SMALL_FILE).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {list_name}, which the task {path} names: {error}") from error
        return [line.strip() for line in text.splitlines() if line.strip()]

    return validated(TaskFile, read_toml(content, str(path)), str(path)), lines, str(path)


def _outputs(file: TaskFile, lines: ReadLines, where: str) -> Sequence[str]:
    """Return the name of each output of the model. Raise UserError for duplicates, or fewer than two."""
    names = shipped_list(f"{file.outputs}.txt") if file.outputs in SHIPPED_OUTPUTS else lines(file.outputs)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or len(names) < 2:
        what = f"lists {shown(twice[0])} more than once" if twice else f"lists {counted(len(names), 'output')}"
        raise UserError(f"{where}: {file.outputs} {what}: write the name of one output per line, in order")
    return names


def _named(lines: ReadLines, list_name: str) -> Iterator[Named]:
    """Yield the name before the colon of each line, empty without a colon, and the words after it."""
    for line in lines(list_name):
        name, colon, outputs = line.rpartition(":")
        yield (name.strip() if colon else ""), tuple(outputs.split())


def _indices(list_name: str, named: Named, positions: Mapping[str, int]) -> tuple[int, ...]:
    """Return the indices of outputs. Raise UserError for an unknown one."""
    unknown = [name for name in named[1] if name not in positions]
    if unknown:
        raise UserError(f"{list_name}: {shown(unknown[0])} is not one of the {len(positions)} outputs of the model")
    return tuple(positions[name] for name in named[1])


def _check_groups(groups: Sequence[Sequence[int]], names: Sequence[str], where: str) -> None:
    """Raise UserError for a single group, an empty one, or groups that share an output."""
    if len(groups) == 1:
        raise UserError(f"{where} has one group: a model needs at least two to choose from")
    for group, outputs in enumerate(groups):
        if not outputs:
            raise UserError(f"{where}: line {group + 1} names no output: name at least one")
    for output, count in Counter(output for group in groups for output in group).items():
        if count > 1:
            raise UserError(
                f"{where} names {names[output]} {count} times: a prediction of this output would count for each of "
                "these; name each output once"
            )


def _class_names(groups: Sequence[Named], outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each label: that of the group, or its outputs where it has none; without groups the output."""
    return tuple(name or " ".join(members) for name, members in groups) or tuple(outputs)


def _table(
    file: TaskFile, lines: ReadLines, outputs: int, label_by_name: Mapping[str, int | None], where: str
) -> dict[str, int]:
    """Return the label of each folder of a table. Raise UserError for a folder without a single label.

    ``label_by_name`` has the label of each output, None outside of all groups, and of each named group.
    """
    found: dict[str, int] = {}
    for name, members in _named(lines, file.folders):
        if unknown := [member for member in members if member not in label_by_name]:
            raise UserError(
                f"{file.folders}: {shown(unknown[0])} is not one of the {outputs} outputs of the model, nor the name "
                "of a group"
            )
        labels = {label_by_name[member] for member in members}
        label = labels.pop() if len(labels) == 1 else None
        if label is None or not name:
            raise UserError(
                f"{where}: {file.folders}: {shown(name)} must be a folder whose outputs are all in one group: write "
                "'folder: outputs', and list the outputs of a folder as one group"
            )
        if name in found:
            raise UserError(f"{where}: {file.folders} names {shown(name)} twice: name each folder once")
        found[name] = label
    return found
