"""Tests of evaluations with a task: groups of classes, preparation, and refused models."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w
import torch
from PIL import Image
from torch import nn

from pipeline.datasets.index.manifest import index
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.evaluate.models.base import Model
from pipeline.evaluate.models.libraries import from_module
from pipeline.evaluate.predict import preparation
from pipeline.evaluate.predict.classifier import Classifier
from pipeline.evaluate.predict.evaluate import evaluate
from pipeline.evaluate.predict.predictor import check_unchanged
from pipeline.evaluate.predict.preparation import choose_preparation, parsed_steps
from pipeline.evaluate.predict.request import EvaluationRequest
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.predict.stream import FrameBatch
from pipeline.evaluate.results.folder import DataSetTable, EvaluationTable, InputTable, ModelTable, RunTable, read_table
from pipeline.evaluate.results.predictions import Frame, Outputs
from pipeline.execution.resumable import SilentWatcher
from pipeline.images.fingerprints import decoder_fingerprint
from pipeline.storage import LocalStore
from pipeline.tasks.library import load
from pipeline.tasks.lists import IMAGENET, shipped_list
from pipeline.tasks.schema import Task

SIDE = 32
"""Input size of the models, in pixels."""

Logits = Callable[[torch.Tensor], torch.Tensor]


class _Reader(nn.Module):
    """A classifier that reads the index of the true class off the pixels."""

    def __init__(self, logits: Logits) -> None:
        super().__init__()
        self._logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        high, low, _ = images[:, :, images.shape[2] // 2, images.shape[3] // 2].mul(255).round().long().unbind(1)
        return self._logits(256 * high + low)


def true_class(classes: torch.Tensor) -> torch.Tensor:
    """Return the largest logit for the true class."""
    return nn.functional.one_hot(classes, len(IMAGENET)).float()


def write_photographs(root: Path, wnids: Sequence[str]) -> Path:
    """Write one image for each class, all of different sizes, whose colour is the class."""
    for number, wnid in enumerate(wnids):
        path = root / wnid / "image.png"
        path.parent.mkdir(parents=True)
        colour = divmod(IMAGENET.index(wnid), 256)
        Image.new("RGB", (40 + number % 20, 60 - number // 20), (*colour, 0)).save(path)
    return root


def describe(indexed: Path, **tables: Any) -> Path:
    """Write the tables of an index that describe its labels and its task."""
    file = indexed / "index.toml"
    dumped = {name: table.model_dump(mode="json", exclude_none=True) for name, table in tables.items()}
    file.write_text(tomli_w.dumps({**tomllib.loads(file.read_text()), **dumped}))
    return indexed


def indexed_with_task(root: Path, name: str) -> Path:
    """Return an index of photographs with the labels of a task."""
    out = root.with_name(f"{root.name}-{name}")
    index(str(root), str(out), task=load(name), name=root.name)
    return out


def loaded(logits: Logits) -> Model:
    return from_module(_Reader(logits))


def run(data: Path, out: Path, model: Model, **options: Any) -> EvaluationResult:
    """Evaluate a model in memory, without normalisation."""
    plain = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0), "batch_size": 50, "workers": 1, "input_size": SIDE}
    request = EvaluationRequest(str(data), model.spec, str(out), **{**plain, **options})
    return evaluate(request, SilentWatcher(), model)


def columns(out: Path) -> dict[str, np.ndarray]:
    """Return the columns of numbers of predictions."""
    table = pq.read_table(out / "predictions.parquet")
    return {name: table[name].to_numpy() for name in table.column_names if name != "top5"}


def settings_of(out: Path) -> EvaluationTable:
    return read_table(LocalStore(str(out)))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 200 photographs of the classes of ImageNet-A, all of different sizes."""
    return write_photographs(tmp_path_factory.mktemp("natural") / "a", wnids_of("imagenet-a"))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index with the task imagenet-a, of three photographs of different sizes."""
    folder = tmp_path_factory.mktemp("few") / "data"
    return indexed_with_task(write_photographs(folder, wnids_of("imagenet-a")[:3]), "imagenet-a")


def wnids_of(name: str) -> Sequence[str]:
    return shipped_list(f"{name.replace('-', '_')}.txt")


# Groups


def test_the_largest_logit_may_be_in_no_group(photographs: Path, tmp_path: Path) -> None:
    groups = {IMAGENET.index(wnid) for wnid in wnids_of("imagenet-a")}
    outside = next(number for number in range(1000) if number not in groups)

    def outside_first(classes: torch.Tensor) -> torch.Tensor:
        return true_class(classes) + 2 * true_class(torch.full_like(classes, outside))

    done = run(indexed_with_task(photographs, "imagenet-a"), tmp_path / "out", loaded(outside_first))
    groups_of_task = "200 groups of 1,000 outputs (the WordNet ids of ILSVRC2012), by the task imagenet-a"
    assert (done.facts()["labels"], done.table.labels) == (groups_of_task, 200)
    found = columns(tmp_path / "out")
    assert len(found["label"]) == 200
    assert np.array_equal(found["top1"], found["label"])
    assert set(found["free"]) == {-1}


def outputs_of(
    logits: Sequence[Sequence[float]], labels: Sequence[int], groups: tuple[tuple[int, ...], ...]
) -> Outputs:
    """Return the outputs of a model with these logits."""
    values = torch.tensor(logits)
    task = Task(name="made", outputs=values.shape[1], outputs_are="made", groups=groups, role="shift")
    table = EvaluationTable(
        model=ModelTable(name="made", spec="made", digest="", classes=values.shape[1]),
        input=InputTable(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)),
        run=RunTable(device="cpu", batch=len(values)),
        data_set=DataSetTable(name="made", family="none", profile="", manifest_sha256="", samples=1, failed=0),
        task=task,
    )
    network = _Reader(lambda _: values)
    classifier = Classifier(table, from_module(network))
    frames = [Frame("key", "id", label) for label in labels]
    images = torch.zeros((len(values), 1, 1, 3), dtype=torch.uint8)
    return classifier.finish(classifier.start(FrameBatch(0, images, frames, last=True)))


def test_groups_are_ranked_by_their_largest_logit() -> None:
    logits = [9.0, 2, 8, 3, 7, 1]
    found = outputs_of([logits], [1], ((1,), (3,), (5,)))
    assert found.top5.tolist() == [[1, 0, 2]]
    assert (found.label_rank.tolist(), found.free.tolist()) == ([1], [-1])
    found = outputs_of([logits], [2], ((0, 4), (2,), (5,)))
    assert found.top5.tolist() == [[0, 1, 2]]
    assert (found.label_rank.tolist(), found.free.tolist()) == ([3], [0])
    grouped = np.exp([9.0, 8, 1]) / np.exp([9.0, 8, 1]).sum()
    assert found.label_probability == pytest.approx(grouped[2:])
    assert found.confidence == pytest.approx(grouped[:1])
    assert found.squared_probability == pytest.approx([(grouped**2).sum()])


def test_the_lower_group_is_first_among_equals() -> None:
    found = outputs_of([[1.0, 1, 1, 0]], [1], ((2,), (1,), (0, 3)))
    assert found.top5.tolist() == [[0, 1, 2]]
    assert (found.label_rank.tolist(), found.free.tolist()) == ([2], [2])


def test_an_output_outside_of_the_groups_may_not_be_infinite() -> None:
    with pytest.raises(UserError, match="returns NaN or infinite values"):
        outputs_of([[1.0, 2, float("nan")]], [1], ((0,), (1,)))


# Refused models


@pytest.mark.parametrize("outputs", [1001, 21843, 200])
def test_a_model_with_other_outputs_than_the_task_is_refused(few: Path, tmp_path: Path, outputs: int) -> None:
    model = loaded(lambda classes: torch.zeros(len(classes), outputs))
    message = (
        rf"other cannot be evaluated on data: the model has {outputs:,} outputs, but the task imagenet-a counts 1,000"
    )
    with pytest.raises(UserError, match=message):
        run(few, tmp_path / "out", model, name="other")
    assert not (tmp_path / "out" / "evaluation.toml").exists()


# Preparation


def test_images_of_different_sizes_need_steps(few: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"data has images of different sizes, for example 40 x 60 and 41 x 60: .*--steps"
    ):
        run(few, tmp_path / "out", loaded(true_class), steps=())
    done = run(few, tmp_path / "out", loaded(true_class), steps=(("square", 20.0),), input_size=0, resize="pillow-box")
    assert (done.complete, done.done.compared, done.done.changed) == (True, 3, 0)
    table = settings_of(tmp_path / "out").input
    assert (table.steps, table.resize, table.size) == ((("square", 20.0),), "pillow-box", 0)
    assert table.decoder == decoder_fingerprint("pillow")


def test_other_steps_are_another_evaluation(few: Path, tmp_path: Path) -> None:
    run(few, tmp_path / "out", loaded(true_class))
    assert run(few, tmp_path / "out", loaded(true_class)).done.frames == 0
    with pytest.raises(UserError, match=r"another evaluation \(input.steps is .*36.0.*, but .*40.0.* was requested\)"):
        run(few, tmp_path / "out", loaded(true_class), steps=(("shorter_side", 40.0), ("center_crop", 32.0)))


def test_a_decoder_with_other_pixels_is_another_evaluation(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(few, tmp_path / "out", loaded(true_class))
    recorded = settings_of(tmp_path / "out").input.decoder
    assert recorded == decoder_fingerprint("pillow")
    digest = recorded.rpartition("; ")[2]
    monkeypatch.setattr(preparation, "decoder_fingerprint", lambda name: f"Pillow 99; {digest}")
    assert run(few, tmp_path / "out", loaded(true_class)).done.frames == 0
    assert settings_of(tmp_path / "out").input.decoder == recorded
    monkeypatch.setattr(preparation, "decoder_fingerprint", lambda name: "Pillow 99; 0123")
    with pytest.raises(UserError, match=r"\(input.decoder is .*, but Pillow 99; 0123 was requested\)"):
        run(few, tmp_path / "out", loaded(true_class))
    with pytest.raises(UserError, match="the decoder of its images is Pillow 99; 0 instead of Pillow"):
        check_unchanged(settings_of(tmp_path / "out"), loaded(true_class))


def test_another_task_is_another_evaluation(few: Path, tmp_path: Path) -> None:
    run(few, tmp_path / "out", loaded(true_class))
    task = load("imagenet-a").task
    other = describe(indexed_with_task(few.with_name("data"), "imagenet-a"), task=task.model_copy(update={"images": 3}))
    with pytest.raises(UserError, match=f"task.digest is {task.digest}, but") as caught:
        run(other, tmp_path / "out", loaded(true_class))
    assert len(str(caught.value)) < 500
    describe(few, task=task)


def test_images_smaller_than_a_crop_count_as_failed(few: Path, tmp_path: Path) -> None:
    done = run(few, tmp_path / "out", loaded(true_class), steps=(("center_crop", 41.0),), input_size=0)
    assert (done.complete, done.unprepared, done.facts()["unprepared"]) == (True, 1, 1)
    assert (done.table.data_set.samples, done.table.data_set.failed) == (2, 1)
    assert columns(tmp_path / "out")["label"].tolist() == [1, 2]
    assert "1 image smaller than a crop" in " ".join(done.summary("out"))
    with pytest.raises(UserError, match="center_crop=90 can prepare none of the 3 images of data"):
        run(few, tmp_path / "none", loaded(true_class), steps=(("center_crop", 90.0),), input_size=0)


def test_prepared_images_must_have_one_size(few: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="shorter_side=40 prepare data to images of different sizes"):
        run(few, tmp_path / "out", loaded(true_class), steps=(("shorter_side", 40.0),))


@pytest.mark.parametrize(
    ("steps", "side", "expected"),
    [
        ("shorter_side=256,center_crop=224", 299, "shorter_side=341,center_crop=299"),
        ("shorter_side=256,center_crop=224", 384, "shorter_side=438,center_crop=384"),
        ("shorter_side=256,center_crop=224", 224, "shorter_side=256,center_crop=224"),
        ("shorter_side=256,center_crop=224", None, "shorter_side=256,center_crop=224"),
        ("trim=2,shorter_side=224,center_crop=224", 299, "trim=2,shorter_side=299,center_crop=299"),
        ("center_fraction=0.875,square=299", 224, "center_fraction=0.875,square=299"),
        ("center_crop=224", 160, "center_crop=224"),
    ],
)
def test_steps_are_scaled_to_the_side_of_the_model(few: Path, steps: str, side: int | None, expected: str) -> None:
    chosen = choose_preparation(open_data_set(str(few)), parsed_steps(steps), None, side)
    assert str(chosen) == expected


@pytest.mark.parametrize(
    "steps",
    ["", "shorter_side", "shorter_side=x", "crop=224", "square=0", "square=9000", "square=nan", "none,square=8"],
)
def test_invalid_steps_are_refused(steps: str) -> None:
    with pytest.raises(
        UserError, match=r"invalid steps .*for example shorter_side=256,center_crop=224; names: shorter_"
    ):
        parsed_steps(steps)


def test_steps_of_python_are_checked() -> None:
    assert parsed_steps([["square", 8]]) == (("square", 8.0),)
    for invalid in (5, [("square",)], [("round", 8)]):
        with pytest.raises(UserError, match="invalid steps"):
            parsed_steps(invalid)


def test_steps_are_refused_where_they_have_no_meaning(few: Path) -> None:
    data = open_data_set(str(few))
    assert choose_preparation(data, (), None, None) is None
    with pytest.raises(UserError, match="--resize pillow-box has no effect without steps"):
        choose_preparation(data, (), "pillow-box", None)
    with pytest.raises(UserError, match="unknown resize operator 'box'; allowed: pillow-nearest"):
        choose_preparation(data, None, "box", None)
    sequences = replace(data, family_name="perturbations", task=None)
    with pytest.raises(UserError, match="data consists of sequences, which cannot be prepared"):
        choose_preparation(sequences, (("square", 8.0),), None, None)


# Facts about the model


def test_a_note_is_kept_and_can_be_replaced(few: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(few, out, loaded(true_class), note="trained with noise")
    first = settings_of(out)
    for note, expected in ((None, "trained with noise"), ("trained with fog", "trained with fog"), ("", None)):
        assert run(few, out, loaded(true_class), note=note).done.frames == 0
        assert settings_of(out).model.note == expected
    assert settings_of(out).digest == first.digest
    with pytest.raises(UserError, match=r"invalid note 'a\\nb': use 0 to 500 characters"):
        run(few, out, loaded(true_class), note="a\nb")


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.classes = nn.Linear(8, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        return self.classes(self.attention(tokens, tokens, tokens, need_weights=False)[0].mean(1))


def test_parameters_and_multiply_adds_are_recorded(few: Path, tmp_path: Path) -> None:
    run(few, tmp_path / "out", from_module(_Attention()))
    model = settings_of(tmp_path / "out").model
    tokens = (SIDE // 4) ** 2
    assert model.parameters == (48 + 1) * 8 + (8 + 1) * 32 + (8 + 1) * 1000
    assert model.multiply_adds == tokens * 48 * 8 + tokens * 8 * 32 + 2 * tokens * tokens * 8 + 8 * 1000
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_model_without_products_has_no_multiply_adds(few: Path, tmp_path: Path) -> None:
    table = run(few, tmp_path / "out", loaded(true_class)).table
    assert (table.model.parameters, table.model.multiply_adds) == (None, None)
