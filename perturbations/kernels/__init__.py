"""Compiled inner loops of the perturbations, compiled by the decorators of ``corruptions.kernels``."""
