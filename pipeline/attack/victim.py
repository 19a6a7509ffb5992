"""The model under attack, as a function of images with values 0..1, and what an attack is asked to do to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from pipeline.attack.libraries import is_out_of_memory
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.predict.classifier import torch_message
from pipeline.recipes.attacks import AttackedModel
from pipeline.transforms.adversarial import Norm


@dataclass(frozen=True)
class AttackAtBudget:
    """An attack at one budget.

    Attributes:
        norm: Norm of the budget.
        budget: Largest norm of a perturbation, for pixel values 0..1.
        settings: Settings of the attack, by name.
        seed: Seed of its random numbers.
    """

    norm: Norm
    budget: float
    settings: Mapping[str, int | float]
    seed: int

    def step(self) -> float:
        """Return the length of a step."""
        return self.settings["step"] or self.settings["relative_step"] * self.budget


class Victim(torch.nn.Module):
    """A model with everything that ``evaluate`` does to an image: normalisation and the model's side.

    Attributes:
        batch: Number of images to which smaller batches are filled up: 1 unless the model accepts only one number.
        classes: Number of outputs; 0 before the first call.
    """

    def __init__(self, model: Model, about: AttackedModel, device: torch.device) -> None:
        """Move the model to its device; ``about`` has its normalisation and the side of its images."""
        super().__init__()
        # Parameters, because attack libraries find the device by them.
        self._mean, self._std = _channels(about.mean, device), _channels(about.std, device)
        self._inner = model.module.to(device)
        self._size, self.batch, self._spec = about.size, model.batch or 1, about.spec
        self.classes = 0
        self.training = False

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits, float32 (N, classes), of images (N, 3, H, W) with values 0..1.

        Raises:
            UserError: The model fails.
        """
        values = (images - self._mean) / self._std
        if (missing := self.batch - len(values)) > 0:
            values = torch.cat([values, values.new_zeros((missing, *values.shape[1:]))])
        if self._size and values.shape[2:] != (self._size, self._size):
            sides = (self._size, self._size)
            values = torch.nn.functional.interpolate(values, sides, mode="bilinear", antialias=True)
        try:
            logits: torch.Tensor = self._inner(values)[: len(images)].float()
        except (UserError, KeyboardInterrupt):
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise UserError(
                f"the model {self._spec} fails on {len(values)} images of {values.shape[3]} x {values.shape[2]}: "
                f"{torch_message(error)}; try --input-size N"
            ) from error
        self.classes = logits.shape[1]
        return logits


def _channels(values: Sequence[float], device: torch.device) -> torch.nn.Parameter:
    numbers = torch.tensor(values, dtype=torch.float32, device=device).view(1, 3, 1, 1)
    return torch.nn.Parameter(numbers, requires_grad=False)


def predicted(logits: torch.Tensor) -> torch.Tensor:
    """Return the first class of each image; of equal logits, the lower class index, as in ``evaluate``."""
    return torch.sort(logits, dim=1, descending=True, stable=True).indices[:, 0]


def loss_gradients(victim: Victim, images: torch.Tensor, labels: torch.Tensor, margin: bool) -> torch.Tensor:
    """Return the gradient of an attack's loss at clean images (N, 3, H, W) with true classes (N,).

    The loss is the margin to the strongest other class, or the cross entropy.

    Raises:
        UserError: The model has no gradients.
    """
    images = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        logits = victim(images)
        if not logits.requires_grad:
            raise UserError("PyTorch cannot follow the outputs back to the pixels")
        if margin:
            own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
            losses = logits.masked_fill(own, -torch.inf).amax(dim=1) - logits[own]
        else:
            losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        (gradients,) = torch.autograd.grad(losses.sum(), images)
    return gradients.detach()
