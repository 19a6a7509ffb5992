"""What is stored: perturbations within their budgets, by integers, and checks that find others."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline.attack.regenerate import regenerate
from pipeline.attack.settings import BITS
from pipeline.datasets.adversarial import magnified
from pipeline.datasets.norms import is_within, norms_of, on_grid, stored
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.preview import preview
from pipeline.datasets.verify import verify
from pipeline.errors import UserError
from pipeline.recipes.attacks import AttackEntry, Norm
from pipeline.transforms.adversarial import ATTACKS
from tests.attack.conftest import LEVELS
from tests.factories.attack_runs import MODELS, attack, attacker, batch_of, clean_pixels, records
from tests.factories.attacked_models import margin

BUDGETS = [0.5 / 255, 2 / 255, 4 / 255]


def test_perturbations_are_within_their_budgets(attacked: Path, clean: Path) -> None:
    pixels, moved = clean_pixels(clean), 0
    for sample in open_data_set(str(attacked)).samples():
        image, budget = sample.pixels(), BUDGETS[sample.row.level - 1]
        assert image.dtype == np.uint16
        difference = np.abs(image.astype(np.int64) - 257 * pixels[sample.row.source_id].astype(np.int64))
        assert difference.max() <= math.floor(65535 * budget)
        moved += sample.row.level == 1 and difference.any()
    assert moved == 3 * 24


def test_the_smallest_perturbation_still_misleads_the_model_when_it_is_stored(clean: Path) -> None:
    made, pixels = attacker("two_classes"), [*clean_pixels(clean).values()]
    batch = batch_of(made, pixels, [int(margin(image) <= 0) for image in pixels])
    entry = AttackEntry(name="cw_l2", norm="l2", budgets=(5.0,), settings=ATTACKS["cw_l2"].settings)
    found = made.attack(batch, entry, 1).images
    outwards, inwards = (
        [stored(each, image, "l2", 5.0, 16, smallest=smallest) for each, image in zip(found, pixels, strict=True)]
        for smallest in (True, False)
    )
    assert not (made.top1(outwards) == batch.labels.numpy()).any()
    assert (made.top1(inwards) == batch.labels.numpy()).any()


@pytest.mark.parametrize(("norm", "size"), [("linf", 0.03), ("l2", 0.2), ("l1", 1.0)])
def test_the_smallest_perturbation_is_stored_within_its_budget(norm: Norm, size: float) -> None:
    generator = np.random.default_rng(4)
    clean = generator.integers(0, 256, (8, 8, 3)).astype(np.uint8)
    moved = np.clip(clean / 255 + generator.normal(0, 0.05, clean.shape), 0, 1)
    image = stored(moved.astype(np.float32), clean, norm, size, 16, smallest=True)
    assert is_within(on_grid(image) - on_grid(clean), norm, size)
    same = stored((clean / np.float32(255)).astype(np.float32), clean, norm, size, 16, smallest=True)
    np.testing.assert_array_equal(same, on_grid(clean))


def test_l2_and_l1_perturbations_are_within_their_budgets(clean: Path, tmp_path: Path) -> None:
    pixels = clean_pixels(clean)
    for name, budgets in (("pgd_l2", (0.05, 0.2)), ("pgd_l1", (1.0, 4.0)), ("ddn_l2", (0.02, 0.5))):
        out = tmp_path / name
        attack(clean, out, "two_classes", [name], list(map(str, budgets)))
        for sample in open_data_set(str(out)).samples():
            moved = (sample.pixels() - 257.0 * pixels[sample.row.source_id]) / 65535
            size = np.abs(moved).sum() if name == "pgd_l1" else np.sqrt(np.square(moved).sum())
            assert 0 < size <= budgets[sample.row.level - 1]
        assert not verify(str(out)).faults


def test_rounding_is_towards_zero() -> None:
    clean = np.full((1, 1, 3), 100, np.uint8)
    wanted = 100 / 255 + np.array([[[1.9, -1.9, 0.4]]]) / 65535
    image = stored(wanted, clean, "linf", 1 / 255, 16)
    assert image.tolist() == [[[25701, 25699, 25700]]]
    assert stored(wanted + 1, clean, "linf", 1 / 255, 16).tolist() == [[[25957] * 3]]
    assert stored(wanted + 1, clean, "l1", 8 / 65535, 16).tolist() == [[[25702] * 3]]


def test_eight_bits_store_whole_levels(clean: Path, tmp_path: Path) -> None:
    attack(clean, tmp_path / "out", "two_classes", ["fgsm"], ["2/255"], bits=8)
    pixels = clean_pixels(clean)
    for sample in open_data_set(str(tmp_path / "out")).samples():
        difference = sample.pixels().astype(int) - pixels[sample.row.source_id]
        assert sample.pixels().dtype == np.uint8
        assert np.abs(difference).max() == 2
    assert not verify(str(tmp_path / "out")).faults
    with pytest.raises(UserError, match=r"--bits 8 stores whole levels, but fgsm has .* 0.5/255: use --bits 16"):
        attack(clean, tmp_path / "other", "two_classes", ["fgsm"], ["0.5/255"], bits=8)
    assert BITS == (8, 16)


def test_norms_are_compared_without_rounding() -> None:
    perturbation = np.array([257, -257, 0], np.int64)
    assert is_within(perturbation, "linf", 1 / 255)
    assert not is_within(perturbation + 1, "linf", 1 / 255)
    assert is_within(perturbation, "l1", 2 / 255)
    assert not is_within(perturbation, "l2", math.sqrt(2) / 255 * (1 - 1e-12))
    assert norms_of(perturbation) == pytest.approx(
        {"linf": 1 / 255, "l2": math.sqrt(2) / 255, "l1": 2 / 255}, rel=1e-12
    )


def test_records_have_the_norms_of_what_is_stored(attacked: Path, clean: Path) -> None:
    pixels, found = clean_pixels(clean), records(attacked)
    for sample in open_data_set(str(attacked)).samples():
        row = sample.row
        record = found[row.transform, row.level, row.source_id]
        norms = norms_of(on_grid(sample.pixels()) - on_grid(pixels[row.source_id]))
        assert {name: record[name] for name in norms} == norms
        assert (record["clean_top1"], record["right_before"]) == (row.label, True)
        assert record["steps"] == (1 if row.transform == "fgsm" else 20)


def test_verify_finds_a_perturbation_above_its_budget(attacked: Path, clean: Path, tmp_path: Path) -> None:
    assert not verify(str(attacked)).faults
    copy = shutil.copytree(attacked, tmp_path / "copy")
    recipe = copy / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(repr(BUDGETS[1]), repr(BUDGETS[1] * 0.9)))
    faults = verify(str(copy), source=str(clean)).faults
    assert len(faults) == 3 * 24
    assert "has a perturbation of the linf norm 0.0078" in faults[0].what
    assert "give --source with the clean data set" in verify(str(copy)).warnings[0]


def test_preview_shows_clean_attacked_and_difference(attacked: Path, tmp_path: Path) -> None:
    assert preview(str(attacked), str(tmp_path / "page.html"), images=2) == 3 * 3 * 2 * len(LEVELS)
    page = (tmp_path / "page.html").read_text()
    assert page.count("difference x 16") == 2 * 3 * 2 * len(LEVELS)
    clean, moved = np.full((1, 1, 3), 100, np.uint8), np.full((1, 1, 3), 25700 + 257 * 2, np.uint16)
    assert magnified(moved, clean).tolist() == [[[160] * 3]]


def test_deep_verification_attacks_again(attacked: Path, clean: Path, tmp_path: Path) -> None:
    again = (str(clean), f"{MODELS}:two_classes")
    found = regenerate(str(attacked), *again, samples=9, seed=1)
    assert (found.samples, found.faults, found.warnings) == (9, [], [])
    with pytest.raises(UserError, match="give the same one with --model"):
        regenerate(str(attacked), str(clean), None, samples=1, seed=1)
    with pytest.raises(UserError, match="differs from the one with which the attack was started: give the same"):
        regenerate(str(attacked), str(clean), f"{MODELS}:large_logits", samples=1, seed=1)
    copy = shutil.copytree(attacked, tmp_path / "copy")
    recipe = copy / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('weights = ""', 'weights = "own.pt"'))
    with pytest.raises(UserError, match=r"names .*:two_classes', with --weights 'own.pt'\)"):
        regenerate(str(copy), str(clean), None, samples=1, seed=1)
    recipe.write_text(recipe.read_text().replace("seed = 0\n\n[source]", "seed = 1\n\n[source]"))
    assert "differs from the one in the data set" in regenerate(str(copy), *again, 72 * 3, 1).faults[0].what
    recipe.write_text(recipe.read_text().replace('device = "cpu', 'device = "another'))
    found = regenerate(str(copy), *again, samples=9, seed=1)
    assert found.faults == []
    assert "so only the outcomes of the attacks were compared: 0 outcomes of 9 differ" in found.warnings[0]
