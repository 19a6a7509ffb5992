"""No output changes its bytes without a new version."""

from collections.abc import Mapping

import pytest

from pipeline.images.encoders import ENCODERS
from pipeline.transforms.registry import FAMILIES
from tests.golden.digests import REPRODUCIBLE, Digest, committed, computed, differences

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ours() -> Mapping[str, Digest]:
    return computed()


@pytest.mark.parametrize("part", [*REPRODUCIBLE, "published-draws", "decoders", "operators", "encoders"])
def test_digests_equal_the_committed_ones(part: str, ours: Mapping[str, Digest]) -> None:
    mine, theirs = (
        {name: digest for name, digest in digests.items() if name.startswith(f"{part}/")}
        for digests in (ours, committed())
    )
    assert mine
    changed = list(differences(mine, theirs))
    assert not changed, "\n".join(changed)


def test_digests_cover_every_transform(ours: Mapping[str, Digest]) -> None:
    for family in ("corruptions", "perturbations", "syn2nat", "c-bar", "imagenet-3dcc-noise", "imagenet-w"):
        names = {name.split("/")[2] for name in ours if name.startswith(f"{family}/")}
        assert names == set(FAMILIES[family].names)


def test_digests_cover_every_encoder(ours: Mapping[str, Digest]) -> None:
    covered = {name.split("/")[1].split()[0] for name in ours if name.startswith("encoders/")}
    assert covered == set(ENCODERS), "add each encoder to ENCODERS in tests/golden/digests.py"


def test_differences_ask_for_a_new_version() -> None:
    old = {"a": Digest(1, "x", "y"), "gone": Digest(1, "x", "y")}
    new = {"a": Digest(1, "x", "z"), "new": Digest(1, "x", "y")}
    messages = "\n".join(differences(new, old))
    assert "a changed but still has version 1: increase the version" in messages
    assert "new has no committed digest: record it with python -m tests.golden.digests --write" in messages
    assert "gone is no longer computed" in messages
    (messages,) = differences({"a": Digest(2, "x", "z")}, {"a": old["a"]})
    assert "a has version 2" in messages
    assert list(differences(old, old)) == []
