"""Mirrors: the corrupted version of any folder of images, file by file."""

import io
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms
from torch.utils.data import DataLoader

import manifests
import robustshards as rs
from pipeline.builder.merge import SHOWN_FAILURES
from pipeline.datasets.export import export
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from pipeline.images.decoders import decode
from pipeline.images.files import tags_of
from pipeline.transforms.seeds import sample_seed
from robustshards.torch import Images, Stream, as_lists
from tests.conftest import ROOT, Run
from tests.factories.commands import PROGRAM
from tests.factories.object_store import object_store, upload

ORIENTATION, MAKER = 0x0112, 0x010F

LOSSLESS = ("PNG", "BMP", "TIFF", "WEBP", "PPM")

FILES = {
    "a.jpg": ("JPEG", "RGB"),
    "a.png": ("PNG", "RGB"),
    "A.JPG": ("JPEG", "L"),
    "street view/münchen/x.y.jpeg": ("JPEG", "CMYK"),
    "street view/münchen/100%.png": ("PNG", "P"),
    "street view/sixteen.png": ("PNG", "I;16"),
    "street view/alpha.webp": ("WEBP", "RGBA"),
    "street view/scan.tiff": ("TIFF", "RGB"),
    "fog/3/grey.bmp": ("BMP", "L"),
    "one.gif": ("GIF", "P"),
    "two.ppm": ("PPM", "RGB"),
}
"""Path -> format and mode of an image of the nasty folder."""

FAILED = ("broken.jpg", "new/photo.heic", "tiny.png")
"""Images that cannot be corrupted: damaged, of a format that is not read, and too small."""


def saved(path: Path, kind: str, mode: str, side: int, **options: Any) -> None:
    """Write a noisy image whose width is ``side``."""
    pixels = np.random.default_rng(side).integers(0, 256, (side + 7, side, 3), np.uint8)
    image = Image.fromarray(pixels)
    if mode == "I;16":
        image = Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 257)
    elif mode != "RGB":
        image = image.convert(mode)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, kind, **options)


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of images of many formats and sizes, with links and other files. Tests must not change it."""
    base = tmp_path_factory.mktemp("nasty")
    folder = base / "images"
    exif, profile = Image.Exif(), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif[ORIENTATION], exif[MAKER] = 6, "a maker"
    tagged = {"exif": exif, "icc_profile": profile}
    for index, (name, (kind, mode)) in enumerate(FILES.items()):
        options = tagged if kind in ("JPEG", "PNG", "WEBP", "TIFF") and mode in ("RGB", "RGBA") else {}
        saved(folder / name, kind, mode, 32 + index, **options)
    saved(folder / "tiny.png", "PNG", "RGB", 31)
    (folder / "broken.jpg").write_bytes((folder / "a.jpg").read_bytes()[:300])
    (folder / "new").mkdir()
    (folder / "new/photo.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (folder / "empty/below").mkdir(parents=True)
    (folder / "annotations.json").write_text("{}")
    (folder / ".hidden.png").write_bytes((folder / "a.png").read_bytes())
    saved(base / "elsewhere.png", "PNG", "RGB", 60)
    (folder / "link.png").symlink_to(base / "elsewhere.png")
    return folder


def mirrored(source: Path, out: Path, **options: Any) -> rs.BuildResult:
    options = {"only": "contrast,gaussian_noise", "severities": (1, 3), "executor": "local", "workers": 1} | options
    return rs.mirror(source, out, **options)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return path -> content of the files below the conditions of a mirror."""
    below = [path for top in ("contrast", "gaussian_noise") for path in (folder / top).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(below)}


@pytest.fixture(scope="module")
def mirror(nasty: Path, tmp_path_factory: pytest.TempPathFactory, workers_here: None) -> Path:
    """Return the mirror of the nasty folder. Tests must not change it."""
    out = tmp_path_factory.mktemp("mirror") / "out"
    result = mirrored(nasty, out)
    assert (result.complete, result.failed) == (True, 4 * len(FAILED))
    return out


def test_a_mirror_has_each_file_under_its_name_in_its_format_and_size(nasty: Path, mirror: Path) -> None:
    names = {*FILES, "link.png"}
    wanted = {f"{each}/{level}/{name}" for each in ("contrast", "gaussian_noise") for level in (1, 3) for name in names}
    made = files_of(mirror)
    assert made.keys() == wanted
    for path, data in made.items():
        transform, level, name = path.split("/", 2)
        clean = (nasty / name).read_bytes()
        with Image.open(io.BytesIO(data)) as image, Image.open(io.BytesIO(clean)) as source:
            assert image.format == {"GIF": "PNG"}.get(source.format or "", source.format)
            assert image.mode == "RGB"
        expected = rs.corrupt(
            decode(clean), transform, int(level), profile="detection", seed=sample_seed(0, name, transform, int(level))
        )
        assert decode(data).shape == expected.shape == decode(clean).shape
        if image.format in LOSSLESS:
            np.testing.assert_array_equal(decode(data), expected, err_msg=path)


@pytest.mark.parametrize(("recipe", "channels"), [("native-c", "rgb"), ("coco-c", "bgr")])
def test_the_manifest_names_the_order_of_channels(
    recipe: str, channels: str, tmp_path: Path, workers_here: None
) -> None:
    (tmp_path / "one").mkdir()
    Image.new("RGB", (40, 32), "red").save(tmp_path / "one" / "a.png")
    mirrored(tmp_path / "one", tmp_path / "out", recipe=recipe, only="contrast", severities=1)
    assert manifests.read_facts(tmp_path / "out" / "manifest.parquet")["channels"] == channels


def test_only_orientation_and_rgb_profile_are_copied(nasty: Path, mirror: Path) -> None:
    for name, (kind, mode) in FILES.items():
        data = (mirror / "contrast/3" / name).read_bytes()
        assert tags_of(data) == tags_of((nasty / name).read_bytes()), name
        with Image.open(io.BytesIO(data)) as image:
            if kind in ("JPEG", "PNG", "WEBP", "TIFF") and mode in ("RGB", "RGBA"):
                assert image.getexif()[ORIENTATION] == 6
                assert len(image.info["icc_profile"]) > 128
            assert MAKER not in image.getexif()


def test_profiles_of_other_spaces_are_not_copied() -> None:
    buffer, grey = io.BytesIO(), bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    grey[16:20] = b"GRAY"
    Image.new("L", (40, 40)).save(buffer, "PNG", icc_profile=bytes(grey))
    assert tags_of(buffer.getvalue()).profile == b""
    assert tags_of(b"\xff\xd8 damaged").orientation == 1


def test_failures_are_recorded_and_copied_on_request(
    nasty: Path, mirror: Path, tmp_path: Path, workers_here: None
) -> None:
    rows = [row for row in manifests.read_rows(mirror / "manifest.parquet") if row.status == manifests.FAILED]
    reasons = {row.source_id: row.error or "" for row in rows}
    assert reasons.keys() == {*FAILED}
    assert "at least 32 x 32, not 38 x 31" in reasons["tiny.png"]
    assert "not a supported image format" in reasons["new/photo.heic"]
    copy = shutil.copytree(mirror, tmp_path / "copy")
    result = mirrored(nasty, copy, copy_failed=True)
    assert (result.copied, result.done.shards) == (4 * len(FAILED), 0)
    assert result.failures == {name: reasons[name].removeprefix(f"{name}: ") for name in result.failures}
    assert len(result.failures) == min(len(FAILED), SHOWN_FAILURES)
    for name in FAILED:
        assert (copy / "gaussian_noise/1" / name).read_bytes() == (nasty / name).read_bytes()
    assert not verify(str(copy)).faults
    assert not verify(str(copy), quick=True).faults


def test_bytes_depend_on_the_path_alone(nasty: Path, mirror: Path, tmp_path: Path, workers_here: None) -> None:
    for name in ("a.jpg", "street view/scan.tiff"):
        path = tmp_path / "part" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((nasty / name).read_bytes())
    mirrored(tmp_path / "part", tmp_path / "out", only="gaussian_noise", fields={"shards": {"size": 1}})
    made = files_of(tmp_path / "out")
    assert len(made) == 4
    assert made.items() <= files_of(mirror).items()


def test_verify_finds_changed_missing_and_extra_files(
    nasty: Path, mirror: Path, tmp_path: Path, robustshards: Run, workers_here: None
) -> None:
    assert robustshards("verify", mirror, "--deep", "--samples", 60).returncode == 0
    copy = shutil.copytree(mirror, tmp_path / "copy")
    (copy / "contrast/1/a.jpg").unlink()
    (copy / "contrast/3/extra.txt").touch()
    changed = bytearray((copy / "contrast/3/two.ppm").read_bytes())
    changed[-1] ^= 1
    (copy / "contrast/3/two.ppm").write_bytes(changed)
    where = {fault.where for fault in verify(str(copy)).faults}
    assert where == {"contrast/1/a.jpg", "contrast/3/extra.txt", "two%2Eppm-contrast-3"}
    (copy / "contrast/3/extra.txt").unlink()
    result = mirrored(nasty, copy)
    assert result.done.shards == 1, "the group of the missing file is made again"
    assert files_of(copy).keys() == files_of(mirror).keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": "imagenet-c"}, "changes the sizes of images .* prepare.steps = "),
        ({"recipe": "imagenet-p", "only": "noise"}, "changes the sizes of images"),
        ({"encoder": "npy"}, "invalid encoder 'npy': use own, png or png-bytes"),
        ({"seed": 5}, "another data set .*seed"),
        ({"encoder": "png-bytes"}, "another data set .*encoder.content"),
    ],
)
def test_mirrors_that_are_refused(nasty: Path, mirror: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        rs.mirror(nasty, mirror, **{"only": "contrast,gaussian_noise", "severities": (1, 3)} | options)


def test_outputs_inside_the_source_and_hostile_names_are_refused(nasty: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is inside the source"):
        mirrored(nasty, nasty / "out")
    with pytest.raises(UserError, match="is inside contrast/ of the output"):
        mirrored(tmp_path / "contrast", tmp_path)
    saved(tmp_path / "new\nline.png", "PNG", "RGB", 40)
    with pytest.raises(UserError, match="contains the control character U"):
        mirrored(tmp_path, tmp_path.parent / "out")


@pytest.mark.parametrize(("encoder", "name"), [("png", "x.png"), ("png-bytes", "x.jpg")])
def test_png_instead_of_jpeg(tmp_path: Path, workers_here: None, encoder: Any, name: str) -> None:
    saved(tmp_path / "in/x.jpg", "JPEG", "RGB", 40)
    mirrored(tmp_path / "in", tmp_path / "out", only="contrast", severities=3, encoder=encoder)
    ((path, data),) = files_of(tmp_path / "out").items()
    assert (path, data[:4]) == (f"contrast/3/{name}", b"\x89PNG")


def test_files_that_would_get_the_same_name_are_refused(nasty: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.jpg and a\.png, .* --encoder png-bytes"):
        mirrored(nasty, tmp_path / "out", encoder="png")


def test_shards_export_the_same_files(nasty: Path, mirror: Path, tmp_path: Path, workers_here: None) -> None:
    selection: Any = {"only": "contrast,gaussian_noise", "severities": (1, 3), "executor": "local", "workers": 1}
    rs.build("native-c", nasty, tmp_path / "data", source_kind="files", encoder="own", shard_size=5, **selection)
    assert not verify(str(tmp_path / "data")).faults
    export(str(tmp_path / "data"), "mirror", str(tmp_path / "out"))
    assert files_of(tmp_path / "out") == files_of(mirror)
    export(str(mirror), "mirror", str(tmp_path / "again"))
    assert files_of(tmp_path / "again") == files_of(mirror)


def test_loaders_batch_images_of_several_sizes_as_lists(mirror: Path) -> None:
    images = Images(mirror, "contrast", 3, unlabelled=True, columns=("source_id",))
    with pytest.raises(UserError, match=r"different shapes.*collate_fn=robustshards.torch.as_lists"):
        next(iter(DataLoader(images, batch_size=4)))
    found, labels, columns = next(iter(DataLoader(images, batch_size=4, collate_fn=as_lists)))
    assert [tuple(image.shape) for image in found] == [tuple(images[index][0].shape) for index in range(4)]
    assert (labels.tolist(), columns["source_id"][0]) == ([-1] * 4, "A.JPG")
    with pytest.raises(UserError, match=r"different shapes.*as_lists=True"):
        next(iter(Stream(mirror, [("contrast", 3)], batch_size=4, unlabelled=True)))
    stream = Stream(mirror, [("contrast", 3)], batch_size=4, as_lists=True, as_="pil", unlabelled=True)
    sizes = [image.size for batch, _ in DataLoader(stream, batch_size=None) for image in batch]
    assert len(sizes) == len(images)
    assert len({*sizes}) > 4


def test_render_refuses_several_sizes_at_once(nasty: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"pixels and .* needs images of one size: .*robustshards build or mirror"):
        rs.render("native-c", nasty, tmp_path / "out", source_kind="files", only="contrast")
    assert not (tmp_path / "out/recipe.toml").exists()


def test_a_dry_run_says_size_and_time(nasty: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("mirror", nasty, "--out", tmp_path / "out", "--only", "contrast", "--dry-run")
    done = robustshards(*command)
    assert "to make: 5 groups, 75 samples, about " in done.stdout, done.stderr
    assert re.search(r" and \d+ s on one core\n", done.stdout)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def bucket() -> Iterator[Any]:
    with object_store() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment().items():
            patch.setenv(name, value)
        yield store


@pytest.mark.large
def test_a_mirror_in_a_bucket_has_the_same_bytes(
    nasty: Path, mirror: Path, tmp_path: Path, bucket: Any, workers_here: None
) -> None:
    source = upload(bucket, nasty, "images")
    result = mirrored(source, f"{bucket.url}/out")
    assert (result.complete, result.failed) == (True, 4 * len(FAILED))
    bucket.files().get(f"{bucket.bucket}/out/", f"{tmp_path}/out/", recursive=True)
    assert files_of(tmp_path / "out") == files_of(mirror)
    assert not verify(f"{bucket.url}/out").faults
    bucket.files().rm_file(f"{bucket.bucket}/out/contrast/1/a.png")
    assert mirrored(source, f"{bucket.url}/out").done.shards == 1


@pytest.mark.large
def test_a_killed_mirror_has_no_partial_file_and_is_finished_by_the_same_command(
    photographs: Path, tmp_path: Path
) -> None:
    undisturbed = tmp_path / "undisturbed"
    options: Any = {"severities": (1, 2, 3, 4, 5), "fields": {"shards": {"size": 1}}}
    mirrored(photographs, undisturbed, **options)
    whole, killed = files_of(undisturbed), tmp_path / "killed"
    command = [PROGRAM, "mirror", photographs, "--out", killed]
    command += ["--only", "contrast,gaussian_noise", "--executor", "local", "--workers", "2"]
    command += ["--set", "shards.size=1"]
    for part in (1, 2):
        running = subprocess.Popen(
            command, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        while running.poll() is None and len(files_of(killed)) < part * len(whole) // 4:
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        left = files_of(killed)
        assert left.items() <= whole.items()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.search(r"groups: \d+ already finished", done.stderr), done.stderr
    assert files_of(killed) == whole
    assert (killed / "manifest.parquet").read_bytes() == (undisturbed / "manifest.parquet").read_bytes()
