"""Verification of the data set in a folder."""

from functools import partial

from pipeline.datasets.adversarial import check_perturbation, clean_pixels
from pipeline.datasets.findings import Checked, Findings
from pipeline.datasets.opening import open_data_set


def verify(
    output: str,
    threads: int = 1,
    checked: Checked = lambda findings: None,
    data: str | None = None,
    source: str | None = None,
    quick: bool = False,
) -> Findings:
    """Compare a finished data set with its manifest, or a rendered one with its source.

    Args:
        output: Path or URL of the data set.
        threads: Number of shards checked concurrently.
        checked: Function called at intervals with the results so far.
        data: Files of an index, or source of a rendered data set, see ``open_data_set``.
        source: For adversarial images: path or URL of the clean data set, see ``clean_pixels``.
        quick: Whether to compare only names, sizes and counts, without reading payloads.

    Raises:
        UserError: The folder is not a finished data set, or this machine has other libraries than rendered it.
    """
    data_set = open_data_set(output, data)
    if quick:
        return data_set.verify_listing(checked)
    if not data_set.attack:
        return data_set.verify(threads, checked)
    clean = clean_pixels(output, source)
    found = data_set.verify(threads, checked, partial(check_perturbation, data_set, clean) if clean else None)
    if clean is None:
        found.warnings.append(
            "the perturbations were not compared with their budgets, because the clean images are not known on this "
            "machine: give --source with the clean data set"
        )
    return found
