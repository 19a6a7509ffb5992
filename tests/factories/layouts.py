"""Small data sets in every layout."""

import io
import json
import pickle
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

WNIDS = ("n02000000", "n01000000", "n03000000")
"""Not sorted, because labels follow the sorted order."""

LABELS = {"n01000000": 0, "n02000000": 1, "n03000000": 2}


def pixels(index: int, side: int = 32) -> np.ndarray:
    return np.random.default_rng(index).integers(0, 256, (side, side, 3)).astype(np.uint8)


def png(index: int, side: int = 32) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels(index, side)).save(buffer, "PNG")
    return buffer.getvalue()


def validation_names(count: int = 5) -> list[str]:
    return [f"ILSVRC2012_val_{index:08d}" for index in range(1, count + 1)]


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def imagefolder(root: Path) -> Path:
    for index in range(5):
        write(root / WNIDS[index % 3] / f"{index}.png", png(index))
    return root


def ilsvrc_val(root: Path) -> Path:
    """Write images with Kaggle's solution file, which is unordered and has CRLF and a byte order mark."""
    for index, name in enumerate(validation_names()):
        write(root / f"{name}.JPEG", png(index))
    rows = [f"{name},{WNIDS[index % 3]} 1 2 3 4 " for index, name in enumerate(validation_names())]
    write(root / "LOC_val_solution.csv", "\ufeff" + "\r\n".join(["ImageId,PredictionString", *reversed(rows)]))
    return root


def ilsvrc_val_tar(root: Path) -> Path:
    """Write an archive and a file with one wnid per line."""
    path = root / "ILSVRC2012_img_val.tar"
    members = {f"{name}.JPEG": png(index) for index, name in reversed(list(enumerate(validation_names())))}
    write_tar(path, members)
    write(root / "imagenet_2012_validation_synset_labels.txt", "\n".join(WNIDS[index % 3] for index in range(5)))
    return path


def imagenet_boxes(root: Path) -> Path:
    """Write images with bounding boxes, the development kit's class numbers, and a list of two of the three classes."""
    folder = root / "images"
    for index, name in enumerate(validation_names()):
        write(folder / f"{name}.JPEG", png(index))
        box = f"<xmin>{index}</xmin><ymin>2</ymin><xmax>20</xmax><ymax>30</ymax>"
        other = "<object><bndbox><xmin>0</xmin><ymin>0</ymin><xmax>1</xmax><ymax>1</ymax></bndbox></object>"
        xml = f"<annotation><object><bndbox>{box}</bndbox></object>{other}</annotation>"
        write(root / "Annotation" / "CLS-LOC" / "val" / f"{name}.xml", xml)
    write(root / "ILSVRC2012_validation_ground_truth.txt", "".join(f"{index % 3 + 1}\n" for index in range(5)))
    write(root / "map_clsloc.txt", "".join(f"{wnid} {number} name\n" for number, wnid in enumerate(WNIDS, start=1)))
    write(root / "wnids.txt", "n02000000\nn01000000\n")
    return folder


def hf_parquet(root: Path) -> Path:
    features = {"image": {"_type": "Image"}, "label": {"names": ["ant", "bee", "cow"], "_type": "ClassLabel"}}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for file, rows in {"validation-00000-of-00002": (0, 1, 2), "validation-00001-of-00002": (3, 4)}.items():
        images = pa.array([{"bytes": png(index), "path": None} for index in rows], kind)
        table = pa.table({"image": images, "label": pa.array([index % 3 for index in rows])})
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        (root / "data").mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / "data" / f"{file}.parquet", row_group_size=2)
    return root / "data"


def rows_of(side: int, count: int = 5) -> np.ndarray:
    """Return images as rows with one channel after another, as in CIFAR and downsampled ImageNet."""
    return np.stack([pixels(index, side).transpose(2, 0, 1).ravel() for index in range(count)])


def write_pickle(path: Path, content: dict[str, object]) -> None:
    write(path, pickle.dumps({key.encode(): value for key, value in content.items()}, protocol=2))


def cifar_10(root: Path) -> Path:
    folder = root / "cifar-10-batches-py"
    labels = [index % 3 for index in range(5)]
    write_pickle(folder / "test_batch", {"data": rows_of(32), "labels": labels, "filenames": [b"a.png"] * 5})
    write_pickle(folder / "batches.meta", {"label_names": [b"airplane", b"automobile", b"bird"]})
    return folder


def cifar_100(root: Path) -> Path:
    folder = root / "cifar-100-python"
    fine, coarse = [index % 3 for index in range(5)], [index % 2 for index in range(5)]
    write_pickle(folder / "test", {"data": rows_of(32), "fine_labels": fine, "coarse_labels": coarse})
    names = {"fine_label_names": [b"apple", b"aquarium_fish", b"baby"], "coarse_label_names": [b"fruit", b"fish"]}
    write_pickle(folder / "meta", names)
    return folder


def tiny_imagenet(root: Path) -> Path:
    folder = root / "tiny-imagenet-200"
    for index in range(5):
        write(folder / "val" / "images" / f"val_{index}.JPEG", png(index, 64))
    lines = [f"val_{index}.JPEG\t{WNIDS[index % 3]}\t0\t0\t62\t57\n" for index in reversed(range(5))]
    write(folder / "val" / "val_annotations.txt", "".join(lines))
    write(folder / "wnids.txt", "\n".join(WNIDS))
    return folder


def imagenet64(root: Path) -> Path:
    write_pickle(root / "val_data", {"data": rows_of(64), "labels": [index % 3 + 1 for index in range(5)]})
    return root


def imagenet64_npz(root: Path) -> Path:
    np.savez(root / "val_data.npz", data=rows_of(64), labels=np.array([index % 3 + 1 for index in range(5)]))
    return root


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def webdataset(root: Path) -> Path:
    for shard, indices in {"a-000000": (0, 1, 2), "a-000001": (3, 4)}.items():
        members = {}
        for index in indices:
            members[f"x/{index}.png"] = png(index)
            if shard == "a-000000":
                members[f"x/{index}.cls"] = str(index % 3).encode()
            else:
                members[f"x/{index}.json"] = json.dumps({"label": index % 3}).encode()
        write_tar(root / f"{shard}.tar", members)
    return root


LAYOUTS: Mapping[str, Callable[[Path], Path]] = {
    "imagefolder": imagefolder,
    "ilsvrc2012-val": ilsvrc_val,
    "ilsvrc2012-val-tar": ilsvrc_val_tar,
    "hf-parquet": hf_parquet,
    "cifar-10": cifar_10,
    "cifar-100": cifar_100,
    "tiny-imagenet": tiny_imagenet,
    "imagenet64": imagenet64,
    "webdataset": webdataset,
}
"""Kind -> function that writes a small data set of this kind. All are detected by their file names."""
