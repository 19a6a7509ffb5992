"""Attacks compared with loops written here and with the libraries called directly; the composition of AutoAttack."""

import re
from fnmatch import fnmatch

import foolbox
import numpy as np
import pytest
import torch
import torchattacks

from pipeline.attack import auto
from pipeline.attack.attacker import Attacker, CleanBatch
from pipeline.attack.libraries import seed_of, seeded
from pipeline.attack.victim import AttackAtBudget
from pipeline.recipes.attacks import AttackEntry
from pipeline.transforms.adversarial import ATTACKS
from tests.conftest import ROOT
from tests.factories.attack_runs import attacker, batch_of
from tests.factories.attacked_models import SIDE, Small

BUDGET = 12 / 255


def drawn_digits(count: int, seed: int) -> tuple[list[np.ndarray], list[int]]:
    """Return images of ten patterns with noise, uint8 (SIDE, SIDE, 3), and their classes."""
    patterns = np.random.default_rng(0).integers(0, 2, (10, SIDE, SIDE, 1)) * 50 + 100
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 10, count).tolist()
    noise = generator.normal(0, 40, (count, SIDE, SIDE, 3))
    return [
        np.clip(patterns[label] + each, 0, 255).astype(np.uint8) for label, each in zip(labels, noise, strict=True)
    ], labels


@pytest.fixture(scope="module")
def cnn() -> torch.nn.Module:
    """Return a CNN that is trained on the patterns."""
    images, labels = drawn_digits(400, seed=1)
    values = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    model, wanted = Small(), torch.tensor(labels)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(15):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(values), wanted).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def made(cnn: torch.nn.Module) -> Attacker:
    return attacker(cnn, seed=4)


@pytest.fixture(scope="module")
def batch(made: Attacker) -> CleanBatch:
    """Return images that the CNN gets right."""
    images, labels = drawn_digits(40, seed=2)
    before = batch_of(made, images[:32], labels[:32])
    right = np.flatnonzero(before.right).tolist()
    assert len(right) > 24
    return before.part(right)


def moved(made: Attacker, batch: CleanBatch, name: str, budget: float = BUDGET, **settings: float) -> torch.Tensor:
    """Return the images of an attack (N, 3, H, W)."""
    entry = AttackEntry(
        name=name, norm=ATTACKS[name].norm, budgets=(budget,), settings={**ATTACKS[name].settings, **settings}
    )
    found = made.attack(batch, entry, 1)
    assert found.failure is None
    return torch.from_numpy(found.images).permute(0, 3, 1, 2)


def wrong(made: Attacker, batch: CleanBatch, images: torch.Tensor) -> int:
    return int((made.top1_of(images) != batch.labels.numpy()).sum())


def gradient(cnn: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    images = images.clone().requires_grad_()
    torch.nn.functional.cross_entropy(cnn(images), labels).backward()
    assert images.grad is not None
    return images.grad


def projected(images: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
    return (clean + (images - clean).clamp(-BUDGET, BUDGET)).clamp(0, 1)


def test_mim_is_the_published_loop(made: Attacker, batch: CleanBatch, cnn: torch.nn.Module) -> None:
    images, momentum = batch.images.clone(), torch.zeros_like(batch.images)
    for _ in range(20):
        slope = gradient(cnn, images, batch.labels)
        momentum = momentum + slope / slope.abs().mean(dim=(1, 2, 3), keepdim=True)
        images = projected(images + 3 * BUDGET / 40 * momentum.sign(), batch.images)
    found = moved(made, batch, "mim")
    assert float((found - images).abs().max()) < 1e-5
    assert wrong(made, batch, found) == wrong(made, batch, images)


def test_pgd_is_the_published_loop(made: Attacker, batch: CleanBatch, cnn: torch.nn.Module) -> None:
    with seeded(seed_of(4, "pgd_linf", 1, list(batch.ids)), torch.device("cpu")):
        images = (batch.images + torch.empty_like(batch.images).uniform_(-BUDGET, BUDGET)).clamp(0, 1)
    for _ in range(20):
        images = projected(images + 3 * BUDGET / 40 * gradient(cnn, images, batch.labels).sign(), batch.images)
    assert float((moved(made, batch, "pgd_linf") - images).abs().max()) < 1e-5


def test_libraries_called_directly_give_the_same_counts(
    made: Attacker, batch: CleanBatch, cnn: torch.nn.Module
) -> None:
    model = foolbox.PyTorchModel(cnn.eval(), bounds=(0, 1))
    direct = foolbox.attacks.LinfFastGradientAttack().run(
        model, batch.images, foolbox.criteria.Misclassification(batch.labels), epsilon=BUDGET
    )
    assert wrong(made, batch, moved(made, batch, "fgsm")) == wrong(made, batch, direct) > 0
    ours = moved(made, batch, "ddn_l2", 100.0)
    direct = foolbox.attacks.DDNAttack(steps=10, gamma=0.05).run(
        model, batch.images, foolbox.criteria.Misclassification(batch.labels)
    )
    assert wrong(made, batch, ours) == wrong(made, batch, direct) > 0
    vmi = torchattacks.VMIFGSM(cnn, eps=BUDGET, alpha=1 / 255, steps=3, N=2)
    with seeded(seed_of(4, "vmi", 1, list(batch.ids)), torch.device("cpu")):
        direct = vmi(batch.images, batch.labels)
    found = moved(made, batch, "vmi", steps=3, neighbours=2)
    assert float((found - direct).abs().max()) < 1e-5


def test_every_attack_stays_in_its_budget_and_fools(made: Attacker, batch: CleanBatch) -> None:
    fewer = {"queries": 100, "targets": 2, "neighbours": 4}
    sizes = {"linf": BUDGET, "l2": 1.0, "l1": 30.0}
    for name, method in ATTACKS.items():
        budget = sizes[method.norm]
        settings = {key: value for key, value in fewer.items() if key in method.settings}
        settings |= {"steps": 5} if "targets" in settings else {}  # of AutoAttack and FAB
        images = moved(made, batch, name, budget, **settings)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        if not method.minimises and method.norm == "linf":
            assert float((images - batch.images).abs().max()) <= budget + 1e-6, name
        if name not in ("cw_l2", "tim", "si_ni"):
            assert wrong(made, batch, images) > 0, name


@pytest.mark.usefixtures("batch")  # the number of classes is known after the first call
def test_autoattack_is_made_with_the_published_settings(made: Attacker) -> None:
    settings = ATTACKS["autoattack_linf"].settings
    parts = auto.parts(made.victim, AttackAtBudget("linf", BUDGET, settings, seed=1))
    assert tuple(parts) == auto.PARTS
    steps = [part.n_queries if name == "square" else part.steps for name, part in parts.items()]
    assert steps == [100, 100, 100, 5000]
    assert [parts[name].n_target_classes for name in ("apgd_targeted", "fab_targeted")] == [9, 9]
    assert (parts["apgd_ce"].loss, parts["apgd_ce"].n_restarts, parts["apgd_ce"].thr_decr) == ("ce", 1, 0.75)
    fab, square = parts["fab_targeted"], parts["square"]
    assert (fab.alpha_max, fab.eta, fab.beta, fab.multi_targeted) == (0.1, 1.05, 0.9, True)
    assert (square.p_init, square.loss, square.rescale_schedule) == (0.8, "margin", False)


def test_the_composition_stands_at_most_where_each_part_stands(made: Attacker, batch: CleanBatch) -> None:
    settings = {**ATTACKS["autoattack_linf"].settings, "steps": 5, "queries": 30, "targets": 2}
    task = AttackAtBudget("linf", BUDGET / 2, settings, seed=1)
    images, found = auto.composed(made.victim, batch.images, batch.labels, task)
    standing = made.top1_of(images) == batch.labels.numpy()
    assert [not component for component in found] == standing.tolist()
    assert 0 < standing.sum() < len(standing)
    for name, part in auto.parts(made.victim, task).items():
        part.device = batch.images.device
        alone = made.top1_of(part.forward(batch.images, batch.labels)) == batch.labels.numpy()
        assert (standing <= alone).all() or standing.sum() <= alone.sum(), name


@pytest.mark.parametrize(("accepted", "given"), [(None, 3), (32, 32)])
def test_only_models_of_one_number_get_batches_that_are_filled_up(
    cnn: torch.nn.Module, batch: CleanBatch, accepted: int | None, given: int
) -> None:
    seen, made = [], attacker(cnn, accepted=accepted)
    handle = made.victim._inner.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    moved(made, batch.part([0, 1, 2]), "fgsm")
    handle.remove()
    assert set(seen) == {given}


@pytest.mark.parametrize("side", [4, 8, 12, 13, 24, 28, 32, 64])
def test_square_starts_on_the_sides_that_it_tiles(side: int) -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * side * side, 2))
    images = torch.full((2, 3, side, side), 0.5)
    labels = model(images).argmax(dim=1)
    attack = torchattacks.Square(model, norm="L2", eps=1e-9, n_queries=2)
    if auto.tiles_l2(side, side):
        attack(images, labels)
    else:
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            attack(images, labels)
    assert auto.tiles_l2(side, side) == (side not in (4, 12, 24))


def test_documented_settings_are_those_of_the_attacks() -> None:
    page = (ROOT / "docs" / "adversarial.md").read_text().partition("### Settings")[2].partition("## ")[0]
    documented = set()
    for line in page.splitlines()[4:]:
        if line.startswith("| `"):
            settings, attacks = (re.findall(r"`(.+?)`", cell) for cell in line.split("|")[1:3])
            documented |= {
                (name, each) for each in settings for glob in attacks for name in ATTACKS if fnmatch(name, glob)
            }
    assert documented == {(name, each) for name, method in ATTACKS.items() for each in method.settings}
