"""Finished data sets, built or indexed, and what opens, checks and converts them."""
