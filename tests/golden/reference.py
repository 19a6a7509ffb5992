"""The shipped lists of roots: every shipped recipe on the first photographs of scikit-image.

``python -m tests.golden.reference [RECIPE ...]`` writes ``manifests/reference``. A change of pixels needs a new version
of its transform, and new lists.
"""

import sys
import tempfile
from pathlib import Path

from pipeline.datasets.paths import ROOTS_FILE
from pipeline.datasets.roots import Roots, parse_roots
from pipeline.recipes import library
from tests.golden.builds import RECIPES, build
from tests.photographs import ONE_CLASS_EACH, write_photographs

FOLDER = Path(__file__).parents[2] / "manifests" / "reference"
SUFFIX = "-photographs.json"
"""Folder and names of the lists: ``<recipe>-photographs.json``."""

IMAGES = 3
"""Photographs of a list."""


def built_roots(name: str) -> Roots:
    """Build a recipe from the photographs, and return the roots."""
    with tempfile.TemporaryDirectory() as folder:
        source, data = Path(folder) / "photographs", Path(folder) / "data"
        write_photographs(source, ONE_CLASS_EACH)
        recipe = library.load(name).changed(source={"kind": "imagefolder", "limit": IMAGES})
        build(recipe, str(source), data)
        return parse_roots((data / ROOTS_FILE).read_bytes(), name)


def shipped_roots(name: str) -> Roots:
    """Return the shipped roots of a recipe."""
    file = FOLDER / f"{name}{SUFFIX}"
    return parse_roots(file.read_bytes(), str(file))


if __name__ == "__main__":
    for each in sys.argv[1:] or RECIPES:
        print(each, flush=True)
        (FOLDER / f"{each}{SUFFIX}").write_text(built_roots(each).to_json())
