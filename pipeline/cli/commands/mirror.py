"""``robustshards mirror``."""

from __future__ import annotations

from pipeline.builder.settings import MirrorSettings
from pipeline.cli.commands.build import BuildJob, run
from pipeline.cli.console import CONTINUE
from pipeline.cli.options import command


@command(CONTINUE)
def mirror(settings: MirrorSettings, job: BuildJob) -> None:
    """Write the corrupted version of a folder of images, in native size and under the same names.

    OUT/fog/3 then replaces FOLDER as the image root of a loader; annotations stay as they are. Run the same command
    again to continue after an interruption.
    """
    run(settings.request(), job, settings.out)
