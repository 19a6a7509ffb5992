"""``robustshards.benchmark``: data sets, predictions and the report in one call."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest

import robustshards as rs
from pipeline.recipes.schema import Recipe
from robustshards.benchmarking import _with_clean
from tests.factories.commands import python
from tests.factories.small_models import other, tiny

SCRIPT = """
import sys
import robustshards as rs
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
    torch.nn.Linear(128, 7),
)
contrast = rs.recipes.load("imagenet-c").changed(transforms={"only": ["contrast"], "levels": [1]})
found = rs.benchmark(model, sys.argv[1], contrast, "out", limit=2, cache="off", loaders=1, batch_size=2)
assert [each.done.frames for each in found.evaluations] == [2, 2]
assert not {"ray", "IPython"} & sys.modules.keys()
print(found.figures()["Sequential"]["imagenet-c"]["clean error"])
"""
"""A script without ``if __name__ == "__main__"``: a loader process that imported it would start another benchmark."""


def recipes() -> list[Recipe]:
    """Return a part of ImageNet-C, and one sequence of ImageNet-P."""
    return [
        rs.recipes.load("imagenet-c").changed(transforms={"only": ["contrast", "brightness"], "levels": [1, 3]}),
        rs.recipes.load("imagenet-p").changed(transforms={"only": ["brightness"]}),
    ]


@pytest.fixture(scope="module")
def benchmarked(small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[rs.Benchmark, Path]:
    """Two models on parts of two benchmarks of three images, and the folder. Tests must not change them."""
    out = tmp_path_factory.mktemp("benchmark") / "out"
    return _benchmark(small_source, out), out


def _benchmark(source: Path, out: Path | None, **options: Any) -> rs.Benchmark:
    models = {"lab/tiny": tiny(), "other": other()}
    return rs.benchmark(models, source, recipes(), out, limit=3, batch_size=8, cache="off", progress=False, **options)


def test_models_are_evaluated_on_all_data_sets_and_one_clean_companion(benchmarked: tuple[rs.Benchmark, Path]) -> None:
    names = [(each.table.model.name, each.table.data_set.name) for each in benchmarked[0].evaluations]
    data_sets = ["imagenet-c-clean", "imagenet-c", "imagenet-p"]
    assert names == [(model, data_set) for model in ("lab/tiny", "other") for data_set in data_sets]
    assert [each.done.frames for each in benchmarked[0].evaluations] == [3, 12, 3 * 31] * 2


def test_figures_need_the_clean_companion(benchmarked: tuple[rs.Benchmark, Path]) -> None:
    found, _ = benchmarked
    figures = found.figures()
    assert list(figures) == ["lab/tiny", "other"]
    for name, of_model in figures.items():
        clean = next(each for each in found.evaluations if each.table.model.name == name)
        errors = [row["top1"] != row["label"] for row in clean.predictions.to_pylist()]
        assert of_model["imagenet-c"]["clean error"] == pytest.approx(sum(errors) / 3)
        assert "residual robustness" in of_model["imagenet-c"]
        assert 0 <= of_model["imagenet-p"]["mean flip probability (unnormalised)"] <= 1
    assert found.report.warnings == ()


def test_folder_holds_data_sets_results_and_the_report(benchmarked: tuple[rs.Benchmark, Path]) -> None:
    found, out = benchmarked
    assert {path.name for path in out.iterdir()} == {"data", "results", "report"}
    assert {path.name for path in (out / "data").iterdir()} == {"imagenet-c-clean", "imagenet-c", "imagenet-p"}
    assert {path.name for path in (out / "results").iterdir()} == {"lab-tiny", "other"}
    facts = json.loads((out / "report/report.json").read_text())
    assert facts.pop("generator") == "robustshards"
    assert facts == json.loads(json.dumps(found.report.facts()))
    assert (out / "report/report.html").read_text() == found.report.html()


def test_second_call_predicts_nothing_and_reports_the_same(
    benchmarked: tuple[rs.Benchmark, Path], small_source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found, out = benchmarked
    again = _benchmark(small_source, out)
    assert [each.done.frames for each in again.evaluations] == [0] * 6
    assert again.figures() == found.figures()
    assert capfd.readouterr() == ("", "")


def test_notebooks_and_scripts_show_the_report(benchmarked: tuple[rs.Benchmark, Path]) -> None:
    found, _ = benchmarked
    assert repr(found) == "<Benchmark 'Robustness report': 2 models on 3 data sets>"
    assert str(found) == found.summary() == str(found.report)
    for section in ("imagenet-c-clean: key figures", "imagenet-c: key figures", "imagenet-p: key figures"):
        assert section in found.summary()
    assert found._repr_html_() == found.report._repr_html_()


@pytest.mark.large
def test_script_with_a_loader_process_shows_progress_and_loads_no_ray(small_source: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python("script.py", small_source, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 0 <= float(done.stdout) <= 1
    steps = [line.split(" ━")[0].rstrip() for line in done.stderr.splitlines()]
    data_sets = ["imagenet-c-clean", "imagenet-c"]
    assert steps == [text + name for text in ("reading the images for ", "Sequential on ") for name in data_sets]
    assert {path.name for path in tmp_path.iterdir()} == {"script.py", "out"}


def test_clean_companion_is_added_once_for_each_profile() -> None:
    def names(*given: str) -> list[str]:
        return [recipe.name for recipe in _with_clean([rs.recipes.load(name) for name in given])]

    assert names("imagenet-p", "imagenet-c") == ["imagenet-c-clean", "imagenet-p", "imagenet-c"]
    assert names("imagenet-c", "cifar-10-c") == ["imagenet-c-clean", "cifar-10-c-clean", "imagenet-c", "cifar-10-c"]
    assert names("imagenet-p-clean", "imagenet-c") == ["imagenet-p-clean", "imagenet-c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": {}}, r"invalid models \[\]"),
        ({"model": {"one": None}, "name": "other"}, r"invalid models \['one'\] with name='other'"),
        ({"model": {"a/b": None, "a:b": None}}, "'a/b' and 'a:b' would share the folder a-b"),
        ({"recipes": []}, r"invalid recipes \[\]"),
        ({"recipes": ["imagenet-c", "imagenet-c"]}, r"invalid recipes \['imagenet-c', 'imagenet-c'\]"),
        ({"recipes": "imagenet-x"}, "unknown recipe 'imagenet-x'"),
        ({"source": 3}, "invalid source 3"),
        ({"out": 3}, "invalid out 3"),
    ],
)
def test_invalid_arguments_raise_user_error(options: dict[str, Any], message: str, small_source: Path) -> None:
    with pytest.raises(rs.UserError, match=message):
        rs.benchmark(**{"model": tiny(), "source": small_source, "progress": False, **options})


def test_unknown_option_is_a_type_error_before_anything_is_read() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        rs.benchmark(tiny(), "/nowhere", batchsize=3)


def test_image_that_cannot_be_made_ends_the_benchmark_with_its_name(
    small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustshards.rendering.user_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "images/class0").mkdir(parents=True)
    sound = next(small_source.rglob("*.png")).read_bytes()
    (tmp_path / "images/class0/a.png").write_bytes(sound)
    (tmp_path / "images/class0/b.png").write_bytes(sound[:400])
    arguments = tiny(classes=1), tmp_path / "images", recipes()[:1]
    options: dict[str, Any] = {"batch_size": 8, "cache": "off", "progress": False}
    with pytest.raises(rs.UnfinishedError, match=r"on 'imagenet-c-clean' is not finished: none-0-000000: .*class0/b"):
        rs.benchmark(*arguments, **options)
    gc.collect()
    assert list((tmp_path / "temporary").glob("robustshards-*")) == []
    found = rs.benchmark(*arguments, **options, check=True)
    assert [each.predictions.num_rows for each in found.evaluations] == [1, 4]
