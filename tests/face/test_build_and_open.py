"""``robustshards.build`` and ``robustshards.open``."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import robustshards as rs
from tests.conftest import RAY, Run
from tests.factories.commands import python
from tests.factories.data_sets import data_digests
from tests.factories.indexed_sets import index_of, write_folders

SCRIPT = """
import os, signal, sys

def state():
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    return dict(os.environ), handlers, os.getcwd()

before = state()
import robustshards as rs
chosen = {"only": "contrast", "severities": 2, "limit": 2, "workers": 1, "executor": sys.argv[2]}
built = rs.build("imagenet-c", sys.argv[1], "data", **chosen)
samples = list(rs.open("data").samples("contrast", 2))
assert built.complete and len(samples) == 2
assert ("ray" in sys.modules) == (sys.argv[2] == "ray")
assert samples[0].pixels().shape == (224, 224, 3)
after = state()
assert after == before, (before, after)
"""
"""A script without ``if __name__ == "__main__"``: a worker process that imported it would start another build."""


@pytest.mark.parametrize("executor", ["local", RAY])
def test_script_without_main_guard_builds_silently_and_changes_nothing(
    executor: str, small_source: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python("script.py", small_source, executor, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


IN_A_CLUSTER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import ray
import robustshards as rs

source, out = sys.argv[1:]

def build(folder, **options):
    chosen = {"only": "contrast", "severities": 2, "limit": 2, "workers": 1, "executor": "ray", **options}
    return rs.build("imagenet-c", source, f"{out}/{folder}", **chosen).complete

ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
joined = ray.get_runtime_context().gcs_address
with ThreadPoolExecutor() as threads:
    assert all(threads.map(build, ("first", "second")))
assert build("third", address=joined)
assert ray.get(ray.remote(lambda: build("fourth", executor="local")).remote())
try:
    build("fifth", address="10.0.0.1:6379")
except rs.UserError as error:
    print(str(error).replace(joined, "JOINED"))
assert ray.get(ray.remote(lambda: 1).remote()) == 1
"""


@pytest.mark.large
def test_a_process_in_a_cluster_builds_there_and_stays_there(small_source: Path, tmp_path: Path) -> None:
    """The only CPU is free again after each build."""
    done = python("-c", IN_A_CLUSTER, small_source, tmp_path)
    message = "has joined the Ray cluster at JOINED, not 10.0.0.1:6379: leave out the address, or call ray.shutdown()"
    assert message in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr
    first, *others = (data_digests(tmp_path / name) for name in ("first", "second", "third", "fourth"))
    assert others == [first] * 3


AFTER_RAY = """
import sys
import ray
import robustshards as rs

source, out, address = sys.argv[1:]
rs.build("imagenet-c", source, out, only="contrast", severities=2, limit=2, workers=1, address=address)
print(len(list(rs.open(out).samples("contrast", 2))))
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_program_that_has_imported_ray_joins_a_cluster_on_loopback(
    host: str, ray_address: str, small_source: Path, tmp_path: Path
) -> None:
    """Ray would look for it on the network card, for minutes."""
    address = ray_address.replace("127.0.0.1", host)
    done = python("-c", AFTER_RAY, small_source, tmp_path / "data", address, timeout=100)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_build_writes_the_same_bytes_as_the_command(
    data_folder: Path, small_source: Path, robustshards: Run, tmp_path: Path
) -> None:
    selection = ("--only", "contrast,brightness", "--severities", "1,3", "--encoder", "png")
    robustshards.succeed("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", *selection)
    assert data_digests(tmp_path / "data") == data_digests(data_folder)


def test_second_call_builds_no_shard(data_folder: Path, small_source: Path) -> None:
    recipe = rs.recipes.load("imagenet-c").changed(encoder={"name": "png"}, transforms={"levels": [1, 3]})
    built = rs.build(recipe, str(small_source), str(data_folder), only="contrast, brightness")
    assert (built.complete, built.shards_before, built.done.shards) == (True, 4, 0)


def test_fields_change_the_recipe(small_source: Path, tmp_path: Path) -> None:
    built = rs.build(
        "imagenet-c", small_source, tmp_path / "data", only="contrast", severities=1, limit=1, workers=1, quality=70,
        fields={"encoder": {"optimize": False}, "seed": 2**64 - 1},
    )  # fmt: skip
    recipe = built.plan.recipe
    assert recipe.encoder.model_dump() == {"name": "jpeg", "quality": 70, "optimize": False}
    assert (recipe.seed, recipe.transforms.levels, recipe.source.limit) == (2**64 - 1, (1,), 1)
    assert repr(built) == "<BuildResult of 'imagenet-c': 1 image made, 0 failed, complete>"


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"severities": 1, "difficulty": 2}, "severities and difficulty"),
        ({"only": 3}, "invalid only 3: use text"),
        ({"fields": {"encoder": {"speed": 1}}}, "speed"),
        ({"fields": [1]}, r"invalid fields \[1\]"),
        ({"workers": 0}, "invalid workers 0: use an integer of at least 1"),
        ({"workers": "two"}, "invalid workers 'two'"),
        ({"workers": True}, "invalid workers True: use an integer"),
        ({"severities": True}, "invalid severities True: use levels"),
        ({"severities": float("inf")}, "invalid severities inf: use levels"),
        ({"limit": True}, "invalid limit True: use an integer"),
        ({"address": 6379}, "invalid address 6379"),
        ({"executor": "slurm"}, "'slurm'"),
        ({"executor": "local", "address": "127.0.0.1:6379"}, "127.0.0.1:6379"),
        ({"max_bytes": 0}, "invalid max_bytes 0"),
        ({"frost_folder": 3}, "invalid frost_folder 3"),
    ],
)
def test_invalid_options_raise_user_error(
    options: dict[str, Any], value: str, small_source: Path, tmp_path: Path
) -> None:
    with pytest.raises(rs.UserError, match=value):
        rs.build("imagenet-c", small_source, tmp_path / "data", **options)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("imagenet-z", "source", "out"), "'imagenet-z'"),
        (("missing.toml", "source", "out"), "missing.toml"),
        ((3, "source", "out"), "invalid recipe 3"),
        (("imagenet-c", b"source", "out"), "invalid source b'source'"),
        (("imagenet-c", "/nowhere/at/all", "out"), "/nowhere/at/all"),
    ],
)
def test_invalid_locations_raise_user_error(
    arguments: tuple[Any, ...], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(rs.UserError, match=value):
        rs.build(*arguments)


def test_samples_match_the_rows_of_the_manifest(data_folder: Path) -> None:
    data = rs.open(data_folder)
    samples = list(data.samples())
    assert [sample.row for sample in samples] == list(data.rows())
    assert len(samples) == 24
    assert {sample.row.label for sample in samples} == {0, 1}


def test_samples_can_be_filtered_by_transform_and_level(data_folder: Path) -> None:
    chosen = list(rs.open(data_folder).samples("contrast", 3))
    assert [(sample.row.transform, sample.row.level) for sample in chosen] == [("contrast", 3)] * 6
    assert {sample.row.level for sample in rs.open(data_folder).samples(level=1)} == {1}


@pytest.mark.parametrize("choice", [("fog", None), ("contrast", 2), (None, 5)])
def test_missing_condition_raises_user_error(choice: tuple[str | None, int | None], data_folder: Path) -> None:
    with pytest.raises(rs.UserError, match=r"has no samples of .*contrast-3"):
        next(rs.open(data_folder).samples(*choice))


@pytest.mark.parametrize("choice", [("contrast", "3"), ("contrast", 3.0), (["contrast"], 3)])
def test_choice_of_the_wrong_type_raises_user_error(choice: Any, data_folder: Path) -> None:
    with pytest.raises(rs.UserError, match=r"invalid transform .* or level .*: pass one name and one integer"):
        next(rs.open(data_folder).samples(*choice))


def test_notebooks_show_data_sets_and_samples(data_folder: Path, copied: Path) -> None:
    data = rs.open(data_folder)
    sample: Any = next(data.samples("contrast", 3))
    assert len(data) == 24
    assert "<td>contrast</td><td>6</td><td>6</td>" in data._repr_html_()
    assert repr(sample) == "<Sample 'class0/image0-contrast-3': 224 x 224, label 0>"
    picture = base64.b64encode(sample.payload()).decode()
    assert f'src="data:image/png;base64,{picture}"' in sample._repr_html_()
    hostile: Any = replace(sample, row=sample.row._replace(key='a/"><script>&\u202e\n-contrast-3'))
    assert hostile._repr_html_().count("&quot;&gt;&lt;script&gt;&amp;  -contrast-3") == 2
    hostile = replace(data, name="<b>\x1b")
    assert "&lt;b&gt;" in hostile._repr_html_()
    assert "<b>" not in hostile._repr_html_()
    (copied / "manifest.parquet").unlink()
    assert "the data set is not finished" in rs.open(copied)._repr_html_()


def test_sample_seed_makes_stored_pixels_again(small_source: Path, tmp_path: Path) -> None:
    chosen = {"limit": 2, "seed": 5, "cache": tmp_path / "cache"}
    clean = {sample.row.source_id: sample for sample in rs.render("imagenet-c-clean", small_source, **chosen).samples()}
    noise = ("gaussian_noise", "frost", "elastic_transform")
    for encoder in ("png", "npy"):
        data = rs.render("imagenet-c", small_source, only=noise, encoder=encoder, **chosen)
        rows = list(data.rows())
        assert len(rows) == 30
        for row in rows[::3]:
            seed = rs.sample_seed(data, row.source_id, row.transform, row.level)
            prepared = clean[row.source_id].pixels()
            made = rs.corrupt(prepared, row.transform, row.level, profile=row.profile, seed=seed)
            np.testing.assert_array_equal(made, data.pick(row).pixels())
    recipe = f"{data.location.folder}/recipe.toml"
    assert rs.sample_seed(recipe, row.source_id, row.transform, row.level) == seed
    assert rs.sample_seed("imagenet-c", row.source_id, row.transform, row.level) != seed


def test_sample_seed_makes_stored_sequences_again(small_source: Path, tmp_path: Path) -> None:
    chosen = {"limit": 1, "only": ("gaussian_noise", "spatter"), "cache": tmp_path / "cache"}
    data = rs.render("imagenet-p", small_source, encoder="npy", **chosen)
    recipe = rs.recipes.load(f"{data.location.folder}/recipe.toml")
    for sample in data.samples():
        row = sample.row
        with Image.open(small_source / row.origin) as image:
            photograph = np.asarray(image.convert("RGB"))
        seed = rs.sample_seed(recipe, row.source_id, row.transform, row.level)
        made = rs.perturb(photograph, row.transform, difficulty=row.level, profile=row.profile, seed=seed)
        np.testing.assert_array_equal(made, sample.pixels())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("imagenet-c", "a/b", "fog", True), "invalid level True: use an integer of at least 0"),
        (("imagenet-c", 3, "fog", 1), "invalid source_id 3 or transform 'fog': pass a str"),
        (("imagenet-z", "a/b", "fog", 1), "'imagenet-z'"),
    ],
)
def test_sample_seed_refuses_invalid_arguments(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(rs.UserError, match=message):
        rs.sample_seed(*arguments)


def test_sample_seed_needs_a_recipe(tmp_path: Path) -> None:
    index = index_of(write_folders(tmp_path / "data", ["a"]))
    with pytest.raises(rs.UserError, match="has no recipe, since other tools made it"):
        rs.sample_seed(rs.open(index), "a/b", "fog", 1)


def test_open_rejects_folders_that_hold_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place, value in (
        (tmp_path, "is not a data set"),
        (tmp_path / "file", "is not a data set"),
        (3, "invalid folder 3"),
    ):
        with pytest.raises(rs.UserError, match=value):
            rs.open(place)
