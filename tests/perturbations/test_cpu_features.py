"""The same bytes with and without the vector extensions of the CPU."""

from __future__ import annotations

import hashlib
import json

import perturbations
from tests.factories.plain_cpu import on_a_plain_cpu, picture


def digests() -> dict[str, str]:
    """Name to the SHA-256 of the sequence, fast source."""
    return {
        name: hashlib.sha256(perturbations.perturb(picture(), name, difficulty=3, seed=17)).hexdigest()
        for name in perturbations.names("all")
    }


def test_vector_extensions_change_no_byte() -> None:
    plain, here = on_a_plain_cpu(__file__), digests()
    assert [key for key in here if here[key] != plain[key]] == []


if __name__ == "__main__":
    print(json.dumps(digests()))
