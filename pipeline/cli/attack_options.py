"""Options that the commands ``attack`` and ``budgets`` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.model_options import (
    DeviceOption,
    InputSizeOption,
    MeanOption,
    NameOption,
    StdOption,
    TrustModelOption,
    WeightsOption,
)
from pipeline.cli.options import (
    AddressOption,
    DataOption,
    ExecutorOption,
    IdsOption,
    triple,
)
from pipeline.errors import UserError
from pipeline.execution.pools import Executor
from pipeline.settings import EXECUTION, IMAGES

if TYPE_CHECKING:
    from pipeline.attack.recipes import AttackRecipe
    from pipeline.attack.settings import AttackRequest

ATTACKS = "Attacks"
"""Section of the help."""


@dataclass(frozen=True)
class AttackOptions:
    """Model, clean images, and how they are attacked."""

    data_set: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="Folder or URL of a clean data set with labels that build, render or index wrote."
        ),
    ]
    model: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="Model: timm:NAME, torchvision:NAME, hf:NAME, package.module:function, or a TorchScript or "
            "torch.export file. ONNX files have no gradients, so only Square can attack them.",
        ),
    ]
    weights: WeightsOption = None
    trust_model: TrustModelOption = False
    name: NameOption = None
    input_size: InputSizeOption = None
    mean: MeanOption = None
    std: StdOption = None
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=IMAGES,
            help="Draw N images. 0 uses all. Default: the recipe's; 0 without a recipe.",
        ),
    ] = None
    sample_seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, rich_help_panel=IMAGES, help="Seed of the draw. Default: 0.")
    ] = None
    ids: IdsOption = None
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=IMAGES, help="Use only the first N images. 0 uses all.")
    ] = 0
    data: DataOption = None
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=ATTACKS,
            help="Seed of the attacks. Default: the recipe's; 0 without a recipe.",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=ATTACKS,
            help="Images that are attacked together. The result depends on it. Default: the recipe's; 32 without a "
            "recipe.",
        ),
    ] = None
    device: DeviceOption = "auto"
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=EXECUTION,
            help="Number of worker processes. Default: one per GPU, or one per available CPU.",
        ),
    ] = None
    executor: ExecutorOption = Executor.AUTO
    address: AddressOption = None

    def request(self, recipe: AttackRecipe, output: str, **more: Any) -> AttackRequest:
        """Return the request with these options.

        Args:
            recipe: Attacks and budgets.
            output: Folder or URL to write.
            **more: Further fields of the request.

        Raises:
            UserError: An option is invalid, or options exclude each other.
        """
        from pipeline.attack.recipes import AttackRecipe
        from pipeline.attack.settings import AttackRequest
        from pipeline.config import validated

        given = {"--sample": self.sample, "--ids": self.ids, "--limit": self.limit}
        if len(chosen := [option for option, value in given.items() if value]) > 1:
            raise UserError(f"{' and '.join(chosen)} both choose images: use only one of them")
        changes = {"sample": self.sample, "sample_seed": self.sample_seed, "seed": self.seed, "batch": self.batch_size}
        if self.ids or self.limit:
            changes["sample"] = 0
        content = recipe.model_dump(mode="json") | {name: value for name, value in changes.items() if value is not None}
        return AttackRequest(
            self.data_set, self.model, output, validated(AttackRecipe, content, recipe.name), weights=self.weights,
            name=self.name, size=self.input_size, mean=triple(self.mean), std=triple(self.std, positive=True),
            device=self.device, ids=self.ids, limit=self.limit, data=self.data, trust_model=self.trust_model,
            workers=self.workers, address=self.address, executor=self.executor, **more,
        )  # fmt: skip
