"""The same bytes with and without the vector extensions of the CPU."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import corruptions
from corruptions.catalogue import SEVERITIES
from corruptions.kernels import target_features

PLAIN_CPU = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENCV_CPU_DISABLE": "AVX512_SKX,AVX512_COMMON,AVX512_ICL,AVX2,FMA3,AVX,SSE4_2,SSE4_1,SSSE3,FP16",
    "OPENCV_IPP": "disabled",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
}
SIDE = 224


def picture() -> np.ndarray:
    """Smooth waves with texture and flat areas, from integers alone."""
    y, x = np.mgrid[:SIDE, :SIDE]
    waves = np.stack([x * y // 37, (x * x + 3 * y) // 29, 255 - abs(x - y)], axis=-1) % 256
    waves[:40, :40] = 200
    return waves.astype(np.uint8)


def digests() -> dict[str, str]:
    """Name and severity to the SHA-256 of the corrupted picture, fast source."""
    return {
        f"{name} {severity}": hashlib.sha256(corruptions.corrupt(picture(), name, severity, seed=17)).hexdigest()
        for name in corruptions.names("all")
        for severity in SEVERITIES
    }


def on_a_plain_cpu(script: str) -> dict[str, str]:
    """The digests that a script prints where no vector extension is used; numba keeps its kernels for that apart."""
    environment = {**os.environ, **PLAIN_CPU}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=True, timeout=600
    )
    printed: dict[str, str] = json.loads(done.stdout)
    return printed


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
