"""Tests that the container images can be built for x86-64 and ARM64, and that nodes of both can work together."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import llvmlite.binding as llvm
import pytest
import yaml

from corruptions.kernels import target_features
from pipeline.software import LIBRARIES, installation
from tests.conftest import ROOT
from tests.infra import wheels
from tests.infra.commands import text

DOCKERFILE = """\
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS common
ARG EXTRAS=fast
ARG INDEX=
RUN --mount=type=bind,target=/src,rw \\
    pip install --cache-dir /var/cache/pip ${INDEX:+--extra-index-url "${INDEX}"} \\
        --constraint /src/constraints.txt "/src[${EXTRAS}]" "tools[shell]"
"""
PROJECT = """\
[project]
dependencies = ["pure>=1", "arm; platform_machine == 'aarch64'", "windows; sys_platform == 'win32'"]
optional-dependencies = {fast = ["native>=2"], unused = ["unused"]}
"""
CONSTRAINTS = "pure==1.0\nnative==2.1\nTools==3.0\narm==1.0\n"
X86, ARM = "cp311-abi3-manylinux_2_28_x86_64", "cp311-cp311-manylinux2014_aarch64"
PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "pure-1.0-py3-none-any": ("native[more]>=2",),
    "pure-1.1-py3-none-any": (),
    f"native-2.1-{X86}": ('unpinned; extra == "more"',),
    f"native-2.1-{ARM}": ('unpinned; extra == "more"',),
    "native-2.1-cp311-cp311-musllinux_1_2_aarch64": (),
    "tools-3.0-py3-none-any": ('shell; extra == "shell"', 'unused; extra == "unused"'),
    "shell-1.0-py3-none-any": (),
    "unpinned-5.0-py3-none-any": (),
    f"arm-1.0-{ARM}": (),
}
"""Wheels in a local folder, without ``.whl``, -> their dependencies."""

CPUS = {"amd64": ("x86_64-unknown-linux-gnu", "x86-64-v3"), "arm64": ("aarch64-unknown-linux-gnu", "generic")}
"""Architecture as in TARGETARCH -> its LLVM triple and the CPU that kernels are compiled for."""


def checkout(folder: Path, without: str = "") -> list[str]:
    """Write a checkout, and wheels whose names do not contain ``without``. Return the arguments of main."""
    (folder / "infra").mkdir()
    (folder / "infra" / "Dockerfile").write_text(DOCKERFILE)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "constraints.txt").write_text(CONSTRAINTS)
    (folder / "wheels").mkdir()
    for name, requires in PUBLISHED.items():
        if not without or without not in name:
            write_wheel(folder / "wheels" / f"{name}.whl", requires)
    return ["--root", str(folder), "--", "--isolated", "--no-index", f"--find-links={folder / 'wheels'}"]


def write_wheel(path: Path, requires: tuple[str, ...]) -> None:
    """Write a wheel that contains only metadata."""
    name, version, *_ = path.name.split("-")
    extras = re.findall(r'extra == "(\w+)"', " ".join(requires))
    fields = [("Metadata-Version", "2.1"), ("Name", name), ("Version", version)]
    fields += [("Provides-Extra", extra) for extra in extras] + [("Requires-Dist", each) for each in requires]
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}-{version}.dist-info/METADATA", "".join(f"{key}: {value}\n" for key, value in fields))
        wheel.writestr(f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")


def test_wheels_are_listed_for_both_architectures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wheels.main(checkout(tmp_path)) == 0
    rows = [re.split(r"\s{2,}", line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["distribution", "x86_64", "aarch64"],
        ["arm", "-", f"1.0 {ARM}"],
        ["native", f"2.1 {X86}", f"2.1 {ARM}"],
        ["pure", "1.0 py3-none-any", "1.0 py3-none-any"],
        ["shell *", "1.0 py3-none-any", "1.0 py3-none-any"],
        ["tools", "3.0 py3-none-any", "3.0 py3-none-any"],
        ["unpinned *", "5.0 py3-none-any", "5.0 py3-none-any"],
        [""],
        ["linux/x86_64: 5 wheels, 0 distributions without a wheel"],
        ["linux/aarch64: 6 wheels, 0 distributions without a wheel"],
    ]


def test_distributions_without_a_wheel_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, folder, *pip = checkout(tmp_path, without="manylinux2014_aarch64")
    assert wheels.main([root, folder, "--architecture", "aarch64", *pip]) == 1
    output = capsys.readouterr()
    missing = re.findall(r"^linux/aarch64: no wheel of (\S+)$", output.out, re.MULTILINE)
    assert missing == ["arm==1.0", "native==2.1"]
    assert all(re.search(rf"ERROR: .*\b{name.partition('=')[0]}\b", output.err) for name in missing)
    assert "pure" not in output.err


def test_an_unknown_base_image_is_refused(tmp_path: Path) -> None:
    checkout(tmp_path)
    (tmp_path / "infra" / "Dockerfile").write_text(DOCKERFILE.replace("bookworm", "alpine"))
    with pytest.raises(ValueError, match=r"slim-alpine.*bookworm"):
        wheels.read_image(tmp_path)


def test_the_image_is_read_from_the_dockerfile_and_the_project() -> None:
    image = wheels.read_image(ROOT)
    names = {re.split(r"[<>=!~]", str(each), maxsplit=1)[0] for each in image.requirements}
    assert (image.python, image.glibc) == ("3.11", 36)
    assert {"numba", "wand", "s3fs", "gcsfs", "torch", "ray[default]"} <= names
    assert not {"pytest", "onnx", "duckdb"} & names


def test_both_architectures_get_the_same_versions() -> None:
    """Workers with other versions are refused."""
    assert {*LIBRARIES[1:]} <= wheels.read_pins(ROOT / "constraints.txt").keys()


def test_the_workflow_checks_wheels_when_their_sources_change() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())
    events = workflow[True]  # YAML 1.1 reads the key "on" as a boolean
    assert events["push"]["paths"] == events["pull_request"]["paths"]
    assert all((ROOT / path).is_file() for path in events["push"]["paths"])
    assert {"constraints.txt", "pyproject.toml", "infra/Dockerfile"} <= {*events["push"]["paths"]}
    *_, check = workflow["jobs"]["wheels"]["steps"]
    assert check["run"] == f"python -m {wheels.__name__}"


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
