"""A decoder that crashes at some photographs."""

from __future__ import annotations

MARK = b"this photograph ends processes"

DECODER = f"""
import ctypes, PIL.Image
sound = PIL.Image.open
def open_(file, *rest, **named):
    if {MARK!r} in file.getvalue():
        ctypes.string_at(0)
    return sound(file, *rest, **named)
PIL.Image.open = open_
"""
"""A decoder with a fault, as the workers of one cluster have it."""

SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", 5)

POISONED = {"class1/image3", "class1/image7"}
