"""One random stream for each (seed, source id, transform, level), independent of where and when it is used."""

from __future__ import annotations

import hashlib

SEED_LIMIT = 2**64
"""Build seeds are whole numbers from 0 up to, not including, this."""

_PURPOSE = b"robustshards"


def sample_seed(seed: int, source_id: str, transform: str, level: int) -> int:
    """Return the 128-bit seed of one output: a BLAKE2b hash keyed by the build's seed (0 <= seed < 2**64).

    A hash, not a sum: neighbouring seeds, ids and levels share nothing. Each field is preceded by its length, so
    that no two tuples spell the same bytes.
    """
    state = hashlib.blake2b(digest_size=16, key=seed.to_bytes(8, "little"), person=_PURPOSE)
    for field in (source_id, transform, str(level)):
        data = field.encode()
        state.update(len(data).to_bytes(4, "little"))
        state.update(data)
    return int.from_bytes(state.digest(), "little")
