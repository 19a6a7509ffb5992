"""Train a small classifier, and evaluate it on corrupted and clean images. The model never leaves this program."""

import argparse

import numpy as np
import torch

import robustshards as rs

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--source", default="photographs", help="folder with one folder of images per class")
parser.add_argument("--only", default="noise,weather", help="corruptions or groups")
parser.add_argument("--epochs", type=int, default=20, help="passes over the clean images")
parser.add_argument("--out", default="own-model", help="folder for the data sets and the report")
options = parser.parse_args()

rs.build("imagenet-c-clean", options.source, f"{options.out}/clean")
rs.build("imagenet-c", options.source, f"{options.out}/corrupted", only=options.only)

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
clean = rs.open(f"{options.out}/clean")
samples = list(clean.samples())
images = (np.stack([sample.pixels() for sample in samples]) / 255 - MEAN) / STD
inputs = torch.tensor(images, dtype=torch.float32).permute(0, 3, 1, 2)
labels = torch.tensor([sample.row.label for sample in samples])
outputs = clean.labels.classes or 1 + int(labels.max())  # folders named by numbers do not tell the number of classes
model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, outputs))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(options.epochs):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()

evaluations = [rs.evaluate(model, f"{options.out}/{name}", mean=MEAN, std=STD) for name in ("clean", "corrupted")]
print(rs.report(evaluations, out=f"{options.out}/report").markdown())
