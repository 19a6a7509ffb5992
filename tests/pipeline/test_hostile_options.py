"""Invalid options and recipe files: one line that names the value, exit code 2, no traceback."""

import errno
import json
import os
import signal
import sys
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from pipeline.builder.preflight import TESTING
from pipeline.cli import signals
from pipeline.cli.app import app, main
from pipeline.cli.console import print_table, report_errors
from pipeline.cli.progress import Display
from pipeline.errors import UserError
from pipeline.text import LONGEST_ERROR, escape_controls, one_line

DIGITS = "1" * 5000

typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]  # the commands are read once


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def refused(result: Result, *words: str) -> None:
    """Check for exit code 2, and one line on standard error, after what it waits for, that contains these words."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.removeprefix(f"{TESTING} ...\n").count("\n") == 1
    assert len(result.stderr) < LONGEST_ERROR + 100
    for word in words:
        assert word in result.stderr
    assert "run the same command again" not in result.stderr


def endless_number() -> bytes:
    return f"seed = {DIGITS}".encode()


RECIPES = {
    "binary": (b"\xff\xfe\x00[", "UTF-8"),
    "utf-16": ("seed = 1".encode("utf-16"), "UTF-8"),
    "nested arrays": (b"a = " + b"[" * 100_000, "nested too deeply"),
    "nested keys": (b".".join([b"a"] * 50_000) + b" = 1", "nested too deeply"),
    "endless number": (endless_number(), "thousands of digits"),
    "NUL": (b"name = 'a\x00b'", "TOML"),
    "unknown field": (b"extends = 'imagenet-c'\nnmae = 'x'", "nmae"),
    "unknown base": (b"extends = 'imagenet-d'", "imagenet-d"),
    "a list as base": (b"extends = [1]", "extends"),
    "not a number": (b"extends = 'imagenet-c'\n[prepare]\nsteps = [['center_crop', nan]]", "steps"),
    "huge": (b"#" * (5 << 20), "4194304 bytes"),
    "empty": (b"", "missing field"),
}


@pytest.mark.parametrize(("content", "word"), RECIPES.values(), ids=RECIPES.keys())
def test_invalid_recipe_is_named(content: bytes, word: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    refused(run("plan", path, "--source", tmp_path), "mine.toml", word)


def test_recipe_that_is_not_a_regular_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "device.toml").symlink_to("/dev/zero")
    for name, word in (("folder", "a folder"), ("pipe", "a pipe"), ("device", "a device"), ("none", "No such file")):
        refused(run("plan", tmp_path / f"{name}.toml", "--source", tmp_path), f"{name}.toml", word)


SETTINGS = {
    "encoder.quality=" + DIGITS: "encoder.quality",
    "encoder.quality=" + "[" * 5000: "encoder.quality",
    "=3": "table.field=value",
    "seed": "table.field=value",
    "seed=nan": "seed",
    "source.limit=1.5": "source.limit",
    "name=../x": "name: invalid value '../x': must match",
    "shards.size=1000000000": "shards.size",
    'prepare.steps=[["shorter_side", 1e308]]': "prepare.steps",
    'prepare.steps=[["center_crop", -5]]': "prepare.steps",
    'transforms.only=["\\u0000"]': "transforms.only",
}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda text: text[:30])
def test_invalid_field_is_named(setting: str, small_source: Path) -> None:
    refused(run("plan", "imagenet-c", "--source", small_source, "--set", setting), SETTINGS[setting])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--source", ""), "empty"),
        (("--source", " "), "empty"),
        (("--source", "a\0b"), "NUL"),
        (("--source", "x" * 5000), "too long"),
        (("--source", "~nobody-of-this-name/photographs"), "home folder"),
        (("--source", "does-not-exist"), "does not exist"),
        (("--source", "reference://::data:,x"), "chained protocols"),
        (("--source", "simplecache::s3://bucket/x"), "chained protocols"),
        (("--source", "s3://name:word@bucket/x"), "credentials"),
        (("--source", "unknown://bucket/x"), "cannot open unknown://bucket/x"),
        (("--severities", DIGITS), "levels"),
        (("--severities", ""), "levels"),
        (("--severities", "9"), "9"),
        (("--only", "fog\x1b[31m"), "\\x1b"),
        (("--only", "fog", "--grid", "full"), "--grid"),
        (("--only", "gausian_noise"), "did you mean 'gaussian_noise'"),
        (("--set", "seed=1", "--set", "seed.x=2"), "--set changes seed twice"),
        (("--limit", "none"), "invalid --limit 'none': use an integer"),
        (("--measure", "0"), "invalid --measure '0': use an integer of at least 1"),
        (("--decoder", ""), "decoder"),
        (("--ids", ""), "empty"),
        (("--ids", "does-not-exist"), "does-not-exist"),
        (("--frost-folder", ""), "empty"),
        (("--only", "frost", "--frost-folder", "does-not-exist"), "does-not-exist"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_invalid_option_is_named(arguments: tuple[str, ...], word: str, small_source: Path) -> None:
    source = () if "--source" in arguments else ("--source", small_source)
    refused(run("plan", "imagenet-c", *source, *arguments), word)


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (("build", "imagenet-cc", "--source", ".", "--out", "x"), "'imagenet-c'"),
        (("index", "--task", "imagenet-v2", ".", "--out", "x"), "'imagenet-v2-matched-frequency'"),
        (("verify", ""), "empty"),
        (("verify", "does-not-exist"), "it does not exist"),
        (("verify", "reference://::data:,x"), "chained protocols"),
        (("preview", ""), "empty"),
        (("export", "", "--to", "parquet", "--out", "x"), "empty"),
        (("export", "x", "--to", "nothing", "--out", "x"), "nothing"),
        (("index", "", "--out", "x"), "empty"),
        (("index", "does-not-exist", "--out", "x"), "does not exist"),
        (("report", ""), "empty"),
        (("report", "does-not-exist"), "no evaluation"),
        (("report", "x", "--rename", "lite0"), "invalid --rename 'lite0': use OLD=NEW"),
        (("report", "x", "--rename", "no.toml"), "cannot read the names 'no.toml'"),
        (("evaluate", "", "--model", "a:b", "--out", "x"), "empty"),
        (("evaluate", "x", "--model", "a:b", "--out", "x", "--std", "0,0,0"), "--std: from 1e-06"),
        (
            ("evaluate", "x", "--model", "a:b", "--out", "x", "--std", "nan,1,1"),
            "invalid --std nan,1,1: use three numbers",
        ),
        (
            ("evaluate", "x", "--model", "a:b", "--out", "x", "--mean", "inf,1,1"),
            "invalid --mean inf,1,1: use three numbers",
        ),
        (("evaluate", "x", "--model", "a:b", "--out", "x", "--mean", "1"), "0.485,0.456,0.406"),
        (("evaluate", "x", "--model", "a:b", "--out", "x", "--precision", "fp8"), "fp8"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_invalid_arguments_fail_with_one_line(
    command: tuple[str, ...], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run(*command), word)
    assert not list(tmp_path.iterdir())


def test_evaluate_in_a_removed_folder_fails_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a current folder, importing torch raises various exceptions or exits."""
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    refused(
        run("evaluate", tmp_path, "--model", "a:b", "--out", tmp_path / "r"),
        "the current folder was deleted: change to another",
    )


def test_tilde_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built_once: Path) -> None:
    """Shells do not expand ``~`` in ``--out=~/x``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(built_once)
    assert run("export", ".", "--to", "imagefolder", "--out=~/folders").exit_code == 0
    assert (tmp_path / "folders" / "contrast" / "1").is_dir()
    assert not (built_once / "~").exists()


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "x"), 2, False),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "x"), 2, False),
        (FileExistsError(errno.EEXIST, "File exists", "x"), 2, False),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, False),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), 2, False),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 3, True),
        (OSError(errno.EIO, "Input/output error"), 3, True),
        (MemoryError(), 3, True),
        (RuntimeError("can't start new thread"), 3, True),
    ],
)
def test_only_temporary_file_errors_advise_to_run_again(
    error: Exception, code: int, again: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, report_errors(as_json=False):
        raise error
    assert ended.value.exit_code == code
    assert ("run the same command again" in capsys.readouterr().err) == again


def test_failed_rename_names_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), report_errors(as_json=False):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", "scratch", None, "chunks.txt")
    assert capsys.readouterr().err == "error: chunks.txt: Is a directory\n"


def test_error_after_an_interruption_is_the_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A compiler drops the interruption, and its caller fails later for another reason."""
    monkeypatch.setattr(signals, "_received", [signal.SIGINT])
    with pytest.raises(typer.Exit) as ended, report_errors(as_json=False):
        raise UserError("no compiled object yet")
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err.startswith("error: interrupted")


def test_only_the_second_interruption_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGTERM, the first one does."""
    lines: list[str] = []
    monkeypatch.setattr(signals, "_above_bars", lines.append)
    monkeypatch.setattr(signals, "_stop_at_once", Mock(side_effect=SystemExit))
    for received, announced in (((signal.SIGINT, signal.SIGINT), 1), ((signal.SIGTERM, signal.SIGINT), 0)):
        lines.clear()
        reader, writer = os.pipe()
        os.write(writer, bytes(received))
        with pytest.raises(SystemExit):
            signals._listen(reader)
        assert len(lines) == announced


def test_names_that_look_like_markup_are_printed_literally(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would interpret markup and emoji codes."""
    name = "mine:factory: [red]a[/red] [/b] :smile:"
    with pytest.raises(typer.Exit), report_errors(as_json=False):
        raise UserError(name)
    print_table([name], [[name]])
    Display().preparing(f"{name}\x1b[31m")
    out, err = capsys.readouterr()
    assert err == f"error: {name}\n{name} [31m ...\n"
    assert out.split("\n")[:2] == [name, name]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("evaluate", "x", "--model=x", "--out=y", "--batch-size=[/red]"), "--batch-size '[/red]': use an integer"),
        (("build", "--sorce", "x"), "--sorce"),
        (("plan", "imagenet-d", "--source", "."), "imagenet-d"),
        (("report",), "--results"),
        (("nothing\x1b[31m",), "nothing\\x1b[31m"),
    ],
)
def test_misuse_is_one_line_and_a_json_document(
    arguments: tuple[str, ...], word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "install", lambda: None)
    monkeypatch.setattr(sys, "argv", ["robustshards", *arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == json.loads(out)["exit_code"] == 2
    assert err == f"error: {json.loads(out)['error']}\n"
    assert word in err


def test_control_characters_are_escaped_and_lines_are_shortened() -> None:
    assert escape_controls("a\x1b[31mb\u202ec\n") == "a\\x1b[31mb\\u202ec\n"
    assert escape_controls("Bild\u202f10 é 👩\u200d🔬") == "Bild\u202f10 é 👩\u200d🔬"
    assert one_line("a\nb\udcff") == "a b\\udcff"
    assert len(one_line("x" * 10_000)) == LONGEST_ERROR + 5
