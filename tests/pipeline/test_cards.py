"""A data set read with third-party libraries: card, Croissant file, manifest and shards."""

import hashlib
import json
from pathlib import Path

import duckdb
import numpy as np
import yaml

from tests.factories.data_sets import rows_of


def test_croissant_is_valid_and_reads_the_manifest(built_once: Path) -> None:
    import mlcroissant

    described = mlcroissant.Dataset(jsonld=built_once / "croissant.json")
    assert not described.metadata.issues.errors
    records = [record["samples/key"].decode() for record in described.records("samples")]
    assert records == [row.key for row in rows_of(built_once)]
    (manifest,) = (node for node in described.metadata.distribution if node.id == "manifest")
    assert manifest.sha256 == hashlib.sha256((built_once / "manifest.parquet").read_bytes()).hexdigest()
    content = json.loads((built_once / "croissant.json").read_text())
    assert content["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    files = {each["contentUrl"]: each["sha256"] for each in content["distribution"] if "sha256" in each}
    assert files.keys() == {"manifest.parquet", "roots.json", *(row.shard for row in rows_of(built_once))}
    assert all(hashlib.sha256((built_once / name).read_bytes()).hexdigest() == sha for name, sha in files.items())
    roots = json.loads((built_once / "roots.json").read_text())
    assert {each["propertyID"]: roots[each["propertyID"]] for each in content["identifier"]} == {
        each["propertyID"]: each["value"] for each in content["identifier"]
    }


def test_the_card_configures_hugging_face(built_once: Path, tmp_path: Path) -> None:
    """``load_dataset`` on the folder offers one configuration per transform."""
    import datasets

    head = yaml.safe_load((built_once / "README.md").read_text().split("---")[1])
    assert [each["config_name"] for each in head["configs"]] == ["gaussian_noise", "contrast"]
    assert head["size_categories"] == ["n<1K"]
    names = datasets.get_dataset_config_names(str(built_once))
    assert names == ["gaussian_noise", "contrast"]
    table = datasets.load_dataset(str(built_once), "contrast", split="test", cache_dir=str(tmp_path))
    rows = {row.key: row for row in rows_of(built_once) if row.transform == "contrast"}
    assert sorted(table["__key__"]) == sorted(rows)
    for sample in table:
        row = rows[sample["__key__"]]
        assert (sample["cls"], sample["json"]["level"]) == (row.label, row.level)
        assert np.asarray(sample["jpg"]).shape == (224, 224, 3)


def test_the_card_describes_the_data_set(built_once: Path) -> None:
    text = (built_once / "README.md").read_text()
    for words in ("# imagenet-c", "gaussian_noise, contrast", "Levels | 1, 3 |", "Samples | 24", "quality=85", "ICLR"):
        assert words in text


def test_webdataset_reads_every_sample_once(built_once: Path) -> None:
    import webdataset

    rows = {row.key: row for row in rows_of(built_once)}
    urls = sorted(str(path) for path in built_once.rglob("*.tar"))
    samples = list(webdataset.WebDataset(urls, shardshuffle=False).decode("rgb8"))
    assert sorted(sample["__key__"] for sample in samples) == sorted(rows)
    for sample in samples:
        row = rows[sample["__key__"]]
        assert sample["cls"] == row.label
        assert sample["jpg"].shape == (224, 224, 3)
        assert sample["json"]["transform"] == row.transform
        assert sample["json"]["class_name"] == row.class_name


def test_duckdb_reads_the_manifest(built_once: Path) -> None:
    manifest = built_once / "manifest.parquet"
    query = f"SELECT transform, level, count(*) FROM '{manifest}' WHERE status = 'ok' GROUP BY ALL ORDER BY ALL"
    counts = duckdb.connect().execute(query).fetchall()
    assert counts == [(name, level, 6) for name in ("contrast", "gaussian_noise") for level in (1, 3)]
