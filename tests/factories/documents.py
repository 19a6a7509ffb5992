"""Documents with every kind of table and plot, for tests of outputs."""

import math
from collections.abc import Sequence

from pipeline.evaluate.report.views import (
    COUNT,
    PLAIN,
    Axis,
    Chapter,
    Column,
    Document,
    Headline,
    Number,
    NumberFormat,
    Panel,
    Plot,
    Point,
    Table,
)

MODELS = ("EfficientNet-Lite0", "EfficientNet-Lite1", "EfficientNet-Lite2")
MANY = (
    *MODELS,
    "ResNet-50 trained with AugMix",
    "a_model_with_a_very_long_name_that_somebody_chose",
    "DeiT-S",
    "Swin-T",
)
HOSTILE = '<script>alert(1)</script>|`*a*` $x_1^2$ \\input{x} 100% #1 & ~[b](c) 模型 é L∞ -- "q"'
"""A name with the markup of all formats."""

CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "snow",
    "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
LEVELS = (1, 2, 3, 4, 5)
PARAMETERS = NumberFormat(1e-6, 1)


def error(model: int, transform: int, level: int) -> float:
    """Return an error rate that differs for all arguments."""
    return 0.1 + 0.03 * model + 0.01 * transform + 0.1 * level


def number(value: float, **more: object) -> Number:
    return Number(value, value - 0.004, value + 0.004, **more)


def curves(models: Sequence[str], titles: Sequence[str]) -> Plot:
    return Plot(
        "lines",
        [
            Panel(
                title,
                [point for index, model in enumerate(models) for point in curve(model, index, at)],
                Axis("severity", COUNT),
                ACCURACY,
            )
            for at, title in enumerate(titles)
        ],
    )


ACCURACY = Axis("accuracy")


def curve(model: str, index: int, transform: int) -> list[Point]:
    values = ((level, 1 - error(index, transform, level)) for level in LEVELS)
    return [Point(model, level, value, value - 0.01, value + 0.01) for level, value in values]


def bars(models: Sequence[str]) -> Plot:
    groups = {"noise": CORRUPTIONS[:3], "blur": CORRUPTIONS[3:7]}
    panels = []
    for title, names in groups.items():
        points = []
        for index, model in enumerate(models):
            values = ((name, 1.2 * error(index, at, 3)) for at, name in enumerate(names))
            points += [Point(model, name, value, value - 0.02, value + 0.02) for name, value in values]
        panels.append(Panel(title, points, Axis(""), Axis("CE")))
    return Plot("bars", panels, 1, "baseline: AlexNet (published)")


def heat_map(models: Sequence[str]) -> Plot:
    rows = ("pillow-nearest", "opencv-area")
    panels = [
        Panel(
            model,
            [
                Point(row, decoder, value)
                for at, row in enumerate(rows)
                for decoder, value in (("pillow", 0.75 - 0.01 * at), ("ffmpeg", math.nan if at else 0.5))
            ],
            Axis("decoder"),
            ACCURACY,
        )
        for model in models
    ]
    return Plot("heat map", panels)


def reliability(models: Sequence[str]) -> Plot:
    points = [
        Point(f"severity {level}", x, 0.9 * x / level, size=size)
        for level in (1, 2)
        for x, size in ((0.1, 0.1), (0.5, 0.3), (0.9, 1))
    ]
    return Plot("reliability", [Panel(model, points, Axis("confidence"), ACCURACY) for model in models])


def scatter(models: Sequence[str], published: Sequence[str] = ("ResNet-18 (published)",)) -> Plot:
    points = [Point(model, 5e6 * (at + 1) ** 2, 0.6 + 0.02 * at) for at, model in enumerate(models)]
    points += [Point(name, 1.17e7 * (at + 1), 0.845, published=True) for at, name in enumerate(published)]
    return Plot("scatter", [Panel("by size", points, Axis("parameters (millions)", PARAMETERS, True), Axis("mCE"))])


def key_table(models: Sequence[str]) -> Table:
    """Return a table with all marks: a partial mean, a rank, a best value, a lossy number, a text and a count."""
    cells = [number(0.7 + 0.02 * at, rank=f"{at + 1}", best=not at, partial=at == 1) for at in range(len(models))]
    return Table(
        "ImageNet-C",
        "key figures",
        "CE is normalised. * EfficientNet-Lite1: mCE over 14 of 15 corruptions.",
        [Column("metric", number=False), *map(Column, models)],
        [
            ["mCE", *cells],
            ["residual robustness", *(number(-0.2, lossy=True) for _ in models)],
            ["baseline", *("AlexNet (published)" for _ in models)],
            ["images", *(Number(50_000, format=COUNT) for _ in models)],
        ],
        caption="50,000 images, seed 0",
    )


def error_table(models: Sequence[str], plot: Plot | None = None) -> Table:
    """Return a table with two columns per model and a transform that is not in the benchmark."""
    columns = [Column(title, model) for model in models for title in ("CE", "relative CE")]
    rows = []
    for row, name in enumerate(CORRUPTIONS):
        cells = (number(error(at, row, 3), short=True) for at in range(len(models)) for _ in "12")
        rows.append([f"{name} †" if name == "pixelate" else name, *cells])
    note = "In percent of the baseline. † not in the benchmark."
    return Table(
        "ImageNet-C", "corruption error (CE)", note, [Column("corruption", number=False), *columns], rows, plot
    )


def by_model_table(models: Sequence[str], plot: Plot | None = None) -> Table:
    """Return a table with one row per transform and model."""
    columns = [
        Column("corruption", number=False),
        Column("model", number=False),
        *(Column(str(each)) for each in LEVELS),
    ]
    rows = [
        [name, model, *(number(1 - error(at, row, level), short=True) for level in LEVELS)]
        for row, name in enumerate(CORRUPTIONS)
        for at, model in enumerate(models)
    ]
    return Table("ImageNet-C", "accuracy by corruption and severity", "", columns, rows, plot)


def small_table(title: str, models: Sequence[str], plot: Plot) -> Table:
    return Table("ImageNet-C", title, "", [Column("metric", number=False), *map(Column, models)],
                 [["ECE", *(number(0.05) for _ in models)]], plot)  # fmt: skip


def document(models: Sequence[str] = MODELS) -> Document:
    """Return a document with every kind of plot."""
    tables = [
        key_table(models),
        small_table("accuracy by severity", models, curves(models, ["mean over the corruptions"])),
        error_table(models, bars(models)),
        by_model_table(models, curves(models, CORRUPTIONS)),
        small_table("accuracy by pair", models, heat_map(models)),
        small_table("calibration", models, reliability(models)),
        small_table("mCE by size", models, scatter(models)),
    ]
    return Document(
        "Robustness report",
        ["resnet18: 3 samples had failed"],
        models,
        {models[0]: "a note"},
        {
            model: [Headline("ImageNet-C", "mCE", number(0.7), "AlexNet (published)", "14 of 15 corruptions", "")]
            for model in models
        },
        1,
        [Chapter("ImageNet-C", tables)],
        [("CE, mCE", "Corruption error.")],
        ["Hendrycks and Dietterich, ICLR 2019"],
        [("command", "robustshards report one two"), ("seed", "0")],
    )


def hostile_document() -> Document:
    """Return a document in which every text is hostile."""
    table = Table(
        HOSTILE, HOSTILE, HOSTILE, [Column(HOSTILE, number=False), Column(HOSTILE, HOSTILE)],
        [[HOSTILE, number(0.5)], [f"[{HOSTILE}", HOSTILE]], bars([HOSTILE]), HOSTILE,
    )  # fmt: skip
    plots = [
        curves([HOSTILE], [HOSTILE]),
        heat_map([HOSTILE]),
        reliability([HOSTILE]),
        scatter([HOSTILE, "[x]"], [HOSTILE * 2]),
    ]
    axis = Axis(HOSTILE, PLAIN, ticks={0.0: HOSTILE})
    plots.append(Plot("bars", [Panel(HOSTILE, [Point(HOSTILE, HOSTILE, 0.5)], axis, axis)], 1, HOSTILE))
    tables = [table, *(small_table(HOSTILE, [HOSTILE], plot) for plot in plots)]
    headline = Headline(HOSTILE, HOSTILE, number(0.5), HOSTILE, HOSTILE, HOSTILE)
    return Document(
        HOSTILE, [HOSTILE], [HOSTILE], {HOSTILE: HOSTILE}, {HOSTILE: [headline]}, 1,
        [Chapter(HOSTILE, tables)], [(HOSTILE, HOSTILE)], [HOSTILE], [(HOSTILE, HOSTILE)],
    )  # fmt: skip
