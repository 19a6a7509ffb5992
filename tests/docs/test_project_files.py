"""CITATION.cff and the public CI workflow."""

import os
import tomllib
from typing import Any

import pytest
import yaml

from pipeline.transforms.registry import FAMILIES
from tests.conftest import ROOT
from tests.emulation.__main__ import FOLDER

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = {"authors", "cff-version", "message", "title"}
"""Keys that every citation file must have; a reference must have those of the second set."""

REQUIRED_OF_REFERENCE = {"authors", "title", "type"}


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    return content


def test_citation_has_the_required_keys(citation: dict[str, Any]) -> None:
    assert citation.keys() >= REQUIRED
    assert citation["cff-version"] == "1.2.0"
    assert all(reference.keys() >= REQUIRED_OF_REFERENCE for reference in citation["references"])
    people = [author for each in (citation, *citation["references"]) for author in each["authors"]]
    assert all(author.keys() in ({"name"}, {"family-names", "given-names"}) for author in people)


def test_citation_is_of_this_project(citation: dict[str, Any]) -> None:
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.citation])
def test_citation_lists_the_paper_of_every_family(family: str, citation: dict[str, Any]) -> None:
    entry = " ".join(FAMILIES[family].citation.split())
    (reference,) = (each for each in citation["references"] if each["title"] in entry)
    authors = " and ".join(f"{each['family-names']}, {each['given-names']}" for each in reference["authors"])
    assert f"author = {{{authors}}}" in entry
    assert f"year = {{{reference['year']}}}" in entry


def test_workflow_runs_the_script_of_ci_on_pushes_and_pull_requests() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow[True].keys() == {"push", "pull_request"}  # YAML 1.1 reads the key "on" as a boolean
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] == "ubuntu-latest"
    assert "python:3.11" in job["container"]["image"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_workflow_emulates_cpus_every_night() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "emulate.yml").read_text())
    assert workflow[True].keys() == {"schedule", "workflow_dispatch"}
    (job,) = workflow["jobs"].values()
    assert "bookworm" in job["container"]  # the emulated Debian must have the same version of Python
    steps = job["steps"]
    assert any(step.get("run", "").startswith("make emulate") for step in steps)
    cached = {step["with"]["path"] for step in steps if "uses" in step and "actions/cache/" in step["uses"]}
    assert cached == {FOLDER.as_posix()}
    (upload,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    assert f"--page {upload['with']['path']}" in (ROOT / "Makefile").read_text()
