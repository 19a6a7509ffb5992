"""The same bytes with and without the vector extensions of the CPU."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import corruptions
import perturbations
from corruptions import c_bar, fourier_noise, low_pass
from corruptions.catalogue import SEVERITIES

PLAIN_CPU = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENCV_CPU_DISABLE": "AVX512_SKX,AVX512_COMMON,AVX512_ICL,AVX2,FMA3,AVX,SSE4_2,SSE4_1,SSSE3,FP16",
    "OPENCV_IPP": "disabled",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
}

SIDE = 224

SEEDS = (17, 18, 19)
"""Seeds of the candidates, which have no severities. What is drawn decides which code runs."""

BANDWIDTHS = (0, 3, 40, 112)
"""Bandwidths of low-pass filters."""

FREQUENCIES = ((0, 0), (0, 10), (5, -3), (31, 31))
"""Spatial frequencies."""


def picture() -> np.ndarray:
    """Smooth waves with texture and flat areas, from integers alone."""
    y, x = np.mgrid[:SIDE, :SIDE]
    waves = np.stack([x * y // 37, (x * x + 3 * y) // 29, 255 - abs(x - y)], axis=-1) % 256
    waves[:40, :40] = 200
    return waves.astype(np.uint8)


def digests() -> dict[str, str]:
    """SHA-256 of each corrupted picture, of each sequence, of each candidate and of filtered ones, fast source."""
    corrupted = {
        f"{name} {severity}": corruptions.corrupt(picture(), name, severity, seed=17)
        for name in (*corruptions.names("all"), *corruptions.names("3dcc-noise"))
        for severity in SEVERITIES
    }
    unlike = {
        f"{name} {severity}": corruptions.corrupt(picture(), name, severity, profile=next(iter(row.levels)), seed=17)
        for name, row in c_bar.CORRUPTIONS.items()
        for severity in SEVERITIES
    }
    perturbed = {
        f"{name} in a sequence": perturbations.perturb(picture(), name, difficulty=3, seed=17)
        for name in perturbations.names("all")
    }
    chosen = {
        f"{name} {seed}": corruptions.corrupt(picture(), name, seed=seed)
        for name in corruptions.names("candidates")
        for seed in SEEDS
    }
    filtered = {
        f"low_pass {bandwidth} {shape}": low_pass.low_pass(picture(), bandwidth, shape=shape)
        for bandwidth in BANDWIDTHS
        for shape in low_pass.SHAPES
    }
    filtered |= {f"fourier_noise {at}": fourier_noise(picture(), *at, 15.7, (1, -1, 1)) for at in FREQUENCIES}
    outputs = corrupted | unlike | perturbed | chosen | filtered
    return {key: hashlib.sha256(made).hexdigest() for key, made in outputs.items()}


@pytest.mark.large
def test_vector_extensions_change_no_byte() -> None:
    """One process makes both without vector extensions: they share kernels, which take long to compile."""
    environment = {**os.environ, **PLAIN_CPU, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-P", __file__]  # beside it are folders of the same names as the packages
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=1800)
    plain, here = json.loads(done.stdout), digests()
    assert plain.keys() == here.keys()
    assert [key for key in here if here[key] != plain[key]] == []


if __name__ == "__main__":
    print(json.dumps(digests()))
