"""Attacks on linear models, whose smallest budgets are |f| / |w|_1 (L-inf) and |f| / |w|_2 (L2)."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.datasets.norms import stored
from pipeline.evaluate.predict.evaluate import evaluate
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.execution.resumable import SilentWatcher
from pipeline.recipes.attacks import AttackEntry
from pipeline.transforms.adversarial import ATTACKS
from tests.factories.attack_runs import attacker, batch_of, clean_pixels, records, search
from tests.factories.attacked_models import SIDE, margin, weights

pytestmark = pytest.mark.slow

SCALES = {"linf": float(weights().double().abs().sum()), "l2": float(weights().double().norm())}


def smallest(pixels: np.ndarray, norm: str) -> float:
    return abs(margin(pixels)) / SCALES[norm]


def succeeds(name: str, model: str, pixels: np.ndarray, factor: float) -> bool:
    """Whether an attack on one image succeeds at ``factor`` times its smallest budget, as it is stored."""
    made, method = attacker(model), ATTACKS[name]
    budget = factor * smallest(pixels, method.norm)
    entry = AttackEntry(name=name, norm=method.norm, budgets=(budget,), settings=method.settings)
    label = int(margin(pixels) <= 0)
    found = made.attack(batch_of(made, [pixels], [label]), entry, 1)
    image = stored(found.images[0], pixels, method.norm, budget, bits=16)
    return bool(made.top1([image])[0] != label)


@pytest.fixture(scope="module")
def image(clean: Path) -> np.ndarray:
    """Return the image with the median margin."""
    return sorted(clean_pixels(clean).values(), key=lambda pixels: abs(margin(pixels)))[12]


@pytest.mark.parametrize(
    ("name", "model", "above"),
    [
        ("fgsm", "two_classes", 1.02),
        ("mim", "two_classes", 1.02),
        ("autoattack_linf", "four_classes", 1.02),
        ("autoattack_l2", "four_classes", 1.02),
        # its 20 steps of 3/40 of the budget go 1.5 budgets from a random start
        ("pgd_linf", "two_classes", 1.10),
        ("pgd_l2", "two_classes", 1.30),  # in L2, a random start is nearly orthogonal to the gradient
        ("ddn_l2", "two_classes", 1.10),
        ("fab_l2", "four_classes", 1.10),
    ],
)
def test_attacks_succeed_just_above_the_smallest_budget(name: str, model: str, above: float, image: np.ndarray) -> None:
    assert succeeds(name, model, image, above)
    if not name.startswith("autoattack"):  # tested below, with fewer queries
        assert not succeeds(name, model, image, 0.98)


def test_no_part_of_autoattack_succeeds_below_the_smallest_budget(image: np.ndarray) -> None:
    made = attacker("four_classes")
    settings = {**ATTACKS["autoattack_linf"].settings, "queries": 50, "steps": 30}
    entry = AttackEntry(
        name="autoattack_linf", norm="linf", budgets=(0.98 * smallest(image, "linf"),), settings=settings
    )
    found = made.attack(batch_of(made, [image], [int(margin(image) <= 0)]), entry, 1)
    assert found.components == [""]
    np.testing.assert_array_equal(found.images[0] * 255, image)


def test_fgsm_succeeds_on_the_images_of_the_closed_form(attacked: Path, clean: Path) -> None:
    pixels, found = clean_pixels(clean), records(attacked)
    for level, budget in enumerate((0.5 / 255, 2 / 255, 4 / 255), 1):
        for id_, image in pixels.items():
            ratio = budget / smallest(image, "linf")
            if not 0.98 < ratio < 1.02:
                assert found["fgsm", level, id_]["right_after"] == (ratio < 1), (level, id_)
    robust = [sum(found["fgsm", level, id_]["right_after"] for id_ in pixels) for level in (1, 2, 3)]
    assert robust == sorted(robust, reverse=True)
    assert robust[0] > robust[2]


def test_evaluation_counts_what_is_stored(attacked: Path, tmp_path: Path) -> None:
    model = "tests.factories.attacked_models:two_classes"
    evaluate(EvaluationRequest(str(attacked), model, str(tmp_path / "results"), batch_size=4), SilentWatcher())
    predictions = pq.read_table(tmp_path / "results/predictions.parquet").to_pylist()
    found = records(attacked)
    assert len(predictions) == len(found)
    for each in predictions:
        right = each["top1"] == each["label"]
        assert right == found[each["transform"], each["level"], each["source_id"]]["right_after"]


@pytest.mark.parametrize("name", ["fgsm", "fab_l2", "pgd_l2"])
def test_budgets_finds_the_closed_form(name: str, clean: Path, tmp_path: Path) -> None:
    norm, steps = ATTACKS[name].norm, 8
    largest = 16 / 255 if norm == "linf" else 0.5
    result = search(clean, tmp_path / "out", "two_classes", name, largest, steps)
    assert result.complete
    assert result.failed == 0
    pixels = clean_pixels(clean)
    # a random start costs PGD a part of the budget, and FAB goes a little beyond the boundary
    tolerance = {"fgsm": 0.0, "pgd_l2": 0.3, "fab_l2": 0.06}[name]
    for row in pq.read_table(tmp_path / "out/budgets.parquet").to_pylist():
        exact = smallest(pixels[row["source_id"]], norm)
        assert row["right_before"]
        if exact > largest:
            assert (row["found"], row["smallest"]) == (False, np.inf)
            continue
        assert exact * (1 - 1e-5) <= row["smallest"] <= exact * (1 + tolerance) + largest / 2**steps
        assert row["largest_survived"] < row["smallest"]


def test_a_budget_of_zero_changes_nothing(image: np.ndarray) -> None:
    made = attacker("two_classes")
    entry = AttackEntry(name="pgd_linf", norm="linf", budgets=(0.0,), settings=ATTACKS["pgd_linf"].settings)
    found = made.attack(batch_of(made, [image], [int(margin(image) <= 0)]), entry, 1)
    np.testing.assert_array_equal(stored(found.images[0], image, "linf", 0.0, 16), image.astype(np.uint16) * 257)


def test_images_that_the_model_gets_wrong_are_not_attacked() -> None:
    made = attacker("two_classes")
    generator = np.random.default_rng(0)
    images = [generator.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8) for _ in range(2)]
    labels = [int(margin(images[0]) <= 0), int(margin(images[1]) > 0)]
    entry = AttackEntry(name="fgsm", norm="linf", budgets=(8 / 255,))
    found = made.attack(batch_of(made, images, labels), entry, 1)
    assert (found.images[0] * 255 != images[0]).any()
    np.testing.assert_array_equal(found.images[1] * 255, images[1])


def test_a_loss_without_gradients_fails_its_batch(image: np.ndarray) -> None:
    made = attacker("large_logits")
    batch = batch_of(made, [image], [int(margin(image) <= 0)])
    entry = AttackEntry(name="fgsm", norm="linf", budgets=(8 / 255,))
    found = made.attack(batch, entry, 1)
    assert found.zero_gradients.tolist() == [True]
    assert "the cross entropy has no gradient at any of the 1 images of its batch" in str(found.failure)
    square = AttackEntry(name="square_linf", norm="linf", budgets=(8 / 255,), settings={"queries": 5, "p_init": 0.8})
    assert made.attack(batch, square, 1).failure is None
