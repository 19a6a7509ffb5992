"""Published packages of the same corruptions, installed into a separate folder for the benchmark."""

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
"""Module of each requirement. The first has the same module name as the package of the frost textures."""


def load(folder: Path) -> dict[str, Corrupt]:
    """Install the packages into ``folder`` if it does not exist. Return their functions by requirement."""
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PACKAGES]
        subprocess.run(command, check=True)
    sys.path.insert(0, str(folder))
    warnings.simplefilter("ignore")  # the packages use deprecated interfaces of NumPy and scikit-image
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
    """Return whether a package supports a corruption at a severity."""
    try:
        corrupt(image, name, severity)
    except Exception:  # any error means that there is no time to compare
        return False
    return True
