"""The commands list, plan and build; dry runs, imports, the event log."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from corruptions.catalogue import PROFILES
from pipeline.builder.build import run_build
from pipeline.builder.dry_run import DryRun, dry_run
from pipeline.builder.plan import Missing, Plan
from pipeline.builder.settings import BuildSettings
from pipeline.cli import console, progress
from pipeline.cli.app import app
from pipeline.cli.progress import Display
from pipeline.datasets.export import LAYOUTS
from pipeline.errors import UserError
from pipeline.evaluate.predict.classifier import PRECISIONS
from pipeline.images.decoders import DECODERS
from pipeline.images.encoders import ENCODERS
from pipeline.images.resizers import OPERATORS
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.sources.kinds import KINDS
from pipeline.storage import LocalStore
from pipeline.text import rate
from pipeline.transforms.family import Condition
from pipeline.transforms.imagenet_s import GROUPS
from tests.conftest import Run, write_small_source
from tests.factories.commands import PROGRAM, python, run_process
from tests.golden.names import CORRUPTIONS, PERTURBATIONS


def test_list_names_everything(robustshards: Run) -> None:
    facts = json.loads(robustshards("list", "--json").stdout)
    for kind, table in (("corruptions", CORRUPTIONS), ("perturbations", PERTURBATIONS)):
        listed = {name: each["benchmark"] for name, each in facts[kind].items()}
        assert listed == {row.name: row.benchmark for row in table}
    assert {"imagenet-c", "imagenet-c-clean", "imagenet-p"} <= set(facts["recipes"])
    assert facts["profiles"] == {"imagenet": 224, "inception": 299, "tiny": 64, "cifar": 32, "detection": None}
    shown = robustshards("list").stdout
    clean = {name for name in facts["recipes"] if name.endswith("-clean")}
    for kind in ("corruptions", "perturbations", "recipes", "profiles"):
        assert {name for name in facts[kind] if f"{name} " not in shown} == (clean if kind == "recipes" else set())


@pytest.mark.parametrize(
    ("word", "names"), [("glass", ["corruption", "glass_blur"]), ("profiles", ["profile", *PROFILES])]
)
def test_list_shows_rows_with_the_word_or_the_table_of_this_name(
    word: str, names: list[str], robustshards: Run
) -> None:
    assert [line.split()[0] for line in robustshards("list", word).stdout.splitlines() if line] == names


def test_list_with_a_word_shows_clean_recipes_and_json(robustshards: Run) -> None:
    assert "imagenet-c-clean" in robustshards("list", "clean").stdout
    facts = json.loads(robustshards("list", "GLASS", "--json").stdout)
    assert {table: list(rows) for table, rows in facts.items() if rows} == {
        "corruptions": ["glass_blur"],
        "families": ["corruptions"],
    }
    assert "no row contains 'glas_blur'" in robustshards.refuse("list", "glas_blur")


@pytest.mark.parametrize(
    ("images", "seconds", "text"),
    [
        (1234, 1, "1,234 images/s"),
        (99, 10, "9.9 images/s"),
        (2, 7, "3.5 s/image"),
        (1, 7200, "7,200.0 s/image"),
        (0, 5, "0 images/s"),
    ],
)
def test_speeds_have_the_unit_that_fits(images: int, seconds: float, text: str) -> None:
    assert rate(images, seconds) == text


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_on_a_narrow_terminal_cut_no_word(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_out", Console(force_terminal=True, width=columns))
    names = ("imagenet-syn2nat-candidates-clean", "transverse_chromatic_aberration")
    console.print_table(("recipe", "corruption", "text"), [(*names, "one two " * 30)])
    written = capsys.readouterr().out
    assert all(name in written for name in names)
    assert "…" not in written


def test_version_is_that_of_the_package(robustshards: Run) -> None:
    assert robustshards("--version").stdout == f"robustshards {metadata.version('robustshards')}\n"


def test_plan_counts_and_measures(robustshards: Run, photographs: Path) -> None:
    done = robustshards("plan", "imagenet-c", "--source", photographs, "--shard-size", 5, "--measure", 1, "--json")
    facts = json.loads(done.stdout)
    assert (facts["images"], facts["classes"], facts["samples"], facts["shards"]) == (12, 5, 900, 3 * 75)
    assert facts["source_kind"] == "imagefolder"
    assert 900 * 1000 < facts["bytes"] < 900 * 60_000
    assert 0 < facts["core_hours"] < 0.1
    assert facts["measured_images"] == 1
    command = ("plan", "imagenet-c", "--source", photographs, "--only", "contrast", "--measure", 2)
    assert "60 (5 per image)" in robustshards(*command).stdout


def test_repeated_lists_are_joined_and_the_last_of_other_values_counts(robustshards: Run, small_source: Path) -> None:
    lists = ("--only", "fog", "--only", "frost,contrast", "--severities", 1, "--severities", "3-4")
    command = ("plan", "imagenet-c", "--source", small_source, *lists, "--limit", 1, "--limit", 2, "--json")
    facts = json.loads(robustshards(*command).stdout)
    expected = [f"{name}-{level}" for name in ("fog", "frost", "contrast") for level in (1, 3, 4)]
    assert (sorted(facts["transforms"]), facts["images"]) == (sorted(expected), 2)


def test_suffixes_of_skipped_files_are_shown_without_their_control_characters(
    robustshards: Run, tmp_path: Path
) -> None:
    source = write_small_source(tmp_path / "source", images=2)
    for name in ("x.\x1b[31mred", "x.avif"):
        (source / "class0" / name).touch()
    done = robustshards("plan", "cifar-10-c", "--only", "fog", "--source", source)
    assert r"1 .\x1b[31mred, 1 .avif" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "warning: 1 image skipped in formats that are not read: 1 .avif" in done.stderr


def test_plan_estimates_the_size_of_a_build(robustshards: Run, small_source: Path, built_once: Path) -> None:
    selection = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", 4, "--measure", 6)
    done = robustshards("plan", "imagenet-c", "--source", small_source, *selection, "--json")
    written = sum(path.stat().st_size for path in built_once.rglob("*.tar"))
    assert json.loads(done.stdout)["bytes"] == pytest.approx(written, rel=0.25)


def test_missing_frost_textures_fail_before_any_work(robustshards: Run, small_source: Path, tmp_path: Path) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", "--only", "frost")
    message = robustshards.refuse(*command, "--frost-folder", tmp_path)
    assert "frost" in message
    assert str(tmp_path) in message
    assert not (tmp_path / "data").exists()


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the modification times of a folder and everything in it."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in [folder, *folder.rglob("*")]}


def test_dry_run_reports_what_a_build_would_write_and_writes_nothing(
    robustshards: Run, small_source: Path, built: Path, tmp_path: Path
) -> None:
    selection = ("--source", small_source, "--severities", "1,3", "--shard-size", 4, "--dry-run", "--json")
    command = ("build", "imagenet-c", *selection, "--only", "contrast,gaussian_noise,fog")
    before = snapshot(built)
    done = robustshards.succeed(*command, "--out", built)
    facts = json.loads(done.stdout)
    assert (facts["images"], facts["shards"], facts["shards_before"], facts["shards_to_make"]) == (6, 12, 8, 4)
    assert facts["samples_to_make"] == {"fog": 12}
    assert facts["bytes_before"] == sum(path.stat().st_size for path in built.rglob("*.tar"))
    assert facts["bytes_before"] / 10 < facts["bytes_to_make"] < facts["bytes_before"]
    assert facts["warnings"] == []
    assert snapshot(built) == before
    done = robustshards(*command, "--out", tmp_path / "new" / "data", "--max-bytes", "10kB")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["shards_before"], facts["shards_to_make"]) == (0, 0, 12)
    assert "more than the 10.0 kB of --max-bytes" in facts["warnings"][0]
    assert not (tmp_path / "new").exists()


def test_dry_run_warns_about_a_full_disk() -> None:
    plan = Plan(library.load("imagenet-c"), images=1, classes=1, listing="", ignored=Counter())
    missing = Missing(Counter({Condition("fog", 1): 1}), shards=1, blocks=1)
    assert list(DryRun(plan, missing, existing_bytes=5, bytes_to_make=100, free=100, limit=105).warnings()) == []
    (warning,) = DryRun(plan, missing, existing_bytes=5, bytes_to_make=101, free=100, limit=106).warnings()
    assert "need about 101 bytes" in warning
    assert "100 bytes are free" in warning


def test_dry_run_fails_as_a_build_does(small_source: Path, built: Path) -> None:
    (built / "file").write_text("in the way")
    recipe = library.load("imagenet-c").changed(transforms={"only": ["contrast"], "levels": [1]})
    seeded = recipe.changed(seed=1)

    def refusals(recipe: Recipe, source: object, output: object) -> list[str]:
        messages = []
        for run in (run_build, dry_run):
            with pytest.raises(UserError) as refused:
                run(BuildSettings(recipe, str(source), str(output)), Display())
            messages.append(str(refused.value))
        return messages

    with LocalStore(str(built)).exclusive():
        held = refusals(recipe, small_source, built)
    refused = [refusals(seeded, small_source, built / place) for place in ("", "file", "file/below")]
    refused += [refusals(recipe, small_source, "gopher://there"), refusals(recipe, built / "nowhere", built)]
    for build, dry in [held, *refused]:
        assert build == dry


def test_sigterm_ends_with_the_requested_exit_code(photographs: Path, tmp_path: Path) -> None:
    command = [PROGRAM, "build", "imagenet-c", "--source", photographs]
    command += ["--out", tmp_path / "data", "--preempted-exit", "75", "--json"]
    build = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert build.stderr is not None
    assert "listing" in build.stderr.readline()
    build.terminate()
    output, _ = build.communicate(timeout=300)
    assert build.returncode == json.loads(output)["exit_code"] == 75


def test_a_build_does_not_import_pandas(small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pandas.py").write_text("raise RuntimeError('pandas was imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    build = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data")
    done = run_process(*build, "--only", "contrast", "--executor", "local")
    assert done.returncode == 0, done.stderr


def test_help_and_mistyped_options_load_nothing_heavy() -> None:
    program = """
import contextlib, sys
from pipeline.cli.app import app
for arguments in ("--help", "build --help", "evaluate --help", "build --sorce"):
    print(arguments, flush=True)
    with contextlib.suppress(SystemExit):
        app(arguments.split())
    if heavy := {"cv2", "numba", "numpy", "pyarrow", "ray", "torch"} & sys.modules.keys():
        sys.exit(f"{arguments} loaded {heavy}")
"""
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("Usage") == 4


@pytest.mark.parametrize(
    ("command", "parameter", "table"),
    [
        ("build", "source_kind", KINDS),
        ("build", "encoder", ENCODERS),
        ("build", "decoder", DECODERS),
        ("build", "resize", OPERATORS),
        ("build", "grid", GROUPS),
        ("evaluate", "precision", PRECISIONS),
        ("export", "to", LAYOUTS),
    ],
)
def test_help_lists_the_names_of_the_table(command: str, parameter: str, table: Iterable[str]) -> None:
    commands: Any = typer.main.get_command(app)
    (option,) = (each for each in commands.commands[command].params if each.name == parameter)
    named = re.search(r": ((?:[\w-]+, )+[\w-]+)", option.help)[1]
    assert named.split(", ") == list(table), f"update the help of {parameter!r}"


def test_json_log_reports_each_block(small_source: Path, tmp_path: Path, robustshards: Run) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--out", tmp_path / "data", "--only", "contrast,fog")
    done = robustshards.succeed(*command, "--severities", "1", "--shard-size", 4, "--workers", 1, "--log", "json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(datetime.fromisoformat(line["time"]).tzinfo for line in lines)
    (started,) = (line for line in lines if line["event"] == "started")
    assert (started["shards"], started["samples"]) == (4, {"fog": 6, "contrast": 6})
    finished = [line for line in lines if line["event"] == "finished"]
    assert sorted((line["block"], line["samples"]) for line in finished) == [(0, 8), (1, 4)]
    assert {name for line in finished for name in line["shards"]} == {
        f"{transform}-1-00000{block}" for transform in ("contrast", "fog") for block in (0, 1)
    }
    assert all(line["place"].startswith("process ") and line["failed_samples"] == 0 for line in finished)


def test_the_time_left_does_not_count_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    shown = Display()
    shown.counting(1000, 0)
    for clock[0], frames in ((30.0, 100), (50.0, 300), (61.0, 1000)):
        shown.advanced(frames)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "100/1,000 images, 3.3 images/s, time left unknown",
        "300/1,000 images, 6.0 images/s, about 1 min 10 s left",
        "1,000/1,000 images, 16 images/s",
    ]


def test_a_single_transform_is_not_counted_beside_the_total(
    small_source: Path, tmp_path: Path, robustshards: Run
) -> None:
    for only, counts in (("contrast", ""), ("contrast,fog", "; fog 6, contrast 6")):
        out = ("--source", small_source, "--out", tmp_path / only)
        done = robustshards.succeed("build", "imagenet-c", *out, "--only", only, "--severities", "1", "--workers", 1)
        line = next(each for each in done.stderr.splitlines() if each.startswith(("6/6", "12/12")))
        assert re.fullmatch(rf"(6|12)/\1 images, (1|2)/\2 shards, [\d,.]+ images/s{counts}", line)
