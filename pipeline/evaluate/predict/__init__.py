"""Predict a data set through a model."""
