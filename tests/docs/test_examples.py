"""Every example of the README runs as it stands, in order, in a folder that holds ``photographs``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.factories.commands import program_on_path

EXAMPLE = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples_run(photographs: Path, tmp_path: Path) -> None:
    shutil.copytree(photographs, tmp_path / "photographs")
    examples = EXAMPLE.findall((ROOT / "README.md").read_text())
    assert {language for language, _ in examples} == {"bash", "python"}
    with program_on_path() as folder:
        path = os.pathsep.join(map(str, (folder, Path(sys.executable).parent, os.environ["PATH"])))
        for language, text in examples:
            command = ["bash", "-ec", text] if language == "bash" else [sys.executable, "-c", text]
            done = subprocess.run(
                command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
