"""``robustshards preview``."""

from dataclasses import dataclass

from pipeline.cli.options import Reading, command
from pipeline.settings import IMAGES, REPORTING, integer, location, setting
from pipeline.text import counted


@dataclass(frozen=True)
class PreviewSettings(Reading):
    """A preview.

    Attributes:
        out: HTML file to write.
        images: Number of images to show, 1 to 100.
        source: For adversarial images: their clean data set. Default: the one attacked on this machine.
    """

    out: str = setting("preview.html", location("FILE"), REPORTING)
    images: int = setting(3, integer(1, 100), IMAGES)
    source: str | None = setting(None, location("PATH"), IMAGES)


@command()
def preview(settings: PreviewSettings) -> None:
    """Write an HTML page that shows a few images under every transform and level."""
    from pipeline.datasets.preview import preview as write

    pictures = write(settings.data_set, settings.out, settings.images, settings.data, settings.source)
    settings.show([f"wrote {counted(pictures, 'picture')} to {settings.out}"], pictures=pictures, output=settings.out)
