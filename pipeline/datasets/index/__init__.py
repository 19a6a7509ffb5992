"""Indexes of data sets of other tools."""
