"""Data sets of PyTorch on finished data sets: random access to samples, and streams of conditions."""
