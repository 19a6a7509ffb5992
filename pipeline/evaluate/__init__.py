"""Evaluation of models on data sets: predictions, benchmark metrics and reports."""
