"""Combining evaluations: metrics use common images and one model, and mismatches are reported or refused."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from pipeline.errors import UserError
from pipeline.evaluate.report.load import open_evaluation
from pipeline.evaluate.report.write import page
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import (
    cells,
    has,
    lines,
    measure,
    only,
    report_on,
    results_of,
    table,
    tables_of,
    value,
    values,
)

LABELS = (0, 1, 2, 3)
IDS = ("a", "b", "c", "d")
OTHERS = ("e", "f", "g", "h")
MEAN, CLEAN_ERROR, RESIDUAL = "mean corruption error (unnormalised)", "clean error", "residual robustness"
FOG = {("fog", 1): votes([0, 6, 6, 6])}
CLEAN = {("none", 0): votes([0, 1, 2, 6])}
SAME = "1" * 64


def fog(folder: Path, logits: Mapping[tuple[str, int], np.ndarray] = FOG, **options: Any) -> str:
    """Write an evaluation on four corrupted images, of which one is right."""
    labels = options.pop("labels", LABELS[: len(next(iter(logits.values())))])
    return write_evaluation(folder, logits, labels, **{"names": IDS[: len(labels)], **options})


def clean(folder: Path, classes: Sequence[int] = (0, 1, 2, 6), labels: Sequence[int] = LABELS, **options: Any) -> str:
    """Write an evaluation on four clean images, of which three are right."""
    logits = {("none", 0): votes(classes)}
    return write_evaluation(folder, logits, labels, **{"family": "none", "names": IDS, **options})


def warned(report: Any, *words: str) -> bool:
    """Return whether a warning of a report has all these words."""
    return any(all(word in text for word in words) for text in report.warnings)


# Clean images


@pytest.mark.parametrize(
    ("digests", "expected"), [((1, 2, 3, 4), 0.25), ((0, 0, 0, 0), 0.25), ((1, 7, 3, 4), 1 / 3), ((5, 6, 7, 8), None)]
)
def test_other_photographs_with_the_same_ids_are_left_out(
    digests: tuple[int, ...], expected: float | None, tmp_path: Path
) -> None:
    mine = fog(tmp_path / "c", digests=(1, 2, 3, 4))
    of_clean = clean(tmp_path / "k", digests=digests)
    report = report_on(mine, of_clean)
    found = only(report, "corruptions")
    assert values(found, CLEAN_ERROR) == ({} if expected is None else {"": pytest.approx(expected)})
    others = sum(own != other for own, other in zip((1, 2, 3, 4), digests, strict=True) if other)
    left_out = [text for text in report.warnings if "with the same ids, which are left out: " in text]
    assert len(left_out) == bool(others)
    assert all(f"{of_clean} has {others} other photograph" in text for text in left_out)


@pytest.mark.parametrize(
    ("encoder", "shown"),
    [
        ("jpeg quality=85 optimize=true", "jpeg quality=85 optimize=true (lossy)"),
        ("png compression=3", "png compression=3 (lossless)"),
        ("files", "files as published"),
        (None, "unknown encoder"),
    ],
)
def test_values_name_the_encoder_of_the_clean_images_that_they_depend_on(
    encoder: str | None, shown: str, tmp_path: Path
) -> None:
    """Lossy ones are marked, with one note per table."""
    report, lossy = report_on(fog(tmp_path / "c"), clean(tmp_path / "k", encoder=encoder)), "lossy" in shown
    assert [each["clean_images"] for each in report.facts()["results"]] == [shown, shown]
    named = {line["metric"]: line["clean_images"] for line in lines(report) if line["family"] == "corruptions"}
    assert (named[RESIDUAL], named[CLEAN_ERROR], named["accuracy"]) == (shown, shown, "")
    found = table(report, "key figures", "corruptions")
    assert cells(found)["clean images"] == [shown]
    assert cells(found)[CLEAN_ERROR][0].endswith(" ‡") == lossy
    assert found.note.count("‡") == found.note.count(shown) == lossy
    assert warned(report, "compressed again") == lossy


def test_the_encoder_is_not_part_of_the_identity_of_an_evaluation(tmp_path: Path) -> None:
    folders = [fog(tmp_path / str(each), encoder=each) for each in (None, "png compression=3")]
    assert len({open_evaluation(folder).table.digest for folder in folders}) == 1


def test_the_clean_error_is_over_the_images_of_the_corruptions(tmp_path: Path) -> None:
    mine = fog(tmp_path / "c", {("fog", 1): votes([0, 6])})
    report = report_on(mine, clean(tmp_path / "k", (6, 1, 2, 6)))
    found = only(report, "corruptions")
    assert (value(found, CLEAN_ERROR), value(found, RESIDUAL), value(only(report, "clean"), "top-1 error")) == (
        0.5, 0.0, 0.5,
    )  # fmt: skip
    assert warned(report, "its 2 images only")


def test_relative_metrics_use_common_images(tmp_path: Path) -> None:
    """Image d has no clean version, e no corrupted one. Of a, b and c, one clean and two corrupted images are wrong."""
    base: dict[str, Any] = {"model": "base", "digest": SAME}
    evaluations = [fog(tmp_path / "c"), clean(tmp_path / "k", (6, 6, 1, 2), (4, 0, 1, 2), names="eabc")]
    of_baseline = [fog(tmp_path / "b", {("fog", 1): votes([6] * 4)}, **base), clean(tmp_path / "bk", **base)]
    report = report_on(*evaluations, baseline=of_baseline)
    found = only(report, "corruptions")
    assert value(found, CLEAN_ERROR) == pytest.approx(1 / 3)
    assert value(found, RESIDUAL) == pytest.approx(2 / 3 - 1 / 3)
    assert value(found, "mean error (unnormalised)", "fog") == value(found, "CE", "fog") == 0.75
    assert value(found, "relative CE", "fog") == pytest.approx((2 / 3 - 1 / 3) / (1 - 0))
    assert warned(report, "only 3 of the 4 images")


def test_images_are_matched_by_id_not_by_order(tmp_path: Path) -> None:
    """Each image is wrong under one of two transforms, so the mean is the same in all bootstrap draws."""
    logits = {("fog", 1): votes([0, 1, 6, 6]), ("snow", 1): votes([6, 6, 2, 3])}
    mean = measure(only(report_on(fog(tmp_path / "c", logits, only={("snow", 1): (3, 2, 1, 0)})), "corruptions"), MEAN)
    assert (mean.value, mean.low, mean.high) == (0.5, 0.5, 0.5)


def test_different_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'c' has the label 2 in .*c and 5 in .*k.*: give evaluations of the same"):
        report_on(fog(tmp_path / "c"), clean(tmp_path / "k", labels=(0, 1, 5, 3)))


def test_the_clean_evaluation_of_the_same_images_is_used(tmp_path: Path) -> None:
    """In any order, evaluations with other images, labels or profiles are not used."""
    mine, ours = fog(tmp_path / "c"), clean(tmp_path / "k", data_set="ours")
    others = {
        "has no images in common": clean(tmp_path / "o", names=OTHERS, data_set="other ids"),
        "other labels": clean(tmp_path / "l", labels=(3, 2, 1, 0), data_set="other labels"),
        "'cifar' instead of 'tiny'": clean(tmp_path / "p", profile="cifar", data_set="small"),
    }
    for folders in ([mine, ours, *others.values()], [*others.values(), ours, mine]):
        report = report_on(*folders)
        assert value(only(report, "corruptions"), CLEAN_ERROR) == 0.25
        assert len(results_of(report, "clean")) == 4
    for words in ("has no images in common", "'cifar' instead of 'tiny'"):
        report = report_on(mine, others[words])
        assert not any(has(only(report, "corruptions"), metric) for metric in (CLEAN_ERROR, RESIDUAL))
        assert warned(report, mine, words)
    with pytest.raises(UserError, match=r"k and .*k2 both .*: give one of them"):
        report_on(mine, ours, clean(tmp_path / "k2", data_set="again"))


def test_arrays_are_matched_by_position_and_label(tmp_path: Path) -> None:
    """Ids of array images consist of the file name, which may differ, and the position."""
    mine = fog(tmp_path / "c", names=[f"image_{position:06d}" for position in range(4)])
    batch = [f"test_batch_{position:06d}" for position in range(4)]
    report = report_on(mine, clean(tmp_path / "k", names=batch))
    assert value(only(report, "corruptions"), CLEAN_ERROR) == 0.25
    assert warned(report, "matched by their positions")
    other = clean(tmp_path / "o", labels=(1, 1, 2, 3), names=batch)
    assert not has(only(report_on(mine, other), "corruptions"), CLEAN_ERROR)


def test_clean_images_with_other_settings_are_a_warning(tmp_path: Path) -> None:
    (warning,) = report_on(fog(tmp_path / "c"), clean(tmp_path / "k", size=32)).warnings
    assert warning.endswith("different settings: input.size 0 and 32")


# Names of models


@pytest.mark.parametrize("argument", ["", "baseline", "clean"])
def test_two_models_with_the_same_name_are_refused(tmp_path: Path, argument: str) -> None:
    mine, other = fog(tmp_path / "c"), clean(tmp_path / "k", digest=SAME)
    with pytest.raises(UserError, match=r"/c and .*/k are evaluations of different models.*'made'.*--name"):
        report_on(mine, **{argument: [other]}) if argument else report_on(mine, other)


def test_one_model_under_two_names_is_one_model(tmp_path: Path) -> None:
    mine = fog(tmp_path / "c", model="a", digest=SAME)
    report = report_on(mine, clean(tmp_path / "k", model="b", digest=SAME))
    assert [each.name for each in report.models] == ["a"]
    assert value(only(report, "corruptions"), CLEAN_ERROR) == 0.25
    (warning,) = report.warnings
    assert warning.startswith("'a' and 'b' have the same weights and the same code, so they are one model, 'a'")
    with pytest.raises(UserError, match=r"c and .*c2 evaluate the same data set with the same model, 'a': give one"):
        report_on(mine, fog(tmp_path / "c2", model="b", digest=SAME))


def test_one_model_with_other_settings_under_another_name_is_shown_beside_it(tmp_path: Path) -> None:
    larger: dict[str, Any] = {"model": "b", "size": 32, "digest": SAME}
    mine = fog(tmp_path / "c", model="a", digest=SAME)
    report = report_on(mine, fog(tmp_path / "d", **larger), clean(tmp_path / "k", **larger))
    found = {each.model: values(each, CLEAN_ERROR) for each in results_of(report, "corruptions")}
    assert found == {"a": {}, "b": {"": 0.25}}
    assert warned(report, "the same weights under another name, 'b'")


def test_models_are_renamed(tmp_path: Path) -> None:
    """New names replace the recorded ones at once, and decide the name of a model that has several."""
    folders = [
        fog(tmp_path / "a", model="a", digest=SAME),
        fog(tmp_path / "b", model="b", digest="2" * 64),
        clean(tmp_path / "k", model="c", digest="2" * 64),
    ]
    report = report_on(*folders, rename={"a": "b", "c": "Léo"})
    assert [each.name for each in report.models] == ["b", "Léo"]
    found = {each.model: values(each, CLEAN_ERROR) for each in results_of(report, "corruptions")}
    assert found == {"b": {}, "Léo": {"": 0.25}}
    for rename, words in {
        ("d", "e"): "unknown model 'd'; evaluated: a, b, c",
        ("a", "x\n"): r"invalid name 'x\\n': use 1 to 200 characters",
        ("c", "a"): r"different models .*both models are named 'a'.* or do not rename it",
    }.items():
        with pytest.raises(UserError, match=words):
            report_on(*folders, rename=dict([rename]))


# Data sets


def test_duplicate_evaluations_are_refused(tmp_path: Path) -> None:
    mine = fog(tmp_path / "c")
    (tmp_path / "link").symlink_to(mine)
    for again in (mine, f"{mine}/", str(tmp_path / "c" / ".." / "c"), str(tmp_path / "link")):
        with pytest.raises(UserError, match="is given twice"):
            report_on(mine, again)
    other = fog(tmp_path / "c2", size=32)
    with pytest.raises(UserError, match=r"same data set with the same model.*input.size 32 and 0.*--name"):
        report_on(mine, other)
    with pytest.raises(UserError, match="same data set with the same model, 'made': give one"):
        report_on(mine, str(shutil.copytree(mine, tmp_path / "copy")))


def test_two_data_sets_with_the_same_name_are_separate_sections(tmp_path: Path) -> None:
    titles = [f"made-corruptions ({digit * 8})" for digit in "ab"]
    report = report_on(*(fog(tmp_path / digit, manifest=digit * 64) for digit in "ab"))
    assert [each.title for each in report.sections] == titles
    assert warned(report, "different data sets have the same name")
    assert [line["data_set"] for line in lines(report) if line["metric"] == MEAN] == titles


@pytest.mark.parametrize(
    ("second", "warning", "note"),
    [
        (
            {"logits": {("fog", 1): votes([0, 1])}, "names": ("a", "z"), "manifest": "b" * 64},
            ("same images of made-corruptions", ": made 4 ", "1 images are in all", "results are not comparable"),
            "not evaluated on the same images (made 4, second 2)",
        ),
        (
            {"digests": (1, 2, 3, 5), "manifest": "b" * 64},
            ("same images of made-corruptions", "3 images are in all"),
            "not evaluated on the same images (made 4, second 4)",
        ),
        ({"manifest": "b" * 64}, ("different builds of made-corruptions",), "the manifests of the data sets differ"),
        ({}, (), ""),
    ],
    ids=["other images", "other photographs", "another build", "the same"],
)
def test_models_on_other_images_are_a_warning_and_not_ranked(
    tmp_path: Path, second: dict[str, Any], warning: tuple[str, ...], note: str
) -> None:
    first = fog(tmp_path / "c", manifest="a" * 64, digests=(1, 2, 3, 4))
    report = report_on(first, fog(tmp_path / "d", **{"manifest": "a" * 64, "model": "second", **second}))
    assert warned(report, *warning) if warning else not report.warnings
    assert note in table(report, "key figures").note
    assert bool(report.rankings) == ("not evaluated" not in note)
    assert [each.manifest_sha256[0] for each in report.results] == ["a", second.get("manifest", "a")[0]]
    assert page(report.document("t")).count(note) == 1 or not note


# Baselines

BASELINE = {("fog", 1): votes([6] * 4), ("snow", 1): votes([6] * 4)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "cifar"}, r"'base' does not match .*c: .*b has the profile 'cifar' instead of 'tiny'"),
        ({"names": OTHERS}, "lacks 4 of 4 images: a, b, c"),
        ({"names": "abcz"}, "lacks 1 of 4 images: d"),
        ({"labels": (0, 1, 2, 5)}, r"'d' has the label 3 in .* and 5 in"),
        ({"logits": {("fog", 1): votes([6] * 4)}}, r"'base' lacks snow-1.*: evaluate the baseline"),
        ({"digests": (1, 2, 3, 9)}, "has 1 other photograph with the same ids, which are left out: d"),
    ],
)
def test_a_baseline_on_other_images_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    mine = fog(tmp_path / "c", {**FOG, ("snow", 1): votes([0, 0, 0, 0])}, digests=(1, 2, 3, 4))
    base = fog(tmp_path / "b", **{"logits": BASELINE, "model": "base", **options})
    with pytest.raises(UserError, match=words):
        report_on(mine, baseline=[base])


def test_a_baseline_uses_the_images_of_the_evaluation(tmp_path: Path) -> None:
    mine = fog(tmp_path / "c", {("fog", 1): votes([0, 6])})
    report = report_on(mine, baseline=[fog(tmp_path / "b", model="base")])
    assert value(only(report, "corruptions"), "mCE") == 1.0
    assert warned(report, "its 2 images only")


def test_a_baseline_without_the_family_is_a_warning(tmp_path: Path) -> None:
    frames, options = np.stack([votes([0, 1, 1])] * 4), {"family": "perturbations"}
    mine = fog(tmp_path / "p", {("tilt", 1): frames}, **options)
    report = report_on(mine, baseline=[fog(tmp_path / "b", model="base")])
    assert only(report, "perturbations").baseline == ""
    assert warned(report, "has no evaluation of perturbations")
    lacks = fog(tmp_path / "l", {("rotate", 1): frames}, model="base", **options)
    with pytest.raises(UserError, match="lacks tilt"):
        report_on(mine, baseline=[lacks])


def test_alexnet_with_another_number_of_images_is_a_warning(tmp_path: Path) -> None:
    logits = {("fog", level): votes([999, 1, 2, 3], 1000) for level in range(1, 6)}
    report = report_on(fog(tmp_path / "c", logits, profile="imagenet"))
    assert only(report, "corruptions").baseline == "AlexNet (published)"
    assert warned(report, "50,000 images", "not 4,")


# Bounds


def test_levels_of_extra_corruptions_only_are_not_in_the_curve(tmp_path: Path) -> None:
    extra = next(name for name in corruptions.names("all") if name not in corruptions.names("benchmark"))
    report = report_on(fog(tmp_path / "c", {**FOG, (extra, 2): FOG["fog", 1]}))
    assert values(only(report, "corruptions"), "mean accuracy") == {("", 1): 0.25}


def test_huge_levels_are_plotted(tmp_path: Path) -> None:
    report = report_on(fog(tmp_path / "c", {("own", 1): votes([0, 6]), ("own", 10**15): votes([6, 6])}))
    assert str(10**15) in page(report.document("t"))


def test_one_image_and_one_class_are_enough(tmp_path: Path) -> None:
    mine = fog(tmp_path / "c", {("fog", 1): votes([0], 1)})
    walk = fog(tmp_path / "p", {("tilt", 1): votes([0, 0, 0], 1)[None]}, family="perturbations")
    report = report_on(mine, walk)
    assert value(only(report, "corruptions"), MEAN) == 0.0
    assert value(only(report, "perturbations"), "flip probability", "tilt") == 0.0
    assert tables_of(report)
