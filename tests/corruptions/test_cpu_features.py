"""CPU features for which kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from corruptions.kernels import target_features


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("+avx2,-avx512f,-avx512vbmi2", "+avx2,-avx512f,-avx512vbmi2"),
        ("+avx512f,-avx512vbmi2,+sse2", "+avx512f,-avx512vbmi2,+sse2"),
        ("+avx512f,+avx512vbmi2,+sse2", "+avx512f,+avx512vbmi2,+sse2,-prefer-256-bit"),
        ("", ""),
    ],
)
def test_full_vectors_are_used_since_ice_lake(host: str, expected: str) -> None:
    assert target_features(host) == expected


def test_numba_cpu_features_are_kept() -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}
    script = "import corruptions, numba; print(numba.config.CPU_FEATURES)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "+sse2\n"
