"""Builds, checks and evaluates data sets: recipes, plans, workers, manifests, verification, metrics, reports."""
