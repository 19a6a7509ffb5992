"""CIFAR-100 with some fine classes of each coarse class held out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.errors import UserError
from pipeline.sources import pickles
from pipeline.sources.array_rows import ArraySource, ArrayTable
from pipeline.sources.base import Source, SourceImage
from pipeline.sources.parts import Part, require_both
from pipeline.sources.views import View
from pipeline.storage import Place
from pipeline.tasks.labels import LabelSpace
from pipeline.tasks.lists import shipped_list

KIND = "cifar-100-subclass"

FINE_CLASSES: Mapping[str, tuple[int, ...]] = {
    name: tuple(map(int, numbers.split()))
    for name, _, numbers in (line.partition(": ") for line in shipped_list("cifar100_subclasses.txt"))
}
"""Name of each coarse class in label order -> its fine classes in the order in which the protocol holds them out."""


def cifar_100_subclass(
    place: Place, hold_out: int | None = None, part: Part | None = None, split: str | None = None
) -> View:
    """Return the images of one part with coarse labels. Ids name the fine class: ``fine_72/image_000123``.

    Source: Hendrycks and Dietterich, arXiv 1807.01697, held-out subclasses of CIFAR-100.

    Args:
        place: The folder as distributed, or one of its batch files.
        hold_out: Number of fine classes of each coarse class to hold out, 1..3.
        part: Part to use.
        split: Batch of the folder to use. Default: the test images.

    Raises:
        UserError: An option is missing or has no effect, or the file does not exist.
    """
    require_both(KIND, hold_out=hold_out, part=part)
    if split is not None and not place.is_folder:
        raise UserError(f"source.split={split} has no effect on a file: give the folder that contains it, or omit it")
    file = Place(place.store, split or "test") if place.is_folder else place
    held_out = {fine for numbers in FINE_CLASSES.values() for fine in numbers[:hold_out]}
    fine_labels: list[int] = []

    def load() -> ArrayTable:
        content = pickles.load_file(file)
        rows = content.pixels("data")
        fine, coarse = (content.labels(key, len(rows)) for key in ("fine_labels", "coarse_labels"))
        _check_classes(fine, coarse, file.location)
        fine_labels[:] = fine
        return ArrayTable(rows, coarse, tuple(FINE_CLASSES), len(FINE_CLASSES))

    def select(source: Source) -> Iterator[SourceImage]:
        for index, image in enumerate(source):
            if (fine_labels[index] in held_out) == (part == "held_out"):
                yield replace(image, id=f"fine_{fine_labels[index]:02d}/image_{index:06d}")

    source = ArraySource(file, load)

    def labels() -> LabelSpace | None:
        return source.labels and source.labels.model_copy(update={"names": tuple(FINE_CLASSES)})

    return View(source, select, labels)


def _check_classes(fine: Sequence[int], coarse: Sequence[int], where: str) -> None:
    """Raise UserError if an image has fine and coarse classes that do not belong together, or fine ones are missing."""
    pairs = set(zip(fine, coarse, strict=True))
    known = {(number, label) for label, numbers in enumerate(FINE_CLASSES.values()) for number in numbers}
    if unknown := sorted(pairs - known):
        number, label = unknown[0]
        raise UserError(
            f"{where} has an image of the fine class {number} and the coarse class {label}, which do not belong "
            "together in CIFAR-100: download the file again"
        )
    for label, (name, numbers) in enumerate(FINE_CLASSES.items()):
        found = sum((number, label) in pairs for number in numbers)
        if found < len(numbers):
            raise UserError(
                f"{where} has {found} of the {len(numbers)} fine classes of {name}: give a complete batch of CIFAR-100"
            )
