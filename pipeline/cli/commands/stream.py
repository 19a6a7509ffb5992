"""``robustshards streams`` and ``robustshards stream``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.cli.console import print_json, print_line, print_table
from pipeline.cli.options import Printing, command
from pipeline.evaluate.predict.request import PARAMETERS, STREAM
from pipeline.settings import ARGUMENT, IMAGES, REPORTING, REQUIRED, integer, location, setting, text


@dataclass(frozen=True)
class StreamSettings(Printing):
    """A stream.

    Attributes:
        protocol: Protocol; robustshards streams lists them.
        data_set: Folder or URL of a data set that build, render, attack or index wrote; for ccc, of clean images.
        parameters: Parameters of the protocol, e.g. severity=5,order=5,gamma=0.1. Default: those published.
        seed: Seed of the order.
        batch_size: Batch size. 0 (default) is that of the protocol.
        subset: Subset of the images: robustbench-5000. Default: all.
        out: Parquet file to write the order to: batch, entry, transform, level, source_id and label of each sample.
        data: For an index: folder of the indexed files. For a rendered data set: its source images. Default: where this
            machine indexed or rendered them.
    """

    protocol: str = setting(REQUIRED, text("PROTOCOL"), option=ARGUMENT)
    data_set: str = setting(REQUIRED, text("FOLDER"), option=ARGUMENT)
    parameters: Mapping[str, Any] | None = setting(None, PARAMETERS, STREAM)
    seed: int = setting(0, integer(0), STREAM)
    batch_size: int = setting(0, integer(0), STREAM)
    subset: str | None = setting(None, text("NAME"), STREAM)
    out: str | None = setting(None, location("FILE"), REPORTING)
    data: str | None = setting(None, location(), IMAGES)


@command()
def streams(settings: Printing) -> None:
    """List the protocols of streams for models that adapt at test time, and their parameters."""
    from pipeline.loaders.protocols import PROTOCOLS

    if settings.as_json:
        print_json(
            protocols={
                name: {
                    "conditions": each.conditions,
                    "images": each.images,
                    "parameters": each.defaults,
                    "batch_size": each.batch_size,
                    "reported": each.reported,
                    "source": each.source,
                }
                for name, each in PROTOCOLS.items()
            }
        )
        return
    rows = [
        (name, each.conditions, each.images, _listed(each.defaults), each.reported, each.source)
        for name, each in PROTOCOLS.items()
    ]
    print_table(("protocol", "conditions", "images", "parameters", "reported", "source"), rows)


@command()
def stream(settings: StreamSettings) -> None:
    """Print what a protocol shows of a data set: length, entries, and how labels follow one another."""
    from pipeline.datasets.opening import open_data_set
    from pipeline.errors import UserError
    from pipeline.loaders.ccc_samples import open_ccc
    from pipeline.loaders.protocols import CCC
    from pipeline.loaders.rows import read_schedule, with_clean_images, write_order

    given, ids, missing = settings.parameters or {}, None, 0
    if settings.protocol == CCC:
        if settings.subset or settings.out or settings.data:
            raise UserError("--subset, --out and --data cannot be combined with the protocol ccc: omit them")
        schedule = open_ccc(settings.data_set, given, settings.seed).schedule()
    else:
        data_set = with_clean_images(open_data_set(settings.data_set, settings.data), settings.protocol, given)
        schedule, ids, missing = read_schedule(
            data_set, settings.protocol, given, settings.seed, subset=settings.subset
        )
    batch_size = settings.batch_size or schedule.protocol.batch_size
    facts = {
        "protocol": schedule.protocol.name,
        "parameters": schedule.parameters,
        "seed": schedule.seed,
        "batch size": batch_size,
        **schedule.facts(batch_size),
        **({"missing images of the subset": missing} if settings.subset else {}),
        "order sha256": schedule.digest,
    }
    if settings.out:
        write_order(data_set, schedule, ids, batch_size, settings.out)
    if settings.as_json:
        steps = [" ".join(map(str, step)) for step in schedule.steps]
        print_json(**facts, conditions=steps, sizes=schedule.sizes)
        return
    facts["parameters"] = _listed(schedule.parameters)
    print_table(("fact", "value"), [(name, _shown(value)) for name, value in facts.items()])
    rows = zip(schedule.steps, schedule.sizes, schedule.visits, strict=True)
    print_table(
        ("entry", "conditions", "samples", "visit"),
        [(number, ", ".join(map(str, step)), f"{size:,}", visit) for number, (step, size, visit) in enumerate(rows)],
    )
    if settings.out:
        print_line(f"wrote the order to {settings.out}")


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={'default' if value is None else value}" for name, value in parameters.items())


def _shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
