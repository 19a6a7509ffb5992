"""``robustshards index``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_line, report_errors
from pipeline.cli.options import ClassesOption, JsonOption, ThreadsOption, class_names, numbers
from pipeline.errors import Exit
from pipeline.settings import IMAGES


def index(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Data set to index: class folders, tar files or .npy arrays.")
    ],
    out: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder to write the manifest to. The data is not copied or changed.")
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=IMAGES,
            help="Name of the data set. Default: the name of its task, or of its folder.",
        ),
    ] = None,
    classes: ClassesOption = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=IMAGES,
            help="Task of a set of natural images, e.g. imagenet-a (see robustshards list), or path of a .toml file: "
            "which class folders are used, which outputs of a model count for them, and how images are prepared.",
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            metavar="clean|shift|anomalous",
            rich_help_panel=IMAGES,
            help="Role of the images in reports; clean for clean images of the task's classes. Default: the task's.",
        ),
    ] = None,
    mappings: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=IMAGES,
            help="For --task objectnet: folder mappings of the download, which is compared with the task.",
        ),
    ] = None,
    levels: Annotated[
        str,
        typer.Option(
            "--severities",
            metavar="LEVELS",
            rich_help_panel=IMAGES,
            help="For .npy arrays: severities stacked in each array, in order.",
        ),
    ] = "1,2,3,4,5",
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a manifest for a data set that was not built by robustshards.

    The commands verify, preview, export and evaluate then read it like a data set of your own. Sets of natural images,
    such as ImageNet-A, have tasks. Exits with 1 if some files are damaged.
    """
    with report_errors(as_json):
        from pipeline.cli.progress import current_step
        from pipeline.datasets.index import index as write
        from pipeline.software import cpu_count
        from pipeline.tasks.library import chosen

        label_names, levels_of_arrays = class_names(classes), numbers(levels) or ()
        with current_step("listing files ...") as shown:
            result = write(
                data,
                out,
                name,
                label_names,
                levels_of_arrays,
                threads or cpu_count(),
                shown,
                chosen(task, role, mappings),
            )
        if as_json:
            print_json(**result.facts(), output=out)
        else:
            for line in result.lines():
                print_line(line)
            print_line(f"index folder: {out}")
        if result.failed:
            raise typer.Exit(Exit.FAULTS)
