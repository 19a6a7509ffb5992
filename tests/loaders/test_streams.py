"""Streams: order, batches, loader processes and ranks, resuming, and errors."""

import pickle
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import robustshards as rs
from robustshards.torch import Images, Stream
from tests.factories.indexed_sets import index_of, write_image
from tests.loaders.loading import CONDITIONS, half, keys, loaded, pixels_of


def keys_of(data: Path | rs.DataSet, *condition: object, **options: Any) -> list[str]:
    images = Images(data, *condition, **options)
    return [images.row(index).key for index in range(len(images))]


def stream_of(data: Path | rs.DataSet, **options: Any) -> Stream:
    return Stream(data, CONDITIONS, columns=["key"], **options)


def test_conditions_are_visited_in_the_given_order(built_once: Path) -> None:
    noise, contrast, turns = (keys_of(built_once, *each) for each in (("gaussian_noise", 3), ("contrast", 1), ()))
    mixed = [key for pair in zip(*(keys_of(built_once, *each) for each in CONDITIONS[3]), strict=True) for key in pair]
    with pytest.warns(UserWarning, match="class by class.*use continual"):
        assert keys(stream_of(built_once, protocol="manifest")) == [*noise, *contrast, *noise, *mixed]
    with pytest.warns(UserWarning, match="class by class"):
        assert keys(Stream(built_once, columns="key", protocol="manifest")) == turns  # default: all
    random = keys(Stream(built_once, columns="key"))
    assert random == keys(Stream(built_once, columns="key", protocol="continual", shuffle=0)) != turns
    assert [sorted(random[start : start + 6]) for start in range(0, 24, 6)] == [
        sorted(turns[start : start + 6]) for start in range(0, 24, 6)
    ]


def test_samples_have_the_pixels_and_labels_of_the_data_set(built_once: Path) -> None:
    pixels = pixels_of(built_once)
    for image, label, columns in stream_of(built_once, shuffle=1):
        np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), pixels[columns["key"]])
        assert columns["key"].startswith(f"class{label}/")


def test_rendered_data_sets_are_streamed(rendered: rs.DataSet, built_once: Path) -> None:
    ours, theirs = (list(stream_of(data, batch_size=4, shuffle=3)) for data in (rendered, built_once))
    assert keys(ours) == keys(theirs)
    assert all(torch.equal(one[0], other[0]) for one, other in zip(ours, theirs, strict=True))


def test_batches_contain_samples_of_one_entry(built_once: Path) -> None:
    stream = stream_of(built_once, batch_size=4, shuffle=7)
    batches = list(stream)
    assert [len(images) for images, *_ in batches] == [4, 2, 4, 2, 4, 2, 4, 4, 4]
    assert len(stream) == len(batches)
    single = list(stream_of(built_once, shuffle=7))
    assert [key for batch in keys(batches) for key in batch] == keys(single)
    assert torch.equal(torch.cat([images for images, *_ in batches]), torch.stack([image for image, *_ in single]))
    assert torch.cat([labels for _, labels, _ in batches]).tolist() == [label for _, label, _ in single]
    images, labels = next(iter(Stream(built_once, [("contrast", 1)], batch_size=3)))
    assert (images.dtype, images.shape, len(labels)) == (torch.uint8, (3, 3, 224, 224), 3)
    scaled, _ = next(iter(Stream(built_once, [("contrast", 1)], batch_size=3, as_="float")))
    assert torch.equal(scaled, images.float() / 255)


def test_batches_span_entries_across_and_the_last_ones_can_be_left_out(built_once: Path) -> None:
    expected = keys(stream_of(built_once, shuffle=7))
    across = list(stream_of(built_once, batch_size=4, shuffle=7, across=True))
    assert [key for batch in keys(across) for key in batch] == expected
    assert [len(images) for images, *_ in across] == [4] * 7 + [2]
    full = list(stream_of(built_once, batch_size=4, shuffle=7, drop_last=True))
    assert [len(images) for images, *_ in full] == [4] * 6
    ranks = [stream_of(built_once, batch_size=4, rank=rank, world_size=2, equal_ranks=True) for rank in (0, 1)]
    assert [len(list(each)) for each in ranks] == [len(each) for each in ranks] == [4, 4]  # of 9


def test_protocols_repeat_images_and_select_conditions(built_once: Path) -> None:
    stream = Stream(built_once, protocol="label-shift", severity=3, total=12, ratio=1000, columns=["key"], batch_size=5)
    batches = keys(loaded(stream, 2))
    assert [len(batch) for batch in batches] == [5, 5, 2] * 2
    assert len({key for batch in batches for key in batch}) < 24
    assert all(key.endswith("noise-3") for batch in batches[:3] for key in batch)
    assert stream.schedule.parameters["severity"] == 3
    with pytest.raises(rs.UserError, match="has none of the images of robustbench-5000"):
        Stream(built_once, subset="robustbench-5000")


def test_subset_is_found_by_the_names_of_validation_images(tmp_path: Path) -> None:
    for number in (15253, 20685, 1):  # the first two of the list, and one that is not in it
        write_image(tmp_path / "data" / "fog" / "5" / "a" / f"ILSVRC2012_val_{number:08d}.png", side=16)
    stream = Stream(index_of(tmp_path / "data"), subset="robustbench-5000", columns=["source_id"])
    assert {columns["source_id"] for *_, columns in stream} == {
        "a/ILSVRC2012_val_00015253",
        "a/ILSVRC2012_val_00020685",
    }
    assert (len(stream), stream.missing) == (2, 4998)


def test_shuffling_depends_on_seed_and_place_alone(built_once: Path) -> None:
    first, again, other = (keys(stream_of(built_once, shuffle=seed)) for seed in (1, 1, 2))
    plain = keys(stream_of(built_once))
    assert first == again != other
    entries = [slice(0, 6), slice(6, 12), slice(12, 18), slice(18, 30)]
    assert [sorted(first[each]) for each in entries] == [sorted(plain[each]) for each in entries]
    assert first[entries[0]] != first[entries[2]]  # two visits of the same condition
    assert first[entries[3]] != sorted(first[entries[3]])


def test_loader_processes_and_ranks_do_not_change_the_order(built_once: Path) -> None:
    stream = stream_of(built_once, batch_size=4, shuffle=7)
    expected = keys(stream)
    assert keys(loaded(stream, 1)) == keys(loaded(stream, 3)) == expected
    ranks = [stream_of(built_once, batch_size=4, shuffle=7, rank=rank, world_size=2) for rank in (0, 1)]
    read = [keys(loaded(each, 3)) for each in ranks]
    assert [len(each) for each in read] == [len(each) for each in ranks] == [5, 4]
    assert [read[index % 2][index // 2] for index in range(9)] == expected


def test_spawned_processes_read_a_pickled_stream(built_once: Path) -> None:
    stream = Stream(built_once, CONDITIONS[1:2], batch_size=4, shuffle=7, as_="tensor", input_transform=half)
    copy = pickle.loads(pickle.dumps(stream))
    for read in (list(copy), loaded(stream, 1, multiprocessing_context="spawn")):
        for (images, labels), (other_images, other_labels) in zip(stream, read, strict=True):
            assert torch.equal(images, other_images)
            assert torch.equal(labels, other_labels)


def test_ranks_of_torch_distributed_are_the_default(built_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(built_once)
    for name, value in (("is_initialized", True), ("get_rank", 1), ("get_world_size", 4)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    pickled = pickle.dumps(stream)
    expected = keys(stream_of(built_once, rank=0, world_size=1))[1::4]
    assert keys(stream) == expected
    monkeypatch.undo()
    assert keys(pickle.loads(pickled)) == expected  # as in a spawned loader process


def test_state_resumes_after_the_latest_item(built_once: Path) -> None:
    stream = stream_of(built_once, batch_size=4, shuffle=7)
    expected, iterator = keys(stream), iter(stream)
    assert keys(islice(iterator, 4)) == expected[:4]
    state = stream.state_dict()
    assert keys(iterator) == expected[4:]
    resumed = stream_of(built_once, batch_size=4, shuffle=7)
    resumed.load_state_dict(state)
    assert keys(resumed) == expected[4:]
    assert keys(resumed) == expected  # the next iteration starts from the beginning


def test_seek_applies_to_loader_processes(built_once: Path) -> None:
    stream = stream_of(built_once, batch_size=4, shuffle=7)
    expected = keys(stream)
    stream.seek(5)
    assert keys(loaded(stream, 2)) == expected[5:]
    for position in (-1, 10, "5", None):
        with pytest.raises(rs.UserError, match=f"invalid position {position!r}: the stream has 9 items on this rank"):
            stream.seek(position)


def test_stateful_loader_resumes_in_its_processes(built_once: Path) -> None:
    loaders = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    stream = stream_of(built_once, batch_size=4, shuffle=7)
    expected = keys(stream)
    for processes in (0, 2):
        loader = loaders.StatefulDataLoader(stream, batch_size=None, num_workers=processes)
        assert keys(islice(loader, 5)) == expected[:5]
        state = loader.state_dict()
        again = loaders.StatefulDataLoader(stream, batch_size=None, num_workers=processes)
        again.load_state_dict(state)
        assert keys(again) == expected[5:]
        assert keys(again) == expected


def test_state_of_other_loader_processes_is_refused(built_once: Path) -> None:
    """In this process, because torchdata waits 15 s for a loader process that failed."""
    stream = stream_of(built_once)
    state = stream.state_dict()
    stream.load_state_dict(state)
    with pytest.raises(rs.UserError, match=r"saved with 2 loader processes, but there are 0: .*num_workers=2"):
        stream.load_state_dict(state | {"loaders": 2})


@pytest.mark.parametrize("state", [{}, {"stream": "0"}, None])
def test_what_is_no_state_is_refused(built_once: Path, state: Any) -> None:
    with pytest.raises(rs.UserError, match="the state belongs to another stream: resume with the same data"):
        stream_of(built_once).load_state_dict(state)


@pytest.mark.parametrize("change", [{"batch_size": 3}, {"shuffle": 8}, {"ids": ["class0/image0"]}, {"world_size": 2}])
def test_state_of_another_stream_is_refused(built_once: Path, change: dict[str, Any]) -> None:
    state = stream_of(built_once, batch_size=4, shuffle=7, rank=0, world_size=1).state_dict()
    other = stream_of(built_once, **{"batch_size": 4, "shuffle": 7, "rank": 0, "world_size": 1, **change})
    with pytest.raises(rs.UserError, match="the state belongs to another stream: resume with the same data"):
        other.load_state_dict(state)


def test_listed_images_come_in_this_order_in_every_entry(built_once: Path, tmp_path: Path) -> None:
    ids = ["class1/image5", "class0/image0", "class0/image2"]
    (tmp_path / "ids.txt").write_text("\n".join(ids))
    streams = [stream_of(built_once, listed=each) for each in (ids, str(tmp_path / "ids.txt"))]
    found = [[key.rsplit("-", 2)[0] for key in keys(stream)] for stream in streams]
    assert found == [ids * sum(map(len, streams[0].schedule.steps))] * 2
    digests = {stream.schedule.digest for stream in (*streams, stream_of(built_once, listed=ids[::-1]))}
    assert len(digests) == 2
    for given, message in (
        ({"listed": ids, "ids": ids}, "pass one of them"),
        ({"listed": ids, "protocol": "mixed"}, "invalid parameters listed"),
        ({"listed": ["class9"]}, "has no samples of 1 of the 1 ids"),
    ):
        with pytest.raises(rs.UserError, match=message):
            stream_of(built_once, **given)


def test_ids_select_source_images(built_once: Path) -> None:
    ids = {"class0/image0", "class1/image5"}
    shown, every = keys(stream_of(built_once, ids=ids)), keys(stream_of(built_once))
    assert Counter(shown) == Counter(key for key in every if key.rsplit("-", 2)[0] in ids)


def test_images_of_different_sizes_cannot_be_batched(tmp_path: Path) -> None:
    for side in (16, 20):
        write_image(tmp_path / "data" / "fog" / "1" / "a" / f"{side}.png", side=side)
    index = index_of(tmp_path / "data")
    with pytest.raises(rs.UserError, match=r"shapes, for example \(3, 16, 16\) and \(3, 20, 20\): pass an input_tran"):
        list(Stream(index, batch_size=2))
    assert sorted(image.shape[1] for image, _ in Stream(index)) == [16, 20]


def test_batches_are_not_batched_again(built_once: Path) -> None:
    stream = Stream(built_once, batch_size=4)
    with pytest.raises(rs.UserError, match=r"pass batch_size=None to DataLoader, .*, or omit batch_size of the stream"):
        next(iter(DataLoader(stream)))
    images, labels = next(iter(DataLoader(Stream(built_once), batch_size=3)))
    assert (images.shape, labels.shape) == ((3, 3, 224, 224), (3,))


def test_repr_names_the_data_set_and_the_items(built_once: Path) -> None:
    stream = Stream(built_once, CONDITIONS, batch_size=4, shuffle=7)
    assert repr(stream) == "<Stream of 'imagenet-c': 9 batches of 4 in 4 entries, protocol continual, shuffle=7>"
    assert repr(Stream(built_once, [("contrast", 1)])) == (
        "<Stream of 'imagenet-c': 6 samples in 1 entry, protocol continual, shuffle=0>"
    )
    images = Images(built_once, "contrast", 3)
    assert repr(images) == "<Images of 'imagenet-c', transform 'contrast', level 3: 6 samples as tensor>"


def test_level_may_be_omitted_if_there_is_one(tmp_path: Path) -> None:
    write_image(tmp_path / "data" / "fog" / "4" / "a" / "image.png")
    index = index_of(tmp_path / "data")
    assert keys(Stream(index, ["fog", ["fog", ("fog", 4)]], columns="key")) == ["a/image-fog-4"] * 3


@pytest.mark.parametrize(
    ("conditions", "options", "message"),
    [
        ([("fog", 5)], {}, r"no samples of \"\('fog', 5\)\"; it has gaussian_noise-1, gaussian_noise-3, contrast-1"),
        ([("contrast", 5)], {}, "no samples of"),
        (["contrast"], {}, r"has the levels 1, 3 of contrast: name one of them, for example \('contrast', 3\)"),
        (["snow"], {}, r"no samples of \"'snow'\""),
        ([], {}, "invalid conditions '\\[\\]': pass a list of pairs"),
        ("contrast", {}, "invalid conditions"),
        ([[]], {}, "a mixture is empty"),
        ([5], {}, "invalid condition '5': pass a pair"),
        (("contrast", 1), {}, r"invalid conditions \"\('contrast', 1\)\": pass a list of pairs"),
        ([("contrast", 1, 3)], {}, r"invalid condition \"\('contrast', 1, 3\)\": pass a pair"),
        ([("contrast", "3")], {}, r"invalid condition \"\('contrast', '3'\)\": pass a pair"),
        (None, {"shuffle": True}, "invalid shuffle True: pass a seed, an integer from 0 to"),
        (None, {"shuffle": -1}, "invalid shuffle -1"),
        ([("contrast", True)], {}, r"invalid condition \"\('contrast', True\)\""),
        (None, {"batch_size": 0}, "invalid batch_size 0: use an integer of at least 1"),
        (None, {"rank": False, "world_size": True}, "invalid rank False and world_size True"),
        (None, {"batch_size": 2, "as_": "pil"}, "PIL images cannot be batched"),
        (None, {"rank": 2, "world_size": 2}, "invalid rank 2 and world_size 2: pass both"),
        (None, {"rank": "0", "world_size": 2}, "invalid rank '0' and world_size 2: pass both"),
        (None, {"ids": 3}, "invalid ids '3': pass the values of source_id"),
        (None, {"columns": 3}, r"invalid columns \[3\]: use names among key"),
        (None, {"rank": 0}, "invalid rank 0 and world_size None: pass both"),
    ],
)
def test_invalid_arguments_are_refused(
    built_once: Path, conditions: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(rs.UserError, match=message):
        Stream(built_once, conditions, **options)
