"""Data sets: built here, or found and indexed; what reads, checks and converts them."""
