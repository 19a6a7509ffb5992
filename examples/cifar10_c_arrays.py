"""Build CIFAR-10-C, export it as the arrays in which it was published, and read one of them."""

import argparse
import subprocess
import sys

import numpy as np

import robustshards as rs

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--source", default="cifar-10-batches-py", help="folder of CIFAR-10's Python version")
parser.add_argument("--shards", default="cifar-10-c-shards", help="folder of the shards")
parser.add_argument("--out", default="CIFAR-10-C", help="folder of the arrays")
parser.add_argument("--only", default="all", help="corruptions or groups, for example fog,noise")
options = parser.parse_args()

rs.build("cifar-10-c", options.source, options.shards, only=options.only)
export = [sys.executable, "-m", "robustshards", "export", options.shards, "--to", "cifar-npy", "--out", options.out]
subprocess.run(export, check=True)

name = rs.open(options.shards).conditions[0].transform
images = np.load(f"{options.out}/{name}.npy")  # uint8 (5 severities x images, 32, 32, 3)
labels = np.load(f"{options.out}/labels.npy")  # the labels of all five severities
for severity, part in enumerate(np.split(images, 5), 1):
    print(f"{name}, severity {severity}: {len(part)} images, mean level {part.mean():.1f}")
assert len(images) == len(labels)
