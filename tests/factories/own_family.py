"""An installed package that adds a family of transforms, and commands that run with it."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.transforms.registry import ENTRY_POINTS
from tests.factories.commands import run_process

FACTORIES = Path(__file__).parent
VERSION = "1.5"

RECIPE = """
extends = "imagenet-c"
name = "my-waves"
title = "Waves on photographs of 32 x 32"

[prepare]
steps = [["square", 32]]

[transforms]
family = "own-waves"
only = ["everything"]
levels = [0]

[encoder]
name = "png"

[shards]
size = 2
"""

Points = Mapping[str, Mapping[str, str]]
"""Group of entry points -> name -> ``module:attribute``."""

FAMILY_ALONE: Points = {ENTRY_POINTS: {"own-waves": "own_waves:FAMILY"}}


@dataclass(frozen=True)
class OwnFamily:
    """The folder in which the package is installed, and a recipe of its family."""

    packages: Path
    recipe: Path

    def run(self, *arguments: object, is_installed: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command with or without the package."""
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("PYTHONPATH", raising=False)
            if is_installed:
                patch.setenv("PYTHONPATH", str(self.packages))
            return run_process(*arguments)


def install(packages: Path, points: Points, modules: Mapping[str, Path], version: str = VERSION) -> None:
    """Write the files that pip writes for the distribution own-waves: modules, name, version and entry points."""
    about = packages / f"own_waves-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: own-waves\nVersion: {version}\n")
    lines = [
        line for group, each in points.items() for line in (f"[{group}]", *(f"{n} = {v}" for n, v in each.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join([*lines, ""]))
    for name, path in modules.items():
        shutil.copyfile(path, packages / f"{name}.py")


@pytest.fixture(scope="module")
def own_family(tmp_path_factory: pytest.TempPathFactory) -> OwnFamily:
    folder = tmp_path_factory.mktemp("own-family")
    install(folder / "packages", FAMILY_ALONE, {"own_waves": FACTORIES / "own_waves.py"})
    (folder / "waves.toml").write_text(RECIPE)
    return OwnFamily(folder / "packages", folder / "waves.toml")
