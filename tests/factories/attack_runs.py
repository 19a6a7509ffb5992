"""Attacks and searches on small clean data sets, run in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image

import manifests
from pipeline.attack import attack_recipe
from pipeline.attack.attack import run_attack
from pipeline.attack.attacker import Attacker, CleanBatch
from pipeline.attack.budgets import SearchResult, run_budgets
from pipeline.attack.request import AttackRequest
from pipeline.attack.victim import Victim
from pipeline.builder.result import BuildResult
from pipeline.datasets.index.manifest import index
from pipeline.datasets.opening import open_data_set
from pipeline.evaluate.models.loading import load_model
from pipeline.execution.resumable import SilentWatcher
from pipeline.recipes.attacks import AttackedModel
from tests.factories.attacked_models import SIDE, margin
from tests.factories.commands import in_this_process

IMAGES = 24
MODELS = "tests.factories.attacked_models"


def write_clean(folder: Path, count: int = IMAGES) -> Path:
    """Write images with values 64..191, labelled as the linear model sees them, and index them."""
    generator = np.random.default_rng(2)
    for number in range(count):
        pixels = generator.integers(64, 192, (SIDE, SIDE, 3)).astype(np.uint8)
        path = folder / "images" / str(int(margin(pixels) <= 0)) / f"i{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    index(str(folder / "images"), str(folder / "clean"))
    return folder / "clean"


def clean_pixels(clean: Path) -> dict[str, np.ndarray]:
    """Return id -> pixels of a data set."""
    return {sample.row.source_id: sample.pixels() for sample in open_data_set(str(clean)).samples()}


def request(clean: Path, out: Path, model: str, recipe: attack_recipe.AttackRecipe, **options: Any) -> AttackRequest:
    """Return a request with batches of 8, in shards of 16."""
    smaller = recipe.model_copy(update={"batch": 8, "shard_size": 16})
    spec = model if "." in model or ":" in model else f"{MODELS}:{model}"
    return AttackRequest(str(clean), spec, str(out), attacks=smaller, **options)


def attack(
    clean: Path, out: Path, model: str, names: Sequence[str], budgets: Sequence[str], **options: Any
) -> BuildResult:
    """Attack a model with attacks that are named one by one."""
    with in_this_process():
        return run_attack(request(clean, out, model, attack_recipe.named(names, budgets), **options), SilentWatcher())


def search(clean: Path, out: Path, model: str, name: str, largest: float, steps: int, **options: Any) -> SearchResult:
    """Search the smallest budgets of an attack."""
    with in_this_process():
        asked = request(clean, out, model, attack_recipe.named([name], [str(largest)]), **options)
        return run_budgets(asked, largest, steps, SilentWatcher())


def records(out: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return (attack, level, source id) -> record of attacks.parquet."""
    rows = {row.key: row for row in manifests.read_rows(out / "manifest.parquet")}
    found = pq.read_table(out / "attacks.parquet").to_pylist()
    return {(rows[each["key"]].transform, rows[each["key"]].level, rows[each["key"]].source_id): each for each in found}


def attacker(model: str | torch.nn.Module, seed: int = 0, accepted: int | None = None) -> Attacker:
    """Return an attacker of a module, which accepts any number of images or one, or of one of ``attacked_models``."""
    loaded = load_model(f"{MODELS}:{model}") if isinstance(model, str) else _Loaded(model, accepted)
    mean, std = (getattr(loaded.input, name) for name in ("mean", "std"))
    about = AttackedModel(name="m", spec="m", digest="", mean=mean, std=std)
    cpu = torch.device("cpu")
    return Attacker(Victim(loaded, about, cpu), cpu, seed)


class _Loaded:
    """A module as a loaded model without normalisation."""

    class input:  # noqa: N801
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def __init__(self, module: torch.nn.Module, accepted: int | None) -> None:
        self.module, self.batch = module.eval().requires_grad_(False), accepted


def batch_of(made: Attacker, images: Sequence[np.ndarray], labels: Sequence[int]) -> CleanBatch:
    """Return clean images (SIDE, SIDE, 3) of 8 bits as a batch."""
    return made.before([f"i{number}" for number in range(len(images))], images, labels)
