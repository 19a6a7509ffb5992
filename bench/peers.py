"""Published packages of the same corruptions, installed into separate folders for the benchmark."""

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Corrupt = Callable[[Image, str, int], Any]

DETECTION = "imagecorruptions-imaug==1.1.5"
"""The fork of ``imagecorruptions``, which corrupts images of any size for object detection."""

PACKAGES = {DETECTION: "imagecorruptions", "corrupt-tta==0.1.7": "corrupt_tta"}
"""Module of each requirement. The first has the same module name as the package of the frost textures."""

ALBUMENTATIONS = ("albumentations==2.0.8", "albucore==0.0.24", "stringzilla==5.3.2", "simsimd==6.5.16")
"""albumentations, and those of its requirements that this project does not have."""


def load(folder: Path) -> dict[str, Corrupt]:
    """Install the packages into ``folder`` if it does not exist. Return their functions by requirement."""
    _install(folder, PACKAGES)
    warnings.simplefilter("ignore")  # the packages use deprecated interfaces of NumPy and scikit-image
    peers = {}
    for requirement, module in PACKAGES.items():
        function = importlib.import_module(module).corrupt
        peers[requirement] = _caller(function)
    return peers


def load_albumentations(folder: Path) -> ModuleType:
    """Install albumentations into ``folder`` if it does not exist. Return the module."""
    _install(folder, ALBUMENTATIONS)
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # otherwise it looks for a newer version
    return importlib.import_module("albumentations")


def _install(folder: Path, requirements: Iterable[str]) -> None:
    if not folder.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*command, *requirements], check=True)
    sys.path.insert(0, str(folder))


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
