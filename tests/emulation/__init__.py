"""``make emulate``: the committed digests, computed on emulated CPUs."""
