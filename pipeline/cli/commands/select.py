"""``robustshards select``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.console import print_json, print_line, print_renderable, report_errors, warn
from pipeline.cli.options import JsonOption, words
from pipeline.errors import UserError
from pipeline.settings import REPORTING

ACCURACIES, BENCHMARKS = "Accuracies", "Categories and benchmarks"
"""Sections of the help."""


def select(
    evaluations: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER...",
            rich_help_panel=ACCURACIES,
            help="Folders that evaluate wrote, for several models: on candidates, clean images and natural images.",
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ACCURACIES,
            help="Accuracies (fractions) as CSV or JSON: a row per model, the column clean and one per candidate.",
        ),
    ] = None,
    natural: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ACCURACIES,
            help="Accuracies of the same models on natural images: a row per model, a column per set of images.",
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ACCURACIES,
            help="Scores of the same models on other benchmarks, smaller is better, for example flip probabilities.",
        ),
    ] = None,
    trained: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ACCURACIES,
            help="Accuracies of models trained with corruptions, for overlap scores: rows and columns are clean and "
            "the corruptions.",
        ),
    ] = None,
    categories: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=BENCHMARKS,
            help="Categories as a JSON object of lists of names. Default: found from the overlap scores.",
        ),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=-1,
            max=1,
            rich_help_panel=BENCHMARKS,
            help="Mean correlation within categories that as few categories as possible must exceed.",
        ),
    ] = 0.5,
    unnormalised: Annotated[
        bool,
        typer.Option(
            "--unnormalised",
            rich_help_panel=BENCHMARKS,
            help="Compute overlap scores from accuracies that are not divided by the clean accuracy.",
        ),
    ] = False,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NAMES",
            rich_help_panel=BENCHMARKS,
            help="A benchmark to compare with random ones, e.g. mine=Blur,Flip; repeat for several. ImageNet-Syn2Nat "
            "is included if its corruptions are.",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            rich_help_panel=BENCHMARKS,
            help="Random benchmarks: numbers of categories x corruptions of each, e.g. 6x2,6x3. Default: the paper's.",
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=10_000, rich_help_panel=BENCHMARKS, help="Number of random benchmarks per size."
        ),
    ] = 1000,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=2**64 - 1,
            rich_help_panel=BENCHMARKS,
            help="Seed of the categories and of the random benchmarks, 0 to 2^64 - 1.",
        ),
    ] = 0,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=REPORTING,
            help="Folder for selection.html, selection.md, selection.csv and selection.json. Default: only print the "
            "tables.",
        ),
    ] = None,
    title: Annotated[
        str, typer.Option(metavar="TEXT", rich_help_panel=REPORTING, help="Title of the page.")
    ] = "Selection of corruptions",
    as_json: JsonOption = False,
) -> None:
    """Choose corruptions for a benchmark, as ImageNet-Syn2Nat was chosen.

    Prints how corruptions overlap and which categories they form (with --trained), and how well benchmarks of them
    predict robustness to natural images (with accuracies of several models).
    """
    with report_errors(as_json):
        from pipeline.cli.progress import current_step
        from pipeline.evaluate.selection.accuracies import Accuracies, Kind, read_trained
        from pipeline.evaluate.selection.analysis import analyse
        from pipeline.evaluate.selection.evaluations import add_evaluations
        from pipeline.evaluate.selection.files import read_categories
        from pipeline.evaluate.selection.records import SelectionSettings
        from pipeline.evaluate.selection.terminal import renderables
        from pipeline.evaluate.selection.write import write_selection

        settings = SelectionSettings(
            not unnormalised, threshold, _benchmarks(benchmark or ()), _sizes(sizes), count, seed
        )
        accuracies, warnings = Accuracies(), list[str]()
        add_evaluations(evaluations or (), accuracies, warnings.append)
        for kind, files in ((Kind.CANDIDATE, candidates), (Kind.NATURAL, natural), (Kind.SCORE, scores)):
            for file in files or ():
                accuracies.add_file(kind, file)
        with current_step("reading accuracies ...") as on_step:
            selection = analyse(
                settings,
                read_trained(trained) if trained is not None else None,
                accuracies.measurements(),
                read_categories(categories) if categories is not None else None,
                warnings,
                on_step,
            )
        if out is not None:
            write_selection(selection, title, out)
        if as_json:
            print_json(**selection.facts())
            return
        for part in renderables(selection):
            print_renderable(part)
        for warning in warnings:
            warn(warning)
        if out is not None:
            print_line(f"wrote selection.html, selection.md, selection.csv and selection.json to {out}")


def _benchmarks(texts: list[str] | tuple[()]) -> dict[str, list[str]]:
    """Return the corruptions by name of the benchmark."""
    chosen: dict[str, list[str]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        names = words(listed) or []
        if not name or not names or len(set(names)) < len(names) or name in chosen:
            raise UserError(
                f"invalid benchmark {text[:80]!r}: use a new name and different corruptions, for example mine=Blur,Flip"
            )
        chosen[name] = names
    return chosen


def _sizes(text: str | None) -> list[tuple[int, int]]:
    """Return numbers of categories and of corruptions of each."""
    try:
        pairs = [word.split("x") for word in words(text) or ()]
        return list(dict.fromkeys((int(n), int(k)) for n, k in pairs))
    except ValueError:
        raise UserError(f"invalid sizes {(text or '')[:80]!r}: use pairs such as 6x2,6x3") from None
