"""Families of transforms."""
