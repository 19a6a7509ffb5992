"""The folder of an evaluation: settings and predictions."""
