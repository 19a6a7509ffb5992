"""``make differences``: how far decoders and resize operators are from the default, on real photographs."""

from __future__ import annotations

import json
from pathlib import Path

from bench.images import photographs
from pipeline.images.decoders import DECODERS
from pipeline.sources.kinds import open_source
from pipeline.transforms.imagenet_s import differences

DATA, PAGE = Path("pipeline/transforms/decoder_differences.json"), Path("docs/decoders.md")

HEAD = """# Decoders and resize operators

Written by `make differences`: the prepared images (224 x 224) of each decoder with `pillow-bilinear`, and of each
resize operator with the decoder `pillow`, against `pillow` with `pillow-bilinear`. Differences are in levels of 255;
the mean is over all values, the largest is the largest of all.
"""

RULES = """
A decoder is asked for grey and YCbCr JPEGs; CMYK JPEGs and the lossless formats are decoded by Pillow whichever is
named, so that only the arithmetic differs. Orientation tags are ignored by all. A JPEG that is cut short fails in all.
`ffmpeg` is PyAV in this process, with the arithmetic of the command `ffmpeg -pix_fmt rgb24`. `turbo-fast` is
libjpeg-turbo with its fast DCT and plain upsampling of chroma. `nvjpeg` needs an NVIDIA GPU and nvImageCodec.
`robustshards doctor` says which of them are here.
"""


def main() -> None:
    """Measure, write the page and the numbers that ``robustshards list`` shows."""
    folder = photographs(Path("build/bench/photographs"))
    source = open_source("imagefolder", str(folder))
    images = list(source)
    rows = list(differences((folder / image.origin).read_bytes() for image in images))
    libraries = "; ".join(f"{name}: {each.library()}" for name, each in DECODERS.items() if not each.missing())
    measured_on = f"{len(images)} photographs ({libraries})"
    pairs = [{"name": str(row.pair), "mean": round(row.mean, 4), "largest": row.largest} for row in rows]
    DATA.write_text(json.dumps({"measured_on": measured_on, "pairs": pairs}, indent=1) + "\n")
    table = ["| decoder | resize operator | mean difference | largest |", "|---|---|---:|---:|"]
    table += [f"| {row.pair.decoder} | {row.pair.resize} | {row.mean:.2f} | {row.largest} |" for row in rows]
    PAGE.write_text("\n".join([HEAD, *table, f"\nMeasured on {measured_on}.", RULES]))
    print("\n".join(table))


if __name__ == "__main__":
    main()
