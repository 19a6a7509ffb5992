"""``robustshards export``."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.builder.settings import CLASSES
from pipeline.cli.console import CONTINUE
from pipeline.cli.options import Reading, command
from pipeline.settings import IMAGES, REQUIRED, location, setting, text


@dataclass(frozen=True)
class ExportSettings(Reading):
    """An export.

    Attributes:
        to: Layout to write. One of: imagefolder, imagefolder-tfds, cifar-npy, mp4, frames, parquet, mirror,
            imagenet-s-folder.
        out: Folder to write to.
        classes: For imagefolder: text file with one class name per line, in label order; these folders are created even
            if empty.
    """

    to: str = setting(REQUIRED, text("LAYOUT"))
    out: str = setting(REQUIRED, location())
    classes: Sequence[str] | None = setting(None, CLASSES, IMAGES)


@command(CONTINUE)
def export(settings: ExportSettings) -> None:
    """Write a finished data set in a layout that other tools read.

    Run the same command again to continue after an interruption.
    """
    from pipeline.datasets.export import export as write

    result = write(settings.data_set, settings.to, settings.out, settings.classes or [], settings.data)
    lines = (*result.lines(), f"output folder: {settings.out}")
    settings.show(lines, **result.facts(), output=settings.out)
