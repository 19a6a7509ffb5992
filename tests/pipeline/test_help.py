"""Help texts: groups, sections, defaults, examples; and errors for missing arguments."""

import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli.app import COMMANDS, app
from pipeline.cli.help import EXIT_CODES, UsageError, usage_message
from pipeline.errors import Exit
from tests.pipeline.test_hostile_options import run

PROGRAM: Any = typer.main.get_command(app)


def words_of(text: str) -> str:
    """Return a text on one line, however it was wrapped."""
    return " ".join(text.split())


def test_help_groups_the_commands() -> None:
    text = run("--help").stdout
    titles = ["Make data:", "Check and look:", "Evaluate:", "Exit codes:"]
    assert [line for line in text.splitlines() if line in titles] == titles
    assert list(PROGRAM.groups()) == [title.rstrip(":") for title in titles[:3]]
    assert [name for group in PROGRAM.groups().values() for name in group] == list(COMMANDS)


def test_help_names_every_exit_code() -> None:
    assert set(EXIT_CODES) == set(Exit)
    assert all(
        words_of(f"{int(code)} {meaning}") in words_of(run("--help").stdout) for code, meaning in EXIT_CODES.items()
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_ends_with_its_example(name: str) -> None:
    *_, title, example = run(name, "--help").stdout.splitlines()
    assert (title, example.strip()) == ("Example:", COMMANDS[name].example)


@pytest.mark.parametrize("name", COMMANDS)
def test_example_has_every_required_argument_and_no_unknown_option(name: str) -> None:
    program, command, *arguments = shlex.split(COMMANDS[name].example)
    assert (program, command) == ("robustshards", name)
    PROGRAM.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_has_a_placeholder_and_a_text(name: str) -> None:
    for each in PROGRAM.commands[name].params:
        assert each.metavar or each.is_flag, each.name
        assert each.help.endswith("."), each.name
        assert each.help[0].isupper() or each.help.startswith("auto"), each.name


@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_are_not_broken_at_hyphens(width: int) -> None:
    text = CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["build", "--help"]).stdout
    assert "opencv-bicubic" in text
    assert not [line for line in text.splitlines() if line.endswith("-")]


def test_optional_arguments_are_in_the_usage_and_reporting_comes_last() -> None:
    text = run("list", "--help").stdout
    assert text.startswith("Usage: robustshards list [WORD] [OPTIONS]")
    text = run("preview", "--help").stdout
    assert text.index("Images:") < text.index("Output and logging:") < text.index("Example:")


def test_default_is_shown_once() -> None:
    text = words_of(run("evaluate", "--help").stdout)
    assert "0 (default) chooses by device and image size. --" in text
    assert "fp16. Default: fp32." in text
    assert text.count("--no-") == text.count("--channels-last, --no-channels-last ") == 1


def misuse(name: str, *arguments: str) -> str:
    """Return the message of the usage error that these arguments of a command cause."""
    with pytest.raises(UsageError) as raised:
        PROGRAM.commands[name].make_context(name, list(arguments))
    return usage_message(raised.value)


@pytest.mark.parametrize("name", [name for name in COMMANDS if PROGRAM.commands[name].required()])
def test_missing_arguments_are_named_together_with_an_example(name: str) -> None:
    message = misuse(name)
    assert message.startswith("missing ")
    assert message.endswith(COMMANDS[name].example)
    assert all(each.metavar in message for each in PROGRAM.commands[name].required())


def test_given_arguments_are_not_named_as_missing() -> None:
    assert misuse("build", "imagenet-c", "--out", "").startswith("missing --source PATH; for example: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sorce", "x"], "no such option: --sorce (possible options: --set, --source, --source-kind)"),
        (["--out", "y", "z"], "unexpected arguments: z"),
        (["--json", "--json", "--set", "seed=1", "--set"], "option '--set' requires an argument"),
    ],
)
def test_misuse_is_one_clause_with_the_help_of_the_command(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        app(["build", "imagenet-c", "--source", "x", *arguments], standalone_mode=False)
    assert usage_message(raised.value) == message
    assert raised.value.ctx.command_path.endswith(" build")


def test_unknown_command_is_compared_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        app(["biuld"], standalone_mode=False)
    assert usage_message(raised.value) == "no such command 'biuld' (did you mean 'build'?)"
