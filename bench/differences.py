"""``make differences``: differences of decoders and resize operators from the default, on real photographs."""

import json
from pathlib import Path

from bench.images import photographs
from bench.report import table
from pipeline.images.decoders import DECODERS
from pipeline.sources.kinds import open_source
from pipeline.transforms.imagenet_s import differences

DATA, PAGE = Path("pipeline/transforms/decoder_differences.json"), Path("docs/decoders.md")

HEAD = """# Decoders and resize operators

JPEG decoders and resize operators of different libraries give different pixels. This page compares each of them with
the default, decoder `pillow` and resize operator `pillow-bilinear`, on prepared images of 224 x 224 pixels. Differences
are in levels of 255: the mean over all values, and the largest of all. `make differences` writes this page.
"""

RULES = """
| decoder | library |
|---|---|
| `pillow` | Pillow |
| `opencv` | OpenCV |
| `ffmpeg` | PyAV, with the arithmetic of the command `ffmpeg -pix_fmt rgb24` |
| `turbo-fast` | libjpeg-turbo with its fast DCT and plain chroma upsampling |
| `nvjpeg` | nvImageCodec; needs an NVIDIA GPU (an H200: mean difference 0.45 and largest 5, before resizing) |

- A decoder decodes grey and YCbCr JPEGs. Pillow decodes CMYK JPEGs and lossless formats for every decoder, because
  lossless formats always give the same pixels and CMYK has no common rule.
- All decoders ignore orientation tags, and all refuse truncated JPEGs.
- `robustshards doctor` lists the decoders and resize operators of your machine.
- `--decoder` and `--resize` choose them for a build ([recipes](recipes.md#decoders-and-resize-operators)).
"""


def main() -> None:
    """Measure the differences, and write the page and the file that ``robustshards list`` reads."""
    folder = photographs(Path("build/bench/photographs"))
    source = open_source("imagefolder", str(folder))
    images = list(source)
    rows = list(differences((folder / image.origin).read_bytes() for image in images))
    libraries = "; ".join(f"{name}: {each.library()}" for name, each in DECODERS.items() if not each.missing())
    measured_on = f"{len(images)} photographs ({libraries})"
    pairs = [{"name": str(row.pair), "mean": round(row.mean, 4), "largest": row.largest} for row in rows]
    DATA.write_text(json.dumps({"measured_on": measured_on, "pairs": pairs}, indent=1) + "\n")
    cells = ((row.pair.decoder, row.pair.resize, f"{row.mean:.2f}", str(row.largest)) for row in rows)
    text = table(("decoder", "resize operator", "mean difference", "largest"), cells, left=2)
    PAGE.write_text("\n".join([HEAD, text, f"\nMeasured on {measured_on}.", RULES]))
    print(text)


if __name__ == "__main__":
    main()
