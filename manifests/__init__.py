"""The manifest: Parquet rows, one per sample, that make a data set checkable without opening a tar.

A leaf of the project: it knows rows and files, and nothing of how they come about.
"""

from manifests.files import Merged, MergeError, merge, part_facts, write_part
from manifests.footer import RowGroup
from manifests.limits import check_indices, unfolded
from manifests.reading import EVERYWHERE, Where, announced, read_columns, read_facts, read_rows, read_slice, read_tables
from manifests.schema import COLUMNS, FAILED, OK, SCHEMA, Row
from manifests.seal import FACT_SEAL, is_sealed, is_sealed_file, seal, seal_file, with_blank_seal

__all__ = [
    "COLUMNS",
    "EVERYWHERE",
    "FACT_SEAL",
    "FAILED",
    "OK",
    "SCHEMA",
    "MergeError",
    "Merged",
    "Row",
    "RowGroup",
    "Where",
    "announced",
    "check_indices",
    "is_sealed",
    "is_sealed_file",
    "merge",
    "part_facts",
    "read_columns",
    "read_facts",
    "read_rows",
    "read_slice",
    "read_tables",
    "seal",
    "seal_file",
    "unfolded",
    "with_blank_seal",
    "write_part",
]
