"""Nothing that the project makes changes its bytes without a new version."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pipeline.images.encoders import ENCODERS
from pipeline.transforms.registry import FAMILIES
from tests.golden.digests import Digest, committed, computed, differences


@pytest.fixture(scope="module")
def ours() -> Mapping[str, Digest]:
    return computed()


@pytest.mark.parametrize("part", [*FAMILIES, "decoders", "operators", "encoders"])
def test_bytes_are_the_committed_ones(part: str, ours: Mapping[str, Digest]) -> None:
    mine, theirs = (
        {name: digest for name, digest in digests.items() if name.startswith(f"{part}/")}
        for digests in (ours, committed())
    )
    assert mine
    found = list(differences(mine, theirs))
    assert not found, "\n".join(found)


def test_every_transform_is_covered(ours: Mapping[str, Digest]) -> None:
    for family in ("corruptions", "perturbations"):
        names = {name.split("/")[2] for name in ours if name.startswith(f"{family}/")}
        assert names == set(FAMILIES[family].names)


def test_every_encoder_is_covered(ours: Mapping[str, Digest]) -> None:
    covered = {name.split("/")[1].split()[0] for name in ours if name.startswith("encoders/")}
    assert covered == set(ENCODERS), "give each encoder a row in tests/golden/digests.py"


def test_a_changed_digest_without_a_changed_version_is_told() -> None:
    old = {"a": Digest(1, "x", "y"), "gone": Digest(1, "x", "y")}
    new = {"a": Digest(1, "x", "z"), "new": Digest(1, "x", "y")}
    told = "\n".join(differences(new, old))
    assert "a has other bytes, but still version 1: raise the version" in told
    assert "new is not among the committed digests: record it with python -m tests.golden.digests --write" in told
    assert "gone is committed, but no longer made" in told
    (told,) = differences({"a": Digest(2, "x", "z")}, {"a": old["a"]})
    assert "version 2" in told
    assert list(differences(old, old)) == []
