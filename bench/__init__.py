"""Benchmarks: speed on one thread, compared with published packages in the same run. Not part of the product."""
