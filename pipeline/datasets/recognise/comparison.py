"""Images of one corruption beside those that a recipe makes of the same photographs."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from PIL import Image as PillowImage
from PIL import JpegImagePlugin

import corruptions
from corruptions.catalogue import SEVERITIES, draw_nothing
from corruptions.preparation import Window
from pipeline.datasets.recognise.statistics import LUMA, Floats, Image, View, deviations, registered, statistics, view
from pipeline.datasets.recognise.verdicts import FIT_SURE, Alteration, Coding, Measured
from pipeline.errors import SampleError, UserError
from pipeline.images.resizers import OPERATORS
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render.renderer import Renderer
from pipeline.sources.base import SourceImage
from pipeline.sources.kinds import AUTO, open_source
from pipeline.transforms.family import Condition

Size = tuple[int, int]
"""Height and width in pixels."""

Tables = tuple[tuple[int, ...], ...]

RECIPES: Mapping[Size, str] = {(299, 299): "imagenet-c-299", (64, 64): "tiny-imagenet-c", (32, 32): "cifar-10-c"}
"""Size of images -> the recipe that makes images of this size. All sizes are compared with USUAL, too."""
USUAL, USUAL_SIZE = "imagenet-c", (224, 224)

RESIZES = ("pillow-bilinear", "pillow-bicubic", "pillow-lanczos", "pillow-box", "pillow-nearest", "opencv-bilinear")
"""Operators that are tried for images of another size."""
CENTRE = "centre crop"
BACK, ENLARGED = "enlarged and reduced again", 8 / 7
"""What is tried for images of our size, and the factor: that of 256 and 224. Others give nearly the same pixels."""

PREPARATIONS: Mapping[str, Mapping[str, Any]] = {
    "the whole photograph": {"steps": [["square", 224]]},
    "shorter side 224, centre crop": {"steps": [["shorter_side", 224], ["center_crop", 224]]},
    "centre 87.5 %": {"steps": [["center_fraction", 0.875], ["square", 224]]},
    "resized by pillow-bicubic": {"resize": "pillow-bicubic"},
    "resized by opencv-bilinear": {"resize": "opencv-bilinear"},
}
"""Other preparations that are tried for images that are not like ours -> what they change in ``[prepare]``."""

TRIED, MAX_SHIFT, DRAWN = 4, 32, 2
"""Number of images on which alterations are tried, largest shift in pixels, number of our own draws."""

COARSE = 8
"""Side in fields of the coarse images that tell which photograph an image shows."""

NEVER = "not compressed as JPEG before"

OTHER_DRAWS = 2**63
"""Seed of our second draws."""

KEPT = 200
"""Number of prepared photographs in memory."""


class Theirs(NamedTuple):
    """An image of the data set: its photograph, pixels, and coding; None for other formats than JPEG."""

    photograph: SourceImage
    pixels: Image
    coding: Coding | None


class Photographs:
    """The photographs of a source, by the ids of other data sets. Raise UserError if it cannot be read.

    Attributes:
        images: The photographs, in the order of the source.
    """

    def __init__(self, location: str) -> None:
        self._source = open_source(AUTO, location)
        self.images = list(self._source)
        names = Counter(_name(image.id) for image in self.images)
        self._by_id = {_name(image.id): image for image in self.images if names[_name(image.id)] == 1}
        self._by_id |= {image.id: image for image in self.images}
        self.prepared = lru_cache(KEPT)(self._prepared)

    def find(self, source_id: str, row_of_array: bool) -> SourceImage | None:
        """Return the photograph of an image: of its class and name, else of its name, or in its place in an array."""
        if row_of_array:
            place = int(source_id.rpartition("_")[2])
            return self.images[place] if place < len(self.images) else None
        return self._by_id.get(source_id) or self._by_id.get(_name(source_id))

    def _prepared(self, how: Alteration, image: SourceImage) -> Image:
        """Return a photograph as a recipe prepares it. Raise UserError if it cannot be read."""
        renderer = _renderer(how, 0)
        try:
            return renderer.prepare(renderer.decode(self._source.read(image), image.box))
        except (OSError, SampleError) as error:
            raise UserError(f"cannot read the photograph {image.origin}: {error}; restore it or remove it") from error


class Comparison:
    """Images of one corruption beside ours of the same photographs."""

    def __init__(self, transform: str, photographs: Photographs) -> None:
        self._transform, self._photographs = transform, photographs
        self._random = corruptions.get(transform).draw is not draw_nothing
        self._rendered = lru_cache(None)(self._render)
        self._ours = lru_cache(None)(self._alter)
        self._our_statistics = lru_cache(None)(self._measure)
        self._clean = lru_cache(None)(self._view_clean)

    def measure(self, level: int, images: Sequence[Theirs]) -> Measured:
        """Return what was measured of images of a level, all of one size.

        Another recipe or preparation must explain them completely, and twice as well as the first alterations, so that
        images of a published size that nothing explains are not called resized.
        """
        few, size = images[:TRIED], _size(images[0].pixels)

        def misfit(alteration: Alteration) -> float:
            return self._compare(level, few, alteration).misfit

        groups = [self._alterations(images, each) for each in dict.fromkeys((RECIPES.get(size, USUAL), USUAL))]
        groups.append([each._replace(fit=BACK) for each in groups[0] if not each.fit])
        if size == USUAL_SIZE:
            groups.append([Alteration(USUAL, preparation=each) for each in PREPARATIONS])
        best = min(groups[0], key=misfit)
        if any(shift := (0, 0) if best.fit else self._shift(level, images, best)):
            shifted = min((best._replace(shift=shift, stored=each) for each in (True, False)), key=misfit)
            if self._compare(level, images, shifted).misfit < self._compare(level, images, best).misfit / 2:
                best = shifted
        for group in filter(None, groups[1:]):
            if misfit(best) > FIT_SURE / 2 and misfit(found := min(group, key=misfit)) <= min(1, misfit(best) / 2):
                best = found
        return self._compare(level, images, best)

    def shows_photographs(self, images: Sequence[Theirs]) -> bool:
        """Return whether most images show their photograph rather than one of the others, by coarse brightness."""
        clean = [self._photographs.prepared(Alteration(USUAL), each.photograph) for each in images]
        alike = _coarse([each.pixels for each in images]) @ _coarse(clean).T
        return bool((alike.argmax(1) == np.arange(len(images))).mean() > 0.5)

    def _alterations(self, images: Sequence[Theirs], recipe: str) -> list[Alteration]:
        """Return what may have been done to the images that a recipe makes, without shifts."""
        size, coding, plain = _size(images[0].pixels), _usual(images), Alteration(recipe)
        own = _size(self._photographs.prepared(plain, images[0].photograph))
        is_published = own == size and coding is not None and coding.published
        stored = (True,) if is_published or _recipe(plain).encoder.lossless else (True, False)
        is_smaller = size[0] <= own[0] and size[1] <= own[1]
        fits = ("",) if own == size else (*RESIZES, CENTRE) if is_smaller else RESIZES
        return [Alteration(recipe, fit, each) for fit in fits for each in stored]

    def _shift(self, level: int, images: Sequence[Theirs], plain: Alteration) -> tuple[int, int]:
        """Return by how many rows and columns the images together are shifted against ours."""
        size = _size(images[0].pixels)
        ours = [view(self._ours(each.photograph, level, 0, plain, each.coding, size)) for each in images]
        shift = registered([view(each.pixels) for each in images], ours)
        return shift if max(map(abs, shift)) <= MAX_SHIFT else (0, 0)

    def _compare(self, level: int, images: Sequence[Theirs], alteration: Alteration) -> Measured:
        """Return what was measured, if the images were altered like this."""
        draws, size, coding = range(DRAWN if self._random else 1), _size(images[0].pixels), _usual(images)
        recoded = coding is not None and (_recipe(alteration).encoder.lossless or not coding.published)
        same = alteration.stored and not alteration.moved and not alteration.preparation and not recoded
        distances, own = np.zeros(len(SEVERITIES)), 0.0
        theirs, ours = list[Floats](), list[list[list[Floats]]]()
        for each in images:
            how = (alteration, each.coding, size)
            pixels = inside(each.pixels, alteration)
            made = [[self._ours(each.photograph, severity, draw, *how) for draw in draws] for severity in SEVERITIES]
            nominal = made[SEVERITIES.index(level)]
            distances += [_distance(pixels, outputs[0]) for outputs in made]
            own += _distance(nominal[0], nominal[-1])
            same = same and np.array_equal(pixels, nominal[0])
            theirs.append(statistics(view(pixels), self._clean(each.photograph, alteration, size)))
            ours.append(
                [
                    [self._our_statistics(each.photograph, severity, draw, *how) for draw in draws]
                    for severity in SEVERITIES
                ]
            )
        return Measured(
            transform=self._transform,
            level=level,
            random=self._random,
            same=same,
            distances=distances / len(images),
            own=own / len(images),
            deviations=deviations(np.array(theirs), np.array(ours).swapaxes(0, 1)),
            alteration=alteration,
            size=size if alteration.fit else None,
            compression=str(coding) if recoded else "" if alteration.stored or coding else NEVER,
        )

    def _render(self, photograph: SourceImage, level: int, draw: int, alteration: Alteration) -> Image:
        prepared = self._photographs.prepared(alteration, photograph)
        return _renderer(alteration, draw).transform(prepared, photograph.id, Condition(self._transform, level))

    def _alter(
        self, photograph: SourceImage, level: int, draw: int, alteration: Alteration, coding: Coding | None, size: Size
    ) -> Image:
        """Return an image of ours, altered and compressed like theirs."""
        encoder = _recipe(alteration).encoder
        image = self._rendered(photograph, level, draw, alteration.prepared)
        if alteration.stored:
            image = encoder.stored(image)
        image = moved(image, alteration, size)
        is_stored = alteration.stored and not alteration.moved and not encoder.lossless
        if coding and not (is_stored and coding.published):
            image = compressed(image, coding)
        return inside(image, alteration)

    def _measure(self, photograph: SourceImage, level: int, draw: int, *how: Any) -> Floats:
        alteration, _, size = how
        return statistics(view(self._ours(photograph, level, draw, *how)), self._clean(photograph, alteration, size))

    def _view_clean(self, photograph: SourceImage, alteration: Alteration, size: Size) -> View:
        prepared = self._photographs.prepared(alteration.prepared, photograph)
        return view(inside(moved(prepared, alteration, size), alteration))


def coding_of(data: bytes) -> Coding | None:
    """Return the coding of a JPEG file; None for one without colours."""
    with PillowImage.open(io.BytesIO(data)) as image:
        if not isinstance(image, JpegImagePlugin.JpegImageFile) or image.mode != "RGB":
            return None
        tables = _tables(image)
        return Coding(tables, JpegImagePlugin.get_sampling(image), _qualities().get(tables, 0))


def compressed(image: Image, coding: Coding) -> Image:
    """Return the pixels of an image after compression with a coding."""
    buffer = io.BytesIO()
    tables = [list(table) for table in coding.tables]
    PillowImage.fromarray(image).save(buffer, "jpeg", qtables=tables, subsampling=coding.sampling)
    return np.asarray(PillowImage.open(buffer).convert("RGB"))


def moved(image: Image, alteration: Alteration, size: Size) -> Image:
    """Return an image in which the pixels have other places, of this height and width."""
    height, width = size
    resize = OPERATORS["pillow-bicubic"].resize
    if alteration.fit == CENTRE:
        top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
        return np.ascontiguousarray(image[top : top + height, left : left + width])
    if alteration.fit == BACK:
        larger = round(height * ENLARGED), round(width * ENLARGED)
        return resize(resize(image, *larger, Window(0, 0, *larger)), height, width, Window(0, 0, height, width))
    if alteration.fit:
        return OPERATORS[alteration.fit].resize(image, height, width, Window(0, 0, height, width))
    return np.roll(image, alteration.shift, (0, 1))


def inside(image: Image, alteration: Alteration) -> Image:
    """Return the part of an image that no shift has replaced."""
    down, across = map(abs, alteration.shift)
    return image[down : image.shape[0] - down, across : image.shape[1] - across]


@lru_cache
def _qualities() -> Mapping[Tables, int]:
    """Return the quantisation tables of libjpeg -> quality."""
    found = {}
    for quality in range(1, 101):
        buffer = io.BytesIO()
        PillowImage.new("RGB", (8, 8)).save(buffer, "jpeg", quality=quality)
        with PillowImage.open(buffer) as image:
            found[_tables(image)] = quality
    return found


def _tables(image: Any) -> Tables:
    return tuple(tuple(table) for _, table in sorted(image.quantization.items()))


@lru_cache
def _recipe(how: Alteration) -> Recipe:
    return library.load(how.recipe).changed(prepare=PREPARATIONS.get(how.preparation))


@lru_cache
def _renderer(how: Alteration, draw: int) -> Renderer:
    """Return the renderer of a recipe with the first draws, which are those of our builds, or with others."""
    return Renderer(_recipe(how).changed(seed=OTHER_DRAWS + draw if draw else None))


def _usual(images: Sequence[Theirs]) -> Coding | None:
    return Counter(image.coding for image in images).most_common(1)[0][0]


def _size(image: Image) -> Size:
    return image.shape[0], image.shape[1]


def _distance(one: Image, other: Image) -> float:
    return float(np.abs(one.astype(np.int16) - other).mean())


def _coarse(images: Sequence[Image]) -> Floats:
    """Return the brightness of images in COARSE x COARSE fields, (N, COARSE * COARSE), with mean 0 and norm 1."""
    resize, window = OPERATORS["pillow-box"].resize, Window(0, 0, COARSE, COARSE)
    fields = np.array([resize(each, COARSE, COARSE, window) @ LUMA for each in images]).reshape(len(images), -1)
    fields -= fields.mean(1, keepdims=True)
    return fields / (np.linalg.norm(fields, axis=1, keepdims=True) + 1)


def _name(id_: str) -> str:
    return id_.rpartition("/")[2]
