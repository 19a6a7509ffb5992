"""Tests that the container images can be built for x86-64 and ARM64, and that nodes of both can work together."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from corruptions.kernels import target_features
from pipeline.software import LIBRARIES, installation
from tests.conftest import ROOT
from tests.infra.commands import text

CPUS = {"amd64": ("x86_64-unknown-linux-gnu", "x86-64-v3"), "arm64": ("aarch64-unknown-linux-gnu", "generic")}
"""Architecture as in TARGETARCH -> its LLVM triple and the CPU that kernels are compiled for."""


def test_both_architectures_get_the_same_versions() -> None:
    """Workers with other versions are refused."""
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert {*LIBRARIES[1:]} <= {name.replace("_", "-").lower() for name in pinned}


def stages() -> dict[str, tuple[str, str]]:
    """Return stage of the Dockerfile -> its base and its instructions."""
    found = re.findall(r"^FROM (\S+) AS (\S+)\n(.*?)(?=^FROM |\Z)", text("Dockerfile"), re.MULTILINE | re.DOTALL)
    return {name: (base, body) for base, name, body in found}


@pytest.mark.parametrize("architecture", CPUS)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_each_architecture_compiles_kernels_for_its_cpu(target: str, architecture: str) -> None:
    """Follow the stages of a target up to the base image, as BuildKit does."""
    bodies = []
    stage = target
    while stage in stages():
        base, body = stages()[stage]
        bodies.append(body)
        stage = base.replace("${TARGETARCH}", architecture)
    (default,) = re.findall(r"^ARG CPU=(\S+)\nENV NUMBA_CPU_NAME=\$\{CPU\}$", "".join(bodies), re.MULTILINE)
    assert stage == "${BASE}"
    assert default == CPUS[architecture][1]


def assembly(triple: str, cpu: str, features: str) -> str:
    """Return the assembly of a loop that adds two arrays, as LLVM compiles it for a CPU."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=3)
    module = llvm.parse_assembly((Path(__file__).parent / "sum.ll").read_text())
    module.triple = triple
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


def test_arm_image_is_compiled_without_scalable_vectors() -> None:
    triple, cpu = CPUS["arm64"]
    features = target_features("aarch64", "", "")
    scalable = re.compile(r"\b(ptrue|whilelo|cntw|z\d+\.s)\b")
    assert scalable.search(assembly(triple, "neoverse-v1", ""))
    assert not scalable.search(assembly(triple, "neoverse-v1", features))
    vectors = assembly(triple, cpu, features)
    assert "v0.4s" in vectors
    assert not scalable.search(vectors)


@pytest.mark.parametrize(("triple", "cpu"), CPUS.values())
def test_llvm_knows_the_cpu(triple: str, cpu: str) -> None:
    """LLVM ignores an unknown CPU with a message and compiles for the oldest one."""
    command = f"import llvmlite.binding as b; b.initialize_all_targets(); b.Target.from_triple({triple!r})"
    for name, known in ((cpu, True), ("neoverse-x86", False)):
        program = [sys.executable, "-c", f"{command}.create_target_machine(cpu={name!r})"]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
        assert ("not a recognized processor" not in done.stderr) is known


def test_a_node_of_another_architecture_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes of a cluster need the same versions, but not the same CPU."""
    here = installation()
    for name, value in (("machine", "arm64"), ("node", "other"), ("processor", "arm"), ("platform", "Linux-arm64")):
        monkeypatch.setattr(platform, name, lambda *_, value=value: value)
    assert here.differences() == []
