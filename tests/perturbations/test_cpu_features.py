"""The same bytes with and without the vector extensions of the CPU."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import perturbations
from tests.corruptions.test_cpu_features import PLAIN_CPU, picture


def digests() -> dict[str, str]:
    """Name to the SHA-256 of the sequence, fast source."""
    return {
        name: hashlib.sha256(perturbations.perturb(picture(), name, difficulty=3, seed=17)).hexdigest()
        for name in perturbations.names("all")
    }


def test_vector_extensions_change_no_byte() -> None:
    environment = {**os.environ, **PLAIN_CPU}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, env=environment, check=True, timeout=600
    )
    plain, here = json.loads(done.stdout), digests()
    assert [name for name in here if here[name] != plain[name]] == []


if __name__ == "__main__":
    print(json.dumps(digests()))
