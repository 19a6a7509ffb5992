"""Recipes: TOML files that name data sets to build."""
