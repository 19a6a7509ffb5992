"""A decoder that crashes on some photographs."""

from __future__ import annotations

MARK = b"this photograph ends processes"
"""Bytes that make the decoder crash."""

DECODER = f"""
import ctypes, PIL.Image
original_open = PIL.Image.open
def open_(file, *rest, **named):
    if {MARK!r} in file.getvalue():
        ctypes.string_at(0)
    return original_open(file, *rest, **named)
PIL.Image.open = open_
"""
"""A faulty decoder, installed in the workers of one cluster."""

SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", 5)
"""Options that select a small part of the data set."""

POISONED = {"class1/image3", "class1/image7"}
"""Images that contain the mark."""
