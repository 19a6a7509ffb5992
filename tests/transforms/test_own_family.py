"""A family added by an installed package works in every command without a change to this project."""

import io
import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import manifests
from pipeline.images.resizers import prepare
from pipeline.transforms.family import Condition, Rendering
from pipeline.transforms.seeds import sample_seed
from tests.factories.data_sets import payload
from tests.factories.own_family import FACTORIES, FAMILY_ALONE, VERSION, OwnFamily, install, own_family
from tests.factories.own_waves import FAMILY

__all__ = ["own_family"]


@pytest.fixture(scope="module")
def waves(own_family: OwnFamily, small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build three photographs x two waves. Tests must not change the folder."""
    folder = tmp_path_factory.mktemp("waves") / "data"
    command = ("build", own_family.recipe, "--source", small_source, "--out", folder, "--limit", 3, "--workers", 1)
    done = own_family.run(*command)
    assert done.returncode == 0, done.stderr
    return folder


def test_list_shows_the_family(own_family: OwnFamily) -> None:
    facts = json.loads(own_family.run("list", "--json").stdout)
    assert facts["own_waves"] == {"wave_rows": {"along": "rows"}, "wave_columns": {"along": "columns"}}
    assert facts["families"]["own-waves"] == {
        "title": "Waves of random phase",
        "transforms": ["wave_rows", "wave_columns"],
        "groups": {"everything": ["wave_rows", "wave_columns"]},
        "levels": [0],
        "sequences": False,
    }
    shown = own_family.run("list").stdout
    assert all(word in shown for word in ("own-waves", "runs along", "wave_columns"))


def test_plan_counts_its_samples(own_family: OwnFamily, small_source: Path) -> None:
    done = own_family.run("plan", own_family.recipe, "--source", small_source, "--grid", "everything", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["samples"], facts["shards"], facts["transforms"]) == (12, 6, ["wave_rows-0", "wave_columns-0"])


def test_rows_have_its_pixels_versions_and_libraries(waves: Path, small_source: Path) -> None:
    rows = list(manifests.read_rows(waves / "manifest.parquet"))
    assert [(row.transform, row.level, row.version) for row in rows[::3]] == [
        ("wave_rows", 0, 7),
        ("wave_columns", 0, 7),
    ]
    recipe = tomllib.loads((waves / "recipe.toml").read_text())
    assert recipe["software"]["own-waves"] == VERSION
    for row in rows:
        with Image.open(small_source / row.origin) as image:
            prepared = prepare(np.asarray(image.convert("RGB")), [("square", 32)])
        render = FAMILY.render(Condition(row.transform, row.level), Rendering("imagenet", None))
        built = np.asarray(Image.open(io.BytesIO(payload(waves, row))))
        expected = render(prepared, sample_seed(0, row.source_id, row.transform, row.level))
        np.testing.assert_array_equal(built, expected)
        assert (built != prepared).any()


def test_the_card_contains_its_citation(waves: Path) -> None:
    assert f"```bibtex\n{FAMILY.citation}\n```" in (waves / "README.md").read_text()
    assert json.loads((waves / "croissant.json").read_text())["citeAs"] == FAMILY.citation


def test_verify_deep_regenerates_its_samples(own_family: OwnFamily, waves: Path) -> None:
    done = own_family.run("verify", waves, "--deep", "--samples", 6, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert (facts["samples"], facts["regenerated"], facts["faults"], facts["deep_faults"]) == (6, 6, [], [])


def test_preview_shows_its_transforms(own_family: OwnFamily, waves: Path, tmp_path: Path) -> None:
    done = own_family.run("preview", waves, "--out", tmp_path / "preview.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "preview.html").read_text()
    assert "wave_rows" in page
    assert "wave_columns" in page


@pytest.mark.parametrize("layout", ["imagefolder", "cifar-npy"])
def test_index_recognises_its_exports(own_family: OwnFamily, waves: Path, tmp_path: Path, layout: str) -> None:
    done = own_family.run("export", waves, "--to", layout, "--out", tmp_path / "files")
    assert done.returncode == 0, done.stderr
    done = own_family.run("index", tmp_path / "files", "--out", tmp_path / "index", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["family"], facts["samples"], facts["failed"]) == ("own-waves", 6, 0)
    assert facts["steps"] == ["wave_rows-0", "wave_columns-0"]
    done = own_family.run("verify", tmp_path / "index", "--data", tmp_path / "files")
    assert done.returncode == 0, done.stdout + done.stderr


def test_index_recognises_folders_named_after_a_transform(
    own_family: OwnFamily, small_source: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_source, tmp_path / "files" / "wave_rows")
    done = own_family.run("index", tmp_path / "files", "--out", tmp_path / "index", "--json")
    facts = json.loads(done.stdout)
    assert (facts.get("family"), facts.get("steps")) == ("own-waves", ["wave_rows-0"]), facts


def test_a_missing_package_names_the_known_families(own_family: OwnFamily, waves: Path, small_source: Path) -> None:
    for command in (("verify", waves), ("build", own_family.recipe, "--source", small_source, "--out", waves / "x")):
        done = own_family.run(*command, is_installed=False)
        assert done.returncode == 2, done.stderr
        assert "transforms.family: " in done.stderr
        assert "unknown name 'own-waves'; allowed: corruptions, perturbations, system-noise" in done.stderr


def test_another_version_of_the_package_cannot_extend_the_data_set(
    own_family: OwnFamily, waves: Path, small_source: Path, tmp_path: Path
) -> None:
    install(tmp_path, FAMILY_ALONE, {"own_waves": FACTORIES / "own_waves.py"}, "2.0")
    newer = OwnFamily(tmp_path, own_family.recipe)
    done = newer.run("build", own_family.recipe, "--source", small_source, "--out", waves, "--limit", 3)
    assert done.returncode == 2
    assert f"software.own-waves is {VERSION}, but 2.0 was requested" in done.stderr


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("own_waves:NOTHING", "AttributeError"),
        ("nowhere:FAMILY", "No module named 'nowhere'"),
        ("own_waves:AXES", ": it must be a pipeline.transforms.family.Family"),
    ],
)
def test_an_invalid_package_is_named_with_the_remedy(tmp_path: Path, point: str, text: str) -> None:
    install(tmp_path, {"robustshards.families": {"own-waves": point}}, {"own_waves": FACTORIES / "own_waves.py"})
    done = OwnFamily(tmp_path, tmp_path).run("list", "--json")
    assert done.returncode == 2
    message = json.loads(done.stdout)["error"]
    assert text in message
    assert f"'own-waves' ({point}) of the installed package 'own-waves'" in message
    assert "repair or uninstall that package" in message
