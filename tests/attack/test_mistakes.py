"""Mistakes of users end before any work, with what came, what is allowed and what to do."""

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import software
from pipeline.attack import attack_recipe
from pipeline.attack.victim import Victim
from pipeline.datasets.adversarial import recorded_attack
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.attacks import AttackEntry, AttackTable, parse_budget
from pipeline.transforms.adversarial import ATTACKS, FAMILY
from pipeline.transforms.family import Condition, Rendering
from tests.conftest import Run
from tests.factories.attack_runs import MODELS, attack, attacker, batch_of, search
from tests.factories.attacked_models import SIDE, margin
from tests.factories.indexed_sets import change_rows
from tests.factories.models import Small, write_onnx


def evaluated_attack(folder: Path) -> AttackTable:
    """Return what an evaluation of a data set records about its attack."""
    table = recorded_attack(open_data_set(str(folder)))
    assert table is not None
    return table


@pytest.mark.parametrize(
    ("budget", "norm", "message"),
    [
        ("8", "linf", "invalid L-inf budget '8': .* for 8 of 255 levels write 8/255"),
        ("-1/255", "linf", "invalid budget '-1/255': use a number of at least 0"),
        ("nan", "l2", "invalid budget 'nan'"),
        ("inf", "l1", "invalid budget 'inf'"),
        ("1/0", "linf", "invalid budget '1/0'"),
        ("eight", "l2", "invalid budget 'eight'"),
    ],
)
def test_invalid_budgets(budget: str, norm: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_budget(budget, norm)


def test_valid_budgets() -> None:
    assert (parse_budget("8/255", "linf"), parse_budget("0.5", "l2"), parse_budget(1600, "l1")) == (8 / 255, 0.5, 1600)
    assert (parse_budget("0", "linf"), parse_budget("1", "linf")) == (0, 1)


@pytest.mark.parametrize(
    ("names", "budgets", "message"),
    [
        (
            ["fgsm", "pgd"],
            ["1/255"],
            "attack recipe 'pgd' .did you mean 'pgd_linf' .*; attacks: fgsm, .* recipes: ares-transfer",
        ),
        (["fgsm", "pgd_l2"], ["1/255"], r"have budgets of different norms \(linf, l2\)"),
        (["fgsm"], [], "need budgets: give them with --budgets, e.g. 1/255,4/255"),
        (["fgsm"], ["8"], "write 8/255"),
    ],
)
def test_invalid_attacks(names: list[str], budgets: list[str], message: str, clean: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        attack(clean, tmp_path / "out", "two_classes", names, budgets)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["robustart", "own.toml", "fgsm,mim", "pgd", ""])
def test_budgets_take_one_attack(name: str, clean: Path, tmp_path: Path, robustshards: Run) -> None:
    message = robustshards.refuse(
        *("budgets", clean, "--model", "two_classes", "--attack", name, "--largest", "1/255", "--out", tmp_path / "out")
    )
    assert re.search(rf"unknown attack '{name}'.*; allowed: fgsm, pgd_linf, .*; give one attack", message)
    assert "robustart-transfer" not in message
    assert not (tmp_path / "out").exists()


def test_invalid_recipes(tmp_path: Path) -> None:
    text = 'name = "own"\nattacks = ["fgsm", "pgd_l2"]\n[budgets]\nlinf = ["1/255"]\nl2 = [1, 2]\n'
    for changed, message in (
        (text, "need the same number of budgets, but there are: fgsm 1, pgd_l2 2"),
        (text.replace("pgd_l2", "pgd_l3"), "unknown name 'pgd_l3' .*; allowed: fgsm"),
        (text + "[settings.fgsm]\nsteps = 3\n", "fgsm: unknown setting 'steps'; allowed: none"),
        ('extends = "nothing"\n', "unknown recipe 'nothing'; allowed: ares-transfer"),
    ):
        (tmp_path / "own.toml").write_text(changed)
        with pytest.raises(UserError, match=message):
            attack_recipe.load(str(tmp_path / "own.toml")).entries()
    with pytest.raises(UserError, match="unknown attack 'dim'; allowed: fgsm"):
        attack_recipe.load("robustart").entries(["dim"])
    with pytest.raises(UserError, match="no attack of robustart is chosen: give some of fgsm, "):
        attack_recipe.load("robustart").entries([])


@pytest.mark.parametrize(
    ("name", "setting", "allowed"),
    [
        ("pgd_linf", "steps = 0", "whole number of at least 1"),
        ("pgd_linf", "steps = 2.5", "whole number of at least 1"),
        ("vmi", "neighbours = 0", "whole number of at least 1"),
        ("dim", "probability = 7", "number from 0 to 1"),
        ("dim", "resize = 3", "number from 0 to 1"),
        ("pgd_linf", "step = -1", "number of at least 0"),
    ],
)
def test_settings_out_of_range(name: str, setting: str, allowed: str, tmp_path: Path) -> None:
    text = f'name = "own"\nattacks = ["{name}"]\n[budgets]\nlinf = ["1/255"]\n[settings.{name}]\n{setting}\n'
    (tmp_path / "own.toml").write_text(text)
    given, _, value = setting.partition(" = ")
    with pytest.raises(UserError, match=f"invalid setting {given} = '{value}' of {name}: use a {allowed}"):
        attack_recipe.load(str(tmp_path / "own.toml")).entries()


def test_published_settings_are_in_range() -> None:
    for name, method in ATTACKS.items():
        budgets = {method.norm: ("1/255",)}
        own = attack_recipe.AttackRecipe(name="own", attacks=(name,), budgets=budgets, settings={name: method.settings})
        assert own.entries()[0].settings == method.settings


def test_models_without_gradients_get_square_only(clean: Path, tmp_path: Path, robustshards: Run) -> None:
    write_onnx(tmp_path / "model.onnx", Small(0))
    command = ("attack", clean, "--model", tmp_path / "model.onnx", "--budgets", "64/255", "--out", tmp_path / "out")
    message = robustshards.refuse(*command, "--attacks", "fgsm,pgd_linf")
    reason = "PyTorch cannot follow the outputs back to the pixels"
    assert f"has no gradients, which fgsm, pgd_linf need ({reason}): use Square" in message
    assert "use Square, which needs none: --attacks square_linf or square_l2" in message
    assert not (tmp_path / "out").exists()
    text = (
        'name = "own"\nattacks = ["square_linf"]\n[budgets]\nlinf = ["64/255"]\n[settings.square_linf]\nqueries = 20\n'
    )
    (tmp_path / "own.toml").write_text(text)
    own = attack_recipe.load(str(tmp_path / "own.toml"))
    result = attack(clean, tmp_path / "out", str(tmp_path / "model.onnx"), ["square_linf"], ["64/255"], only=None)
    assert own.entries()[0].settings["queries"] == 20
    assert result.complete


@pytest.mark.parametrize(
    ("name", "missing", "command"),
    [
        ("pgd_linf", "foolbox", "pip install foolbox"),
        ("mim", "torchattacks", "pip install --no-deps torchattacks==3.5.1"),
    ],
)
def test_missing_libraries_are_named_before_any_work(
    name: str, missing: str, command: str, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software, "_version", lambda name: None if name == missing else metadata.version(name))
    with pytest.raises(UserError, match=f"{name} needs {missing}, which is not installed: {command}"):
        attack(clean, tmp_path / "out", "no.such:model", [name], ["1/255"])
    with pytest.raises(UserError, match=command):
        search(clean, tmp_path / "out", "no.such:model", name, 1 / 255, 3)
    assert not (tmp_path / "out").exists()


def test_a_library_that_cannot_be_imported_is_named_before_any_work(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "foolbox", None)
    with pytest.raises(UserError, match=r"fgsm needs foolbox, which cannot be imported \(.*: pip install foolbox"):
        attack(clean, tmp_path / "out", "no.such:model", ["fgsm"], ["1/255"])
    assert not (tmp_path / "out").exists()


def test_too_few_classes(clean: Path, tmp_path: Path) -> None:
    names = ["fgsm", "autoattack_linf"]
    with pytest.raises(UserError, match=r"autoattack_linf needs a model with at least 4 classes .* --only fgsm"):
        attack(clean, tmp_path / "out", "two_classes", names, ["1/255"])


def test_sizes_that_square_cannot_tile(clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.attack.settings._sides", lambda setup: (12, 12))
    with pytest.raises(UserError, match=r"square_l2 cannot attack images of 12 x 12, .* use another size"):
        attack(clean, tmp_path / "out", "two_classes", ["square_l2"], ["1"])
    assert not (tmp_path / "out").exists()


def test_unusable_images(clean: Path, attacked: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has images of the family adversarial, but attacks start from clean images"):
        attack(attacked, tmp_path / "out", "two_classes", ["fgsm"], ["1/255"])
    copies = [shutil.copytree(clean.parent, tmp_path / name) / "clean" for name in ("unlabelled", "sizes")]
    change_rows(copies[0], label=lambda position, row: -1, class_name=lambda position, row: "")
    with pytest.raises(UserError, match="has images without labels, for example"):
        attack(copies[0], tmp_path / "out", "two_classes", ["fgsm"], ["1/255"], data=str(clean.parent / "images"))
    change_rows(copies[1], height=lambda position, row: 8 + position % 2)
    with pytest.raises(UserError, match="has images of different sizes, for example"):
        attack(copies[1], tmp_path / "out", "two_classes", ["fgsm"], ["1/255"], data=str(clean.parent / "images"))
    assert not (tmp_path / "out").exists()


def test_unusable_models(clean: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="returns other values when it sees the same images again"):
        attack(clean, tmp_path / "out", "random", ["fgsm"], ["1/255"])
    result = attack(clean, tmp_path / "out", "probabilities", ["fgsm"], ["1/255"])
    assert "look like probabilities, on which the cross entropy is weak" in result.warnings[0]


def test_large_logits_leave_no_gradient(clean: Path, tmp_path: Path) -> None:
    result = attack(clean, tmp_path / "out", "large_logits", ["fgsm"], ["1/255"])
    assert result.failed > 0
    assert (evaluated_attack(tmp_path / "out").zero_gradients or 0) > 0.9
    assert "the loss has no gradient at" in result.warnings[-1]


def test_a_failed_image_is_a_row_and_is_tried_again(clean: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(clean.parent, tmp_path / "copy")
    image = sorted((copy / "images").rglob("*.png"))[3]
    content = image.read_bytes()
    image.write_bytes(b"damaged" + content[7:])
    options = {"data": str(copy / "images")}
    result = attack(copy / "clean", tmp_path / "out", "two_classes", ["fgsm"], ["1/255"], **options)
    assert (result.complete, result.failed) == (True, 1)
    (failed,) = (row for row in open_data_set(str(tmp_path / "out")).rows() if row.status == "failed")
    assert image.stem in failed.key
    assert "was changed" in str(failed.error)
    image.write_bytes(content)
    again = attack(copy / "clean", tmp_path / "out", "two_classes", ["fgsm"], ["1/255"], retry_failed=True, **options)
    assert (again.failed, again.done.shards) == (0, 1)


def test_builds_cannot_make_adversarial_images(attacked: Path) -> None:
    recipe = library.parse((attacked / "recipe.toml").read_bytes(), "recipe")
    assert recipe.attack is not None
    with pytest.raises(UserError, match="fgsm needs a model, so build cannot make it: use robustshards attack"):
        FAMILY.render(Condition("fgsm", 1), Rendering("imagenet", None))


def test_options_that_exclude_each_other(clean: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("attack", clean, "--model", f"{MODELS}:two_classes", "--out", tmp_path / "out")
    assert "--sample and --limit both choose images" in robustshards.refuse(
        *command, "--attacks", "fgsm", "--budgets", "1/255", "--sample", 3, "--limit", 2
    )
    assert "which has budgets" in robustshards.refuse(*command, "--attacks", "robustart", "--budgets", "1/255")
    assert "write 16/255" in robustshards.refuse("budgets", *command[1:], "--attack", "fgsm", "--largest", "16")


def test_exhausted_memory_names_a_smaller_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = attacker("two_classes")
    images = [np.full((SIDE, SIDE, 3), 100 + number, np.uint8) for number in range(8)]
    batch = batch_of(made, images, [int(margin(image) <= 0) for image in images])

    def exhausted(*arguments: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("pipeline.attack.attacker.run", exhausted)
    with pytest.raises(UserError, match="out of memory while fgsm attacks 8 images at once: use --batch-size 4 and"):
        made.attack(batch, AttackEntry(name="fgsm", norm="linf", budgets=(0.1,)), 1)


@pytest.mark.parametrize("phase", ["inference", "gradients"])
def test_memory_exhausted_on_the_first_batch(
    phase: str, clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = Victim.forward

    def exhausted(victim: Victim, images: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() == (phase == "gradients"):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(victim, images)

    monkeypatch.setattr(Victim, "forward", exhausted)
    with pytest.raises(UserError, match=r"out of memory while .* 8 images .*at once: use --batch-size 4 and"):
        attack(clean, tmp_path / "out", "two_classes", ["fgsm"], ["1/255"])


def test_memory_exhausted_in_a_search(clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*arguments: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("pipeline.attack.search.run", exhausted)
    with pytest.raises(UserError, match="out of memory while fgsm attacks 8 images at once: use --batch-size 4 and"):
        search(clean, tmp_path / "out", "two_classes", "fgsm", 1 / 255, 2)


def test_help_names_every_recipe(robustshards: Run) -> None:
    text = " ".join(robustshards("attack", "--help").stdout.split())
    assert all(name in text for name in attack_recipe.shipped())
