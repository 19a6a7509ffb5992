"""Figures, tables, plots and pages from predictions."""
