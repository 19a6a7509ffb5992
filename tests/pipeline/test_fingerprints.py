import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import cv2
import numpy as np
import pytest
import tomli_w

from corruptions.preparation import Window
from pipeline.builder import doctor
from pipeline.builder.compatibility import check_claim
from pipeline.errors import UserError
from pipeline.images import fingerprints
from pipeline.images.decoders import DECODERS
from pipeline.images.fingerprints import (
    SIZES,
    changes,
    decoder_fingerprint,
    resizer_fingerprint,
    same_pixels,
    striped_image,
)
from pipeline.images.resizers import OPERATORS
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.storage import open_store
from tests.conftest import Run
from tests.factories.images import INSTALLED
from tests.fingerprint_images import VARIANTS, write_images


def test_fingerprints_are_the_same_in_another_process() -> None:
    program = (
        "import json; from pipeline.images.fingerprints import decoder_fingerprints, resizer_fingerprints;"
        "print(json.dumps([decoder_fingerprints(), resizer_fingerprints()]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    decoders = {name: decoder_fingerprint(name) for name in INSTALLED}
    assert json.loads(done.stdout) == [decoders, {name: resizer_fingerprint(name) for name in OPERATORS}]


def test_decoders_with_different_arithmetic_have_different_digests() -> None:
    digests = {name: decoder_fingerprint(name).rpartition("; ")[2] for name in INSTALLED}
    assert len({digests[name] for name in ("pillow", "ffmpeg", "turbo-fast")}) == 3
    for name in INSTALLED:
        assert DECODERS[name].library() in decoder_fingerprint(name)


def test_the_bundled_images_are_small_and_cover_all_variants(tmp_path: Path) -> None:
    folder = Path(fingerprints.__file__).parent / fingerprints.IMAGES
    files = sorted(file.name for file in folder.iterdir())
    write_images(tmp_path)
    assert files == sorted(file.name for file in tmp_path.iterdir())
    assert len(files) == 2 * (len(VARIANTS) + 1)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 30_000


def test_resize_operators_have_different_digests_and_name_their_library() -> None:
    recorded = {name: resizer_fingerprint(name).partition("; ") for name in OPERATORS}
    assert len({digest for _, _, digest in recorded.values()}) == len(OPERATORS) == 11
    for name, (maker, _, _) in recorded.items():
        assert maker == OPERATORS[name].library()
    assert recorded["pillow-bilinear"][0] == f"robustshards {metadata.version('robustshards')}"
    assert recorded["pillow-nearest"][0] == f"Pillow {metadata.version('pillow')}"
    assert recorded["opencv-lanczos"][0] == f"OpenCV {cv2.__version__}"


def test_the_images_for_resize_operators_are_unchanged() -> None:
    """Other images would change every fingerprint, so that no data set could be continued."""
    assert striped_image(3, 4)[:, :, 1].tolist() == [[5, 5, 6, 8], [5, 6, 7, 9], [7, 7, 9, 11]]
    assert same_pixels(resizer_fingerprint("pillow-nearest"), "Pillow 13; 855b45b2f45d0be5")


def mean_of_areas(image: np.ndarray, fused: bool) -> np.ndarray:
    """Reduce both axes of an image by 6:5 in float32, with or without fused multiply-add."""
    levels = image.astype(np.float32)
    for axis in (1, 0):
        group, place = np.divmod(np.arange(levels.shape[axis] * 5 // 6), 5)
        shape = (-1, 1, 1) if axis == 0 else (-1, 1)
        one, two = (np.float32(share / 6).reshape(shape) for share in (5.0 - place, place + 1.0))
        first, second = (levels.take(6 * group + place + step, axis) for step in (0, 1))
        # The product of two float32 is exact in float64.
        product = second.astype(np.float64) * two if fused else second * two
        levels = (first * one + product).astype(np.float32)
    return np.rint(levels).astype(np.uint8)


def test_the_images_for_resize_operators_reveal_fused_multiply_add() -> None:
    size, target = SIZES[0]
    image = striped_image(*size)
    resized = OPERATORS["opencv-area"].resize(image, *target, Window(0, 0, *target))
    np.testing.assert_array_equal(resized, mean_of_areas(image, fused=False))
    assert (resized != mean_of_areas(image, fused=True)).sum() > 10


def test_changed_decoders_are_described() -> None:
    current = decoder_fingerprint("pillow")
    assert list(changes({"pillow": current}, {})) == []
    older = f"Pillow 8.0, libjpeg 9c; {'0' * 16}"
    (message,) = changes({"pillow": older}, {})
    assert (
        "decoder pillow gives different pixels on this machine: the data set was built with Pillow 8.0, libjpeg 9c"
        in message
    )
    assert "0.3 points" in message
    (missing,) = changes({"gd": "GD 2; 0"}, {})
    assert "decoder gd, used by the build (GD 2), is not available" in missing
    # another version that gives the same pixels is no change
    assert list(changes({"pillow": f"Pillow 1.0; {current.rpartition('; ')[2]}"}, {})) == []


def test_changed_resize_operators_are_described() -> None:
    library, _, digest = resizer_fingerprint("opencv-area").partition("; ")
    assert list(changes({}, {"opencv-area": f"OpenCV 4.0; {digest}"})) == []
    assert list(changes({}, {"opencv-area": "OpenCV 4.0; 0", "magick-box": "ImageMagick 7; 0"})) == [
        "resize operator opencv-area gives different pixels on this machine: the data set was built with OpenCV 4.0, "
        f"this machine has {library}",
        "resize operator magick-box, used by the build (ImageMagick 7), is not available on this machine: this version "
        "of robustshards has none of this name",
    ]


def test_verify_warns_of_changed_decoders_and_resize_operators(built: Path, robustshards: Run) -> None:
    recipe = built / "recipe.toml"
    recorded = tomllib.loads(recipe.read_text())
    assert recorded["decoders"] == {"pillow": decoder_fingerprint("pillow")}
    assert recorded["resizers"] == {"pillow-bilinear": resizer_fingerprint("pillow-bilinear")}
    recorded |= {"decoders": {"pillow": "Pillow 8.0, libjpeg 9c; 0"}, "resizers": {"pillow-bilinear": "Pillow 2.6; 0"}}
    recipe.write_text(tomli_w.dumps(recorded))
    done = robustshards.succeed("verify", built)
    assert "WARNING decoder pillow gives different pixels" in done.stdout
    assert "WARNING resize operator pillow-bilinear gives different pixels" in done.stdout


def test_runs_record_fingerprints(built_once: Path) -> None:
    (run,) = (json.loads(path.read_text()) for path in (built_once / "runs").iterdir())
    assert run["decoders"] == {"pillow": decoder_fingerprint("pillow")}
    assert run["resizers"] == {"pillow-bilinear": resizer_fingerprint("pillow-bilinear")}


def test_doctor_lists_versions_and_install_commands(robustshards: Run) -> None:
    found = {each.what: each for each in doctor.examine()}
    for name in DECODERS:
        each = found[f"decoder {name}"]
        assert each.found == (decoder_fingerprint(name) if name in INSTALLED else "not installed")
        assert (each.remedy is None) == (name in INSTALLED)
    for name in OPERATORS:
        assert found[f"resize operator {name}"] == doctor.Finding(f"resize operator {name}", resizer_fingerprint(name))
    assert found["frost textures"].found == "all six installed and valid"
    assert any(Path(found["compiled kernels"].found.removeprefix("cached in ")).glob("*/*.nbi"))
    assert {"ray", "torch", "GPU", "vector extensions", "memory", "numpy"} <= set(found)
    shown = robustshards("doctor").stdout
    assert f"decoder ffmpeg: {decoder_fingerprint('ffmpeg')}\n" in shown
    assert f"resize operator opencv-area: {resizer_fingerprint('opencv-area')}\n" in shown
    facts = json.loads(robustshards("doctor", "--json").stdout)
    assert facts["resize operator opencv-area"] == {"found": resizer_fingerprint("opencv-area"), "remedy": None}
    for each in found.values():
        assert each.remedy is None or f"install with: {each.remedy}" in shown


def claim(folder: Path, existing: Recipe, requested: Recipe) -> None:
    """Check the claim of a recipe to the output of another."""
    store = open_store(str(folder))
    store.publish_bytes(existing.to_toml().encode(), "recipe.toml")
    check_claim(store, requested)


GRID = library.load("imagenet-s").changed(transforms={"only": ["pillow_opencv-area", "ffmpeg_pillow-box"]})


def recorded(recipe: Recipe, digest: str = "0", version: int = 1) -> Recipe:
    """Return a recipe in canonical form with fingerprints of this digest and version."""
    decoders, resizers = (
        {name: f"{name} {version}; {digest}" for name in names}
        for names in (recipe.used_decoders(), recipe.used_resizers())
    )
    return recipe.canonical({}, decoders, resizers)


def test_other_versions_with_the_same_pixels_are_accepted(tmp_path: Path) -> None:
    claim(tmp_path, recorded(GRID, version=1), recorded(GRID, version=2))


def test_every_changed_fingerprint_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        claim(tmp_path, recorded(GRID, "0"), recorded(GRID, "1"))
    for name in ("decoders.ffmpeg", "decoders.pillow", "resizers.opencv-area", "resizers.pillow-box"):
        library = name.partition(".")[2]
        assert f"{name} is {library} 1; 0, but this machine has {library} 1; 1" in str(caught.value)


def test_a_missing_decoder_is_named(tmp_path: Path) -> None:
    requested = recorded(GRID).model_copy(update={"decoders": {"pillow": "pillow 1; 0"}})
    with pytest.raises(UserError, match=r"decoders\.ffmpeg is ffmpeg 1; 0, but this machine has none\)"):
        claim(tmp_path, recorded(GRID), requested)


def test_added_decoders_and_resize_operators_are_accepted(tmp_path: Path) -> None:
    more = GRID.changed(transforms={"only": [*GRID.transforms.only, "opencv_opencv-bicubic"]})
    claim(tmp_path, recorded(GRID), recorded(more))
