"""A recipe as functions."""
