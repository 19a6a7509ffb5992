"""Published packages for the same corruptions, installed into a folder of their own for the benchmark alone."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Corrupt = Callable[[Image, str, int], Any]

PACKAGES = {"imagecorruptions-imaug==1.1.5": "imagecorruptions", "corrupt-tta==0.1.7": "corrupt_tta"}
"""Requirement -> module. The first has the module name of the package that carries our frost textures."""


def load(folder: Path) -> dict[str, Corrupt]:
    """Install the peers into ``folder`` unless they are there; requirement -> function of (image, name, severity)."""
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PACKAGES]
        subprocess.run(command, check=True)
    sys.path.insert(0, str(folder))
    warnings.simplefilter("ignore")  # theirs, on use of old NumPy and scikit-image interfaces
    peers = {}
    for requirement, module in PACKAGES.items():
        function = importlib.import_module(module).corrupt
        peers[requirement] = _caller(function)
    return peers


def _caller(function: Any) -> Corrupt:
    def call(image: Image, name: str, severity: int) -> Any:
        return function(image, corruption_name=name, severity=severity)

    return call


def works(corrupt: Corrupt, image: Image, name: str, severity: int) -> bool:
    """Whether a peer can do it at all."""
    try:
        corrupt(image, name, severity)
    except Exception:  # whatever stops it: it has no time to compare
        return False
    return True
