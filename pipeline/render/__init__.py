"""Rendering: the functions that turn source images into samples as a recipe specifies."""
