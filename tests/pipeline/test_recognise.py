"""Somebody's ImageNet-C beside photographs: how sets are named whose making is known."""

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import corruptions
import robustshards as rs
from pipeline.datasets.index.manifest import index
from pipeline.datasets.recognise import verdicts
from pipeline.datasets.recognise.comparison import Comparison, Photographs, Theirs, coding_of
from pipeline.datasets.recognise.verdicts import Alteration, Measured, judge
from pipeline.errors import UserError
from pipeline.images.decoders import decode
from tests.conftest import Run
from tests.factories.indexed_sets import index_of, write_arrays
from tests.golden.recognition import CASES, Make, jpeg
from tests.photographs import write_photographs

BOTH = (("snow", 3), ("contrast", 2))


def prepared(source: Path) -> Mapping[str, np.ndarray]:
    """Return id -> photograph as imagenet-c prepares it."""
    photographs = Photographs(str(source))
    return {image.id: photographs.prepared(Alteration("imagenet-c"), image) for image in photographs.images}


def brighter(image: np.ndarray, profile: str = "imagenet", level: int = 1) -> np.ndarray:
    """Return an image under brightness."""
    return corruptions.corrupt(image, "brightness", level, profile=profile, seed=0)


def write_set(
    root: Path, source: Path, make: Make, conditions: Sequence[tuple[str, int]] = BOTH, suffix: str = "JPEG"
) -> Path:
    """Write an ImageNet-C of somebody: folders of files that ``make`` returns."""
    for seed, (id_, image) in enumerate(prepared(source).items()):
        for name, level in conditions:
            file = root / name / str(level) / f"{id_}.{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(make(image, name, level, seed))
    return root


def recognised(root: Path, source: Path, **options: Any) -> verdicts.Recognition:
    return rs.recognise(index_of(root), source, **options)


DETAILS = {
    "quality 60": ("JPEG quality 60 4:2:0",),
    "moved by 2 pixels": ("moved by 2 rows and 2 columns",),
    "192 x 192": ("192 x 192", "pillow-bicubic"),
    "next severity": ("severity 3",),
}
"""Case -> details on contrast 2."""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_sets_of_known_making_are_named(case: str, photographs: Path, tmp_path: Path) -> None:
    make, correct = CASES[case]
    found = recognised(write_set(tmp_path / "theirs", photographs, make), photographs, samples=6)
    assert [(each.transform, each.level, each.images) for each in found.conditions] == [(*each, 6) for each in BOTH]
    assert {each.verdict for each in found.conditions} <= set(correct)
    assert found.conditions[1].details == DETAILS.get(case, ())
    assert found.published == (case == "other draws")


@pytest.mark.slow
def test_images_of_another_preparation_and_without_compression(photographs: Path, tmp_path: Path) -> None:
    def squeezed(image: np.ndarray, name: str, level: int, seed: int) -> bytes:
        return CASES["other draws"][0](whole[seed], name, level, seed)

    listed = Photographs(str(photographs))
    whole = [
        listed.prepared(Alteration("imagenet-c", preparation="the whole photograph"), each) for each in listed.images
    ]
    (found,) = recognised(write_set(tmp_path / "whole", photographs, squeezed, BOTH[1:]), photographs).conditions
    assert (found.verdict, found.details) == (verdicts.SIZE, ("the whole photograph",))

    root = tmp_path / "raw"
    for id_, image in prepared(photographs).items():
        file = root / "brightness" / "1" / f"{id_}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(brighter(image)).save(file)
    (found,) = recognised(root, photographs).conditions
    assert (found.verdict, found.details) == (verdicts.RECOMPRESSED, ("not compressed as JPEG before",))


def test_what_cannot_be_known_has_no_verdict(photographs: Path, tmp_path: Path) -> None:
    make = CASES["other draws"][0]
    root = write_set(tmp_path / "theirs", photographs, make, [("contrast", 1), ("contrast", 2)])
    for file in sorted((root / "contrast" / "1").rglob("*.JPEG"))[3:]:
        file.unlink()
    shutil.copytree(root / "contrast" / "2", root / "smoke" / "2")
    shutil.copytree(root / "contrast" / "2", root / "contrast" / "7")
    found = recognised(root, photographs)
    assert found.published
    assert [(str(each.transform), each.level, each.verdict, each.sure) for each in found.conditions] == [
        ("contrast", 1, verdicts.UNKNOWN, ""),
        ("contrast", 2, verdicts.SAME, verdicts.SURE),
        ("contrast", 7, verdicts.UNKNOWN, ""),
        ("smoke", 2, verdicts.UNKNOWN, ""),
    ]
    assert "4 are needed" in found.conditions[0].details[0]


def test_photographs_are_found_by_name_and_by_place(photographs: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat" / "all"
    flat.mkdir(parents=True)
    for file in photographs.rglob("*.*"):
        shutil.copyfile(file, flat / file.name)
    root = write_set(tmp_path / "theirs", photographs, CASES["other draws"][0], BOTH[1:])
    assert recognised(root, flat.parent, samples=5).conditions[0].images == 5
    write_photographs(tmp_path / "others", {"a": ("coffee.png",)})
    (tmp_path / "others" / "a" / "coffee.png").rename(tmp_path / "others" / "a" / "tea.png")
    with pytest.raises(UserError, match="no image of theirs has the name of a photograph"):
        recognised(root, tmp_path / "others")
    with pytest.raises(UserError, match="samples 3"):
        rs.recognise(root, flat.parent, samples=3)


@pytest.mark.slow
def test_images_of_other_photographs_than_their_names_have_no_verdict(photographs: Path, tmp_path: Path) -> None:
    root = write_set(tmp_path / "theirs", photographs, CASES["other draws"][0], BOTH[1:])
    files = sorted(root.rglob("*.JPEG"))
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    (found,) = recognised(root, photographs).conditions
    assert (found.verdict, found.sure) == (verdicts.UNKNOWN, "")
    assert "do not show the photographs" in found.details[0]


def test_rows_of_arrays_are_found_by_place(photographs: Path, tmp_path: Path) -> None:
    images = [np.asarray(Image.fromarray(image).resize((32, 32))) for image in prepared(photographs).values()]
    small = tmp_path / "small"
    for position, image in enumerate(images):
        (small / "a").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(small / "a" / f"{position:02d}.png")
    corrupted = [brighter(image, "cifar", level) for level in (1, 2) for image in images]
    arrays = write_arrays(tmp_path / "arrays", brightness=np.stack(corrupted))
    data = tmp_path / "arrays-index"
    index(str(arrays), str(data), levels=(1, 2))
    found = rs.recognise(rs.open(data), small)
    assert [each.verdict for each in found.conditions] == [verdicts.SAME, verdicts.SAME]
    assert repr(found) == "<Recognition: the same pixels (2)>"


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "profile"), [("cifar-10-c", "cifar"), ("tiny-imagenet-c", "tiny")])
def test_small_images_of_another_formula_are_not_called_resized(recipe: str, profile: str, photographs: Path) -> None:
    listed = Photographs(str(photographs))
    comparison = Comparison("impulse_noise", listed)
    judged = {}
    for case in ("other draws", "another formula"):
        images = []
        for seed, photograph in enumerate(listed.images[:6]):
            clean = listed.prepared(Alteration(recipe), photograph)
            if case == "other draws":
                made = corruptions.corrupt(clean, "impulse_noise", 3, profile=profile, seed=seed)
                data = made if profile == "cifar" else decode(jpeg(made))
            else:
                data = decode(CASES[case][0](clean, "impulse_noise", 3, seed))
            images.append(Theirs(photograph, data, None if profile == "cifar" else coding_of(jpeg(data))))
        judged[case] = judge(comparison.measure(3, images)).verdict
    assert judged == {"other draws": verdicts.DRAWS, "another formula": verdicts.NOT_IT}


def measured(scores: Sequence[float], level: int = 3, random: bool = True, **other: Any) -> Measured:
    values = {
        "transform": "snow",
        "same": False,
        "own": 0.0,
        "alteration": Alteration("imagenet-c"),
        "size": None,
        "compression": "",
    }
    return Measured(
        level=level, random=random, distances=np.array(scores), deviations=np.array(scores), **values | other
    )


@pytest.mark.parametrize(
    ("scores", "verdict", "sure", "details"),
    [
        ([9, 3, 0.5, 3, 9], verdicts.DRAWS, verdicts.SURE, ()),
        ([9, 3, 0.5, 0.6, 9], verdicts.DRAWS, verdicts.LIKELY, ("severity 4 is as near",)),
        ([9, 3, 0.6, 0.5, 9], verdicts.DRAWS, verdicts.LIKELY, ("severity 4 is as near",)),
        ([9, 3, 0.9, 0.5, 9], verdicts.SEVERITY, verdicts.SURE, ("severity 4",)),
        ([9, 3, 0.8, 0.5, 9], verdicts.SEVERITY, verdicts.LIKELY, ("severity 4",)),
        ([9, 3, 1.4, 3, 9], verdicts.DRAWS, verdicts.LIKELY, ()),
        ([9, 3, 2, 3, 9], verdicts.UNKNOWN, "", ("neither like ours nor clearly unlike them",)),
        ([9, 4, 3, 4, 9], verdicts.NOT_IT, verdicts.LIKELY, ()),
        ([9, 7, 6, 7, 9], verdicts.NOT_IT, verdicts.SURE, ()),
    ],
)
def test_judge(scores: Sequence[float], verdict: str, sure: str, details: tuple[str, ...]) -> None:
    assert judge(measured(scores)) == (verdict, sure, details)


@pytest.mark.parametrize("name", verdicts.HIDDEN)
def test_nothing_is_sure_where_draws_hide_an_alteration(name: str) -> None:
    found = judge(measured([9, 3, 0.5, 3, 9], transform=name))
    assert found == (verdicts.DRAWS, verdicts.LIKELY, (verdicts.HIDDEN[name],))


def test_judge_of_corruptions_without_draws() -> None:
    assert judge(measured([9, 3, 0.1, 3, 9], random=False)).verdict == verdicts.PUBLISHED
    assert judge(measured([9, 3, 0.8, 3, 9], random=False)).verdict == verdicts.UNKNOWN
    assert judge(measured([9, 3, 2.1, 3, 9], random=False)).verdict == verdicts.NOT_IT
    found = judge(measured([9] * 5, size=(256, 256), alteration=Alteration("imagenet-c", "pillow-box")))
    assert (found.verdict, found.sure) == (verdicts.SIZE, verdicts.SURE)


@pytest.mark.parametrize("quality", [1, 60, 85, 100])
def test_quality_is_read_from_the_tables(quality: int) -> None:
    coding = coding_of(jpeg(np.zeros((16, 16, 3), np.uint8), quality))
    assert coding is not None
    assert str(coding) == f"JPEG quality {quality} 4:2:0"
    assert coding.published == (quality == 85)


def test_files_without_tables_of_colours_have_no_quality() -> None:
    for mode, suffix in (("RGB", "png"), ("L", "jpeg")):
        buffer = io.BytesIO()
        Image.new(mode, (8, 8)).save(buffer, suffix)
        assert coding_of(buffer.getvalue()) is None


def test_the_command_prints_verdicts_and_exits_with_1(robustshards: Run, photographs: Path, tmp_path: Path) -> None:
    sets = {
        case: write_set(tmp_path / case[0], photographs, CASES[case][0], BOTH[1:])
        for case in ("other draws", "quality 60")
    }
    for case, code in (("other draws", 0), ("quality 60", 1)):
        command = ("index", sets[case], "--out", tmp_path / f"{code}", "--source", photographs, "--samples", 6)
        done = robustshards(*command, "--json")
        assert done.returncode == code, done.stderr
        (found,) = json.loads(done.stdout)["recognised"]
        assert (found["transform"], found["images"], found["verdict"]) == ("contrast", 6, CASES[case][1][-1])
    done = robustshards(*command)
    assert (done.returncode, "re-compressed" in done.stdout, "JPEG quality 60" in done.stdout) == (1, True, True)


def test_the_command_refuses_what_cannot_be_compared(robustshards: Run, photographs: Path, tmp_path: Path) -> None:
    root = write_set(tmp_path / "theirs", photographs, CASES["other draws"][0], BOTH[1:])
    for source, samples, message in ((tmp_path / "none", 6, "does not exist"), (photographs, 3, "from 4 to 200")):
        done = robustshards("index", root, "--out", tmp_path / "index", "--source", source, "--samples", samples)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert not (tmp_path / "index").exists()
    (root / "contrast").rename(root / "blue_noise_sample")
    done = robustshards("index", root, "--out", tmp_path / "index", "--source", photographs)
    assert (done.returncode, "only images of ImageNet-C can be compared" in done.stderr) == (2, True), done.stderr
