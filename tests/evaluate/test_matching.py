"""Combining evaluations: metrics use common images and one model, and mismatches are reported or refused."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import numpy as np
import pytest

import corruptions
from pipeline.errors import UserError
from pipeline.evaluate.report.html import page
from pipeline.evaluate.report.scores import open_evaluation
from pipeline.evaluate.report.sections import sections, tables
from pipeline.evaluate.report.summarise import summarise
from pipeline.evaluate.report.text import to_csv, to_markdown
from tests.factories.evaluations import votes, write_evaluation

LABELS = (0, 1, 2, 3)
IDS = ("a", "b", "c", "d")
OTHERS = ("e", "f", "g", "h")


def predictions(*right: bool, classes: int = 7) -> np.ndarray:
    """Return logits of images with the labels ``LABELS``; ``right`` tells which ones are classified correctly."""
    return votes([label if good else 6 for label, good in zip(LABELS, right, strict=False)], classes)


FOG = {("fog", 1): predictions(True, False, False, False)}
SAME = "1" * 64
CLEAN = {("none", 0): predictions(True, True, True, False)}


def test_clean_error_of_other_images_is_not_used(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS)
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", names=OTHERS)
    summary = summarise([mine, clean])
    assert (summary.families["corruptions"][0].clean_error, summary.families["corruptions"][0].residual_robustness) == (
        None,
        None,
    )
    assert summary.families["clean"][0].error.value == 0.25
    assert any(mine in text and f"{clean} has no images in common" in text for text in summary.warnings)


@pytest.mark.parametrize(
    ("clean_digests", "clean_error"),
    [((1, 2, 3, 4), 0.25), ((0, 0, 0, 0), 0.25), ((1, 7, 3, 4), 1 / 3), ((5, 6, 7, 8), None)],
)
def test_other_photographs_with_the_same_ids_are_left_out(
    clean_digests: tuple[int, ...], clean_error: float | None, tmp_path: Path
) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS, digests=(1, 2, 3, 4))
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", names=IDS, digests=clean_digests)
    summary = summarise([mine, clean])
    assert summary.families["corruptions"][0].clean_error == (clean_error and pytest.approx(clean_error))
    others = sum(mine != clean for mine, clean in zip((1, 2, 3, 4), clean_digests, strict=True) if clean)
    left_out = [text for text in summary.warnings if "with the same ids, which are left out: " in text]
    assert len(left_out) == bool(others)
    assert all(f"{clean} has {others} other photograph" in text for text in left_out)


@pytest.mark.parametrize(
    ("encoder", "shown"),
    [
        ("jpeg quality=85 optimize=true", "jpeg quality=85 optimize=true (lossy)"),
        ("png compression=3", "png compression=3 (lossless)"),
        ("files", "files as published"),
        (None, "unknown encoder"),
    ],
)
def test_figures_name_the_encoder_of_the_clean_images_that_they_depend_on(
    encoder: str | None, shown: str, tmp_path: Path
) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS)
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", names=IDS, encoder=encoder)
    summary, lossy = summarise([mine, clean]), "lossy" in shown
    assert [summary.facts()[family][0]["clean_images"] for family in ("corruptions", "clean")] == [shown, shown]
    lines = [line for line in csv.DictReader(io.StringIO(to_csv(summary))) if line["family"] == "corruptions"]
    named = {line["figure"]: line["clean_images"] for line in lines}
    assert (named["residual robustness"], named["clean error"], named["error"]) == (shown, shown, "")
    text = to_markdown(tables(summary))
    assert f"| clean images | {shown} |" in text
    assert [f"| clean error | 25.0{' ‡' * lossy} |" in text, f"clean images: {shown}" in page(summary, "t")] == [
        True,
        lossy,
    ]
    assert any("compressed again" in text for text in summary.warnings) == lossy


def test_the_encoder_is_not_part_of_the_identity_of_an_evaluation(tmp_path: Path) -> None:
    """The same evaluate command adds it to evaluations of earlier versions, without predicting again."""
    folders = [
        write_evaluation(tmp_path / str(each), FOG, LABELS, encoder=each) for each in (None, "png compression=3")
    ]
    assert len({open_evaluation(folder).table.digest for folder in folders}) == 1


def test_a_baseline_on_other_photographs_is_refused(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS, digests=(1, 2, 3, 4))
    base = write_evaluation(tmp_path / "b", FOG, LABELS, names=IDS, digests=(1, 2, 3, 9), model="base", digest="1" * 64)
    with pytest.raises(UserError, match="has 1 other photograph with the same ids, which are left out: d"):
        summarise([mine], [base])


def test_models_on_other_photographs_with_the_same_ids_are_not_ranked(tmp_path: Path) -> None:
    first, second, unknown = (
        write_evaluation(
            tmp_path / model, FOG, LABELS, names=IDS, model=model, digest=model * 64, manifest=model * 64, digests=known
        )
        for model, known in (("a", (1, 2, 3, 4)), ("b", (1, 2, 3, 5)), ("c", None))
    )
    summary = summarise([first, second])
    assert any("results are not comparable" in text and "3 images are in all" in text for text in summary.warnings)
    assert "not evaluated on the same images (a 4, b 4)." in sections(summary)[0].tables[0].note
    assert summary.comparison is None
    assert summarise([first, unknown]).comparison is not None


def test_clean_error_is_over_the_images_of_the_corruptions(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", {("fog", 1): predictions(True, False)}, LABELS[:2], names=IDS[:2])
    clean = write_evaluation(
        tmp_path / "k", {("none", 0): predictions(False, True, True, False)}, LABELS, family="none", names=IDS
    )
    summary = summarise([mine, clean])
    assert (summary.families["corruptions"][0].clean_error, summary.families["clean"][0].error.value) == (0.5, 0.5)
    assert summary.families["corruptions"][0].residual_robustness == 0.0
    assert any("its 2 images only" in text for text in summary.warnings)


def test_relative_metrics_use_common_images(tmp_path: Path) -> None:
    """Image d has no clean version, e no corrupted one. Of a, b and c, one clean and two corrupted images are wrong."""
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS)
    clean = write_evaluation(
        tmp_path / "k", {("none", 0): votes([6, 6, 1, 2])}, (4, 0, 1, 2), family="none", names=("e", "a", "b", "c")
    )
    base = write_evaluation(
        tmp_path / "b", {("fog", 1): votes([6, 6, 6, 6])}, LABELS, names=IDS, model="base", digest="1" * 64
    )
    base_clean = write_evaluation(
        tmp_path / "bk", {("none", 0): votes([0, 1, 2, 6])}, LABELS, names=IDS, family="none", model="base",
        digest="1" * 64,
    )  # fmt: skip
    summary = summarise([mine, clean], [base, base_clean])
    (found,) = summary.families["corruptions"]
    assert found.clean_error == pytest.approx(1 / 3)
    assert found.residual_robustness == pytest.approx(2 / 3 - 1 / 3)
    assert found.rows[0].mean_error.value == 0.75
    assert found.rows[0].corruption_error is not None
    assert found.rows[0].corruption_error.value == 0.75
    assert found.rows[0].relative_corruption_error == pytest.approx((2 / 3 - 1 / 3) / (1 - 0))
    assert any("only 3 of the 4 images" in text for text in summary.warnings)


def test_images_are_matched_by_id_not_by_order(tmp_path: Path) -> None:
    """Each image is wrong under one of two transforms, so the mean is the same in all bootstrap draws."""
    logits = {("fog", 1): votes([0, 1, 6, 6]), ("snow", 1): votes([6, 6, 2, 3])}
    mine = write_evaluation(tmp_path / "c", logits, LABELS, names=IDS, only={("snow", 1): (3, 2, 1, 0)})
    mean = summarise([mine]).families["corruptions"][0].mean_error
    assert mean is not None
    assert (mean.value, mean.low, mean.high) == (0.5, 0.5, 0.5)


def test_different_labels_are_refused(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS)
    clean = write_evaluation(tmp_path / "k", CLEAN, (0, 1, 5, 3), family="none", names=IDS)
    with pytest.raises(UserError, match=r"'c' has the label 2 in .*c and 5 in .*k.*: give evaluations of the same"):
        summarise([mine, clean])


def test_the_clean_evaluation_of_the_same_images_is_used(tmp_path: Path) -> None:
    """In any order, evaluations with other images, labels or profiles are not used."""
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS)
    ours = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", names=IDS, data_set="ours")
    others = [
        write_evaluation(tmp_path / "o", CLEAN, LABELS, family="none", names=OTHERS, data_set="other ids"),
        write_evaluation(tmp_path / "l", CLEAN, (3, 2, 1, 0), family="none", names=IDS, data_set="other labels"),
        write_evaluation(tmp_path / "p", CLEAN, LABELS, family="none", names=IDS, profile="cifar", data_set="small"),
    ]
    for folders in ([mine, ours, *others], [*others, ours, mine]):
        summary = summarise(folders)
        assert summary.families["corruptions"][0].clean_error == 0.25
        assert len(summary.families["clean"]) == 4
    summary = summarise([mine, others[2]])
    assert summary.families["corruptions"][0].clean_error is None
    assert any("'cifar' instead of 'tiny'" in text for text in summary.warnings)
    again = write_evaluation(tmp_path / "k2", CLEAN, LABELS, family="none", names=IDS, data_set="again")
    with pytest.raises(UserError, match=r"k and .*k2 both .*: give one of them"):
        summarise([mine, ours, again])


def test_arrays_are_matched_by_position_and_label(tmp_path: Path) -> None:
    """Ids of array images consist of the file name, which may differ, and the position."""
    arrays = [f"image_{position:06d}" for position in range(4)]
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, names=arrays)
    batch = [f"test_batch_{position:06d}" for position in range(4)]
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", names=batch)
    summary = summarise([mine, clean])
    assert summary.families["corruptions"][0].clean_error == 0.25
    assert any("matched by their positions" in text for text in summary.warnings)
    other = write_evaluation(tmp_path / "o", CLEAN, (1, 1, 2, 3), family="none", names=batch)
    assert summarise([mine, other]).families["corruptions"][0].clean_error is None


@pytest.mark.parametrize("argument", ["evaluations", "baseline", "clean"])
def test_two_models_with_the_same_name_are_refused(tmp_path: Path, argument: str) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS)
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", digest="1" * 64)
    more = [clean] if argument == "evaluations" else []
    with pytest.raises(UserError, match=r"/c and .*/k are evaluations of different models.*'made'.*--name"):
        summarise([mine, *more], [clean] if argument == "baseline" else [], [clean] if argument == "clean" else [])


def test_one_model_under_two_names_is_one_model(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, model="a", digest=SAME)
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", model="b", digest=SAME)
    summary = summarise([mine, clean])
    assert [each.name for each in summary.models] == ["a"]
    assert summary.families["corruptions"][0].clean_error == 0.25
    (warning,) = summary.warnings
    assert warning.startswith("'a' and 'b' have the same weights and the same code, so they are one model, 'a'")
    again = write_evaluation(tmp_path / "c2", FOG, LABELS, model="b", digest=SAME)
    with pytest.raises(UserError, match=r"c and .*c2 evaluate the same data set with the same model, 'a': give one"):
        summarise([mine, again])


def test_one_model_with_other_settings_under_another_name_is_shown_beside_it(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS, model="a", digest=SAME)
    larger = write_evaluation(tmp_path / "d", FOG, LABELS, model="b", size=32, digest=SAME)
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", model="b", size=32, digest=SAME)
    summary = summarise([mine, larger, clean])
    assert [(each.model, each.clean_error) for each in summary.families["corruptions"]] == [("a", None), ("b", 0.25)]
    assert any("the same weights under another name, 'b'" in text for text in summary.warnings)


def test_models_are_renamed(tmp_path: Path) -> None:
    """New names replace the recorded ones at once, and decide the name of a model that has several."""
    digests = {"a": "1" * 64, "b": "2" * 64, "c": "2" * 64}
    folders = [
        write_evaluation(tmp_path / "a", FOG, LABELS, model="a", digest=digests["a"]),
        write_evaluation(tmp_path / "b", FOG, LABELS, model="b", digest=digests["b"]),
        write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", model="c", digest=digests["c"]),
    ]
    summary = summarise(folders, rename={"a": "b", "c": "Léo"})
    assert [each.name for each in summary.models] == ["b", "Léo"]
    assert [(each.model, each.clean_error) for each in summary.families["corruptions"]] == [("b", None), ("Léo", 0.25)]
    with pytest.raises(UserError, match="unknown model 'd'; evaluated: a, b, c"):
        summarise(folders, rename={"d": "e"})
    with pytest.raises(UserError, match=r"invalid name 'x\\n': use 1 to 200 characters"):
        summarise(folders, rename={"a": "x\n"})
    with pytest.raises(UserError, match=r"different models .*both models are named 'b'.* or do not rename it"):
        summarise(folders, rename={"a": "b", "c": "b"})


def test_clean_images_with_other_settings_are_a_warning(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS)
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, family="none", size=32)
    (warning,) = summarise([mine, clean]).warnings
    assert warning.endswith("different settings: input.size 0 and 32")


def test_duplicate_evaluations_are_refused(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", FOG, LABELS)
    (tmp_path / "link").symlink_to(mine)
    for again in (mine, f"{mine}/", str(tmp_path / "c" / ".." / "c"), str(tmp_path / "link")):
        with pytest.raises(UserError, match="is given twice"):
            summarise([mine, again])
    other = write_evaluation(tmp_path / "c2", FOG, LABELS, size=32)
    with pytest.raises(UserError, match=r"same data set with the same model.*input.size 32 and 0.*--name"):
        summarise([mine, other])
    copied = shutil.copytree(mine, tmp_path / "copy")
    with pytest.raises(UserError, match="same data set with the same model, 'made': give one"):
        summarise([mine, str(copied)])


def test_two_data_sets_with_the_same_name_are_separate_sections(tmp_path: Path) -> None:
    first = write_evaluation(tmp_path / "c", FOG, LABELS, manifest="a" * 64)
    second = write_evaluation(
        tmp_path / "d", {("fog", 1): predictions(True, True, True, True)}, LABELS, manifest="b" * 64
    )
    summary = summarise([first, second])
    assert [each.title for each in sections(summary)] == ["made-corruptions (aaaaaaaa)", "made-corruptions (bbbbbbbb)"]
    assert any("different data sets have the same name" in text for text in summary.warnings)
    lines = [line for line in to_csv(summary).splitlines() if ",fog,1,error," in line]
    assert [line.split(",")[1] for line in lines] == ["made-corruptions (aaaaaaaa)", "made-corruptions (bbbbbbbb)"]


def test_models_on_different_images_are_a_warning(tmp_path: Path) -> None:
    first = write_evaluation(tmp_path / "c", FOG, LABELS, names=IDS, manifest="a" * 64)
    second = write_evaluation(
        tmp_path / "d", {("fog", 1): predictions(True, True)}, LABELS[:2], names=("a", "z"), manifest="b" * 64,
        model="second",
    )  # fmt: skip
    summary = summarise([first, second])
    assert any(
        "same images of made-corruptions" in text and ": made 4 " in text and "1 images are in all" in text
        for text in summary.warnings
    )
    assert "not evaluated on the same images (made 4, second 2)" in sections(summary)[0].tables[0].note
    assert "not evaluated on the same images (made 4, second 2)" in to_markdown(tables(summary))
    assert page(summary, "t").count("not evaluated on the same images") == 2
    assert summary.facts()["corruptions"][0]["manifest_sha256"] == "a" * 64
    third = write_evaluation(tmp_path / "e", FOG, LABELS, names=IDS, manifest="c" * 64, model="third")
    summary = summarise([first, third])
    assert any("different builds of made-corruptions" in text for text in summary.warnings)
    assert "the manifests of the data sets differ" in sections(summary)[0].tables[0].note
    same = write_evaluation(tmp_path / "f", FOG, LABELS, names=IDS, manifest="a" * 64, model="third")
    assert summarise([first, same]).warnings == []


def test_a_baseline_with_another_profile_or_images_is_refused(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", {**FOG, ("snow", 1): predictions(True)[[0, 0, 0, 0]]}, LABELS, names=IDS)
    logits = {("fog", 1): predictions(), ("snow", 1): predictions()}
    logits = {condition: votes([6, 6, 6, 6]) for condition in logits}
    for index, (options, what) in enumerate(
        {
            "profile": ({"profile": "cifar", "names": IDS}, "has the profile 'cifar' instead of 'tiny'"),
            "ids": ({"names": OTHERS}, "lacks 4 of 4 images: a, b, c"),
            "some": ({"names": ("a", "b", "c", "z")}, "lacks 1 of 4 images: d"),
        }.values()
    ):
        base = write_evaluation(tmp_path / f"b{index}", logits, LABELS, model="base", **options)
        with pytest.raises(UserError, match=f"'base' does not match .*c: .*b{index} {what}"):
            summarise([mine], [base])
    other = write_evaluation(tmp_path / "l", logits, (0, 1, 2, 5), names=IDS, model="base")
    with pytest.raises(UserError, match=r"'d' has the label 3 in .* and 5 in"):
        summarise([mine], [other])
    few = write_evaluation(tmp_path / "few", {("fog", 1): votes([6, 6, 6, 6])}, LABELS, names=IDS, model="base")
    with pytest.raises(UserError, match=r"'base' lacks snow-1.*: evaluate the baseline"):
        summarise([mine], [few])


def test_a_baseline_uses_the_images_of_the_evaluation(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", {("fog", 1): predictions(True, False)}, LABELS[:2], names=IDS[:2])
    base = write_evaluation(
        tmp_path / "b", {("fog", 1): predictions(True, False, False, False)}, LABELS, names=IDS, model="base"
    )
    summary = summarise([mine], [base])
    assert summary.families["corruptions"][0].mean_corruption_error is not None
    assert summary.families["corruptions"][0].mean_corruption_error.value == 1.0
    assert any("its 2 images only" in text for text in summary.warnings)


def test_a_baseline_without_the_family_is_a_warning(tmp_path: Path) -> None:
    walk = {("tilt", 1): np.stack([votes([0, 1, 1])] * 4)}
    mine = write_evaluation(tmp_path / "p", walk, LABELS, family="perturbations")
    base = write_evaluation(tmp_path / "b", FOG, LABELS, model="base")
    summary = summarise([mine], [base])
    assert summary.families["perturbations"][0].baseline is None
    assert any("has no evaluation of perturbations" in text for text in summary.warnings)
    lacks = write_evaluation(
        tmp_path / "l", {("rotate", 1): walk["tilt", 1]}, LABELS, family="perturbations", model="base"
    )
    with pytest.raises(UserError, match="lacks tilt"):
        summarise([mine], [lacks])


def test_alexnet_with_another_number_of_images_is_a_warning(tmp_path: Path) -> None:
    logits = {("fog", level): votes([999, 1, 2, 3], 1000) for level in range(1, 6)}
    mine = write_evaluation(tmp_path / "c", logits, LABELS, profile="imagenet")
    summary = summarise([mine])
    assert summary.families["corruptions"][0].baseline == "AlexNet (published)"
    assert any("50,000 images" in text and "has 4," in text for text in summary.warnings)


def test_levels_of_extra_corruptions_only_are_not_in_the_curve(tmp_path: Path) -> None:
    extra = next(name for name in corruptions.names("all") if name not in corruptions.names("benchmark"))
    right = predictions(True, True, True, True)
    mine = write_evaluation(tmp_path / "c", {("fog", 1): right, (extra, 2): right}, LABELS)
    assert list(summarise([mine]).families["corruptions"][0].curve) == [1]


def test_huge_levels_are_plotted(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", {("own", 1): votes([0, 6]), ("own", 10**15): votes([6, 6])}, LABELS[:2])
    summary = summarise([mine])
    assert f">{10**15}<" in page(summary, "t")


def test_one_image_and_one_class_are_enough(tmp_path: Path) -> None:
    mine = write_evaluation(tmp_path / "c", {("fog", 1): votes([0], 1)}, [0])
    walk = write_evaluation(tmp_path / "p", {("tilt", 1): votes([0, 0, 0], 1)[None]}, [0], family="perturbations")
    summary = summarise([mine, walk])
    assert summary.families["corruptions"][0].mean_error is not None
    assert summary.families["corruptions"][0].mean_error.value == 0.0
    assert summary.families["perturbations"][0].rows[0].flip_probability.value == 0.0
    assert tables(summary)
