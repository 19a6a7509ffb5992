"""Rendered data sets: equal to built ones in every reader, and safe where their source or folder changes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import manifests
import robustshards as rs
from corruptions.cache import user_cache
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import file_digest
from pipeline.datasets.rendered import Rendered
from pipeline.datasets.samples import payload_digest
from pipeline.errors import UserError
from pipeline.storage import trusted_locations
from tests.conftest import SELECTION, Run
from tests.factories.evaluator import content, evaluated, outcome

NAMES = ("rendered", "built")


def render(source: Path, out: Path, robustshards: Run, *options: object) -> Path:
    """Render contrast at severity 2 of the images in a folder."""
    arguments = ("--only", "contrast", "--severities", 2, *options)
    robustshards.succeed("render", "imagenet-c", "--source", source, "--out", out, *arguments)
    return out


@pytest.mark.parametrize("options", [{}, {"cache": "off"}, {"loaders": 2}, {"workers": 2, "executor": "local"}])
def test_predictions_equal_those_of_the_built_set(
    options: dict[str, object], rendered_once: Path, built_once: Path, tmp_path: Path
) -> None:
    evaluated(built_once, tmp_path / "built")
    facts = evaluated(rendered_once, tmp_path / "rendered", **options)
    assert (facts["frames_made"], facts["pixels_changed"]) == (24, 0)
    assert content(tmp_path / "rendered") == content(tmp_path / "built")


@pytest.mark.parametrize(
    ("recipe", "selection"),
    [("imagenet-p", ("--only", "tilt,gaussian_noise", "--limit", 2)), ("imagenet-s", ("--limit", 2))],
)
def test_sequences_and_decoder_pairs_equal_the_built_set(
    recipe: str, selection: tuple[object, ...], photographs: Path, tmp_path: Path, robustshards: Run
) -> None:
    for command in ("build", "render"):
        robustshards.succeed(command, recipe, "--source", photographs, "--out", tmp_path / command, *selection)
        evaluated(tmp_path / command, tmp_path / f"{command} results", model="five", batch=16)
    assert content(tmp_path / "render results") == content(tmp_path / "build results")


def test_pixels_equal_a_build_of_arrays(
    rendered_once: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "built", *SELECTION)
    assert robustshards(*command, "--encoder", "npy").returncode == 0
    evaluated(tmp_path / "built", tmp_path / "of built")
    evaluated(rendered_once, tmp_path / "of rendered", pixels=True)
    evaluated(rendered_once, tmp_path / "encoded")
    assert content(tmp_path / "of rendered") == content(tmp_path / "of built") != content(tmp_path / "encoded")


def test_the_sides_of_images_are_those_that_a_build_accepts(tmp_path: Path) -> None:
    (tmp_path / "photographs").mkdir()
    Image.new("RGB", (20_000, 32)).save(tmp_path / "photographs/panorama.png")
    data = rs.render("native-c", tmp_path / "photographs", tmp_path / "data", only="contrast", severities=1)
    assert [sample.pixels().shape for sample in data.samples()] == [(32, 20_000, 3)]


def test_relative_paths_with_a_colon_are_no_urls(small_source: Path, tmp_path: Path, robustshards: Run) -> None:
    selection = ("--source", small_source, "--only", "contrast")
    robustshards.succeed("render", "imagenet-c", "--out", "a:b", *selection, cwd=tmp_path)
    robustshards.succeed("stream", "continual", "a:b", "--out", "a:order.parquet", cwd=tmp_path)
    assert parquet.ParquetFile(tmp_path / "a:order.parquet").metadata.num_rows == 6


def test_interrupted_evaluation_continues(rendered_once: Path, tmp_path: Path) -> None:
    evaluated(rendered_once, tmp_path / "whole")
    evaluated(rendered_once, tmp_path / "again")
    (tmp_path / "again" / "predictions.parquet").unlink()
    (tmp_path / "again" / "parts" / "contrast-3-000001.parquet").unlink()
    facts = evaluated(rendered_once, tmp_path / "again")
    assert (facts["shards_before"], facts["frames_made"]) == (7, 2)
    assert content(tmp_path / "again") == content(tmp_path / "whole")


def test_rows_tables_and_samples_are_those_of_the_built_set(rendered_once: Path, built_once: Path) -> None:
    rendered, built = open_data_set(str(rendered_once)), open_data_set(str(built_once))
    assert isinstance(rendered, Rendered)
    assert list(rendered.chunks()) == list(built.chunks())
    names = [name for name in manifests.COLUMNS if name not in ("shard_sha256", "offset", "size")]
    stored = [name for name in names if not name.endswith("_sha256")]
    for ours, theirs in zip(rendered.rows(), built.rows(), strict=True):
        assert {name: getattr(ours, name) for name in stored} == {name: getattr(theirs, name) for name in stored}
    columns = manifests.COLUMNS
    listed = [row for table in rendered.tables(columns) for row in table.to_pylist()]
    assert listed == [row._asdict() for row in rendered.rows()]
    shard = "shards/gaussian_noise/3/gaussian_noise-3-000001.tar"
    made = [rendered.pick(row).with_digests().row for row in rendered.rows() if row.shard == shard]
    expected = [row for row in built.rows() if row.shard == shard]
    assert [(row.payload_sha256, row.pixel_sha256) for row in made] == [
        (row.payload_sha256, row.pixel_sha256) for row in expected
    ]
    for made_now, stored_one in zip(rendered.samples("contrast", 3), built.samples("contrast", 3), strict=True):
        np.testing.assert_array_equal(made_now.pixels(), stored_one.pixels())
        assert payload_digest(made_now.members.values()) == stored_one.row.payload_sha256


def test_filters_select_conditions_and_images(rendered_once: Path) -> None:
    rows = list(open_data_set(str(rendered_once)).rows({"transform": ["contrast"], "source_id": ["class0/image2"]}))
    assert [row.key for row in rows] == ["class0/image2-contrast-1", "class0/image2-contrast-3"]


@pytest.mark.parametrize("layout", ["imagefolder", "cifar-npy", "parquet"])
def test_exports_equal_those_of_the_built_set(
    layout: str, rendered_once: Path, built_once: Path, tmp_path: Path, robustshards: Run
) -> None:
    for name, data in zip(NAMES, (rendered_once, built_once), strict=True):
        robustshards.succeed("export", data, "--to", layout, "--out", tmp_path / name)
    files = [{path.relative_to(tmp_path / name): path for path in (tmp_path / name).rglob("*.*")} for name in NAMES]
    assert files[0].keys() == files[1].keys()
    if layout != "parquet":  # whose files name the digest of their data set
        contents = [
            {name: path.read_bytes() for name, path in each.items() if name.suffix != ".toml"} for each in files
        ]
        assert contents[0] == contents[1]


def test_preview_and_verification_read_a_rendered_set(rendered_once: Path, tmp_path: Path, robustshards: Run) -> None:
    done = robustshards("preview", rendered_once, "--out", tmp_path / "page.html", "--images", 2, "--json")
    assert json.loads(done.stdout)["pictures"] == 8
    for options in ((), ("--quick",)):
        done = robustshards("verify", rendered_once, "--json", *options)
        facts = json.loads(done.stdout)
        assert (done.returncode, facts["samples"], facts["fault_count"]) == (0, 24, 0)


def test_report_knows_that_a_rendered_and_a_built_set_are_the_same(
    rendered_once: Path, built_once: Path, tmp_path: Path
) -> None:
    evaluated(built_once, tmp_path / "one")
    evaluated(rendered_once, tmp_path / "two", model="other")
    facts = rs.report([tmp_path / "one", tmp_path / "two"]).facts()
    assert len({each["manifest_sha256"] for each in facts["results"]}) == 1
    assert not any("different" in warning for warning in facts["warnings"])


def test_changed_image_is_named_even_if_the_prepared_one_is_cached(
    own_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    data = render(own_source, tmp_path / "data", robustshards)
    assert evaluated(data, tmp_path / "before")["complete"]
    shutil.copy(own_source / "class0" / "image0.png", own_source / "class0" / "image4.png")
    result = outcome(data, tmp_path / "after")
    ((chunk, reason),) = result.done.broken
    assert chunk == "contrast-2-000000"
    assert "class0/image4.png has changed" in reason
    assert reason.endswith("restore it, or render the data set again")
    done = robustshards("verify", data)
    assert done.returncode == 1
    assert "FAULT class0/image4: the source image class0/image4.png has changed" in done.stdout
    assert done.stdout.count("FAULT class0/image4-contrast-2") <= 1


def test_missing_and_renamed_images_are_faults(own_source: Path, tmp_path: Path, robustshards: Run) -> None:
    data = render(own_source, tmp_path / "data", robustshards)
    (own_source / "class1" / "image3.png").unlink()
    done = robustshards("verify", data, "--quick")
    assert done.returncode == 1
    assert "FAULT class1/image3: the source image class1/image3.png is missing" in done.stdout


def test_damaged_image_is_an_error(own_source: Path, tmp_path: Path, robustshards: Run) -> None:
    (own_source / "class1" / "image1.png").write_bytes(b"no image")
    data = render(own_source, tmp_path / "data", robustshards)
    ((_, reason),) = outcome(data, tmp_path / "results").done.broken
    assert "class1/image1" in reason
    assert "--check" in reason


@pytest.mark.parametrize(
    "selection",
    [("imagenet-c", "--only", "contrast", "--severities", 2), ("imagenet-s", "--only", "opencv_pillow-bilinear")],
)
def test_damaged_image_is_with_check_a_failed_row(
    selection: tuple[object, ...], own_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    (own_source / "class0" / "image0.png").write_bytes(b"no image")
    arguments = (*selection, "--source", own_source)
    checked = robustshards("render", *arguments, "--out", tmp_path / "checked", "--check", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["failed"]) == (1, 1)
    built = robustshards("build", *arguments, "--out", tmp_path / "built")
    assert built.returncode == 1
    rows = [list(open_data_set(str(tmp_path / name)).rows()) for name in ("checked", "built")]
    assert [(row.status, row.error) for row in rows[0]] == [(row.status, row.error) for row in rows[1]]
    for name in ("checked", "built"):
        evaluated(tmp_path / name, tmp_path / f"{name} results")
    assert content(tmp_path / "checked results") == content(tmp_path / "built results")


def test_source_of_somebody_elses_folder_must_be_confirmed(own_source: Path, tmp_path: Path, robustshards: Run) -> None:
    shutil.copytree(render(own_source, tmp_path / "data", robustshards), tmp_path / "copied")
    with pytest.raises(UserError, match=r"own source.*--data PATH"):
        open_data_set(str(tmp_path / "copied"))
    data = open_data_set(str(tmp_path / "copied"), str(own_source))
    assert len(list(data.samples())) == 6
    assert trusted_locations.recall(str(tmp_path / "copied"), "source") is None


def test_a_changed_listing_is_refused(own_source: Path, tmp_path: Path, robustshards: Run) -> None:
    data = render(own_source, tmp_path / "data", robustshards)
    shutil.copytree(data, tmp_path / "other")
    with open(tmp_path / "other" / "listing.parquet", "ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match=r"listing.parquet is missing or was changed"):
        open_data_set(str(tmp_path / "other"), str(own_source))
    table = parquet.read_table(data / "listing.parquet")
    labels = pa.array([10**12] * table.num_rows, pa.int64())
    changed = table.set_column(table.schema.get_field_index("label"), table.schema.field("label"), labels)
    parquet.write_table(changed, tmp_path / "other" / "listing.parquet")
    about = tmp_path / "other" / "rendered.toml"
    digests = (file_digest(folder / "listing.parquet") for folder in (data, tmp_path / "other"))
    about.write_text(about.read_text().replace(*digests))
    assert "listing.parquet: label is 1000000000000" in robustshards.refuse(
        "verify", tmp_path / "other", "--quick", "--data", own_source
    )


def test_interrupted_render_is_not_taken_for_a_data_set(own_source: Path, tmp_path: Path, robustshards: Run) -> None:
    data = render(own_source, tmp_path / "data", robustshards)
    recipe = (data / "recipe.toml").read_bytes()
    (data / "recipe.toml").unlink()  # it is written last
    with pytest.raises(UserError, match=r"it has no recipe.toml"):
        open_data_set(str(data))
    assert robustshards("build", "imagenet-c", "--source", own_source, "--out", data).returncode == 2
    assert (render(own_source, data, robustshards) / "recipe.toml").read_bytes() == recipe


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("recipe.toml", 'numpy = "', 'numpy = "1.', r"numpy is .* instead of 1\..*render it again"),
        ("recipe.toml", '"contrast"', '"fog"', "different transforms and levels"),
        ("rendered.toml", "images = 6", "images = 99999999999", "has 99999999999 images, but listing.parquet has 6"),
        ("rendered.toml", "width = 224", "width = 300000", "width is 67200000: at most 67108864 are allowed"),
    ],
)
def test_changed_settings_are_refused_before_they_take_memory(
    file: str, old: str, new: str, message: str, own_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    path = render(own_source, tmp_path / "data", robustshards) / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError, match=message):
        next(open_data_set(str(tmp_path / "data")).samples())


def test_folders_of_other_data_sets_are_refused(
    own_source: Path, built: Path, tmp_path: Path, robustshards: Run
) -> None:
    data = render(own_source, tmp_path / "rendered", robustshards)
    render(own_source, data, robustshards)  # the same one again
    for command, folder, what in (
        (("build", "imagenet-c"), data, "rendered data set"),
        (("render", "imagenet-c"), built, "manifest.parquet"),
        (("render", "imagenet-c", "--only", "fog"), data, "another rendered data set"),
    ):
        assert what in robustshards.refuse(*command, "--source", own_source, "--out", folder)
    assert robustshards("verify", built, "--quick").returncode == 0


def test_options_of_rendered_sets_are_refused_for_shards(built_once: Path, tmp_path: Path, robustshards: Run) -> None:
    for option in (("--pixels",), ("--cache", "off")):
        assert f"{option[0]} does not apply" in robustshards.refuse(
            "evaluate", built_once, "--model", "a:b", "--out", tmp_path / "r", *option
        )
        assert f"{tmp_path / 'none'} is not a data set: it does not exist" in robustshards.refuse(
            "evaluate", tmp_path / "none", "--model", "a:b", "--out", tmp_path / "r", *option
        )


def test_data_sets_are_shown_briefly(rendered_once: Path, built_once: Path) -> None:
    assert repr(rs.open(rendered_once)) == f"<Rendered data set 'imagenet-c' in {rendered_once}>"
    assert repr(rs.open(built_once)) == f"<Built data set 'imagenet-c' in {built_once}>"


def test_render_in_python_keeps_its_folder_in_the_cache(small_source: Path) -> None:
    choices = {"only": "contrast,gaussian_noise", "severities": (1, 3), "fields": {"shards": {"size": 4}}}
    data = rs.render("imagenet-c", small_source, **choices)
    assert Path(data.location.folder).parent == user_cache() / "rendered"
    assert rs.render("imagenet-c", small_source, **choices).location == data.location
    assert len(list(rs.open(data.location.folder).samples("contrast", 1))) == 6
    assert rs.render("imagenet-c", small_source, check=True, **choices).location == data.location
    again = rs.render("imagenet-c", small_source, pixels=True, **choices)
    assert next(again.samples()).row.encoder == "npy layout=hwc"


def test_render_in_python_with_a_check_does_not_return_an_unchecked_folder(own_source: Path) -> None:
    (own_source / "class1" / "image1.png").write_bytes(b"no image")
    choices = {"only": "contrast", "severities": 2}
    unchecked, checked = (rs.render("imagenet-c", own_source, check=check, **choices) for check in (False, True))
    assert [sum(row.status == "failed" for row in data.rows()) for data in (unchecked, checked)] == [0, 1]
