"""Read the shards of a data set with webdataset and with Hugging Face datasets. Requires both packages."""

import argparse
from pathlib import Path

import datasets
import webdataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", default="imagenet-c", help="folder of the data set")
parser.add_argument("--transform", default="fog", help="corruption to read")
parser.add_argument("--severity", type=int, default=3, help="severity to read")
options = parser.parse_args()

folder = Path(options.data, "shards", options.transform, str(options.severity))
shards = sorted(map(str, folder.glob("*.tar")))
if not shards:
    parser.error(f"there are no shards in {folder}: choose another --data, --transform or --severity")

labels = []
dataset = webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8")
for image, label, about in dataset.to_tuple("jpg", "cls", "json"):  # image: uint8 (H, W, 3)
    assert image.ndim == 3
    assert about["transform"] == options.transform
    labels.append(label)
print(f"webdataset: {len(labels)} images, {len(set(labels))} classes")

stream = datasets.load_dataset("webdataset", data_files=shards, split="train", streaming=True)
labels = [sample["cls"] for sample in stream]  # sample["jpg"] is a PIL image
print(f"datasets: {len(labels)} images, {len(set(labels))} classes")
