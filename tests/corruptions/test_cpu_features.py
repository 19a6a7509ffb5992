"""CPU features for which kernels are compiled, and the code that results from them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding as llvm

from corruptions.kernels import target_features

WIDE_ARM = "neoverse-v1"
"""LLVM's name of an ARM CPU with scalable vectors of 256 bits."""


def run_python(script: str, **variables: str) -> str:
    """Return what a script prints in a process of its own with these environment variables."""
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    return done.stdout


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
    assert target_features("x86_64", host) == expected


@pytest.mark.parametrize(
    ("host", "chosen", "expected"),
    [
        ("+neon,+sve,+sve2", None, "+neon,+sve,+sve2,-sve"),
        ("+neon,+sve,+sve2", "", "-sve"),
        ("", "+neon,+sve", "+neon,+sve,-sve"),
    ],
)
@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
def test_scalable_vectors_are_excluded_on_arm(machine: str, host: str, chosen: str | None, expected: str) -> None:
    assert target_features(machine, host, chosen) == expected


@pytest.mark.parametrize(("machine", "expected"), [("x86_64", "+sse2"), ("aarch64", "+sse2,-sve")])
def test_numba_cpu_features_are_kept(machine: str, expected: str) -> None:
    script = (
        f"import platform; platform.machine = lambda: {machine!r}; "
        "import corruptions, numba; print(numba.config.CPU_FEATURES)"
    )
    assert run_python(script, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="+sse2") == f"{expected}\n"


def arm_code(code: str, features: str) -> str:
    """Return LLVM's unoptimised code of a kernel as assembly for an ARM CPU with scalable vectors."""
    target = llvm.Target.from_triple("aarch64-linux-gnu")
    machine = target.create_target_machine(cpu=WIDE_ARM, features=features, opt=3)
    module = llvm.parse_assembly(re.sub(r"^target .*$", "", code, flags=re.MULTILINE))
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    assembly: str = machine.emit_assembly(module)
    return assembly


def test_no_code_for_scalable_vectors(tmp_path: Path) -> None:
    """Without the setting, LLVM uses registers z0..z31 in the sum of contrast; with it, those of NEON."""
    script = (
        "import json; from numba import types; from corruptions.kernels.colour.contrast import total; "
        "total.compile((types.Array(types.uint8, 1, 'C'),)); print(json.dumps(total.inspect_llvm(total.signatures[0])))"
    )
    # Optimised code is for this machine. A cache folder of its own keeps unoptimised code out of the usual one.
    code = json.loads(run_python(script, NUMBA_OPT="0", NUMBA_CACHE_DIR=str(tmp_path)))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    scalable, vectors = r"\bz\d+\.[bhsd]\b", r"\bv\d+\.\d+[bhsd]\b"
    assert re.search(scalable, arm_code(code, ""))
    for chosen in ("", "+sve", "+sve2,+sve2-aes", None):
        assembly = arm_code(code, target_features("aarch64", "+neon,+sve,+sve2", chosen))
        assert not re.search(scalable, assembly)
        assert re.search(vectors, assembly)
