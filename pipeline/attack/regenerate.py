"""Deep verification of adversarial images: randomly chosen ones are attacked again, and compared."""

import random
from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow.parquet as pq

import manifests
from manifests import Row
from pipeline.attack.clean import CleanImages
from pipeline.attack.sample_maker import AttackedSampleMaker, Outcome, attack_of
from pipeline.attack.worker import Loading
from pipeline.builder.sample_maker import Failure
from pipeline.datasets.built import Built
from pipeline.datasets.findings import Findings
from pipeline.datasets.opening import open_built
from pipeline.datasets.paths import ATTACKS_FILE
from pipeline.errors import UserError
from pipeline.evaluate.models.loading import current_folder
from pipeline.software import device_name
from pipeline.sources.base import SourceImage
from pipeline.storage import trusted_locations
from pipeline.text import counted, shown
from pipeline.transforms.family import Condition


def regenerate(
    output: str,
    clean: str,
    model: str | None,
    samples: int,
    seed: int,
    *,
    weights: str | None = None,
    device: str = "cpu",
    trust_model: bool = False,
) -> Findings:
    """Attack the batches of randomly chosen samples again.

    On the device that made them, their bytes must be equal. Another device may make other images; whether the model is
    right after the attack is then compared, and differences are a warning.

    Args:
        output: Folder or URL of the data set.
        clean: Folder or URL of the clean data set.
        model: The model that was attacked. It is not taken from the data set, which may be untrusted.
        samples: Number of samples.
        seed: Seed of the random choice.
        weights: File with the state dict of the model, or None.
        device: Device that computes.
        trust_model: Whether to load model files that can run code.

    Raises:
        UserError: The data set, the clean images or the model cannot be used.
    """
    data_set = open_built(output)
    table = attack_of(data_set.recipe)
    if model is None:
        named = f", with --weights {shown(table.model.weights)}" if table.model.weights else ""
        raise UserError(
            f"the images of {output} were made with a model: give the same one with --model (the data set names "
            f"{shown(table.model.spec)}{named})"
        )
    loading = Loading(trusted_locations.absolute(clean), device, None, current_folder(), trust_model)
    here = device_name(device)
    about = table.model.model_copy(update={"spec": model, "weights": weights or ""})
    attacker = loading.attacker(about, here, data_set.recipe.seed)
    images = CleanImages(clean)
    maker = AttackedSampleMaker(data_set.recipe, images, attacker, [clean])
    keys = [row.key for row in data_set.rows()]
    chosen = set(random.Random(seed).sample(keys, min(samples, len(keys))))
    findings, recorded, other = Findings(samples=len(chosen)), _right_after(data_set), 0
    for rows, wanted in _batches(data_set, chosen, table.batch):
        for row, outcome in zip(rows, _attacked(maker, images, rows), strict=True):
            if row.key not in wanted:
                continue
            if here == table.device:
                payload = outcome.payload
                if (None if isinstance(payload, Failure) else payload.payload_sha256) != row.payload_sha256:
                    findings.fault(row.key, "the image that was attacked again differs from the one in the data set")
            else:
                other += outcome.record is not None and outcome.record.right_after != recorded.get(row.key)
    if here != table.device:
        findings.warnings.append(
            f"this device, {here}, is not the {shown(table.device)} that made the images, so only the outcomes of the "
            f"attacks were compared: {counted(other, 'outcome')} of {len(chosen):,} "
            f"{'differs' if other == 1 else 'differ'}"
        )
    return findings


def _batches(data_set: Built, chosen: set[str], batch: int) -> Iterator[tuple[list[Row], set[str]]]:
    """Yield the rows of each batch that has chosen samples, and the keys of these."""
    for _, group in groupby(data_set.rows(), key=lambda row: row.shard):
        rows = list(group)
        for first in range(0, len(rows), batch):
            part = rows[first : first + batch]
            if wanted := chosen & {row.key for row in part}:
                yield part, wanted


def _attacked(maker: AttackedSampleMaker, clean: CleanImages, rows: Sequence[Row]) -> Iterator[Outcome]:
    """Attack a batch again."""
    images = [SourceImage(row.source_id, row.label, row.class_name, row.origin, row.size or 0) for row in rows]
    known = clean.rows([image.id for image in images])
    batch = maker.batch([maker.read(known, image) for image in images])
    return maker.outcomes(batch, Condition(rows[0].transform, rows[0].level))


def _right_after(data_set: Built) -> dict[str, bool]:
    """Return key -> whether the model was right after the attack; empty if it is not recorded."""
    path = data_set.store.path(ATTACKS_FILE)
    if data_set.store.size(ATTACKS_FILE) < 0 or not manifests.read_facts(path):
        return {}
    columns = pq.read_table(path, columns=["key", "right_after"]).to_pydict()
    return dict(zip(columns["key"], columns["right_after"], strict=True))
