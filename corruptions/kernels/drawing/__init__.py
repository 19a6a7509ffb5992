"""Patterns, lines and layers, drawn or blended with an image."""
