"""Filters of neighbouring pixels, and Fourier transforms."""
