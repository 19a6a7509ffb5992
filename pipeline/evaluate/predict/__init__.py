"""Predictions of a model for a data set."""
