"""Evaluate a model of timm on a data set, and print its metrics. Requires timm and torchvision."""

import argparse
from pathlib import Path

import robustshards as rs

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", nargs="+", default=["imagenet-c"], help="data sets, of corrupted and of clean images")
parser.add_argument("--model", default="resnet50", help="name of the model in timm")
parser.add_argument("--weights", help="file with a state dict; default: timm downloads the pretrained weights")
parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
parser.add_argument("--out", default="results", help="folder for predictions and report")
options = parser.parse_args()

model = f"timm:{options.model}"
evaluations = []
for data in options.data:
    out = f"{options.out}/{options.model}-{Path(data).name}"  # predictions: a repeated run continues from them
    evaluations.append(rs.evaluate(model, data, out, weights=options.weights, device=options.device))
report = rs.report(evaluations, out=f"{options.out}/report")
print(report.markdown())
