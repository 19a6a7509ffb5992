"""The watermark of ImageNet-W: masks, arithmetic, fonts and figures."""

import hashlib
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

import corruptions
from corruptions import watermark
from pipeline.builder.bank import bank_conflicts, with_bank
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.render.renderer import Renderer
from pipeline.transforms.family import Condition
from tests.factories.evaluations import write_evaluation
from tests.factories.reports import has, measure, only, report_on, value

DIGESTS = {
    224: "6ff3afada014254640ccdbafd81fc585580519dd79f64f613fdf478487bce688",
    299: "60ddb8fdd4f0a5c01fa2e3ec154ebf830bc368fd0edf8a1e60c825c2215db39d",
    384: "45ff765d70069a3699cd9877c04b4bd1e0f2b60dc319943e0b0b3d1502ebe019",
    512: "12e1561a167cbbc5e60e0d1370d96fdb325ea150485358b8ac2ee7dabb1f238c",
    518: "fc1870427eb701361aa4163c35d0de403f518ece30030d9376c84923487da493",
}
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif.ttf"


def test_masks_have_the_published_digests() -> None:
    found = {side: hashlib.sha256(watermark.mask(side).tobytes()).hexdigest() for side in DIGESTS}
    assert found == DIGESTS


def test_rounding_is_that_of_alpha_compositing() -> None:
    levels, alphas = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(129, dtype=np.uint8))
    image = np.repeat(levels[:, :, None], 3, axis=2)
    white = np.dstack([np.full_like(image, 255), alphas])
    opaque = Image.fromarray(np.dstack([image, np.full_like(levels, 255)]), "RGBA")
    expected = np.asarray(Image.alpha_composite(opaque, Image.fromarray(white, "RGBA")))[..., :3]
    assert np.array_equal(watermark.overlay(image, alphas), expected)


def test_only_the_text_changes_and_the_input_is_kept() -> None:
    image = np.random.RandomState(1).randint(0, 256, (224, 224, 3)).astype(np.uint8)
    before = image.copy()
    made = corruptions.corrupt(image, "watermark")
    assert np.array_equal(image, before)
    assert np.array_equal(made[watermark.mask(224) == 0], image[watermark.mask(224) == 0])
    assert np.array_equal(made, corruptions.apply(image, "watermark", corruptions.draw(image, "watermark")))
    assert corruptions.names("imagenet-w") == ("watermark",)
    assert (made >= image).all()


def test_other_fonts_and_texts_are_drawn_at_the_published_place() -> None:
    drawn = watermark.mask(224, FONT, "carton")
    rows, columns = np.nonzero(drawn)
    assert (drawn.max(), columns.min() >= 2, 90 <= rows.min() < rows.max() < 90 + 2 * 36) == (128, True, True)
    assert watermark.mask(64, FONT, "x").shape == (64, 64)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"not a font", "is not a TrueType or OpenType font"), (None, "is not a file"), (2**26 + 1, "at most 67,108,864")],
)
def test_hostile_fonts_are_refused(tmp_path: Path, content: bytes | int | None, message: str) -> None:
    font = tmp_path / "font.ttf"
    if isinstance(content, int):
        with font.open("wb") as file:
            file.truncate(content)
    elif content:
        font.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        watermark.mask(224, font)


def test_sides_and_texts_without_a_mask_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no watermark for side 64: pass font=.*sides are 224, 299, 384, 512, 518"):
        watermark.mask(64)
    with pytest.raises(ValueError, match="no watermark for another text: pass font="):
        watermark.mask(224, text="carton")
    with pytest.raises(ValueError, match=r"image must have the size of the watermark, 224 x 224, not 224 x 300"):
        corruptions.corrupt(np.zeros((224, 300, 3), np.uint8), "watermark")


def answers(classes: list[int]) -> np.ndarray:
    logits = np.zeros((len(classes), 1000), np.float32)
    logits[np.arange(len(classes)), classes] = 9
    return logits


@pytest.mark.parametrize(("cartons", "gap"), [(5, 100.0), (0, None)])
def test_gaps_of_a_model_that_reads_the_watermark(tmp_path: Path, cartons: int, gap: float | None) -> None:
    """A model answers 478 under the watermark, and 0 without it: half of the images are right before and after."""
    labels = [478] * cartons + [0] * (10 - cartons)
    options = {"profile": "imagenet", "names": [f"x{index}" for index in range(10)]}
    marked = write_evaluation(tmp_path / "w", {("watermark", 0): answers([478] * 10)}, labels, "imagenet-w", **options)
    clean = write_evaluation(tmp_path / "c", {("none", 0): answers([0] * 10)}, labels, "none", **options)
    report = report_on(marked, clean, resamples=50)
    found = only(report, "imagenet_w")
    assert value(found, "IN-W gap") == pytest.approx(0 if cartons else -1)
    assert value(found, "answers carton") == 1
    voted, other = (np.exp([9, 0]) / (np.exp(9) + 999)).tolist()
    probability = measure(found, "probability of carton")
    assert probability.value == pytest.approx(voted)
    assert probability.images == 10
    assert value(found, "clean probability of carton") == pytest.approx(other)
    assert measure(found, "carton probability gap").low == pytest.approx(voted - other)
    assert has(found, "carton gap") == (gap is not None)
    assert found.counts["carton images"][0] == cartons
    if gap:
        assert value(found, "carton gap") == pytest.approx(gap / 100)
        assert measure(found, "carton gap").images == 5
    else:
        assert any("no carton gap, because it has no image of this class" in text for text in report.warnings)


def test_a_recipe_may_name_a_font_and_a_text() -> None:
    recipe = library.load("imagenet-w").changed(
        bank={"files": {"font": str(FONT)}, "text": "carton"}, prepare={"steps": [["center_crop", 64]]}
    )
    own = with_bank(recipe, "photographs")
    drawn = Renderer(own).transform(np.zeros((64, 64, 3), np.uint8), "a", Condition("watermark", 0))
    assert np.array_equal(drawn[..., 0], watermark.mask(64, FONT, "carton"))
    assert own.bank is not None
    assert own.bank.digests == {"font": hashlib.sha256(FONT.read_bytes()).hexdigest()}
    other = with_bank(recipe.changed(bank={"text": "box"}), "photographs")
    published = with_bank(library.load("imagenet-w"), "photographs")
    assert published.bank is None
    for one, two in ((own, other), (own, published), (published, own)):
        (conflict,) = bank_conflicts(one, two)
        assert conflict.startswith("bank.sha256 is ")


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        ({"text": "carton"}, "imagenet-w needs a font: give --set 'bank.files={font=\"FILE\"}'"),
        ({"files": {"font": __file__}}, "bank.files: font: .* is not a TrueType or OpenType font"),
        ({"files": {"font": str(FONT)}, "text": "x" * 101}, "bank.files: font: text must have 1 to 100 printable"),
    ],
)
def test_recipes_without_a_usable_font_are_refused(bank: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_bank(library.load("imagenet-w").changed(bank=bank), "photographs")
