"""Judging a model on a finished data set: its predictions, and the figures that the papers make of them."""
