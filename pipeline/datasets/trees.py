"""Merkle trees as in RFC 6962 section 2.1, of many short leaves at once."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MANY = 256
"""Number of texts from which on compiled code hashes them: compiling it takes seconds at the first use."""

LEAF, NODE, DIGEST = 0, 1, 32
"""First byte of what is hashed for a leaf and for a node, and the bytes of a digest."""

Digests = NDArray[np.uint8]
"""Digests, (N, 32)."""


def tree_root(leaves: Digests) -> bytes:
    """Return the root of the tree over hashed leaves.

    Hashing pairs level by level, an odd last node being kept, gives the splits of RFC 6962.
    """
    if not len(leaves):
        return hashlib.sha256().digest()
    while len(leaves) > 1:
        leaves = _parents(leaves)
    return leaves[0].tobytes()


def audit_path(leaves: Digests, index: int) -> list[bytes]:
    """Return the digests that lead from a leaf to the root (RFC 6962 section 2.1.1)."""
    path = []
    while len(leaves) > 1:
        if index ^ 1 < len(leaves):
            path.append(leaves[index ^ 1].tobytes())
        leaves, index = _parents(leaves), index // 2
    return path


def follow(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root to which a path leads from a leaf, one of ``count``. None if the path has another length."""
    digests = iter(path)
    while count > 1:
        if index ^ 1 < count:
            sibling = next(digests, None)
            if sibling is None:
                return None
            left, right = (sibling, leaf) if index & 1 else (leaf, sibling)
            leaf = hashlib.sha256(bytes([NODE]) + left + right).digest()
        index, count = index // 2, (count + 1) // 2
    return leaf if next(digests, None) is None else None


def _parents(nodes: Digests) -> Digests:
    pairs = len(nodes) // 2
    content = np.ascontiguousarray(nodes[: 2 * pairs]).reshape(-1)
    parents = sha256_of(content, np.arange(pairs + 1) * (2 * DIGEST), NODE)
    return np.concatenate([parents, nodes[2 * pairs :]])


def hashed(leaves: pa.Array) -> Digests:
    """Return the digests of leaves, given as texts."""
    _, offsets, content = leaves.buffers()
    starts = np.frombuffer(offsets, np.int32)[leaves.offset : leaves.offset + len(leaves) + 1] if len(leaves) else [0]
    return sha256_of(np.frombuffer(content or b"", np.uint8), np.asarray(starts, np.int64), LEAF)


def sha256_of(content: NDArray[np.uint8], offsets: NDArray[np.int64], prefix: int) -> Digests:
    """Return the SHA-256 of a byte and each text, (N, 32).

    Args:
        content: The texts, joined.
        offsets: Start of each text, and the end of the last one.
        prefix: The byte.
    """
    digests = np.empty((len(offsets) - 1, DIGEST), np.uint8)
    if len(digests) >= MANY:
        from corruptions.kernels.digests import sha256_each

        sha256_each(content, offsets, prefix, digests)
        return digests
    data, first = content.tobytes(), bytes([prefix])
    for index, (start, stop) in enumerate(pairwise(offsets.tolist())):
        digests[index] = np.frombuffer(hashlib.sha256(first + data[start:stop]).digest(), np.uint8)
    return digests
