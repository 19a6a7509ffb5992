"""A contact sheet of a data set as one HTML page: a few images through every transform and level."""

from __future__ import annotations

import base64
import html
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TextIO

import numpy as np

import manifests
from manifests import Row
from pipeline.datasets.base import DataSet
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.samples import Sample
from pipeline.errors import RefusedFileError, UnfinishedError, UserError
from pipeline.images.encoders import Jpeg, Png
from pipeline.storage import local_path, open_regular

FRAMES_SHOWN = 7
"""Of a sequence, from the first to the last."""

MAX_PAGE = 2**28
"""Characters of a page: 256 MiB are about what browsers open."""

MAX_ROWS = 10_000
"""Rows of one transform on a page: 100 images at 100 levels."""

DOCTYPE = "<!doctype html>"

SHOWN_AS_THEY_ARE: Mapping[str, str] = {".jpg": "image/jpeg", ".png": "image/png"}
"""Payloads that browsers show -> media type."""

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


def preview(folder: str, page: str, images: int = 3, data: str | None = None) -> int:
    """Write the contact sheet of a finished data set.

    Args:
        folder: Path or URL of the data set.
        page: The HTML file to write; an earlier page of this name is replaced, any other file is not.
        images: How many to show, taken evenly from the manifest.
        data: Where the files of an index are, if the user names it.

    Returns:
        The number of pictures.

    Raises:
        UserError: No data set, a sample that is not what was built, a page that would be too large, or a file of
            another kind in its place.
        UnfinishedError: The disk is full.
    """
    data_set = open_data_set(folder, data)
    path = _place(page)
    chosen = _choose(data_set, images)
    aside = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        with open(aside, "x", encoding="utf-8", errors="xmlcharrefreplace") as file:
            count = _write(data_set, chosen, file)
        os.replace(aside, path)
    except OSError as error:
        if error.filename and error.filename != str(aside):
            raise
        what = f"cannot write the page {page}: {error.strerror}"
        if isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError):
            raise UserError(what) from error
        raise UnfinishedError(f"{what}; free some room and run the same command again") from error
    finally:
        with suppress(OSError):
            aside.unlink()
    return count


def _place(page: str) -> Path:
    """Return the path of the page. Raises UserError for what is there and is no page of ours."""
    try:
        path = local_path(page).resolve()
        if path.is_dir():
            raise UserError(f"{page} is a folder: name the page, for example {path / 'preview.html'}")
        if not path.exists():
            return path
        with open_regular(path) as file:
            start = file.read(len(DOCTYPE))
    except RefusedFileError as error:
        raise UserError(f"{page} cannot be the page: {error.strerror}") from error
    if start and start != DOCTYPE.encode():
        raise UserError(f"{page} is there and is no HTML page of a preview: choose another name")
    return path


def _write(data_set: DataSet, chosen: Collection[str], file: TextIO) -> int:
    """Write the page; returns how many pictures it has."""
    title = html.escape(data_set.name)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    size = file.write(f"{DOCTYPE}<html lang=en><head>{head}<style>{STYLE}</style></head><body><h1>{title}</h1>")
    count = 0
    for transform, group in groupby(data_set.rows({"source_id": chosen}), key=lambda row: row.transform):
        lines: list[list[str]] = []
        for image in _by_image(group):
            lines.append([])
            for figure in (figure for row in image for figure in _figures(data_set, row)):
                lines[-1].append(figure)
                size += len(figure)
                if size > MAX_PAGE:
                    raise UserError(
                        f"the page would have more than the {MAX_PAGE} bytes allowed: show fewer images (--images)"
                    )
        if all(len(line) == 1 for line in lines):  # one picture of each image: they share a line
            lines = [[figure for line in lines for figure in line]]
        count += sum(map(len, lines))
        shown = (f"<div class=line style='--pictures:{len(line)}'>{''.join(line)}</div>" for line in lines)
        file.write(f"<h2>{html.escape(transform)}</h2>{''.join(shown)}")
    file.write("</body></html>\n")
    return count


def _choose(data_set: DataSet, images: int) -> set[str]:
    """Ids spread evenly over the first condition. Raises UserError for an empty data set."""
    if images < 1:
        raise UserError(f"invalid number of images {images}: at least 1 is allowed")
    count = sum(1 for _ in _first_condition(data_set))
    if not count:
        raise UserError(f"{data_set.name} is empty")
    places = set(np.linspace(0, count - 1, min(images, count)).round().astype(int).tolist())
    return {row.source_id for place, row in enumerate(_first_condition(data_set)) if place in places}


def _first_condition(data_set: DataSet) -> Iterator[Row]:
    for _, rows in groupby(data_set.rows(), key=lambda row: (row.transform, row.level)):
        yield from rows
        return


def _by_image(rows: Iterable[Row]) -> Sequence[Sequence[Row]]:
    """Return the rows of each image, levels rising. Raises UserError for more than any data set has."""
    images: dict[str, list[Row]] = {}
    for count, row in enumerate(rows):
        if count >= MAX_ROWS:
            raise UserError(f"{row.transform} has more than {MAX_ROWS} rows of a few images: run robustshards verify")
        images.setdefault(row.source_id, []).append(row)
    return list(images.values())


def _figures(data_set: DataSet, row: Row) -> Iterator[str]:
    """Yield the pictures of one sample: the image, or some frames."""
    level = f" {row.level}" if row.level else ""
    name = row.source_id.rpartition("/")[2]
    if row.status != manifests.OK:
        text = html.escape(f"{name} {row.transform}{level} failed: {row.error}")
        yield f"<figure><img alt=''><figcaption>{text}</figcaption></figure>"
        return
    for frame, media, data in _pictures(data_set.pick(row)):
        alt, caption = html.escape(f"{name} {row.transform}{level}{frame}"), html.escape(f"{name}{level}{frame}")
        picture = base64.b64encode(data).decode()
        yield (
            f'<figure><img loading=lazy alt="{alt}" src="data:{media};base64,{picture}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )


def _pictures(sample: Sample) -> Iterator[tuple[str, str, bytes]]:
    """Which frame it is, media type and bytes of each picture. Raises UserError for what cannot be decoded."""
    suffixes = list(sample.members)
    if len(suffixes) == 1 and suffixes[0] in SHOWN_AS_THEY_ARE:
        yield "", SHOWN_AS_THEY_ARE[suffixes[0]], sample.payload()
        return
    try:
        pixels = sample.pixels()
    except ValueError as error:
        raise UserError(f"{sample.row.key} cannot be decoded ({error}): run robustshards verify") from error
    frames: Sequence[tuple[str, np.ndarray]] = [("", pixels)]
    if pixels.ndim == 4:
        places = np.unique(np.linspace(0, len(pixels) - 1, FRAMES_SHOWN).round().astype(int))
        frames = [(f", frame {place}", pixels[place]) for place in places]
    encoder = Jpeg(quality=90) if pixels.ndim == 4 else Png()
    for which, frame in frames:
        yield which, SHOWN_AS_THEY_ARE[encoder.suffix], encoder.encode(np.ascontiguousarray(frame))
