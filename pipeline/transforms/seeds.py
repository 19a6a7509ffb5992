"""Seeds of outputs: one for each (seed, source id, transform, level), independent of time, place and order."""

import hashlib

SEED_LIMIT = 2**64
"""Upper limit (exclusive) of the seed of a build."""

_PURPOSE = b"robustshards"


def sample_seed(seed: int, source_id: str, transform: str, level: int) -> int:
    """Return the 128-bit seed of one output: a BLAKE2b hash keyed by the seed of the build (0 <= seed < 2**64).

    A hash makes seeds of neighbouring ids and levels independent, which a sum would not. The length of each field
    precedes it, so that different tuples never give the same bytes.
    """
    fields = (source_id.encode(), transform.encode(), str(level).encode())
    data = b"".join([part for field in fields for part in (len(field).to_bytes(4, "little"), field)])
    digest = hashlib.blake2b(data, digest_size=16, key=seed.to_bytes(8, "little"), person=_PURPOSE).digest()
    return int.from_bytes(digest, "little")
