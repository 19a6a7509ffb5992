"""Proofs that an image belongs to a root: the digests that lead from its leaf to the root of its condition."""

from typing import Annotated, Literal

from pydantic import Field

import manifests
from pipeline.config import StrictTable, validated
from pipeline.datasets.base import read_manifest
from pipeline.datasets.roots import FORMAT, Count, Roots, Sha256, Text, condition_leaves, parsed_json, sample_leaf
from pipeline.datasets.samples import pixel_digest
from pipeline.datasets.trees import audit_path, follow, tree_root
from pipeline.errors import SampleError, UserError
from pipeline.images.decoders import decode
from pipeline.storage import Store, open_store, read_small
from pipeline.text import printable
from pipeline.transforms.family import Condition


class Proof(StrictTable):
    """A proof. ``path`` has the siblings from the leaf upwards (RFC 6962 section 2.1.1)."""

    format: Literal[1]
    source_id: Text
    transform: Text
    level: Count
    frames: Count | None
    height: Count | None
    width: Count | None
    pixel_sha256: Sha256 | None
    index: Count
    samples: Count
    path: Annotated[tuple[Sha256, ...], Field(max_length=64)]
    pixel_root: Sha256


def prove_sample(store: Store, source_id: str, transform: str, level: int) -> Proof:
    """Return the proof that a sample of a built or indexed data set belongs to the pixel root of its condition.

    Raises:
        UserError: There is no such sample, or the manifest is missing or damaged.
    """
    condition = Condition(transform, level)
    ids, leaves = condition_leaves(store, condition)
    if source_id not in ids:
        others = f" ({len(ids):,} others, such as {printable(ids[0])})" if ids else ""
        raise UserError(
            f"{store.root} has no {printable(source_id)} under {condition}{others}: give the id of an image, "
            "and a transform and level that robustshards roots lists"
        )
    where: manifests.Filters = {"transform": [transform], "level": [level], "source_id": [source_id]}
    (row,) = read_manifest(store, manifests.read_rows, where)
    failed = row.status == manifests.FAILED
    index = ids.index(source_id)
    return Proof(
        format=FORMAT,
        source_id=source_id,
        transform=transform,
        level=level,
        **{name: None if failed else getattr(row, name) for name in ("frames", "height", "width", "pixel_sha256")},
        index=index,
        samples=len(ids),
        path=tuple(each.hex() for each in audit_path(leaves, index)),
        pixel_root=tree_root(leaves).hex(),
    )


def read_proof(place: str) -> Proof:
    """Return the proof in a file. Raise UserError if it is missing or damaged."""
    folder, _, name = place.rpartition("/")
    content = read_small(open_store(folder or "."), name)
    return validated(Proof, parsed_json(content, place), place)


def proof_fault(proof: Proof, roots: Roots, image: bytes | None = None) -> str:
    """Return what is wrong with a proof; empty if it leads to the root of its condition.

    Args:
        proof: The proof.
        roots: The roots that the sample should belong to.
        image: Content of a lossless image file, whose pixels should be those of the sample.
    """
    condition = Condition(proof.transform, proof.level)
    listed = roots.by_condition().get(condition)
    if listed is None:
        return f"the list of roots has no {printable(str(condition))}"
    leaf = sample_leaf(condition, proof.source_id, (proof.frames, proof.height, proof.width), proof.pixel_sha256)
    found = follow(leaf, proof.index, proof.samples, [bytes.fromhex(each) for each in proof.path])
    if found is None or (proof.samples, found.hex()) != (listed.samples, listed.pixel_root):
        return f"the proof does not lead to the root of {printable(str(condition))}, {listed.pixel_root}"
    if image is not None:
        try:
            digest = pixel_digest(decode(image))
        except SampleError as error:
            return f"the image cannot be decoded: {error}"
        if digest != proof.pixel_sha256:
            return f"the image has the pixels {digest}, not {proof.pixel_sha256}"
    return ""
