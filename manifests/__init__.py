"""The manifest of a data set: a Parquet file with one row per sample, written in parts and merged.

The package reads and writes rows. It imports no other package of the project.
"""

from manifests.files import Merged, MergeError, merge, part_facts, write_listing, write_part
from manifests.footer import RowGroup
from manifests.limits import MAX_ROWS, check_indices, decode_dictionary
from manifests.reading import (
    NO_FILTERS,
    Filters,
    listing_rows,
    matching_rows,
    read_columns,
    read_facts,
    read_listing,
    read_row_groups,
    read_rows,
    read_slice,
    read_slices,
    read_tables,
    table_rows,
)
from manifests.schema import COLUMNS, FAILED, LISTING, OK, SCHEMA, ListedImage, Row
from manifests.seal import FACT_SEAL, is_sealed, is_sealed_file, seal, seal_file, with_blank_seal

__all__ = [
    "COLUMNS",
    "FACT_SEAL",
    "FAILED",
    "LISTING",
    "MAX_ROWS",
    "NO_FILTERS",
    "OK",
    "SCHEMA",
    "Filters",
    "ListedImage",
    "MergeError",
    "Merged",
    "Row",
    "RowGroup",
    "check_indices",
    "decode_dictionary",
    "is_sealed",
    "is_sealed_file",
    "listing_rows",
    "matching_rows",
    "merge",
    "part_facts",
    "read_columns",
    "read_facts",
    "read_listing",
    "read_row_groups",
    "read_rows",
    "read_slice",
    "read_slices",
    "read_tables",
    "seal",
    "seal_file",
    "table_rows",
    "with_blank_seal",
    "write_listing",
    "write_part",
]
