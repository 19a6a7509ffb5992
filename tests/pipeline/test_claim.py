"""Builds into outputs that are not empty: the same data set is continued, anything else is refused and not changed."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.builder.build import run_build
from pipeline.builder.dry_run import dry_run
from pipeline.builder.merge import merge_parts
from pipeline.builder.overlap import check_overlap
from pipeline.builder.plan import make_blocks, make_plan
from pipeline.builder.result import BuildResult
from pipeline.builder.settings import BuildSettings
from pipeline.builder.worker import BuildJob, BuildWorker
from pipeline.errors import UserError
from pipeline.execution.resumable import SilentWatcher
from pipeline.execution.work import Attempt
from pipeline.images.fingerprints import decoder_fingerprints, resizer_fingerprints
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.software import versions
from pipeline.sources.kinds import open_source
from pipeline.storage import open_store, trusted_locations

pytestmark = pytest.mark.usefixtures("own_cache")

RECIPE = library.load("cifar-10-c").changed(
    source={"kind": "imagefolder"}, transforms={"only": ["contrast"], "levels": [1, 2]}, shards={"size": 2}
)


def photographs(folder: Path, names: str, seed: int = 0) -> Path:
    """Write a source with one small image per letter, in two classes."""
    generator = np.random.default_rng(seed)
    for index, name in enumerate(names):
        path = folder / ("first" if index < 3 else "second") / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 255, (32, 32, 3), np.uint8)).save(path)
    return folder


def build(source: Path, output: Path, recipe: Recipe = RECIPE) -> Path:
    """Build a data set in this process, without a record of the run."""
    output.mkdir(parents=True)
    recipe = recipe.canonical(
        versions(), decoder_fingerprints(recipe.used_decoders()), resizer_fingerprints(recipe.used_resizers())
    )
    opened, store = open_source("imagefolder", str(source)), open_store(str(output))
    plan = make_plan(recipe, opened)
    store.publish_bytes(plan.recipe.to_toml().encode(), "recipe.toml")
    worker = BuildWorker(BuildJob(recipe, str(source), str(output)))
    for block in make_blocks(plan, opened):
        list(worker.run(Attempt(block)))
    merge_parts(plan, store)
    return output


def again(source: Path, output: Path, **more: Any) -> BuildResult:
    """Run the build of a finished data set."""
    return run_build(BuildSettings(RECIPE, str(source), str(output), **more), SilentWatcher())


def missing(source: Path, output: Path, recipe: Recipe = RECIPE, **more: Any) -> int:
    """Return the number of shards that a build would make."""
    return dry_run(BuildSettings(recipe, str(source), str(output), **more), SilentWatcher()).missing.shards


def content(folder: Path) -> dict[str, str]:
    """Return the digests of all files."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(words: str, source: Path | str, output: Path, recipe: Recipe = RECIPE) -> None:
    """Check that build and dry run raise an error with these words and change no file."""
    before = content(output)
    request = BuildSettings(recipe, str(source), str(output))
    for command in (dry_run, run_build):
        with pytest.raises(UserError, match=words):
            command(request, SilentWatcher())
    assert content(output) == before


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a source of five images and its data set of three blocks. Tests must not change it."""
    folder = tmp_path_factory.mktemp("finished")
    build(photographs(folder / "source", "abcde"), folder / "data")
    return folder


@pytest.fixture
def data(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the finished data set."""
    return shutil.copytree(finished / "data", tmp_path / "data")


def test_a_source_with_fewer_images_is_refused(data: Path, tmp_path: Path) -> None:
    refused(r"contains 4 shards and manifest parts .*contrast-1-000002", photographs(tmp_path / "few", "vwxy"), data)
    (data / "manifest.parquet").unlink()
    refused("was built from other images than the 4", photographs(tmp_path / "few", "vwxy"), data)


def test_other_images_are_refused_with_the_first_difference(data: Path, tmp_path: Path) -> None:
    words = r"block 000000 has first/a\.png of class first \(0\), but the source has first/v\.png .*another folder"
    for letters in ("vwxyz", "vwxyzstu"):
        refused(words, photographs(tmp_path / letters, letters), data)


def test_an_image_inserted_between_others_is_refused(data: Path, tmp_path: Path) -> None:
    refused(r"block 000000 has first/b\.png .*first/aa\.png", between(tmp_path), data)


def between(tmp_path: Path) -> Path:
    source = photographs(tmp_path / "between", "abcde")
    shutil.copy(source / "first" / "a.png", source / "first" / "aa.png")
    return source


def test_images_with_other_file_sizes_are_refused(data: Path, tmp_path: Path) -> None:
    source = photographs(tmp_path / "same names", "abcde")
    with open(source / "second" / "d.png", "ab") as file:
        file.write(b"more")
    refused(r"block 000001: sizes of the files from first/c\.png on differ", source, data)


def bitmaps(folder: Path, seed: int) -> Path:
    """Write images as ``photographs`` does, but in files of equal size."""
    for path in photographs(folder, "abcde", seed).rglob("*.png"):
        Image.open(path).save(path.with_suffix(".bmp"))
        path.unlink()
    return folder


@pytest.mark.parametrize("finished_before", [True, False])
@pytest.mark.parametrize("retry_failed", [True, False])
def test_other_images_with_the_same_names_and_sizes_are_refused(
    tmp_path: Path, finished_before: bool, retry_failed: bool
) -> None:
    """CIFAR arrays have equal names and sizes, too. The build must compare the content to notice the difference."""
    source, others = bitmaps(tmp_path / "source", 0), bitmaps(tmp_path / "others", 1)
    output = build(source, tmp_path / "data")
    if not finished_before:
        (output / "manifest.parquet").unlink()
        next((output / "manifest").glob("*-000002.parquet")).unlink()
    before = content(output)
    with pytest.raises(UserError, match=r"other images: first/a\.bmp .*use another folder"):
        missing(others, output, retry_failed=retry_failed)
    assert content(output) == before
    assert missing(source, output, retry_failed=retry_failed) == (0 if finished_before else 1)


def test_a_corrected_source_is_rebuilt_with_retry_failed(data: Path, finished: Path, tmp_path: Path) -> None:
    """A file that was missing during the build is added between the others."""
    assert missing(between(tmp_path), data, retry_failed=True) == 6
    (data / "manifest.parquet").unlink()
    assert missing(between(tmp_path), data) == 6


def test_the_source_may_change_if_samples_failed(tmp_path: Path) -> None:
    source = photographs(tmp_path / "source", "abcde")
    (source / "first" / "b.png").write_bytes(b"no image")
    output = build(source, tmp_path / "data")
    photographs(tmp_path / "source", "abcde")
    assert missing(source, output) == 2


def test_added_images_and_transforms_are_built(data: Path, tmp_path: Path) -> None:
    assert missing(photographs(tmp_path / "more", "abcdefghi"), data) == 6
    more = RECIPE.changed(transforms={"only": ["contrast", "fog"], "levels": [1, 2, 3]})
    assert missing(photographs(tmp_path / "same", "abcde"), data, more) == 12


def test_a_larger_limit_is_built(tmp_path: Path) -> None:
    source = photographs(tmp_path / "source", "abcde")
    output = build(source, tmp_path / "data", RECIPE.changed(source={"limit": 3}))
    assert missing(source, output, RECIPE.changed(source={"limit": 4})) == 2
    assert missing(source, output) == 4


def test_an_unreachable_cluster_leaves_a_finished_data_set_unchanged(data: Path, tmp_path: Path) -> None:
    before = content(data)
    with pytest.raises(UserError, match="no Ray cluster answers"):
        again(photographs(tmp_path / "more", "abcdefg"), data, address="127.0.0.1:1")
    assert content(data) == before


def test_unexpected_shards_are_refused(data: Path, finished: Path) -> None:
    (data / "shards" / "mine.tar").write_bytes(b"")
    refused(r"contains 1 shards and manifest parts .*shards/mine\.tar", finished / "source", data)


def test_a_finished_data_set_is_not_changed(data: Path, finished: Path) -> None:
    before = content(data)
    result = again(finished / "source", data)
    assert (result.complete, result.kept, result.done.shards) == (True, [], 0)
    assert content(data) == before
    assert trusted_locations.recall(str(data), "source") == str(finished / "source")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: flip(data / "manifest.parquet"),
        lambda data: (data / "manifest.parquet").write_bytes((data / "manifest.parquet").read_bytes()[:-9]),
        lambda data: os.truncate(data / "manifest.parquet", 0),
        lambda data: (data / "manifest.parquet").unlink(),
        lambda data: (data / "croissant.json").unlink(),
        lambda data: (data / "README.md").unlink(),
        lambda data: (data / "roots.json").unlink(),
    ],
)
def test_a_damaged_manifest_is_merged_again(data: Path, finished: Path, damage: Callable[[Path], object]) -> None:
    before = content(data)
    damage(data)
    assert content(data) != before
    assert again(finished / "source", data).complete
    assert content(data) == before


@pytest.mark.parametrize("name", ["README.md", "croissant.json"])
@pytest.mark.parametrize("change", ["my own text", None])
def test_an_edited_description_is_not_overwritten(data: Path, finished: Path, name: str, change: str | None) -> None:
    file = data / name
    file.write_text(change or file.read_text().replace("one row per sample", "see here").replace("samples", "rows"))
    (data / "manifest.parquet").unlink()
    before = content(data)
    result = again(finished / "source", data)
    assert result.kept == [name]
    assert f"not overwritten: {name}" in "\n".join(result.summary(str(data)))
    assert content(data)[name] == before[name]
    file.unlink()
    (data / "manifest.parquet").unlink()
    assert again(finished / "source", data).kept == []
    assert content(data) == content(finished / "data")


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "croissant.json", "manifest.parquet", "index.toml", "my.txt"),
        *("shards/a.txt", "manifest/n.md", "runs/1.log", "shards/fog/1/x.tar", "own/cat.jpg"),
    ],
)
def test_a_folder_with_other_files_is_refused(finished: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "own" / name).parent.mkdir(parents=True)
    (tmp_path / "own" / name).write_text("mine")
    folder, slash, _ = name.partition("/")
    refused(f"contains {folder}{slash} but no recipe.toml.*empty folder", finished / "source", tmp_path / "own")


def test_hidden_files_and_files_beside_a_data_set_are_accepted(data: Path, finished: Path, tmp_path: Path) -> None:
    (data / "notes.txt").write_text("mine")
    assert missing(finished / "source", data) == 0
    new = tmp_path / "new"
    for name in (".DS_Store", "lost+found/x", "empty/.keep"):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).touch()
    assert missing(finished / "source", new) == 6
    for number in range(7):
        (new / f"{number}.txt").touch()
    refused(
        r"contains 0\.txt, .*, 4\.txt and 2 more but no recipe\.toml.*: use an empty folder", finished / "source", new
    )


def test_another_recipe_is_not_overwritten(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "recipe.toml").write_text('extends = "cifar-10-c"\n')
    refused("contains another data set", finished / "source", tmp_path / "own")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, "seed is 0, but 1 was requested"),
        ({"encoder": {"name": "png"}}, r"encoder\.name is \w+, but png was requested"),
        ({"shards": {"size": 5}}, r"shards\.size is 2, but 5 was requested"),
        ({"transforms": {"only": ["fog"]}}, r"transforms\.only"),
        ({"source": {"limit": 3}}, r"source\.limit is 0, but 3 was requested"),
    ],
)
def test_changed_fields_of_the_recipe_are_named(data: Path, finished: Path, change: dict[str, Any], words: str) -> None:
    refused(words, finished / "source", data, RECIPE.changed(**change))


def test_another_version_of_a_library_is_named(data: Path, finished: Path) -> None:
    recipe = data / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('pillow = "', 'pillow = "0.', 1))
    refused(r"software\.pillow is 0\.", finished / "source", data)


def test_a_data_set_without_fingerprints_gets_them(finished: Path, tmp_path: Path, data: Path) -> None:
    recipe = library.parse((data / "recipe.toml").read_text(), "recipe.toml")
    older = recipe.model_copy(update={"resizers": {}})
    (data / "recipe.toml").write_text(older.to_toml())
    assert again(finished / "source", data).complete
    assert content(data) == content(finished / "data")


@pytest.mark.parametrize("name", ["manifest.parquet", "recipe.toml", "README.md", "shards", "manifest", "runs"])
@pytest.mark.parametrize("exists", [True, False])
def test_links_out_of_the_output_are_refused(finished: Path, tmp_path: Path, name: str, exists: bool) -> None:
    outside = tmp_path / "outside"
    if exists:
        outside.mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / name).symlink_to(outside)
    refused("is outside of", finished / "source", tmp_path / "own")
    assert outside.exists() == exists
    assert not list(outside.glob("*"))


def test_links_out_of_the_shards_are_refused(data: Path, finished: Path, tmp_path: Path) -> None:
    shutil.move(data / "shards" / "contrast" / "2", tmp_path / "outside")
    (data / "shards" / "contrast" / "2").symlink_to(tmp_path / "outside")
    refused("is outside of", finished / "source", data)


@pytest.mark.parametrize(
    "name", ["manifest.parquet", "README.md", "croissant.json", "recipe.toml", "manifest/contrast-1-000000.parquet"]
)
def test_a_folder_in_place_of_a_file_is_refused(data: Path, finished: Path, name: str) -> None:
    (data / name).unlink()
    (data / name).mkdir()
    refused(f"{name} is a folder", finished / "source", data)


@pytest.mark.parametrize("name", ["shards/contrast", "manifest", "runs"])
def test_a_file_in_place_of_a_folder_is_refused(data: Path, finished: Path, name: str) -> None:
    shutil.rmtree(data / name, ignore_errors=True)
    (data / name).write_text("")
    refused(f"{name} is not a folder", finished / "source", data)


def test_check_overlap_refuses_an_output_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = photographs(tmp_path / "source", "ab")
    (tmp_path / "link").symlink_to(source)
    (source / "linked class").symlink_to(tmp_path / "far" / "away")
    (tmp_path / "far" / "away").mkdir(parents=True)
    monkeypatch.chdir(source)
    outputs = (
        source, source / "data", source / "first", source / "a" / "b" / "c", tmp_path / "link" / "data", ".", "data",
        tmp_path / "x" / ".." / "source" / "data", f"file://{source}/data", tmp_path / "far" / "away" / "data",
    )  # fmt: skip
    for output in outputs:
        for given in (source, tmp_path / "link", f"file://{source}", "."):
            with pytest.raises(UserError, match=r"is inside the source .*use a folder outside"):
                check_overlap(str(given), str(output))
    assert sorted(path.name for path in source.iterdir()) == ["first", "linked class"]
    for output in (tmp_path / "data", tmp_path / "source-data", tmp_path, "../data", f"file://{tmp_path}/data"):
        check_overlap(str(source), str(output))


@pytest.mark.parametrize("folder", ["shards", "manifest", "runs"])
def test_a_source_in_a_folder_of_the_build_is_refused(tmp_path: Path, folder: str) -> None:
    source = photographs(tmp_path / "data" / folder / "mine", "ab")
    with pytest.raises(UserError, match=f"is inside {folder}/ of the output"):
        check_overlap(str(source), str(tmp_path / "data"))
    check_overlap(str(photographs(tmp_path / "data" / "own", "ab")), str(tmp_path / "data"))


def test_urls_are_compared_by_path_components() -> None:
    for output in ("s3://bucket/photographs", "s3a://bucket/photographs/data/", "s3://bucket//photographs/x"):
        with pytest.raises(UserError, match="is inside the source"):
            check_overlap("s3://bucket/photographs/", output)
    for output in ("s3://bucket/photographs-c", "gs://bucket/photographs/data", "/bucket/photographs/data"):
        check_overlap("s3://bucket/photographs", output)
