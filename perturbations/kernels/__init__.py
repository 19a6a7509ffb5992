"""Compiled inner loops of the sequences, compiled as those of the corruptions are."""
