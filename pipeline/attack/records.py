"""``attacks.parquet``: the outcome of each attack as the attack saw it, with the norms of what is stored."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import PurePath

import pyarrow as pa

import manifests
from pipeline.builder.plan import Plan, ShardTask
from pipeline.datasets.paths import ATTACKS_FILE, FACT_ATTACKED, FACT_TASK, FACT_ZERO_GRADIENTS, RECIPE_FILE
from pipeline.errors import UnfinishedError
from pipeline.execution.resumable import JobFolder
from pipeline.storage import Store, read_groups_ahead

RECORDS = JobFolder("data set", RECIPE_FILE, ATTACKS_FILE, "attacks", FACT_TASK)
"""``attacks.parquet`` and its parts, one per shard."""


@dataclass(frozen=True)
class Record:
    """The outcome of an attack on one image.

    Attributes:
        key: Key of the sample in the manifest.
        clean_top1: Class that the model predicts for the clean image.
        right_before: Whether that is the label. Other images are stored unchanged.
        right_after: Whether the model predicts the label for the stored image.
        linf: L-inf norm of the stored perturbation, for pixel values 0..1.
        l2: Its L2 norm.
        l1: Its L1 norm.
        steps: Steps of the attack, or queries of an attack without gradients; 0 if the image was not attacked.
        component: Part of AutoAttack that succeeded; empty otherwise.
        zero_gradient: Whether the loss has no gradient at the clean image.
    """

    key: str
    clean_top1: int
    right_before: bool
    right_after: bool
    linf: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    steps: int = 0
    component: str = ""
    zero_gradient: bool = False


_TYPES = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), "clean_top1": pa.int32()}
"""Types of columns, by those in Python, or by their own names."""

SCHEMA = pa.schema(
    [pa.field(each.name, _TYPES.get(each.name) or _TYPES[each.type], nullable=False) for each in fields(Record)]
)


def publish_records(store: Store, task: ShardTask, records: Sequence[Record]) -> None:
    """Write the records of a shard. Raises OSError."""
    facts = {
        FACT_TASK: task.digest,
        FACT_ATTACKED: str(sum(record.right_before for record in records)),
        FACT_ZERO_GRADIENTS: str(sum(record.zero_gradient for record in records)),
    }
    RECORDS.publish(store, task.name, [asdict(record) for record in records], SCHEMA, facts)


def merge_records(plan: Plan, store: Store) -> None:
    """Write ``attacks.parquet``, in the order of the manifest.

    Raises:
        UnfinishedError: A part cannot be read.
    """
    scratch = store.scratch()
    parts = ([RECORDS.part(PurePath(part).stem) for part in group] for group in plan.parts())
    try:
        manifests.merge(
            read_groups_ahead(store, parts), {}, scratch, SCHEMA, summed=[FACT_ATTACKED, FACT_ZERO_GRADIENTS]
        )
    except manifests.MergeError as error:
        scratch.unlink(missing_ok=True)
        raise UnfinishedError(f"{error}; remove its shard, then run the same command again") from error
    store.publish(scratch, ATTACKS_FILE)
