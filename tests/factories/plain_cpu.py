"""A picture, and digests of what is made of it without the vector extensions of the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

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


def on_a_plain_cpu(script: str) -> dict[str, str]:
    """The digests that a script prints where no vector extension is used; numba keeps its kernels for that apart."""
    environment = {**os.environ, **PLAIN_CPU}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=True, timeout=600
    )
    printed: dict[str, str] = json.loads(done.stdout)
    return printed
