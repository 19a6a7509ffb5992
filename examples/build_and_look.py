"""Build a part of ImageNet-C from a folder of photographs, and draw a contact sheet of one photograph."""

import argparse

import numpy as np
from PIL import Image

import robustshards as rs

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--source", default="photographs", help="folder with one folder of images per class")
parser.add_argument("--out", default="imagenet-c", help="folder of the data set")
parser.add_argument("--only", default="benchmark", help="corruptions or groups, for example fog,noise")
parser.add_argument("--limit", type=int, default=10, help="number of photographs; 0 takes all")
parser.add_argument("--sheet", default="sheet.png", help="image file for the contact sheet")
options = parser.parse_args()

result = rs.build("imagenet-c", options.source, options.out, only=options.only, limit=options.limit)
print(f"{options.out}: complete = {result.complete}, failed samples = {result.failed}")

rows: dict[str, list[np.ndarray]] = {}  # corruption -> the first photograph at each severity
data = rs.open(options.out)
for transform, severity in data.conditions:
    sample = next(data.samples(transform, severity))
    rows.setdefault(transform, []).append(sample.pixels())
Image.fromarray(np.vstack([np.hstack(images) for images in rows.values()])).save(options.sheet)
print(f"{options.sheet}: one row per corruption ({', '.join(rows)}), severity from left to right")
