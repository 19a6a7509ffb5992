"""The same bytes with and without the vector extensions of the CPU."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

import corruptions
from corruptions.catalogue import SEVERITIES
from corruptions.kernels import target_features
from tests.factories.plain_cpu import on_a_plain_cpu, picture


def digests() -> dict[str, str]:
    """Name and severity to the SHA-256 of the corrupted picture, fast source."""
    return {
        f"{name} {severity}": hashlib.sha256(corruptions.corrupt(picture(), name, severity, seed=17)).hexdigest()
        for name in corruptions.names("all")
        for severity in SEVERITIES
    }


def test_vector_extensions_change_no_byte() -> None:
    plain, here = on_a_plain_cpu(__file__), digests()
    assert [key for key in here if here[key] != plain[key]] == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("+avx2,-avx512f,-avx512vbmi2", "+avx2,-avx512f,-avx512vbmi2"),
        ("+avx512f,-avx512vbmi2,+sse2", "+avx512f,-avx512vbmi2,+sse2"),
        ("+avx512f,+avx512vbmi2,+sse2", "+avx512f,+avx512vbmi2,+sse2,-prefer-256-bit"),
        ("", ""),
    ],
)
def test_whole_vectors_are_asked_for_since_ice_lake(host: str, expected: str) -> None:
    assert target_features(host) == expected


def test_features_that_the_environment_names_are_kept() -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}
    script = "import corruptions, numba; print(numba.config.CPU_FEATURES)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "+sse2\n"


if __name__ == "__main__":
    print(json.dumps(digests()))
