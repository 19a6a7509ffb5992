"""Builds with the command line: reproducible bytes, and resumed, extended and refused builds."""

import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

import manifests
import robustshards as rs
from pipeline.images.resizers import prepare
from tests.conftest import SELECTION, Run, write_small_source
from tests.factories.data_sets import data_digests, rows_of
from tests.factories.layouts import cifar_10, imagenet_boxes, pixels


def test_bytes_do_not_depend_on_workers_order_or_folder(
    built_once: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    renamed = shutil.copytree(small_source, tmp_path / "another name")
    selection = ("--only", "gaussian_noise,contrast", "--severities", "3,1", "--shard-size", 4)
    robustshards.succeed(
        "build", "imagenet-c", "--source", renamed, "--out", tmp_path / "data", *selection, "--workers", 1
    )
    assert data_digests(tmp_path / "data") == data_digests(built_once)


def test_a_second_run_makes_only_missing_shards(built: Path, small_source: Path, robustshards: Run) -> None:
    before = data_digests(built)
    command = ("build", "imagenet-c", "--source", small_source, "--out", built, *SELECTION)
    (built / "shards/contrast/3/contrast-3-000001.tar").unlink()
    (built / "manifest/gaussian_noise-1-000000.parquet").unlink()
    damaged = built / "shards/gaussian_noise/3/gaussian_noise-3-000000.tar"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    facts = robustshards.facts(*command)
    assert (facts["shards"], facts["shards_before"], facts["shards_made"], facts["samples_made"]) == (8, 5, 3, 10)
    assert data_digests(built) == before
    done = robustshards(*command)
    assert "nothing to do: all 8 shards" in done.stdout
    assert data_digests(built) == before


def test_a_build_can_be_extended(built_once: Path, small_source: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", "--shard-size", 4)
    robustshards.succeed(*command, "--only", "gaussian_noise", "--severities", "3", "--limit", 5)
    assert (
        robustshards.facts(*command, "--only", "gaussian_noise,contrast", "--severities", "1,3")["shards_before"] == 1
    )
    assert data_digests(tmp_path / "data") == data_digests(built_once)


def test_the_recipe_of_a_data_set_rebuilds_it_from_relative_paths(
    built_once: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    """Relative paths refer to the current folder of the command, not of the workers."""
    (tmp_path / "photographs").symlink_to(small_source)
    shutil.copy(built_once / "recipe.toml", tmp_path)
    robustshards.succeed("build", "recipe.toml", "--source", "photographs", "--out", "./data", cwd=tmp_path)
    assert data_digests(tmp_path / "data") == data_digests(built_once)


def test_clean_images_are_the_prepared_images(photographs: Path, tmp_path: Path, robustshards: Run) -> None:
    robustshards.succeed("build", "imagenet-c-clean", "--source", photographs, "--out", tmp_path / "data")
    rows = list(manifests.read_rows(tmp_path / "data" / "manifest.parquet"))
    assert {(row.transform, row.level, row.height, row.width, row.status) for row in rows} == {
        ("none", 0, 224, 224, "ok")
    }
    assert [row.key for row in rows][:2] == ["animals/chelsea-none-0", "people/astronaut-none-0"]
    for sample in rs.open(tmp_path / "data").samples():
        image = Image.open(photographs / sample.row.origin).convert("RGB")
        width, height = image.size
        size = (256, 256 * height // width) if width < height else (256 * width // height, 256)
        left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
        expected = image.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + 224, top + 224))
        np.testing.assert_array_equal(sample.pixels(), np.asarray(expected))


def test_failed_samples_are_in_the_manifest_and_set_the_exit_code(tmp_path: Path, robustshards: Run) -> None:
    source = write_small_source(tmp_path / "source", images=4)
    (source / "class0" / "empty.jpg").write_bytes(b"")
    whole = (source / "class0" / "image0.png").read_bytes()
    (source / "class1" / "truncated.png").write_bytes(whole[:300])
    (source / "class1" / "text.jpg").write_text("no picture")
    (source / "class1" / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    command = ("build", "imagenet-c", "--source", source, "--out", tmp_path / "data", *SELECTION)
    done = robustshards(*command)
    assert done.returncode == 1
    assert "16 of 32 samples failed" in done.stdout
    assert "\nfailed: class0/empty.jpg: the file is empty\n" in done.stdout
    assert done.stdout.count("\nfailed: ") == 4
    rows = list(manifests.read_rows(tmp_path / "data" / "manifest.parquet"))
    failed = {row.source_id: row.error for row in rows if row.status == manifests.FAILED}
    assert sorted(failed) == ["class0/empty", "class1/dangling", "class1/text", "class1/truncated"]
    assert failed["class0/empty"] == "class0/empty.jpg: the file is empty"
    assert failed["class1/dangling"] == "class1/dangling.jpg: FileNotFoundError: No such file or directory"
    assert sum(row.status == manifests.OK for row in rows) == 16
    assert robustshards("verify", tmp_path / "data").returncode == 0
    assert robustshards(*command, "--allow-failures").returncode == 0


def test_retry_failed_remakes_failed_samples(tmp_path: Path, robustshards: Run) -> None:
    """A repaired file with unchanged length is only read again with --retry-failed."""
    source = write_small_source(tmp_path / "source", images=4)
    file = source / "class0" / "image0.png"
    valid = file.read_bytes()
    file.write_bytes(bytes(len(valid)))
    command = ("build", "imagenet-c", "--source", source, "--out", tmp_path / "data", *SELECTION, "--json")
    facts = json.loads(robustshards(*command).stdout)
    assert (facts["failed"], list(facts["failures"])) == (4, ["class0/image0.png"])
    file.write_bytes(valid)
    assert json.loads(robustshards(*command).stdout)["shards_made"] == 0
    done = robustshards(*command, "--retry-failed")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["failed"], facts["shards_made"]) == (0, 0, 4)


def test_images_may_return_before_others_with_retry_failed(tmp_path: Path, robustshards: Run) -> None:
    """They move a whole block: its shards have another name, but not another digest."""
    source = write_small_source(tmp_path / "source", images=6, classes=1)
    command = ("build", "imagenet-c", "--source", source, *SELECTION, "--shard-size", 2, "--out")
    assert robustshards(*command, tmp_path / "fresh").returncode == 0
    away = [(source / "class0" / f"image{number}.png", tmp_path / f"{number}.png") for number in (0, 1)]
    for file, aside in away:
        file.rename(aside)
    assert robustshards(*command, tmp_path / "data").returncode == 0
    for file, aside in away:
        aside.rename(file)
    robustshards.succeed(*command, tmp_path / "data", "--retry-failed")
    assert data_digests(tmp_path / "data") == data_digests(tmp_path / "fresh")


def test_a_ray_cluster_and_local_processes_make_the_same_bytes(
    built_once: Path, small_source: Path, tmp_path: Path, robustshards: Run, ray_address: str
) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", *SELECTION)
    robustshards.succeed(*command, "--address", ray_address)
    assert data_digests(tmp_path / "data") == data_digests(built_once)


def test_clean_cifar_pixels_equal_the_source(tmp_path: Path, robustshards: Run) -> None:
    source = cifar_10(tmp_path)
    done = robustshards.succeed("build", "cifar-10-c-clean", "--source", source, "--out", tmp_path / "data")
    assert "test images of cifar-10-batches-py" in done.stderr
    data_set = rs.open(tmp_path / "data")
    for index, row in enumerate(data_set.rows()):
        assert (row.key, row.label) == (f"test_batch_{index:06d}-none-0", index % 3)
        np.testing.assert_array_equal(data_set.pick(row).pixels(), pixels(index))
    assert robustshards("verify", tmp_path / "data", "--deep", "--samples", 5).returncode == 0


def test_images_are_cropped_to_their_boxes(tmp_path: Path, robustshards: Run) -> None:
    """The published Tiny ImageNet-C was made this way."""
    source = imagenet_boxes(tmp_path)
    command = ("build", "tiny-imagenet-c-clean", "--source", source, "--source-kind", "imagenet-boxes")
    robustshards.succeed(*command, "--out", tmp_path / "data", "--encoder", "png")
    data_set = rs.open(tmp_path / "data")
    rows = list(data_set.rows())
    assert [int(row.source_id[-1]) for row in rows] == [1, 2, 4, 5]
    for row in rows:
        index = int(row.source_id[-1]) - 1
        expected = prepare(pixels(index)[2:30, index:20], [("square", 64)])
        np.testing.assert_array_equal(data_set.pick(row).pixels(), expected)


def test_system_noise_fails_for_sources_of_pixels(tmp_path: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-s", "--source", cifar_10(tmp_path), "--out", tmp_path / "data", "--grid", "decoders")
    done = robustshards(*command)
    assert done.returncode == 1
    assert {row.error for row in rows_of(tmp_path / "data")} >= {
        "test_batch#0: system-noise needs encoded images without boxes, but this source has pixels or boxes"
    }


def test_a_subset_is_built_with_the_same_bytes(
    built_once: Path, small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    """The bytes of an image do not depend on the other images."""
    (tmp_path / "ids.txt").write_text("class1/image3.png\nimage0\n")
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data")
    robustshards.succeed(*command, "--only", "gaussian_noise", "--severities", 1, "--ids", tmp_path / "ids.txt")
    complete = {row.key: row.payload_sha256 for row in rows_of(built_once)}
    subset = {row.key: row.payload_sha256 for row in rows_of(tmp_path / "data")}
    assert set(subset) == {"class0/image0-gaussian_noise-1", "class1/image3-gaussian_noise-1"}
    assert subset.items() <= complete.items()
