"""What the user asks of attacks and of searches for budgets. Imports nothing heavy, since help texts need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pipeline.errors import UserError
from pipeline.evaluate.predict.request import ModelRequest
from pipeline.settings import EXECUTION, FLAG, IMAGES, REQUIRED, Kind, integer, location, setting, text, words

if TYPE_CHECKING:
    from pipeline.attack.attack_recipe import AttackRecipe

ATTACKS = "Attacks"
"""Section of the help."""


@dataclass(frozen=True)
class AttackSettings(ModelRequest):
    """The clean images, and how a model is attacked on them.

    Attributes:
        data_set: Folder or URL of a clean data set with labels that build, render or index wrote.
        model: Model: timm:NAME, torchvision:NAME, hf:NAME, package.module:function, or a TorchScript or torch.export
            file. ONNX files have no gradients, so only Square can attack them.
        sample: Draw N images. 0 uses all. Default: the recipe's; 0 without a recipe.
        sample_seed: Seed of the draw. Default: 0.
        ids: Text file with one image id, path or file name per line; only these images are used.
        limit: Use only the first N images. 0 uses all.
        seed: Seed of the attacks. Default: the recipe's; 0 without a recipe.
        batch_size: Images that are attacked together. The result depends on it. Default: the recipe's; 32 without a
            recipe.
        workers: Number of worker processes. Default: one per GPU, or one per available CPU, if the memory allows it.
        retry_failed: Remake the shards that contain failed samples.
    """

    sample: int | None = setting(None, integer(0), IMAGES)
    sample_seed: int | None = setting(None, integer(0), IMAGES)
    ids: str | None = setting(None, location("FILE"), IMAGES)
    limit: int = setting(0, integer(0), IMAGES)
    seed: int | None = setting(None, integer(0), ATTACKS)
    batch_size: int | None = setting(None, integer(1), ATTACKS)
    workers: int | None = setting(None, integer(1), EXECUTION)
    retry_failed: bool = setting(False, FLAG, EXECUTION)

    def __post_init__(self) -> None:
        """Check the settings. Raise UserError if one is invalid, or several choose images."""
        super().__post_init__()
        given = {"--sample": self.sample, "--ids": self.ids, "--limit": self.limit}
        if len(chosen := [option for option, value in given.items() if value]) > 1:
            raise UserError(f"{' and '.join(chosen)} both choose images: use only one of them")


@dataclass(frozen=True)
class AttackRequest(AttackSettings):
    """A request to attack a model.

    Attributes:
        out: Folder or URL to write the data set to.
        attacks: Attack recipe: robustart, robustart-transfer, ares-white-box, ares-transfer, or the path of a .toml
            file. Or comma-separated attacks, with --budgets: see robustshards list.
        budgets: Budgets of attacks that are named one by one, for pixel values 0..1, e.g. 1/255,4/255.
        only: Attacks of the recipe to run. Default: all.
        bits: Bits of a stored value. 8 needs L-inf budgets in whole levels.
    """

    attacks: str | AttackRecipe = setting(REQUIRED, Kind(lambda value: value, metavar="NAMES", separator=","))
    budgets: Sequence[str] | None = setting(None, words("NUMBERS"), ATTACKS)
    only: Sequence[str] | None = setting(None, words(), ATTACKS)
    bits: int = setting(16, integer(metavar="16|8"), ATTACKS)

    @cached_property
    def recipe(self) -> AttackRecipe:
        """The attacks, their budgets, and the draw of images. Raises UserError if a setting is invalid."""
        from pipeline.attack import attack_recipe
        from pipeline.config import validated

        recipe = self.attacks
        if isinstance(recipe, str):
            if not attack_recipe.is_recipe(recipe):
                recipe = attack_recipe.named(words().read(recipe), self.budgets or [])
            elif self.budgets is None:
                recipe = attack_recipe.load(recipe)
            else:
                raise UserError(
                    f"--budgets {','.join(self.budgets)} cannot be combined with the attack recipe {recipe}, which has "
                    "budgets"
                )
        changes = {"sample": self.sample, "sample_seed": self.sample_seed, "seed": self.seed, "batch": self.batch_size}
        if self.ids or self.limit:
            changes["sample"] = 0
        content = recipe.model_dump(mode="json") | {name: value for name, value in changes.items() if value is not None}
        return validated(attack_recipe.AttackRecipe, content, recipe.name)


@dataclass(frozen=True)
class SearchSettings(AttackSettings):
    """A search for the smallest budgets of an attack.

    Attributes:
        out: Folder or URL to write the budgets to.
        attack: Attack, for example autoattack_linf: see robustshards list.
        largest: Largest budget, for pixel values 0..1, for example 16/255.
        steps: Number of times that the range of budgets is halved. ddn_l2, cw_l2 and fab find the smallest budget
            themselves.
        retry_failed: Search the parts that contain failed images again.
    """

    attack: str = setting(REQUIRED, text("NAME"))
    largest: str = setting(REQUIRED, text("NUMBER"))
    steps: int = setting(10, integer(0), ATTACKS)
