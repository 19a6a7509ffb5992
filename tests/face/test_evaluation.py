"""The result of ``robustshards.evaluate``: predictions, figures, and what scripts and notebooks show."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
import rich.console

import robustshards as rs
from tests.factories.small_models import tiny


@pytest.fixture(scope="module")
def evaluation(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> rs.Evaluation:
    """The evaluation of a small model, which tests must not change."""
    return rs.evaluate(tiny(), data_folder, tmp_path_factory.mktemp("face") / "out", name="tiny", batch_size=8)


def test_predictions_are_those_of_the_folder(evaluation: rs.Evaluation) -> None:
    stored = pq.ParquetFile(Path(evaluation.output) / "predictions.parquet").read()
    assert evaluation.predictions.equals(stored)
    assert evaluation.predictions.num_rows == 24
    assert evaluation.predictions is evaluation.predictions


def test_predictions_have_the_digests_of_the_photographs(evaluation: rs.Evaluation, data_folder: Path) -> None:
    recorded = {row.source_id: row.source_sha256 for row in rs.open(data_folder).rows()}
    table = evaluation.predictions
    for name, digest in zip(table["source_id"].to_pylist(), table["source_digest"].to_pylist(), strict=True):
        assert f"{digest % 2**64:016x}" == (recorded[name] or "")[:16]


def test_figures_are_those_of_the_report(evaluation: rs.Evaluation) -> None:
    rows = evaluation.predictions.to_pylist()
    error = sum(row["top1"] != row["label"] for row in rows) / len(rows)
    assert evaluation.figures() == rs.report(evaluation).facts()
    assert evaluation.figures()["corruptions"][0]["mean_error"]["value"] == pytest.approx(error)
    assert evaluation.report().summary.families["corruptions"][0].mean_error.value == pytest.approx(error)
    assert json.loads(json.dumps(evaluation.figures()))["models"][0]["name"] == "tiny"


def test_summary_and_print_show_the_key_figures(evaluation: rs.Evaluation) -> None:
    error = evaluation.figures()["corruptions"][0]["mean_error"]["value"]
    text = evaluation.summary()
    assert str(evaluation) == text == str(evaluation.report())
    assert re.search(rf"mean corruption error \(unnormalised\) +{100 * error:.1f} \[", text)
    assert max(map(len, text.splitlines())) <= 100


def test_repr_names_model_and_data_set_on_one_line(evaluation: rs.Evaluation) -> None:
    assert repr(evaluation) == f"<Evaluation of 'tiny' on 'imagenet-c': 24 samples, in {evaluation.output}>"
    assert repr(evaluation.report()) == "<Report 'Robustness report': 1 model on 1 data set>"


def test_notebooks_show_the_page_of_the_report_in_a_frame(evaluation: rs.Evaluation) -> None:
    framed = evaluation._repr_html_()
    found = re.fullmatch(r'<iframe sandbox srcdoc="([^"]*)" style="[^"]*" title="Robustness report"></iframe>', framed)
    assert found is not None
    page = html.unescape(found[1])
    assert page.replace('<base href="about:srcdoc">', "") == evaluation.report().html()
    error = evaluation.figures()["corruptions"][0]["mean_error"]["value"]
    assert f'<span class="big">{100 * error:.1f}</span>' in page
    assert "<svg" in page
    assert "<script" not in page


def test_title_is_escaped_in_a_notebook(evaluation: rs.Evaluation) -> None:
    framed = rs.report(evaluation, title='"><script>alert(1)</script>')._repr_html_()
    assert "<script" not in framed
    assert framed.count('"') == 6


def test_unfinished_evaluation_says_what_is_missing(
    copied: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shard = sorted(copied.glob("shards/**/*.tar"))[0]
    shard.write_bytes(shard.read_bytes()[:2048])
    evaluation = rs.evaluate(tiny(), copied, tmp_path / "out", batch_size=8, progress=True)
    assert "18/24" in capfd.readouterr().err
    name = evaluation.done.broken[0][0]
    assert (evaluation.complete, evaluation.facts()["complete"]) == (False, False)
    assert f"missing: {name}: " in evaluation.summary()
    assert f"missing: {name}: " in evaluation._repr_html_()
    assert "unfinished" in repr(evaluation)
    for attempt in (evaluation.report, evaluation.figures, lambda: evaluation.predictions):
        with pytest.raises(rs.UnfinishedError, match=name):
            attempt()


def test_progress_is_shown_only_on_request(
    data_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rs.evaluate(tiny(), data_folder, tmp_path / "silent", batch_size=8)
    assert capfd.readouterr() == ("", "")
    rs.evaluate(tiny(), rs.open(data_folder), tmp_path / "shown", name="[b]tiny", batch_size=8, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.search(r"\[b\]tiny on imagenet-c .*24/24", err)


def test_notebooks_get_a_bar_that_is_updated_in_place(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bar: Any) -> None:
            shown.append(bar._repr_mimebundle_((), ())["text/plain"])

    def display(bar: Any, display_id: bool) -> Handle:
        assert display_id
        Handle().update(bar)
        return Handle()

    module = ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    rs.evaluate(tiny(), data_folder, name="tiny", batch_size=8, progress=True)
    assert "tiny on data" in shown[0]
    assert "24/24" in shown[-1]
    assert len(shown) >= 3
    assert capfd.readouterr() == ("", "")
