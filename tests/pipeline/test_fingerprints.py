from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.build import doctor
from pipeline.images import fingerprints
from pipeline.images.decoders import DECODERS
from pipeline.images.fingerprints import changes, fingerprint
from tests.conftest import Run
from tests.factories.images import INSTALLED
from tests.fingerprint_images import VARIANTS, write_images


@pytest.mark.parametrize("decoder", INSTALLED)
def test_a_fingerprint_is_the_same_in_another_process(decoder: str) -> None:
    program = f"from pipeline.images.fingerprints import fingerprint; print(fingerprint({decoder!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint(decoder)


def test_decoders_with_different_arithmetic_have_different_digests() -> None:
    digests = {name: fingerprint(name).rpartition("; ")[2] for name in INSTALLED}
    assert len({digests[name] for name in ("pillow", "ffmpeg", "turbo-fast")}) == 3
    for name in INSTALLED:
        assert DECODERS[name].library() in fingerprint(name)


def test_the_bundled_images_are_small_and_cover_all_variants(tmp_path: Path) -> None:
    folder = Path(fingerprints.__file__).parent / fingerprints.IMAGES
    files = sorted(file.name for file in folder.iterdir())
    write_images(tmp_path)
    assert files == sorted(file.name for file in tmp_path.iterdir())
    assert len(files) == 2 * (len(VARIANTS) + 1)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 30_000


def test_changed_decoders_are_described() -> None:
    current = fingerprint("pillow")
    assert list(changes({"pillow": current})) == []
    older = f"Pillow 8.0, libjpeg 9c; {'0' * 16}"
    (message,) = changes({"pillow": older})
    assert (
        "decoder pillow gives different pixels on this machine: the data set was built with Pillow 8.0, libjpeg 9c"
        in message
    )
    assert "0.3 points" in message
    (missing,) = changes({"gd": "GD 2; 0"})
    assert "decoder gd, used by the build (GD 2), is not available" in missing
    # another version that gives the same pixels is no change
    assert list(changes({"pillow": f"Pillow 1.0; {current.rpartition('; ')[2]}"})) == []


def test_verify_warns_of_a_changed_decoder(built: Path, robustshards: Run) -> None:
    recipe = built / "recipe.toml"
    text = recipe.read_text()
    assert f'pillow = "{fingerprint("pillow")}"' in text
    recipe.write_text(text.replace(fingerprint("pillow"), f"Pillow 8.0, libjpeg 9c; {'0' * 16}"))
    done = robustshards("verify", built)
    assert done.returncode == 0
    assert "WARNING decoder pillow gives different pixels" in done.stdout


def test_doctor_lists_versions_and_install_commands(robustshards: Run) -> None:
    found = {each.what: each for each in doctor.examine()}
    for name in DECODERS:
        each = found[f"decoder {name}"]
        assert each.found == (fingerprint(name) if name in INSTALLED else "not installed")
        assert (each.remedy is None) == (name in INSTALLED)
    assert found["frost textures"].found == "all six installed and valid"
    assert {"ray", "torch", "GPU", "vector extensions", "memory", "numpy"} <= set(found)
    shown = robustshards("doctor").stdout
    assert fingerprint("ffmpeg") in shown
    for each in found.values():
        assert each.remedy is None or f"install with: {each.remedy}" in shown
