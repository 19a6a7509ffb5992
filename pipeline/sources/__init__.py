"""Sources of clean images."""
