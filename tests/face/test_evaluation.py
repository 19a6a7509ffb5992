"""The result of ``robustshards.evaluate``: predictions, figures, and what scripts and notebooks show."""

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

MEAN = "mean corruption error (unnormalised)"


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
    assert evaluation.figures()[MEAN] == pytest.approx(error)
    of_data_set = evaluation.report().table(by="data_set").to_pylist()
    assert {row["metric"]: row["value"] for row in of_data_set}.items() >= evaluation.figures().items()
    assert json.loads(json.dumps(evaluation.report().facts()))["models"][0]["name"] == "tiny"


def test_tables_of_a_report_are_chosen_by_metric_and_what_they_are_of(evaluation: rs.Evaluation) -> None:
    report = evaluation.report()
    (mean,) = report.table(MEAN).to_pylist()
    assert (mean["value"], mean["images"], mean["level"]) == (evaluation.figures()[MEAN], 6, None)
    accuracies = report.table("accuracy", by="condition").to_pylist()
    assert {(row["transform"], row["level"]) for row in accuracies} == {
        (name, level) for name in ("brightness", "contrast") for level in (1, 3)
    }
    assert len(report.table("accuracy", by="transform")) == 2
    assert report.table("mean accuracy", by="level")["level"].to_pylist() == [1, 3]
    assert len(report.table(MEAN, by="level")) == 0
    pandas = report.table("accuracy", by="transform", library="pandas")
    assert pandas.set_index("transform")["value"].to_dict() == {
        row["transform"]: row["value"] for row in report.table("accuracy", by="transform").to_pylist()
    }
    with pytest.raises(rs.UserError, match="unknown metric 'mce'"):
        report.table("mce")
    with pytest.raises(rs.UserError, match="unknown by 'severity'; allowed: data_set, transform, level, condition"):
        report.table(by="severity")


def test_a_report_has_tables_in_latex_and_figures(evaluation: rs.Evaluation) -> None:
    report, error = evaluation.report(), evaluation.figures()[MEAN]
    text = report.latex()
    assert f" & {100 * error:.1f}$^{{*}}$ " in text
    assert r"baseline & none \\" in text  # the metrics of seven classes are not normalised
    assert "[" not in text.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    assert f"{100 * error:.1f}" in report.latex(intervals=True)
    assert len(report.latex(intervals=True)) > len(text)
    for name in (MEAN, "accuracy by severity"):
        assert report.figure(name).get_size_inches()[0] > 2
    with pytest.raises(rs.UserError, match="unknown table 'CE'"):
        report.latex("CE")
    with pytest.raises(rs.UserError, match="unknown figure 'CE'"):
        report.figure("CE")


def test_summary_and_print_show_the_key_figures(evaluation: rs.Evaluation) -> None:
    error = evaluation.figures()[MEAN]
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
    error = evaluation.figures()[MEAN]
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
