"""A contact sheet of a data set: an HTML page with a few images under every transform and level."""

import html
import json
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TextIO

import numpy as np

import manifests
from manifests import Row
from pipeline.datasets.adversarial import MAGNIFIED, CleanPixels, clean_pixels, magnified
from pipeline.datasets.base import DataSet
from pipeline.datasets.norms import Stored, in_8_bits
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import MEDIA_TYPES, Sample, figure, pictures
from pipeline.errors import RefusedFileError, UnfinishedError, UserError
from pipeline.images.encoders import Png
from pipeline.recipes.levels import some_levels
from pipeline.storage import local_path, open_regular
from pipeline.text import printable
from pipeline.transforms.family import Draws

DRAWS_SHOWN = 40
"""Number of characters shown of what was drawn for a sample. All of it is in a tooltip."""

MAX_PAGE = 2**28
"""Maximum size of a page in characters. Browsers have trouble with pages of more than about 256 MiB."""

MAX_ROWS = 10_000
"""Maximum number of samples of one transform on a page: 100 images at 100 levels."""

MAX_LEVELS = 100
"""Maximum number of levels of one transform on a page."""

DOCTYPE = "<!doctype html>"

STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; }
.line { display: grid; grid-template-columns: repeat(var(--pictures), minmax(0, 14rem)); gap: .4rem; }
figure { margin: 0 0 .3rem; }
img { width: 100%; display: block; image-rendering: auto; background: #8883; min-height: 2rem; }
figcaption { font-size: .75rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; opacity: .75; }
:root { color-scheme: light dark; }
@media print { figure { break-inside: avoid; } }
"""


def preview(folder: str, page: str, images: int = 3, data: str | None = None, source: str | None = None) -> int:
    """Write a contact sheet of a finished data set.

    Args:
        folder: Path or URL of the data set.
        page: HTML file to write. An existing preview page is replaced; any other existing file is an error.
        images: Number of images to show, evenly spaced in the manifest.
        data: Path or URL of the files of an index, see ``open_data_set``.
        source: For adversarial images: path or URL of the clean data set, see ``clean_pixels``.

    Returns:
        The number of pictures on the page.

    Raises:
        UserError: The folder is not a finished data set, a sample is damaged, the page would be too large, or ``page``
            is an existing file that is not a preview.
        UnfinishedError: The disk is full.
    """
    data_set = open_data_set(folder, data)
    clean = clean_pixels(folder, source) if data_set.attack else None
    path = _page_path(page)
    chosen = _choose(data_set, images)
    temporary = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        with open(temporary, "x", encoding="utf-8", errors="xmlcharrefreplace") as file:
            count = _write(data_set, chosen, clean, file)
        os.replace(temporary, path)
    except OSError as error:
        if error.filename and error.filename != str(temporary):
            raise
        what = f"cannot write the page {page}: {error.strerror}"
        if isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError):
            raise UserError(what) from error
        raise UnfinishedError(f"{what}; free disk space, then run the same command again") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    return count


def _page_path(page: str) -> Path:
    """Return the path of the page. Raise UserError if its name or an existing file is not that of a preview page."""
    try:
        path = local_path(page).resolve()
        if path.is_dir():
            raise UserError(f"{page} is a folder: give the name of the page, for example {path / 'preview.html'}")
        if not page.lower().endswith((".html", ".htm")):
            raise UserError(f"{page} is not the name of a page: browsers need .html at its end, as in {page}.html")
        if not path.exists():
            return path
        with open_regular(path) as file:
            start = file.read(len(DOCTYPE))
    except RefusedFileError as error:
        raise UserError(f"cannot write the page {page}: {error.strerror}") from error
    if start and start != DOCTYPE.encode():
        raise UserError(f"{page} exists and is not a preview page: choose another name")
    return path


def _write(data_set: DataSet, chosen: Collection[str], clean: CleanPixels | None, file: TextIO) -> int:
    """Write the page. Return the number of pictures on it."""
    title = html.escape(data_set.name)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    size = file.write(f"{DOCTYPE}<html lang=en><head>{head}<style>{STYLE}</style></head><body><h1>{title}</h1>")
    count, levels = 0, _shown_levels(data_set)
    rows = data_set.rows({"source_id": chosen, "level": {level for each in levels.values() for level in each}})
    shown_rows = (row for row in rows if row.level in levels[row.transform])
    for transform, group in groupby(shown_rows, key=lambda row: row.transform):
        lines: list[list[str]] = []
        for image in _by_image(group):
            lines.append([])
            for shown in (shown for row in image for shown in _figures(data_set, row, clean)):
                lines[-1].append(shown)
                size += len(shown)
                if size > MAX_PAGE:
                    raise UserError(
                        f"the page would be larger than {MAX_PAGE} bytes, the maximum: show fewer images (--images)"
                    )
        if all(len(line) == 1 for line in lines):  # one picture per image: put them on one line
            lines = [[figure for line in lines for figure in line]]
        count += sum(map(len, lines))
        grids = (f"<div class=line style='--pictures:{len(line)}'>{''.join(line)}</div>" for line in lines)
        file.write(f"<h2>{html.escape(transform)}</h2>{''.join(grids)}")
    file.write("</body></html>\n")
    return count


def _choose(data_set: DataSet, images: int) -> set[str]:
    """Return source ids, evenly spaced over the first condition. Raise UserError if the data set is empty."""
    if images < 1:
        raise UserError(f"invalid number of images {images}: at least 1 is allowed")
    _, first = next(groupby(data_set.rows(), key=lambda row: (row.transform, row.level)), (None, ()))
    ids = [row.source_id for row in first]
    if not ids:
        raise UserError(f"{data_set.name} has no samples: there is nothing to show")
    indices = np.linspace(0, len(ids) - 1, min(images, len(ids))).round().astype(int)
    return {ids[index] for index in indices}


def _shown_levels(data_set: DataSet) -> dict[str, list[int]]:
    """Return the levels of each transform to show, at most MAX_LEVELS at about equal distances."""
    levels: dict[str, dict[int, None]] = {}
    for chunk in data_set.chunks():
        levels.setdefault(chunk.condition.transform, {})[chunk.condition.level] = None
    return {name: some_levels(sorted(each), MAX_LEVELS) for name, each in levels.items()}


def _by_image(rows: Iterable[Row]) -> Sequence[Sequence[Row]]:
    """Return the rows of each image by increasing level. Raise UserError if there are too many."""
    images: dict[str, list[Row]] = {}
    for count, row in enumerate(rows):
        if count >= MAX_ROWS:
            raise UserError(
                f"{row.transform} has more than {MAX_ROWS} samples of the chosen images: show fewer (--images), or run "
                "robustshards verify"
            )
        images.setdefault(row.source_id, []).append(row)
    return list(images.values())


def _figures(data_set: DataSet, row: Row, clean: CleanPixels | None) -> Iterator[str]:
    """Yield the HTML of the pictures of one sample: the image, some frames, or clean, attacked and difference."""
    level = f" {row.level}" if row.level else ""
    name = row.source_id.rpartition("/")[2]
    if row.status != manifests.OK:
        text = html.escape(f"{name} {row.transform}{level} failed: {row.error}")
        yield f"<figure><img alt=''><figcaption>{text}</figcaption></figure>"
        return
    drawn = _drawn(data_set.draws(row._asdict()) or {})
    sample = data_set.pick(row)
    for frame, media, data in pictures(sample) if clean is None else _attacked(sample, clean.of(row)):
        alt = f"{name} {row.transform}{level}{frame}"
        yield figure(alt, media, data, html.escape(f"{name}{level}{frame}") + drawn)


def _drawn(draws: Draws) -> str:
    """Return the HTML of what was drawn for a sample: the start of each value, and all of it as a tooltip."""
    values = [f"{name} {json.dumps(value)}" for name, value in draws.items()]
    return "".join(
        f'<br><span title="{html.escape(text)}">{html.escape(printable(text, DRAWS_SHOWN))}</span>' for text in values
    )


def _attacked(sample: Sample, clean: Stored) -> Iterator[tuple[str, str, bytes]]:
    """Yield the pictures of a clean and an attacked image and their difference, as :func:`pictures` does."""
    attacked = sample.pixels()
    pictures = {
        ", clean": in_8_bits(clean),
        ", attacked": in_8_bits(attacked),
        f", difference x {MAGNIFIED}": magnified(attacked, clean),
    }
    for which, picture in pictures.items():
        yield which, MEDIA_TYPES[Png.suffix], Png().encode(picture)
