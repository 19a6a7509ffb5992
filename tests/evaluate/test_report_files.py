"""Files of a report next to unrelated files, and evaluations that are damaged or hostile."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import manifests
from pipeline.errors import UserError
from pipeline.evaluate.report import load
from pipeline.evaluate.report.report import ReportData
from pipeline.evaluate.report.settings import ReportSettings
from pipeline.evaluate.report.write import page, tidy_table, to_csv, write_report
from pipeline.evaluate.results.folder import EVALUATION_FILE, PREDICTIONS_FILE
from pipeline.storage import LocalStore
from pipeline.text import escape_controls
from tests.conftest import Run
from tests.factories.evaluations import votes, write_evaluation
from tests.factories.reports import lines, report_on, tables_of

FILES = ("report.html", "report.md", "report.csv", "report.parquet", "report.json")
LABELS = (0, 1)
FOG = {("fog", 1): votes([0, 6])}
CLEAN = {("none", 0): votes([0, 1])}
TWO = {**FOG, ("snow", 1): votes([0, 6])}
PAIR = {("pillow_pillow-bilinear", 0): votes([0, 6])}
WALK = {("tilt", 1): np.stack([votes([0, 1, 1])] * 2)}
EMPTY = report_on()
"""A report without tables and figures, which is written fast."""


@pytest.fixture
def fog(tmp_path: Path) -> str:
    return write_evaluation(tmp_path / "r", FOG, LABELS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """The report on an evaluation, with tables and figures."""
    return report_on(write_evaluation(tmp_path_factory.mktemp("r") / "r", FOG, LABELS), resamples=20)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a folder by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.slow
def test_an_existing_report_is_replaced_with_its_tables_and_figures(tmp_path: Path, whole: ReportData) -> None:
    out = tmp_path / "out"
    write_report(whole, "first", str(out))
    first = contents(out)
    assert set(FILES) < set(first)
    assert {"tables/made-corruptions-key-figures.tex", "tables/made-corruptions-calibration.tex"} <= set(first)
    for suffix in (".pdf", ".svg"):
        assert f"figures/made-corruptions-calibration{suffix}" in first
        assert f"figures/made-corruptions-key-figures{suffix}" not in first
    assert pq.read_table(out / "report.parquet").equals(tidy_table(whole))
    write_report(whole, "first", str(out))
    assert contents(out) == first  # equal bytes

    (out / "tables" / "mine.tex").write_text("mine")
    (out / "figures" / "mine.pdf").write_bytes(b"%PDF-1.4 mine")
    (out / "figures" / "data.npy").write_bytes(b"robustshards")
    write_report(EMPTY, "second", str(out))
    assert set(contents(out)) == {*FILES, "tables/mine.tex", "figures/mine.pdf", "figures/data.npy"}
    assert "second" in (out / "report.html").read_text()
    assert (out / "report.md").read_text().startswith("# second\n")
    assert json.loads((out / "report.json").read_text())["generator"] == "robustshards"

    (out / "tables" / "made-corruptions-key-figures.tex").write_text("mine")
    before = contents(out)
    with pytest.raises(UserError, match=r"tables/made-corruptions-key-figures.tex is not a report .*: move it"):
        write_report(whole, "third", str(out))
    assert contents(out) == before


def test_a_table_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text("model,data_set,family,transform,level,figure,value,low,high\n")
    write_report(EMPTY, "t", str(tmp_path))
    assert ",metric,value,low,high,unit,covers,images," in (tmp_path / "report.csv").read_text()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content", [b"mine", b"# mine\n", b'{"mine": 1}', b"<!doctype html><p>mine", b"\xff\xfe\x00", b"PAR1mine"]
)
def test_a_file_that_is_not_a_report_is_kept(tmp_path: Path, name: str, content: bytes) -> None:
    write_report(EMPTY, "first", str(tmp_path))
    (tmp_path / name).write_bytes(content)
    before = contents(tmp_path)
    with pytest.raises(UserError, match=f"{name} is not a report .*: move it, or choose another folder"):
        write_report(EMPTY, "second", str(tmp_path))
    assert contents(tmp_path) == before


def test_a_folder_or_link_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    for index, make in enumerate((Path.mkdir, lambda path: path.symlink_to("/etc/passwd"))):
        out = tmp_path / f"out{index}"
        out.mkdir()
        make(out / "report.json")
        with pytest.raises(UserError, match=r"report.json"):
            write_report(EMPTY, "t", str(out))
        assert not (out / "report.html").exists()


def test_a_full_disk_keeps_the_existing_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(EMPTY, "first", str(tmp_path))
    before, writes, write = contents(tmp_path), [], Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        writes.append(path)
        if len(writes) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(EMPTY, "second", str(tmp_path))
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def test_an_invalid_output_folder_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=f"cannot write to {out}"):
            write_report(EMPTY, "t", str(out))
    with pytest.raises(UserError):
        write_report(EMPTY, "t", "")


def test_the_command_shows_warnings_new_names_and_intervals(tmp_path: Path, robustshards: Run) -> None:
    """Warnings are in all formats. Names of models are those of a TOML file, and tables in LaTeX have intervals."""
    mine = write_evaluation(tmp_path / "r", FOG, LABELS, names=("a", "b"))
    clean = write_evaluation(tmp_path / "k", CLEAN, LABELS, names=("c", "d"), family="none")
    (tmp_path / "names.toml").write_text('made = "A & B"\n')
    out = tmp_path / "out"
    options = ("--rename", tmp_path / "names.toml", "--latex-intervals")
    done = robustshards("report", mine, clean, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    what = "has no images in common"
    assert what in done.stderr.replace("\n", " ")
    assert what in (out / "report.html").read_text()
    assert what in (out / "report.md").read_text()
    facts = json.loads((out / "report.json").read_text())
    (warning,) = facts["warnings"]
    assert what in warning
    assert "--latex-intervals" in facts["provenance"]["command"]
    assert set(pq.read_table(out / "report.parquet")["model"].to_pylist()) == {"A & B"}
    latex = (out / "tables" / "made-corruptions-key-figures.tex").read_text()
    assert r"A \& B" in latex
    assert "50.0" in latex
    assert "98." not in latex
    assert "[" in latex.partition(r"\midrule")[2]


@pytest.mark.parametrize(
    ("text", "content", "message"),
    [
        ("names", None, "invalid rename 'names': use OLD=NEW"),
        ("absent.toml", None, "cannot read the names .*absent.toml'"),
        ("names.toml", "a = 1", r'is not a list of names: write lines such as lite0 = "EfficientNet-Lite0"'),
        ("names.toml", "a = ", "names.toml"),
    ],
)
def test_invalid_new_names_are_refused(tmp_path: Path, text: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / text).write_text(content)
    with pytest.raises(UserError, match=message):
        ReportSettings(evaluations=["r"], rename=str(tmp_path / text) if text.endswith(".toml") else text)
    assert ReportSettings(evaluations=["r"], rename="a=b=c").rename == {"a": "b=c"}


@pytest.mark.parametrize("start", "=+-@\t\r\uff1d")
def test_csv_names_cannot_be_formulas(tmp_path: Path, start: str) -> None:
    name = f'{start}HYPERLINK("http://x","y")'
    mine = write_evaluation(tmp_path / "r", {(name, 1): votes([0, 6])}, LABELS, model=name, data_set=name)
    base = write_evaluation(tmp_path / "b", {(name, 1): votes([6, 6])}, LABELS, model=f"{name}2")
    report = report_on(mine, baseline=[base], resamples=20)
    shown = lines(report)
    for column in ("model", "data_set", "transform", "baseline"):
        assert {line[column][:2] for line in shown if line[column]} == {f"'{escape_controls(start)}"[:2]}
    assert json.loads(json.dumps(report.facts()))["results"][0]["model"] == name


def test_long_names_are_truncated_in_the_page(tmp_path: Path) -> None:
    report = report_on(
        write_evaluation(tmp_path / "r", FOG, LABELS, model="m" * 100_000, data_set="d" * 100_000), resamples=20
    )
    assert len(page(report.document("t" * 100_000))) < 100_000
    assert tables_of(report)[0].columns[1].title == "m" * 199 + "…"
    assert "m" * 100_000 in to_csv(report)


def test_titles_are_escaped_in_markdown(tmp_path: Path) -> None:
    write_report(EMPTY, "a\n# <b>[x](y)\udcff\x1b[31m", str(tmp_path))
    assert (tmp_path / "report.md").read_text().startswith("# a \\# \\<b\\>[x]\\(y)  [31m\n")


def test_a_folder_name_that_is_not_utf8_is_a_user_error(tmp_path: Path, fog: str) -> None:
    """Arrow cannot open such a file; the message is one printable line."""
    moved = Path(fog).rename(tmp_path / "r\udcff\x1b")
    with pytest.raises(UserError, match=r"the evaluation .*r.* cannot be read") as raised:
        report_on(str(moved))
    assert str(raised.value).isprintable()


def test_too_many_transforms_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_CONDITIONS", 3)
    mine = write_evaluation(tmp_path / "r", {(f"own{index}", 1): votes([0, 6]) for index in range(4)}, LABELS)
    with pytest.raises(UserError, match="more than 3 conditions"):
        report_on(mine)


def rewritten(folder: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the predictions of an evaluation, and renew the seal as if ``evaluate`` had written them."""
    path = Path(folder) / PREDICTIONS_FILE
    table = change(pq.read_table(path))
    facts = {key.decode(): value.decode() for key, value in (pq.read_metadata(path).metadata or {}).items()}
    facts = {key: value for key, value in facts.items() if not key.startswith("ARROW")}
    table = table.replace_schema_metadata(manifests.with_blank_seal(facts))
    pq.write_table(table, path)
    manifests.seal_file(path)


def changed_column(name: str, values: list[object]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    return change


DAMAGED = {
    "unknown perturbation": (WALK, "perturbations", changed_column("transform", ["own"] * 6)),
    "unknown pair": (PAIR, "system-noise", changed_column("transform", ["own"] * 2)),
    "transform of clean images": (CLEAN, "none", changed_column("transform", ["fog", "fog"])),
    "two conditions of clean images": (CLEAN, "none", changed_column("level", [0, 1])),
    "level zero": (WALK, "perturbations", changed_column("level", [0] * 6)),
    "negative level": (WALK, "perturbations", changed_column("level", [-3] * 6)),
    "repeated conditions": (TWO, "corruptions", changed_column("transform", ["fog", "snow"] * 2)),
    "one image twice": (FOG, "corruptions", changed_column("source_id", ["a", "a"])),
    "differing frames": (WALK, "perturbations", changed_column("frame", [0, 1, 2, 0, 1, 1])),
    "a class twice": (WALK, "perturbations", changed_column("top5", [[1, 1, 1, 1, 1]] * 6)),
    "no rows": (FOG, "corruptions", lambda table: table.slice(0, 0)),
    "sequences of images": (FOG, "corruptions", changed_column("frame", [0, 1])),
    "one frame": ({("tilt", 1): votes([0, 1])[:, None]}, "perturbations", lambda table: table),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_predictions_are_a_user_error(tmp_path: Path, what: str) -> None:
    logits, family, change = DAMAGED[what]
    folder = write_evaluation(tmp_path / "r", logits, LABELS, family=family)
    rewritten(folder, change)
    with pytest.raises(UserError, match=str(tmp_path / "r")) as raised:
        report_on(folder)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_sequences_without_a_perturbation_are_not_called_damaged(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "r", {("none", 0): WALK["tilt", 1]}, LABELS, family="perturbations")
    with pytest.raises(UserError, match="contains the difficulty 0, but they start at 1"):
        report_on(folder)


def test_labels_that_differ_between_conditions_are_refused(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "r", TWO, LABELS)
    rewritten(folder, changed_column("label", [0, 1, 0, 2]))
    with pytest.raises(UserError, match="the label of 'image1' is not the same in all conditions"):
        report_on(folder)


TABLES: dict[str, Callable[[bytes], bytes]] = {
    "binary": lambda content: bytes(range(256)),
    "UTF-16": lambda content: content.decode().encode("utf-16"),
    "empty": lambda content: b"",
    "deep": lambda content: b"a = " + b"[" * 100_000,
    "deep tables": lambda content: b"[" + b".".join([b"a"] * 5000) + b"]",
    "long number": lambda content: content.replace(b"classes = 7", b"classes = " + b"7" * 5000),
    "types": lambda content: content.replace(b'name = "made"', b"name = [1]"),
    "family": lambda content: content.replace(b'family = "corruptions"', b'family = "x"'),
    "classes": lambda content: content.replace(b"classes = 7", b"classes = 8"),
    "another name": lambda content: content.replace(b'name = "made"', b'name = "better"'),
    "large": lambda content: b"#" * 2**23,
}


@pytest.mark.parametrize("what", TABLES)
def test_a_damaged_evaluation_table_is_an_error(tmp_path: Path, fog: str, what: str) -> None:
    path = Path(fog) / EVALUATION_FILE
    path.write_bytes(TABLES[what](path.read_bytes()))
    with pytest.raises((UserError, OSError), match=EVALUATION_FILE):
        report_on(fog)


def test_predictions_of_another_folder_are_refused(tmp_path: Path, fog: str) -> None:
    other = write_evaluation(tmp_path / "o", FOG, LABELS, model="other")
    (Path(fog) / PREDICTIONS_FILE).write_bytes((Path(other) / PREDICTIONS_FILE).read_bytes())
    with pytest.raises(UserError, match=r"predictions\.parquet does not belong to evaluation\.toml"):
        report_on(fog)


def test_a_path_without_an_evaluation_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "nothing", tmp_path, "a\0b", "x" * 5000):
        with pytest.raises((UserError, OSError)):
            report_on(str(folder))


def test_a_pipe_instead_of_a_file_is_refused(tmp_path: Path, fog: str) -> None:
    path = LocalStore(fog).path(EVALUATION_FILE)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises((UserError, OSError), match="pipe"):
        report_on(fog)
