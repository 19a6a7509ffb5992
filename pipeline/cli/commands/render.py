"""``robustshards render``."""

from pipeline.builder.settings import RenderSettings
from pipeline.cli.options import Making, command


@command()
def render(settings: RenderSettings, options: Making) -> None:
    """Write a small folder that stands for a data set without storing its images.

    Reads each source image once. Other commands use the folder like a built data set, and make its images when they
    read them.
    """
    from pipeline.builder.render import run_render
    from pipeline.cli.progress import Display

    with Display() as watcher:
        result = run_render(settings, watcher)
    options.finish(result, result.failed, settings.out)
