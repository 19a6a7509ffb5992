"""Slower corruptions are found on two pages of the benchmark, whatever the speed of the machine."""

from bench.c_bar_speed import Times, times_section
from bench.compare import slower
from bench.corruption_speed import ENCODING, OURS, Row, corruption_table
from bench.report import page, sections


def times(machine: float, snow: float, lines: float) -> str:
    """Return a page with milliseconds of a machine that needs ``machine`` for an encoding."""
    rows = [
        Row(name, {OURS: ours, ENCODING: machine, "peer": 9.0}, 9.0)
        for name, ours in (("fog", 0.1 * machine), ("snow", snow))
    ]
    bar = times_section("ImageNet-C-bar", [Times("lines", lines, 5.0), Times("ripple", machine, 5.0)], "")
    return page({"corruptions": corruption_table("224 x 224", rows, ["peer"]), "c-bar": bar})


def test_what_became_slower_is_named() -> None:
    before = times(1, 0.3, 0.5)
    assert not list(slower(before, times(2, 0.66, 1.1)))
    assert list(slower(before, times(2, 0.6, 1.2))) == [
        "ImageNet-C-bar: lines: 1.20 times as long (1.200 ms, expected 1.000)"
    ]
    assert [line.split(": ")[1] for line in slower(before, times(0.5, 0.3, 0.25))] == ["snow", "mean"]


def test_sections_of_a_page_are_found_again() -> None:
    named = {"corruptions": "### Corruptions\n\n| a |\n|---|\n| 1 |", "c-bar": "### C-bar"}
    assert sections(page(named)) == named
    assert sections("# An older page") == {}
