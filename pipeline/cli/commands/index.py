"""``robustshards index``."""

from collections.abc import Sequence
from dataclasses import dataclass

import typer

from pipeline.builder.settings import CLASSES, LEVELS
from pipeline.cli.console import print_json, print_line, print_lines, print_table
from pipeline.cli.options import Printing, Threads, command
from pipeline.errors import Exit
from pipeline.settings import ARGUMENT, IMAGES, NAME, REQUIRED, integer, location, setting, text

COMPARISON = "Comparison"
"""Section of the help text."""


@dataclass(frozen=True)
class IndexSettings(Printing, Threads):
    """An index.

    Attributes:
        data: Data set to index: class folders, tar files or .npy arrays.
        out: Folder to write the manifest to. The data is not copied or changed.
        name: Name of the data set. Default: the name of its task, or of its folder.
        classes: Text file with one class name per line, in label order: the order of the model's outputs. Default:
            numbers are labels, WordNet ids of ImageNet's classes get their place among the sorted 1,000, and other
            names are numbered in sorted order.
        task: Task of a set of natural images, e.g. imagenet-a (see robustshards list), or path of a .toml file: which
            class folders are used, which outputs of a model count for them, and how images are prepared.
        role: Role of the images in reports; clean for clean images of the task's classes. Default: the task's.
        mappings: For --task objectnet: folder mappings of the download, which is compared with the task.
        severities: For .npy arrays: severities stacked in each array, in order.
        source: Compare images of an ImageNet-C with images made of these clean photographs, found by their names, and
            print what each transform and level is: the published generator, re-compressed, another size ...
        samples: With --source: number of images compared for each transform and level.
    """

    data: str = setting(REQUIRED, text("DATA"), option=ARGUMENT)
    out: str = setting(REQUIRED, location())
    name: str | None = setting(None, NAME, IMAGES)
    classes: Sequence[str] | None = setting(None, CLASSES, IMAGES)
    task: str | None = setting(None, text("NAME"), IMAGES)
    role: str | None = setting(None, text("clean|shift|anomalous"), IMAGES)
    mappings: str | None = setting(None, location(), IMAGES)
    severities: Sequence[int] = setting("1,2,3,4,5", LEVELS, IMAGES)
    source: str | None = setting(None, location(), COMPARISON)
    samples: int = setting(20, integer(4, 200), COMPARISON)


@command()
def index(settings: IndexSettings) -> None:
    """Write a manifest for a data set that was not built by robustshards.

    The commands verify, preview, export and evaluate then read it like a data set of your own. Sets of natural images,
    such as ImageNet-A, have tasks. Exits with 1 if some files are damaged, or if --source shows that images differ from
    published ones.
    """
    from pipeline.cli.progress import current_step
    from pipeline.datasets.index.manifest import index as write
    from pipeline.datasets.opening import open_data_set
    from pipeline.datasets.recognise.comparison import Photographs
    from pipeline.datasets.recognise.recognise import recognise
    from pipeline.datasets.recognise.verdicts import TITLES
    from pipeline.software import cpu_count
    from pipeline.tasks.library import chosen

    task = chosen(settings.task, settings.role, settings.mappings)
    photographs = None if settings.source is None else Photographs(settings.source)
    with current_step("listing files ...") as shown:
        names, threads = settings.classes or [], settings.threads or cpu_count()
        result = write(settings.data, settings.out, settings.name, names, settings.severities, threads, shown, task)
        found = photographs and recognise(open_data_set(settings.out), photographs, settings.samples, shown)
    if settings.as_json:
        print_json(**result.facts(), **({"recognised": found.facts()} if found else {}), output=settings.out)
    else:
        print_lines(result.lines())
        if found:
            print_table(TITLES, found.rows())
        print_line(f"index folder: {settings.out}")
    if result.failed or (found and not found.published):
        raise typer.Exit(Exit.FAULTS)
