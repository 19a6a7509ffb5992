"""Tests that the files of infra/ are valid for the tools that read them, and that their commands exist."""

import importlib
import json
import math
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeline.builder.plan import SHARED_COST, SHARED_COST_OF_SEQUENCES, division
from pipeline.execution.processes import WORKER_ENVIRONMENT
from pipeline.recipes import library
from tests.conftest import ROOT
from tests.infra.commands import (
    INFRA,
    MANIFESTS,
    PAGE,
    dry_run,
    files,
    invocations,
    load_yaml,
    parse,
    skip_or_fail,
    text,
)

KUBERNETES = "1.32"
WITHIN = 0.3
"""Tolerated relative difference between the table of costs and the benchmark, which varies from run to run."""


def module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        skip_or_fail(f"{name} is not installed")


def lint(tool: str, *files: Path) -> str:
    beside = Path(sys.executable).parent / tool
    program = beside if beside.exists() else shutil.which(tool)
    if program is None:
        skip_or_fail(f"{tool} is not installed")
    done = subprocess.run([program, *files], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(("name", "arguments"), list(invocations()))
def test_every_command_is_accepted_by_the_command_line(name: str, arguments: list[str]) -> None:
    parsed = parse(arguments)
    if arguments[0] in ("build", "plan"):
        assert parsed["recipe"] in library.shipped()


def test_each_file_has_a_command_and_is_named_on_the_page() -> None:
    assert {name for name, _ in invocations()} == {*MANIFESTS, "Dockerfile", PAGE, "slurm.sh"}
    page = text(PAGE)
    for file in files():
        assert f"infra/{file.name}" in page or file.name in ("README.md", "Dockerfile.dockerignore")


def test_parse_rejects_an_unknown_option() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["build", "imagenet-c", "--source", "a", "--out", "b", "--wokers", "2"])


def test_slurm_script_passes_shellcheck() -> None:
    assert lint("shellcheck", *INFRA.glob("*.sh")) == ""


def test_dockerfile_passes_hadolint() -> None:
    assert lint("hadolint", INFRA / "Dockerfile") == ""


def test_image_contains_all_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    needed = {"constraints.txt", "pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    kept = {line[1:] for line in text("Dockerfile.dockerignore").splitlines() if line.startswith("!")}
    assert kept == needed | {package.removesuffix("*") for package in packages}
    assert all((ROOT / name).exists() for name in kept)
    extras = project["project"]["optional-dependencies"].keys()
    assert set(re.findall(r"(?:EXTRAS=|/src\[)(\w+)", text("Dockerfile"))) <= extras


@pytest.mark.parametrize("name", ["Dockerfile", "slurm.sh"])
def test_workers_get_the_environment_of_local_workers(name: str) -> None:
    for value in WORKER_ENVIRONMENT.values():
        assert all(setting in text(name) for setting in value.split(":"))


def test_ray_accepts_the_cluster_file() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(load_yaml("ray-cluster.yaml"))
    validate_config(config)
    head, worker = (config["available_node_types"][kind] for kind in ("head", "worker"))
    assert "InstanceMarketOptions" not in head["node_config"]
    assert worker["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert worker["min_workers"] == 0
    assert config["max_workers"] == worker["max_workers"]
    assert config["setup_commands"] == config["worker_setup_commands"] == []


@pytest.mark.parametrize("name", MANIFESTS)
def test_kuberay_and_kubernetes_accept_the_manifest(name: str) -> None:
    job = load_yaml(name)
    module("jsonschema").validate(job, json.loads((Path(__file__).parent / "rayjob.schema.json").read_text()))
    validate = module("kubernetes_validate").validate
    for group in groups(job):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": group["template"]["spec"]}
        validate(pod, KUBERNETES, strict=True)
        mounts = {mount["name"] for mount in pod["spec"]["containers"][0].get("volumeMounts", [])}
        assert mounts == {volume["name"] for volume in pod["spec"].get("volumes", [])}


def groups(job: Any) -> list[Any]:
    cluster = job["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def test_ray_version_is_the_pinned_one_everywhere() -> None:
    pinned = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    assert {load_yaml(name)["spec"]["rayClusterSpec"]["rayVersion"] for name in MANIFESTS} == {pinned[1]}
    assert re.findall(r"ray\[default\]==([\d.]+)", text(PAGE)) == [pinned[1]]


def test_number_of_workers_equals_number_of_cores() -> None:
    worker = load_yaml("ray-cluster.yaml")["available_node_types"]["worker"]
    (spot,) = load_yaml("kuberay-build.yaml")["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    in_a_pod = int(spot["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])
    assert worker["resources"]["CPU"] * worker["max_workers"] == in_a_pod * spot["maxReplicas"] == 256
    requested = [parse(arguments).get("workers") for _, arguments in invocations() if "--address" in arguments]
    assert requested == ["256"] * 4


def test_entrypoint_reservation_fits_the_gpu_worker() -> None:
    spec = load_yaml("kuberay-evaluate.yaml")["spec"]
    (gpu,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    limits = gpu["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert spec["entrypointNumGpus"] == int(limits["nvidia.com/gpu"]) == 1
    assert spec["entrypointNumCpus"] <= int(limits["cpu"])


def test_no_file_contains_credentials_or_placeholders() -> None:
    for file in files():
        assert not re.search(r"(?i)(secret_?key|access_?key|password|AKIA[0-9A-Z]{16}|TODO|CHANGEME)", file.read_text())


def test_slurm_dry_run_prints_the_commands() -> None:
    head, others, build = dry_run()
    assert "--nodes=1" in head
    assert "--head" in head
    assert "--nodes=7" in others
    assert build.split()[-2:] == ["--workers", "256"]


def test_costs_match_the_benchmark() -> None:
    measured = (ROOT / "docs" / "benchmark.md").read_text()
    rows = [row for row in text(PAGE).splitlines() if row.startswith("| ImageNet-")]
    assert len(rows) == 3
    frames_a_second = re.search(r"^([\d,]+) frames per second and core as JPEG", measured, re.MULTILINE)
    each = [stage(measured, "whole build")] * 2
    if frames_a_second:
        each.append(1e3 / number(frames_a_second[1]))
    shared = sum(stage(measured, f"&nbsp; {name}") for name in ("read", "decode", "prepare")) * 75
    driver = (
        seconds(measured, "planning 2,000 images x 75 outputs") + seconds(measured, "merging their manifest")
    ) / 15e4
    for row, milliseconds, rows_an_image, blocks in zip(rows, each, (75, 95, 10), (50, 50, 200), strict=False):
        outputs, ms, core_hours, on_256, of_driver, gigabytes, to_write = map(number, row.split("|")[2:9])
        frames = outputs / 50_000 / rows_an_image
        cost = SHARED_COST if frames == 1 else SHARED_COST_OF_SEQUENCES
        _, pieces = division(blocks, 256, rows_an_image, False, cost)
        of_a_piece = shared + math.ceil(rows_an_image / pieces) * frames * milliseconds
        longest = math.ceil(blocks * pieces / 256) * 50_000 / blocks * of_a_piece / 1e3
        expected = (milliseconds, outputs * milliseconds / 3.6e6, longest)
        assert (ms, core_hours, on_256) == pytest.approx(expected, rel=WITHIN)
        assert of_driver == pytest.approx(driver * 50_000 * rows_an_image, rel=WITHIN)
        assert to_write == gigabytes
    if not frames_a_second:
        skip_or_fail("docs/benchmark.md has no measurement of sequences: run make bench")


def number(cell: str) -> float:
    return float(cell.strip().replace(",", ""))


def stage(page: str, name: str) -> float:
    """Return milliseconds per output of the build in shards of 1,000 images, the default shard size."""
    return number(page.split(f"| {name} |")[1].split("|")[1])


def seconds(page: str, name: str) -> float:
    return number(page.split(f"| {name} |")[1].split(" s |", maxsplit=1)[0])
