"""ImageNet-C-bar and CIFAR-10-C-bar through the command line: built, verified, exported, indexed, evaluated."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from corruptions import c_bar
from corruptions.catalogue import SEVERITIES
from pipeline.errors import UserError
from pipeline.evaluate.report.load import open_evaluation
from pipeline.recipes import library
from pipeline.transforms.family import Condition
from tests.conftest import Run
from tests.factories.data_sets import exported, rows_of
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.layouts import cifar_10
from tests.factories.reports import cells, only, report_on, table, value

IMAGES = 5
"""Number of images of the small CIFAR-10."""


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cifar_10(tmp_path_factory.mktemp("cifar"))


@pytest.fixture(scope="module")
def small(cifar: Path, robustshards: Run) -> Path:
    """Build CIFAR-10-C-bar of five images. Tests must not change the folder."""
    command = ("build", "cifar-10-c-bar", "--source", cifar, "--out", cifar.parent / "data", "--shard-size", 3)
    robustshards.succeed(*command, "--workers", 2)
    return cifar.parent / "data"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, photographs: Path, robustshards: Run) -> Path:
    """Build ImageNet-C-bar of one photograph. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("imagenet") / "data"
    robustshards.succeed("build", "imagenet-c-bar", "--source", photographs, "--out", folder, "--limit", 1)
    return folder


def indexed(robustshards: Run, data: Path, out: Path) -> dict[str, Any]:
    """Index a data set, verify it, and return the facts of the index."""
    done = robustshards.succeed("index", data, "--out", out, "--json")
    assert robustshards("verify", out, "--data", data).returncode == 0
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


# Recipes


@pytest.mark.parametrize(("recipe", "profile"), [("imagenet-c-bar", "imagenet"), ("cifar-10-c-bar", "cifar")])
def test_recipes_build_the_published_ten(recipe: str, profile: str) -> None:
    conditions = library.load(recipe).conditions()
    assert set(conditions) == {Condition(name, level) for name in c_bar.PUBLISHED[profile] for level in SEVERITIES}
    assert len(conditions) == 50
    original = {"imagenet": "imagenet-c", "cifar": "cifar-10-c"}[profile]
    bar, plain = library.load(recipe), library.load(original)
    assert (bar.prepare, bar.encoder, bar.profile) == (plain.prepare, plain.encoder, plain.profile)
    clean, plain_clean = library.load(f"{recipe}-clean"), library.load(f"{original}-clean")
    assert clean.model_copy(update={"name": "", "title": ""}) == plain_clean.model_copy(
        update={"name": "", "title": ""}
    )


def test_corruptions_of_the_other_set_are_refused() -> None:
    with pytest.raises(UserError, match="lines was not published for the profile imagenet; use caustic_refraction"):
        library.load("imagenet-c-bar").changed(transforms={"only": ["sparkles", "lines"]})
    with pytest.raises(UserError, match="plasma_noise was not published for the profile cifar"):
        library.load("cifar-10-c-bar").changed(transforms={"only": ["plasma_noise"]})
    with pytest.raises(UserError, match="profile: 'tiny' is not a profile of c-bar; use imagenet, cifar"):
        library.load("imagenet-c-bar").changed(profile="tiny")


def test_list_shows_the_levels(robustshards: Run) -> None:
    facts = json.loads(robustshards("list", "--json").stdout)
    assert facts["c_bar"]["sparkles"] == {
        "levels": {"imagenet-c-bar": [1, 2, 3, 5, 6], "cifar-10-c-bar": [0.7, 3.5, 5.6, 6.3, 7]},
        "version": 1,
    }
    assert facts["c_bar"]["lines"]["levels"] == {"cifar-10-c-bar": [0.5, 1, 1.5, 2, 2.5]}
    assert list(facts["c_bar"]) == list(corruptions.names("c-bar"))


# Builds


# Exports and indexes


def test_folders_of_levels_and_of_severities_are_recognised(large: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, large, "imagefolder", tmp_path / "files")
    severities = indexed(robustshards, tmp_path / "files", tmp_path / "severities")
    assert (severities["family"], severities["samples"], len(severities["steps"])) == ("c-bar", 50, 50)
    for name in c_bar.PUBLISHED["imagenet"]:
        for severity, level in enumerate(c_bar.CORRUPTIONS[name].levels["imagenet"], 1):
            (tmp_path / "files" / name / str(severity)).rename(tmp_path / "files" / name / f"{level:.2f}")
    assert (tmp_path / "files" / "caustic_refraction" / "2.35").is_dir()
    (tmp_path / "files" / "export.toml").unlink()
    levels = indexed(robustshards, tmp_path / "files", tmp_path / "levels")
    assert levels["steps"] == severities["steps"]
    payloads = [[row.payload_sha256 for row in rows_of(tmp_path / name)] for name in ("levels", "severities")]
    assert payloads[0] == payloads[1] == [row.payload_sha256 for row in rows_of(large)]


def test_other_levels_are_refused_with_the_published_ones(large: Path, tmp_path: Path, robustshards: Run) -> None:
    exported(robustshards, large, "imagefolder", tmp_path / "files")
    (tmp_path / "files" / "caustic_refraction" / "1").rename(tmp_path / "files" / "caustic_refraction" / "2.40")
    message = robustshards.refuse("index", tmp_path / "files", "--out", tmp_path / "index")
    message = " ".join(message.split())
    assert "'2.40' of caustic_refraction: 2.35, 3.20, 4.90, 6.60, 9.15 or 1, 2, 3 ... are allowed" in message


# Evaluation


def test_a_report_has_the_difference_to_cifar_10_c(small: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("evaluate", small, "--model", "tests.factories.small_models:three", "--out", tmp_path / "bar")
    robustshards.succeed(*command, "--batch-size", 50, "--workers", 1)
    model = open_evaluation(str(tmp_path / "bar")).table.model
    rows = rows_of(small)[:IMAGES]
    logits = {
        (name, level): votes([0, 1, 2, 0, 0], 3) for name in corruptions.names("benchmark") for level in SEVERITIES
    }
    same: dict[str, Any] = {
        "names": [row.source_id for row in rows],
        "profile": "cifar",
        "model": model.name,
        "digest": model.digest,
        "code": model.code,
    }
    on_cifar_10_c = write_evaluation(tmp_path / "c", logits, [row.label for row in rows], **same)
    report = report_on(str(tmp_path / "bar"), on_cifar_10_c, published=True, resamples=50)
    bar, plain = only(report, "c_bar"), only(report, "corruptions")
    mean = "mean corruption error (unnormalised)"
    errors = [value(bar, "mean error (unnormalised)", name) for name in bar.transforms]
    assert value(bar, mean) == pytest.approx(np.mean(errors))
    assert value(plain, mean) == pytest.approx(0.2)
    assert value(bar, "mean error on ImageNet-C's corruptions") == pytest.approx(0.2)
    assert value(bar, "difference to ImageNet-C's corruptions") == pytest.approx(value(bar, mean) - 0.2)
    assert (bar.details["complete"], bar.baseline, report.published) == (True, "", [])  # the model has three classes
    assert "transverse_chromatic_abberation" in cells(
        table(report, "mean error over the severities (unnormalised)", "bar")
    )
