"""A contact sheet of a data set as one HTML page: a few images through every transform and level."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

import manifests
from manifests import Row
from pipeline.dataset import DataSet, open_data_set
from pipeline.encoders import Jpeg, Png
from pipeline.errors import UserError
from pipeline.samples import Sample

FRAMES_SHOWN = 7
"""Of a sequence, from the first to the last."""

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


def preview(folder: str, page: str, images: int = 3) -> int:
    """Write the contact sheet of a finished data set; returns how many pictures it has.

    ``images`` are taken evenly from the manifest. Raises UserError where there is no data set, or a sample that is
    not what was built.
    """
    data_set = open_data_set(folder)
    chosen = _choose(data_set, images)
    sections, count = [], 0
    for transform, group in groupby(data_set.rows({"source_id": chosen}), key=lambda row: row.transform):
        lines = [[figure for row in image for figure in _figures(data_set, row)] for image in _by_image(group)]
        if all(len(line) == 1 for line in lines):  # one picture of each image: they share a line
            lines = [[figure for line in lines for figure in line]]
        count += sum(map(len, lines))
        shown = (f"<div class=line style='--pictures:{len(line)}'>{''.join(line)}</div>" for line in lines)
        sections.append(f"<h2>{html.escape(transform)}</h2>{''.join(shown)}")
    title = html.escape(data_set.name)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    text = f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body><h1>{title}</h1>"
    try:
        Path(page).write_text(f"{text}{''.join(sections)}</body></html>\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write the page {page}: {error.strerror}") from error
    return count


def _choose(data_set: DataSet, images: int) -> set[str]:
    """Ids spread evenly over the first step. Raises UserError for an empty data set."""
    for _, rows in groupby(data_set.rows(), key=lambda row: (row.transform, row.level)):
        ids = [row.source_id for row in rows]
        return {ids[place] for place in np.linspace(0, len(ids) - 1, min(images, len(ids))).round().astype(int)}
    raise UserError(f"{data_set.name} is empty")


def _by_image(rows: Iterable[Row]) -> Sequence[Sequence[Row]]:
    """The rows of each image, levels rising."""
    images: dict[str, list[Row]] = {}
    for row in rows:
        images.setdefault(row.source_id, []).append(row)
    return list(images.values())


def _figures(data_set: DataSet, row: Row) -> Iterator[str]:
    """The pictures of one sample: the image, or some frames."""
    level = f" {row.level}" if row.level else ""
    name = f"{row.source_id.rpartition('/')[2]} {row.transform}{level}"
    if row.status != manifests.OK:
        yield f"<figure><img alt=''><figcaption>{html.escape(f'{name} failed: {row.error}')}</figcaption></figure>"
        return
    sample = data_set.pick(row)
    for caption, media, data in _pictures(sample, name):
        text, picture = html.escape(caption), base64.b64encode(data).decode()
        yield (
            f'<figure><img loading=lazy alt="{text}" src="data:{media};base64,{picture}">'
            f"<figcaption>{text.replace(html.escape(row.transform), '').strip()}</figcaption></figure>"
        )


def _pictures(sample: Sample, name: str) -> Iterator[tuple[str, str, bytes]]:
    """Caption, media type and bytes of each picture."""
    suffixes = list(sample.members)
    if len(suffixes) == 1 and suffixes[0] in SHOWN_AS_THEY_ARE:
        yield name, SHOWN_AS_THEY_ARE[suffixes[0]], sample.payload()
        return
    pixels = sample.pixels()
    frames: Sequence[tuple[str, np.ndarray]] = [(name, pixels)]
    if pixels.ndim == 4:
        places = np.unique(np.linspace(0, len(pixels) - 1, FRAMES_SHOWN).round().astype(int))
        frames = [(f"{name}, frame {place}", pixels[place]) for place in places]
    encoder = Jpeg(quality=90) if pixels.ndim == 4 else Png()
    for caption, frame in frames:
        yield caption, SHOWN_AS_THEY_ARE[encoder.suffix], encoder.encode(np.ascontiguousarray(frame))
