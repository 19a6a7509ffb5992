"""Streams of CCC as batches: the same for any processes, and matrices that are refused."""

import pickle
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from corruptions import ccc
from pipeline.builder import ccc_shards
from pipeline.builder.ccc_shards import write_shards
from pipeline.errors import UserError
from pipeline.images.encoders import Jpeg
from pipeline.render.ccc import ccc_images, read_accuracies
from robustshards.torch import CCC
from tests.conftest import ROOT

SETTINGS = {"baseline": 0, "speed": 5, "seed": 44, "batch_size": 4, "images": 18}


@pytest.fixture(scope="module")
def matrix() -> dict[str, np.ndarray]:
    """Return a matrix of the four hard noises whose accuracies fall in both severities."""
    percents = np.add.outer(np.arange(21), np.arange(21))[::-1, ::-1] * 2.0
    return dict.fromkeys(ccc.pair_keys(ccc.HARD).values(), percents)


def read(stream: Any) -> list[Any]:
    return [(images.tolist(), labels.tolist()) for images, labels, *_ in stream]


def test_batches_are_cut_from_the_stream_and_are_the_same_for_any_processes(
    small_source: Path, matrix: dict[str, np.ndarray]
) -> None:
    stream = CCC(small_source, matrix, **SETTINGS)
    expected = read(stream)
    assert [len(labels) for _, labels in expected] == [4, 4, 4, 4, 2]
    assert len(stream) == 5
    assert read(DataLoader(stream, batch_size=None, num_workers=2)) == expected
    ranks = [read(CCC(small_source, matrix, **SETTINGS, rank=rank, world_size=2)) for rank in range(2)]
    assert [*ranks[0], *ranks[1]] == [*expected[::2], *expected[1::2]]
    stream.seek(3)
    assert read(stream) == expected[3:]
    iterator = iter(stream)
    next(iterator)
    resumed = CCC(small_source, matrix, **SETTINGS)
    resumed.load_state_dict(stream.state_dict())
    assert read(resumed) == expected[1:]
    with pytest.raises(UserError, match="belongs to another stream"):
        CCC(small_source, matrix, **{**SETTINGS, "seed": 43}).load_state_dict(stream.state_dict())


def test_items_are_what_the_step_does_to_the_photographs(small_source: Path, matrix: dict[str, np.ndarray]) -> None:
    columns = ("step", "source_id", "first", "first_severity", "second", "second_severity")
    stream = CCC(small_source, matrix, **{**SETTINGS, "batch_size": None}, as_="array", columns=columns)
    items = list(stream)
    assert [item[2]["step"] for item in items] == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 3
    assert len({item[2]["source_id"] for item in items[:5]}) == 5
    steps = ccc.walk(matrix, 0, 44)
    walked = [next(steps) for _ in range(4)]
    for image, _, known in items:
        step = walked[known["step"]]
        assert ccc.Step(*(known[name] for name in ccc.Step._fields)) == step
        assert image.shape == (224, 224, 3)
    tensors, floats = (next(iter(CCC(small_source, matrix, **SETTINGS, as_=form)))[0] for form in ("tensor", "float"))
    for (image, *_), tensor, values in zip(items[:4], tensors, floats, strict=True):
        np.testing.assert_array_equal(tensor.permute(1, 2, 0), image)
        np.testing.assert_array_equal(values, tensor / 255)
    plain = next(iter(CCC(small_source, matrix, **SETTINGS, as_="array", pixels=True)))[0][0].numpy()
    np.testing.assert_array_equal(items[0][0], Jpeg().stored(plain))
    assert (plain != items[0][0]).any()


def test_paths_through_the_example_matrix_keep_the_accuracy_of_the_baseline() -> None:
    matrix = read_accuracies(str(ROOT / "examples" / "lite0_matrix.npz"), 10)
    for values in matrix.values():
        assert len(ccc.path(values, 0)) == 41
        assert np.mean([values[cell] for cell in ccc.path(values, 10)]) == pytest.approx(10, abs=0.5)


def test_stored_parts_have_the_members_of_the_published_tars(
    small_source: Path, tmp_path: Path, matrix: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ccc_shards, "SHARD_IMAGES", 6)  # two steps of 5 images
    made = ccc_images(str(small_source), matrix, ccc.StreamKey(0, 5, 44), 18, encode=False)
    done: list[int] = []
    assert write_shards(made, str(tmp_path), 1, done.append) == 2
    assert done == [10, 8]
    columns = ("source_id", "first", "first_severity", "second", "second_severity")
    items = list(CCC(small_source, matrix, **{**SETTINGS, "batch_size": None}, as_="array", columns=columns))
    with tarfile.open(tmp_path / "shards" / "ccc-000001.tar") as tar:
        names = tar.getnames()
        read = {name: tar.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    assert names[:4] == ["sample_10.input.jpg", "sample_10.output.cls", "sample_10.info", "sample_11.input.jpg"]
    image, label, known = items[12]
    np.testing.assert_array_equal(Jpeg().decode(read["sample_12.input.jpg"]), image)
    assert read["sample_12.output.cls"] == str(label).encode()
    folder, _, file = known["source_id"].partition("/")
    assert read["sample_12.info"].decode().startswith(f"++dir++{folder}++name++{file}.")
    assert (
        read["sample_12.info"]
        .decode()
        .endswith("++n1++{first}++s1++{first_severity}++n2++{second}++s2++{second_severity}".format(**known))
    )
    (tmp_path / "shards" / "ccc-000000.tar").unlink()
    kept = (tmp_path / "shards" / "ccc-000001.tar").stat().st_mtime_ns
    write_shards(made, str(tmp_path), 1, done.append)
    assert (tmp_path / "shards" / "ccc-000000.tar").exists()
    assert (tmp_path / "shards" / "ccc-000001.tar").stat().st_mtime_ns == kept
    with pytest.raises(UserError, match="another stream or number of images"):
        write_shards(replace(made, length=17), str(tmp_path), 1, done.append)
    (tmp_path / "ccc.json").unlink()
    with pytest.raises(UserError, match=r"contains shards/ but no ccc\.json"):
        write_shards(made, str(tmp_path), 1, done.append)


def test_damaged_and_unlabelled_images_are_named(
    small_source: Path, tmp_path: Path, matrix: dict[str, np.ndarray]
) -> None:
    folder = Path(shutil.copytree(small_source, tmp_path / "source"))
    damaged = next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != "")
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(UserError, match=f"cannot read the source image .*{damaged.name}"):
        list(CCC(folder, matrix, **SETTINGS))
    shutil.copy(next(iter(sorted(small_source.rglob("*.*[gG]")))), tmp_path / "flat.png")
    for index in range(5):
        shutil.copy(tmp_path / "flat.png", tmp_path / f"{index}.png")
    shutil.rmtree(folder)
    with pytest.raises(UserError, match="images without labels: pass unlabelled=True"):
        CCC(tmp_path, matrix, **SETTINGS)
    assert next(iter(CCC(tmp_path, matrix, **SETTINGS, unlabelled=True)))[1].tolist() == [-1] * 4


class Hostile:
    """An object that would run code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


def pickled(path: Path, matrix: Mapping[str, Any]) -> Path:
    path.with_suffix(".pickle").write_bytes(pickle.dumps({**matrix, "x": Hostile()}))
    return path.with_suffix(".pickle")


def renamed_pickle(path: Path, matrix: Mapping[str, Any]) -> Path:
    return pickled(path, matrix).rename(path)


def with_pair(value: Any) -> Callable[[Path, Mapping[str, Any]], Path]:
    def write(path: Path, matrix: Mapping[str, Any]) -> Path:
        changed = {**matrix, "n1_contrast_n2_shot_noise": value}
        np.savez(path, **{key: each for key, each in changed.items() if each is not None})
        return path

    return write


def bomb(path: Path, matrix: Mapping[str, Any]) -> Path:
    """Declare four gigabytes in the directory of the archive."""
    np.savez_compressed(path, **matrix)
    content = bytearray(path.read_bytes())
    size = content.index(b"PK\1\2") + 24
    content[size : size + 4] = (2**32 - 2**20).to_bytes(4, "little")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (pickled, "no .npz file. Pickles are not read, .*numpy.savez_compressed"),
        (renamed_pickle, "not a zip archive"),
        (with_pair(np.array(Hostile(), dtype=object)), "Python objects"),
        (
            with_pair(None),
            "lacks 1 of 12 pairs that baseline 0 needs, for example n1_contrast_n2_shot_noise: .*-matrix",
        ),
        (with_pair(np.full((21, 21), np.nan)), "n1_contrast_n2_shot_noise must be accuracies in percent, finite"),
        (with_pair(np.zeros((21, 21), complex)), "unsupported dtype"),
        (with_pair(np.full((21, 21), "50")), "unsupported dtype"),
        (bomb, "decompresses to"),
        (lambda path, matrix: path, "is not a file"),
    ],
)
def test_hostile_matrices_are_refused(
    small_source: Path,
    tmp_path: Path,
    matrix: dict[str, np.ndarray],
    write: Callable[[Path, Mapping[str, Any]], Path],
    message: str,
) -> None:
    with pytest.raises(UserError, match=message):
        CCC(small_source, write(tmp_path / "matrix.npz", matrix), **SETTINGS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speed": 1000}, "a step needs 1000 different images, but the source has"),
        ({"speed": 0}, "invalid speed 0: use an integer"),
        ({"images": 0}, "invalid images 0"),
        ({"seed": -1}, "invalid seed -1"),
        ({"batch_size": 2.5}, r"invalid batch_size 2\.5"),
        ({"baseline": float("nan")}, "invalid baseline nan"),
        ({"baseline": 20}, "lacks 144 of 156 pairs of baseline 20"),
        ({"columns": ("level",)}, r"invalid columns \['level'\]: use names among first, second"),
        ({"as_": "pil"}, "invalid as_ 'pil'"),
    ],
)
def test_invalid_settings_are_refused(
    small_source: Path, matrix: dict[str, np.ndarray], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        CCC(small_source, matrix, **{**SETTINGS, **change})
