"""``robustshards roots``, ``compare`` and ``prove``."""

from dataclasses import dataclass

import typer

from pipeline.cli.console import print_json, print_table
from pipeline.cli.options import Printing, Reading, command
from pipeline.errors import Exit, UserError
from pipeline.settings import ARGUMENT, EXECUTION, FLAG, REQUIRED, integer, location, setting, text
from pipeline.text import counted, printable


@dataclass(frozen=True)
class RootsSettings(Reading):
    """The roots of a data set.

    Attributes:
        render: For a rendered data set: make every sample once, and write roots.json into its folder.
    """

    render: bool = setting(False, FLAG, EXECUTION)


@command()
def roots(settings: RootsSettings) -> None:
    """Print the roots of a data set: one digest for all images of each condition, and of the whole.

    Equal roots mean equal images. They are computed from the manifest; no shard is read.
    """
    from pipeline.datasets.opening import open_data_set
    from pipeline.datasets.rendered import Rendered
    from pipeline.datasets.roots import read_roots, render_roots, roots_of
    from pipeline.storage import open_store

    store = open_store(settings.data_set)
    if settings.render:
        data_set = open_data_set(settings.data_set, settings.data)
        if not isinstance(data_set, Rendered):
            raise UserError(f"--render does not apply to {settings.data_set}, whose samples are stored: omit --render")
        found = render_roots(data_set)
    else:
        found = roots_of(store)
        recorded = read_roots(store)
        if recorded not in (None, found):
            raise UserError(
                f"{store.root}/roots.json does not belong to the manifest beside it: one of the two was changed; run "
                "the same build or index command again, or copy both again"
            )
    if settings.as_json:
        print_json(**found.model_dump(mode="json"))
        return
    print_table(
        ("transform", "level", "version", "samples", "failed", "pixel root", "payload root"),
        [(*tuple(each.model_dump().values())[:6], each.payload_root or "") for each in found.conditions],
    )
    print_table(
        (printable(found.recipe), counted(found.samples, "sample")),
        [(name.replace("_", " "), getattr(found, name) or "unknown")
         for name in ("pixel_root", "payload_root", "label_root", "source_root")],
    )  # fmt: skip


@dataclass(frozen=True)
class CompareSettings(Printing):
    """Two data sets.

    Attributes:
        first: Folder or URL of a data set, a roots.json, or the name of a shipped list of roots.
        second: The same for the other one. Omit it with --published.
        common: Compare the conditions that both have; others are listed and do not count as differences.
        published: List of roots of published images, in place of the second; only pixels are compared.
    """

    first: str = setting(REQUIRED, text("A"), option=ARGUMENT)
    second: str | None = setting(None, text("B"), option=ARGUMENT)
    common: bool = setting(False, FLAG, "Comparison")
    published: str | None = setting(None, text("LIST"), "Comparison")


@command()
def compare(settings: CompareSettings) -> None:
    """Compare two data sets by their roots, and name the likely cause of each difference.

    Exits with 0 if images and labels are equal, and with 1 if not.
    """
    from pipeline.datasets.compare import compare as compare_roots

    second = settings.second or settings.published
    if second is None or (settings.second and settings.published):
        raise UserError("give two things to compare: A and B, or A and --published LIST")
    found = compare_roots(settings.first, second, settings.common, settings.published is not None)
    settings.show(found.lines(), **found.facts())
    if not found.equal:
        raise typer.Exit(Exit.FAULTS)


@dataclass(frozen=True)
class ProveSettings(Printing):
    """A proof that an image belongs to a root.

    Attributes:
        data: Folder or URL of a data set; with --check also a roots.json, or the name of a shipped list of roots.
        source_id: Source id of the image.
        transform: Its transform.
        level: Its level.
        check: File with a proof: check that it leads to the root that DATA has.
        image: With --check: a losslessly stored image, whose pixels must be those of the proof.
    """

    data: str = setting(REQUIRED, text("DATA"), option=ARGUMENT)
    source_id: str | None = setting(None, text("SOURCE_ID"), option=ARGUMENT)
    transform: str | None = setting(None, text("NAME"), "Proof")
    level: int = setting(0, integer(0), "Proof")
    check: str | None = setting(None, location("FILE"), "Check")
    image: str | None = setting(None, location("FILE"), "Check")


@command()
def prove(settings: ProveSettings) -> None:
    """Print the digests that tie one image to the root of its condition as JSON, or check them.

    Someone with a published root needs only the image and this proof. Exits with 1 if a checked proof is wrong.
    """
    from pathlib import Path

    from pipeline.datasets.compare import read_listed
    from pipeline.datasets.proofs import proof_fault, prove_sample, read_proof
    from pipeline.storage import open_store

    if settings.check is None:
        if settings.source_id is None or settings.transform is None:
            raise UserError("give a SOURCE_ID and --transform to prove, or --check FILE with a proof")
        found = prove_sample(open_store(settings.data), settings.source_id, settings.transform, settings.level)
        print_json(**found.model_dump(mode="json"))
        return
    proof = read_proof(settings.check)
    image = None if settings.image is None else Path(settings.image).read_bytes()
    fault = proof_fault(proof, read_listed(settings.data).roots, image)
    line = fault or f"{printable(proof.source_id)} belongs to the root {proof.pixel_root}"
    settings.show([line], valid=not fault, fault=fault)
    if fault:
        raise typer.Exit(Exit.FAULTS)
