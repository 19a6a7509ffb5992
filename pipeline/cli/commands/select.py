"""``robustshards select``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.cli.console import print_json, print_line, print_renderable, warn
from pipeline.cli.options import Printing, command
from pipeline.errors import UserError
from pipeline.settings import ARGUMENT, FLAG, REPORTING, Kind, integer, location, many, number, setting, text, words

ACCURACIES, BENCHMARKS = "Accuracies", "Categories and benchmarks"
"""Sections of the help."""


def _benchmarks(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the corruptions by name of the benchmark."""
    chosen: dict[str, list[str]] = {}
    for each in texts:
        name, _, listed = each.partition("=")
        names = words().read(listed)
        if not name or not names or len(set(names)) < len(names) or name in chosen:
            raise UserError(
                f"invalid benchmark {each[:80]!r}: use a new name and different corruptions, for example mine=Blur,Flip"
            )
        chosen[name] = names
    return chosen


def _sizes(value: str) -> list[tuple[int, int]]:
    """Return numbers of categories and of corruptions of each."""
    pairs = [word.split("x") for word in words().read(value)]
    return list(dict.fromkeys((int(n), int(k)) for n, k in pairs))


FILES = many(location("FILE"))


@dataclass(frozen=True)
class SelectSettings(Printing):
    """A choice of corruptions.

    Attributes:
        evaluations: Folders that evaluate wrote, for several models: on candidates, clean images and natural images.
        candidates: Accuracies (fractions) as CSV or JSON: a row per model, the column clean and one per candidate.
        natural: Accuracies of the same models on natural images: a row per model, a column per set of images.
        scores: Scores of the same models on other benchmarks, smaller is better, for example flip probabilities.
        trained: Accuracies of models trained with corruptions, for overlap scores: rows and columns are clean and the
            corruptions.
        categories: Categories as a JSON object of lists of names. Default: found from the overlap scores.
        threshold: Mean correlation within categories that as few categories as possible must exceed.
        unnormalised: Compute overlap scores from accuracies that are not divided by the clean accuracy.
        benchmark: A benchmark to compare with random ones, e.g. mine=Blur,Flip; repeat for several. ImageNet-Syn2Nat is
            included if its corruptions are.
        sizes: Random benchmarks: numbers of categories x corruptions of each, e.g. 6x2,6x3. Default: the paper's.
        count: Number of random benchmarks per size.
        seed: Seed of the categories and of the random benchmarks, 0 to 2^64 - 1.
        out: Folder for selection.html, selection.md, selection.csv and selection.json. Default: only print the tables.
        title: Title of the page.
    """

    evaluations: Sequence[str] = setting((), many(location("FOLDER...")), ACCURACIES, ARGUMENT)
    candidates: Sequence[str] = setting((), FILES, ACCURACIES)
    natural: Sequence[str] = setting((), FILES, ACCURACIES)
    scores: Sequence[str] = setting((), FILES, ACCURACIES)
    trained: str | None = setting(None, location("FILE"), ACCURACIES)
    categories: str | None = setting(None, location("FILE"), BENCHMARKS)
    threshold: float = setting(0.5, number(-1, 1), BENCHMARKS)
    unnormalised: bool = setting(False, FLAG, BENCHMARKS)
    benchmark: Mapping[str, list[str]] = setting((), Kind(_benchmarks, "", "NAME=NAMES", many=True), BENCHMARKS)
    sizes: Sequence[tuple[int, int]] = setting(
        (), Kind(_sizes, "pairs such as 6x2,6x3", "SIZES", separator=","), BENCHMARKS
    )
    count: int = setting(1000, integer(1, 10_000), BENCHMARKS)
    seed: int = setting(0, integer(0, 2**64 - 1), BENCHMARKS)
    out: str | None = setting(None, location(), REPORTING)
    title: str = setting("Selection of corruptions", text("TEXT"), REPORTING)


@command()
def select(asked: SelectSettings) -> None:
    """Choose corruptions for a benchmark, as ImageNet-Syn2Nat was chosen.

    Prints how corruptions overlap and which categories they form (with --trained), and how well benchmarks of them
    predict robustness to natural images (with accuracies of several models).
    """
    from pipeline.cli.progress import current_step
    from pipeline.evaluate.report.text import to_terminal
    from pipeline.evaluate.selection.accuracies import Accuracies, Kind, add_evaluations, read_categories, read_trained
    from pipeline.evaluate.selection.analysis import SelectionSettings, analyse
    from pipeline.evaluate.selection.document import document, terminal_tables, write_selection

    settings = SelectionSettings(
        not asked.unnormalised, asked.threshold, asked.benchmark, asked.sizes, asked.count, asked.seed
    )
    accuracies, warnings = Accuracies(), list[str]()
    add_evaluations(asked.evaluations, accuracies, warnings.append)
    for kind, files in ((Kind.CANDIDATE, asked.candidates), (Kind.NATURAL, asked.natural), (Kind.SCORE, asked.scores)):
        for file in files:
            accuracies.add_file(kind, file)
    with current_step("reading accuracies ...") as on_step:
        selection = analyse(
            settings,
            read_trained(asked.trained) if asked.trained is not None else None,
            accuracies.measurements(),
            read_categories(asked.categories) if asked.categories is not None else None,
            warnings,
            on_step,
        )
    shown = document(selection, asked.title)
    if asked.out is not None:
        write_selection(selection, shown, asked.out)
    if asked.as_json:
        print_json(**selection)
        return
    for part in to_terminal(terminal_tables(shown)):
        print_renderable(part)
    for warning in warnings:
        warn(warning)
    if asked.out is not None:
        print_line(f"wrote selection.html, selection.md, selection.csv and selection.json to {asked.out}")
