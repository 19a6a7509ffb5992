"""Shards and manifests read by other libraries: WebDataset, Hugging Face datasets, DuckDB."""

from pathlib import Path

import duckdb
import numpy as np

import manifests


def rows_of(folder: Path) -> dict[str, manifests.Row]:
    return {row.key: row for row in manifests.read_rows(folder / "manifest.parquet")}


def test_webdataset_reads_every_sample_once(built_once: Path) -> None:
    import webdataset

    rows = rows_of(built_once)
    urls = sorted(str(path) for path in built_once.rglob("*.tar"))
    samples = list(webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8"))
    assert sorted(sample["__key__"] for sample in samples) == sorted(rows)
    for sample in samples:
        row = rows[sample["__key__"]]
        assert sample["cls"] == row.label
        assert sample["jpg"].shape == (224, 224, 3)
        assert sample["json"]["transform"] == row.transform
        assert sample["json"]["class_name"] == row.class_name


def test_hugging_face_reads_every_sample_once(built_once: Path, tmp_path: Path) -> None:
    import datasets

    rows = rows_of(built_once)
    files = sorted(str(path) for path in built_once.rglob("*.tar"))
    table = datasets.load_dataset(
        "webdataset", data_files={"test": files}, split="test", cache_dir=str(tmp_path), num_proc=None
    )
    assert sorted(table["__key__"]) == sorted(rows)
    for sample in table:
        assert sample["cls"] == rows[sample["__key__"]].label
        assert np.asarray(sample["jpg"]).shape == (224, 224, 3)
        assert sample["json"]["level"] == rows[sample["__key__"]].level


def test_duckdb_reads_the_manifest(built_once: Path) -> None:
    manifest = built_once / "manifest.parquet"
    counts = (
        duckdb.connect()
        .execute(f"SELECT transform, level, count(*) FROM '{manifest}' WHERE status = 'ok' GROUP BY ALL ORDER BY ALL")
        .fetchall()
    )
    assert counts == [(name, level, 6) for name in ("contrast", "gaussian_noise") for level in (1, 3)]
