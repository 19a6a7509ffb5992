"""What a run attacks: the model as ``evaluate`` loads it, the images, the attacks, and the recipe of the data set."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from rich.filesize import decimal

from pipeline.attack.attacker import Attacker, CleanBatch
from pipeline.attack.auto import SQUARE_L2, tiles_l2
from pipeline.attack.clean import CleanImages, drawn, pixels_of
from pipeline.attack.libraries import is_out_of_memory, memory_for, required_version
from pipeline.attack.request import AttackRequest
from pipeline.attack.victim import Victim, loss_gradients
from pipeline.datasets.built import Built
from pipeline.datasets.norms import LEVEL, ONE
from pipeline.datasets.rendered import Rendered
from pipeline.errors import SampleError, UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.predict.preparation import images_of
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.settings import settings
from pipeline.evaluate.results.folder import EvaluationTable
from pipeline.images.encoders import Npy
from pipeline.recipes.attacks import AttackedModel, AttackEntry, AttackTable, CleanTable
from pipeline.recipes.schema import Recipe
from pipeline.recipes.tables import PrepareTable, ShardsTable, SourceTable, TransformsTable
from pipeline.software import device_name, versions
from pipeline.sources.base import Source, lines_at
from pipeline.sources.views import subset
from pipeline.text import counted
from pipeline.transforms import adversarial
from pipeline.transforms.adversarial import ATTACKS

BITS = (8, 16)
"""Numbers of bits of a stored value."""

_PROBABILITY_ERROR = 1e-3
"""Largest difference from 1 of the sum of outputs that look like probabilities."""


@dataclass(frozen=True)
class Setup:
    """Everything that a run has found out before its work.

    Attributes:
        images: All clean images.
        source: Those to attack.
        table: What ``evaluate`` would record about model, input, run and data set.
        entries: The attacks.
        device: Name of the device that computes.
        nondeterministic: Operators whose gradients may differ between runs on this device.
        software: Library -> version.
        warnings: What the user should know about the model.
    """

    images: CleanImages
    source: Source
    table: EvaluationTable
    entries: tuple[AttackEntry, ...]
    device: str
    nondeterministic: tuple[str, ...]
    software: dict[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def model(self) -> AttackedModel:
        """The model under attack."""
        model, image = self.table.model, self.table.input
        return AttackedModel(
            name=model.name, spec=model.spec, weights=model.weights, digest=model.digest, code=model.code,
            size=image.size, mean=image.mean, std=image.std,
        )  # fmt: skip

    def clean_table(self, request: AttackRequest) -> CleanTable:
        """Return which images are attacked."""
        recipe = request.recipe
        return CleanTable(
            name=self.images.data_set.name,
            manifest_sha256=self.images.data_set.manifest_digest(),
            sample=recipe.sample,
            sample_seed=recipe.sample_seed if recipe.sample else 0,
            ids=hashlib.sha256("\n".join(sorted(lines_at(request.ids))).encode()).hexdigest() if request.ids else "",
        )


def check_libraries(entries: Sequence[AttackEntry]) -> dict[str, str]:
    """Return the versions of the libraries of these attacks. Raise UserError if one is not installed."""
    return {(library := ATTACKS[entry.name].library): required_version(library, entry.name) for entry in entries}


def set_up(request: AttackRequest, entries: tuple[AttackEntry, ...], images: CleanImages, model: Model) -> Setup:
    """Check a request against the images and the model, which runs on a first batch.

    Raises:
        UserError: An option is invalid, or the model cannot be attacked on these images.
    """
    recipe = request.recipe
    source: Source = images
    if request.ids is not None:
        source = subset(images, request.ids)
    elif recipe.sample:
        source = drawn(images, recipe.sample, recipe.sample_seed)
    data_set, batch = images.data_set, model.batch or recipe.batch
    evaluated = EvaluationRequest.of(vars(request), batch_size=batch, workers=0, seed=0, channels_last=False)
    table = settings(evaluated, images_of(data_set, list(data_set.chunks()), None), model, None)
    table = table.with_run(batch=batch)  # not one shard's images
    setup = Setup(
        images, source, table, entries, device_name(table.run.device), (),
        software={**versions(), "torch": torch.__version__, **model.software, **check_libraries(entries)},
    )  # fmt: skip
    _check_classes(setup)
    _check_sides(setup)
    return _tried(setup, model)


def recipe_of(setup: Setup, request: AttackRequest) -> Recipe:
    """Return the recipe of the data set that a request makes. Raise UserError if its bits do not fit the budgets."""
    _check_bits(setup.entries, request.bits)
    recipe, data_set = request.recipe, setup.images.data_set
    clean = data_set.recipe if isinstance(data_set, Built | Rendered) else None
    return Recipe(
        name=recipe.name,
        title=recipe.title,
        profile=clean.profile if clean else setup.table.data_set.profile,
        seed=recipe.seed,
        source=SourceTable(limit=request.limit),
        prepare=clean.prepare if clean else PrepareTable(steps=()),
        transforms=TransformsTable(
            family=adversarial.FAMILY.name,
            only=tuple(entry.name for entry in setup.entries),
            levels=tuple(range(1, len(setup.entries[0].budgets) + 1)),
        ),
        encoder=Npy(depth=16 if request.bits == 16 else 8),
        shards=ShardsTable(size=recipe.shard_size),
        software=setup.software,
        attack=AttackTable(
            recipe=recipe.name,
            expected=tuple(name for name in ATTACKS if name in recipe.attacks),
            batch=setup.table.run.batch,
            device=setup.device,
            nondeterministic=setup.nondeterministic,
            model=setup.model,
            clean=setup.clean_table(request),
            attacks=setup.entries,
        ),
    )


def _check_classes(setup: Setup) -> None:
    """Raise UserError if an attack needs more classes than the model has."""
    classes = setup.table.model.classes
    for entry in setup.entries:
        if (needed := ATTACKS[entry.name].classes) > classes:
            others = [other.name for other in setup.entries if ATTACKS[other.name].classes <= classes]
            advice = f"leave it out with --only {','.join(others)}" if others else "use another attack"
            raise UserError(
                f"{entry.name} needs a model with at least {needed} classes for its loss, but {setup.table.model.name} "
                f"has {classes}: {advice}"
            )


def _check_sides(setup: Setup) -> None:
    """Raise UserError if an attack cannot start on images of this size."""
    height, width = _sides(setup)
    tiled = [entry.name for entry in setup.entries if entry.name in SQUARE_L2]
    if tiled and not tiles_l2(height, width):
        raise UserError(
            f"{tiled[0]} cannot attack images of {width} x {height}, which squares of a fifth of the height do not "
            "tile: use another size, for example 32 x 32 or 224 x 224, or other attacks"
        )


def _check_bits(entries: Sequence[AttackEntry], bits: int) -> None:
    """Raise UserError if 8 bits cannot store the budgets."""
    if bits not in BITS:
        raise UserError(f"invalid --bits {bits}: use {' or '.join(map(str, BITS))}")
    for entry in entries if bits == BITS[0] else ():
        levels = [budget * ONE / LEVEL for budget in entry.budgets]
        if entry.norm != "linf" or any(abs(level - round(level)) > 1e-6 for level in levels):
            raise UserError(
                f"--bits 8 stores whole levels, but {entry.name} has budgets of the norm {entry.norm}, "
                f"{', '.join(f'{level:g}/255' for level in levels)}: use --bits 16"
            )


def _tried(setup: Setup, model: Model) -> Setup:
    """Return the setup with what a first batch shows. Raise UserError if the model cannot be attacked."""
    batch = first_batch(setup, model)
    victim = batch[0].victim
    with torch.inference_mode():
        once, again = victim(batch[1].images), victim(batch[1].images)
    if not torch.equal(once, again):
        raise UserError(
            f"{setup.table.model.name} returns other values when it sees the same images again: models that draw "
            "random numbers are not supported; make its factory return a deterministic model"
        )
    found = []
    if bool((once >= 0).all()) and bool(((once.sum(dim=1) - 1).abs() < _PROBABILITY_ERROR).all()):
        found.append(
            f"the outputs of {setup.table.model.name} look like probabilities, on which the cross entropy is weak: "
            "return logits, without a softmax"
        )
    return replace(setup, warnings=tuple(found), nondeterministic=_nondeterministic(setup, victim, batch[1]))


def first_batch(setup: Setup, model: Model) -> tuple[Attacker, CleanBatch]:
    """Return an attacker in this process and the first batch of images that can be read. Raise UserError for none."""
    device = torch.device(setup.table.run.device)
    victim = Victim(model, setup.model, device)
    attacker, found = Attacker(victim, device, seed=0), []
    for image in islice(setup.source, setup.table.run.batch):
        try:
            found.append((image, pixels_of(setup.images.sample(image.id))))
        except (SampleError, OSError):
            continue
    if not found:
        raise UserError(f"none of the first images of {setup.source.location} can be read: run robustshards verify")
    ids, labels = [image.id for image, _ in found], [image.label for image, _ in found]
    return attacker, attacker.before(ids, [pixels for _, pixels in found], labels)


def _nondeterministic(setup: Setup, victim: Victim, batch: CleanBatch) -> tuple[str, ...]:
    """Return the operators that torch has no deterministic gradient of on this device.

    Raises:
        UserError: The model has no gradients, and an attack needs them; or the memory does not suffice for a batch.
    """
    needing = [entry.name for entry in setup.entries if ATTACKS[entry.name].loss]
    if not needing:
        return ()
    before, count = torch.are_deterministic_algorithms_enabled(), len(batch.ids)
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with memory_for(f"the gradients of {count} images are computed", count):
                loss_gradients(victim, batch.images, batch.labels, margin=False)
    except (UserError, RuntimeError) as error:
        if error.__cause__ is not None and is_out_of_memory(error.__cause__):
            raise
        raise UserError(
            f"{setup.table.model.name} has no gradients, which {', '.join(needing)} "
            f"{'needs' if len(needing) == 1 else 'need'} ({error}): use Square, which needs none: --attacks "
            "square_linf or square_l2"
        ) from error
    finally:
        torch.use_deterministic_algorithms(before)
    texts = [str(each.message) for each in caught]
    return tuple(sorted({text.split()[0] for text in texts if "does not have a deterministic implementation" in text}))


def size_message(setup: Setup, images: int, bits: int) -> str:
    """Return the size of a data set of a number of attacked images, as a message."""
    height, width = _sides(setup)
    levels = len(setup.entries[0].budgets)
    values = images * len(setup.entries) * levels * height * width * 3
    return (
        f"planning {counted(images, 'image')} under {counted(len(setup.entries), 'attack')} at "
        f"{counted(levels, 'budget')}: {decimal(values * bits // 8)} of pixels"
    )


def _sides(setup: Setup) -> tuple[int, int]:
    row = next(row for row in setup.images.data_set.rows() if row.height)
    return row.height or 0, row.width or 0
