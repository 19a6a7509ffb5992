"""Build ImageNet-C on the workers of a Ray cluster that is already running (`ray start --head`)."""

import argparse

import robustshards as rs

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--address", default="auto", help="address of the cluster; auto finds one on this machine")
parser.add_argument("--source", default="photographs", help="folder or URL that every machine can read")
parser.add_argument("--out", default="imagenet-c", help="folder or URL that every machine can write")
parser.add_argument("--only", default="benchmark", help="corruptions or groups, for example fog,noise")
parser.add_argument("--workers", type=int, help="maximum number of workers; default: one per CPU of the cluster")
options = parser.parse_args()

result = rs.build(
    "imagenet-c", options.source, options.out, only=options.only, address=options.address, workers=options.workers
)
print(f"built {result.done.shards} shards, {result.shards_before} existed before, {result.failed} samples failed")
if not result.complete:
    raise SystemExit("some shards are missing: run the same command again")
