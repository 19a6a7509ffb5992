"""Small data sets without a manifest of their own, their indexes, and changes to manifests."""

import tarfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from PIL import Image

import manifests
from manifests import Row
from pipeline.datasets.index.manifest import index
from pipeline.datasets.opening import open_data_set
from pipeline.datasets.paths import file_digest


def write_image(path: Path, seed: int = 0, side: int = 16) -> Path:
    """Write an image of noise, different for each seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def write_folders(
    root: Path, classes: Sequence[str], conditions: Sequence[str] = ("fog/1", "fog/2"), side: int = 16
) -> Path:
    """Write two images of each class under each condition."""
    for number, (condition, name) in enumerate((condition, name) for condition in conditions for name in classes):
        for position in range(2):
            write_image(root / condition / name / f"image{position}.png", 2 * number + position, side)
    return root


def index_of(data: Path, classes: Sequence[str] = ()) -> Path:
    """Return a new index, written beside the data."""
    out = data.with_name(f"{data.name}-index")
    index(str(data), str(out), classes=classes)
    return out


def change_rows(data_set: Path, **columns: Callable[[int, Row], Any]) -> Path:
    """Replace columns of a manifest. Each column is a function of the row's index and the row."""
    path = data_set / "manifest.parquet"
    rows = list(manifests.read_rows(path))
    new = [
        row._replace(**{name: of(position, row) for name, of in columns.items()}) for position, row in enumerate(rows)
    ]
    manifests.write_part(new, manifests.read_facts(path), path)
    if (settings := data_set / "index.toml").exists():
        table = {**tomllib.loads(settings.read_text()), "manifest": file_digest(path)}
        settings.write_text(tomli_w.dumps(table))
    return data_set


def labels_by_pixels(data_set: Path) -> dict[tuple[str, int, str | None], int]:
    """Return (transform, level, digest of the pixels) -> label."""
    rows = manifests.read_rows(data_set / "manifest.parquet")
    return {(row.transform, row.level, row.pixel_sha256): row.label for row in rows}


def found(data: Path, out: Path, **options: Any) -> dict[str, Any]:
    """Index a data set, and return what the command prints with --json."""
    return index(str(data), str(out), **options).facts()


def write_arrays(folder: Path, labels: Any = None, **arrays: np.ndarray) -> Path:
    """Write arrays ``<name>.npy``, and labels beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    if labels is not None:
        np.save(folder / "labels.npy", labels)
    return folder


def pixels_by_sample(folder: Path) -> dict[tuple[str, int, int, str], bytes]:
    """Return (transform, level, label, last part of the id) -> decoded pixels."""
    data_set = open_data_set(str(folder))
    return {
        (row.transform, row.level, row.label, row.source_id.rpartition("/")[2]): data_set.pick(row).pixels().tobytes()
        for row in data_set.rows()
    }


def pack(folder: Path, tar: Path, prefix: str = "") -> Path:
    """Write the files of a folder to a tar, in an order other than that of the folders."""
    with tarfile.open(tar, "w") as file:
        for path in sorted(folder.rglob("*"), key=lambda each: (each.name, each)):
            if path.is_file():
                file.add(path, f"{prefix}{path.relative_to(folder)}")
    return tar
