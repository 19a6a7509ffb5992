"""The measurements as a Markdown page and a plot."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from bench.build_speed import BuildSpeed
from bench.cifar_speed import PART, WORKERS, CifarSpeed
from bench.corruption_speed import ENCODING, OURS, Row, mean_ratio
from bench.loader_speed import LoaderSpeed
from bench.scaling import Overhead, Scaling
from bench.sequence_speed import PresetRow, SequenceRow

mpl.use("Agg")
from matplotlib import pyplot as plt


def corruption_table(title: str, rows: Sequence[Row], peers: Sequence[str]) -> str:
    """Return the table of one image size: milliseconds, means over five severities."""
    lines = [
        f"### {title}",
        "",
        markdown_line(
            (
                "corruption",
                "robustshards",
                *peers,
                "fastest package / robustshards",
                "JPEG encoding of the output",
            )
        ),
    ]
    lines.append("|---" + "|---:" * (len(peers) + 3) + "|")
    for row in rows:
        times = [_ms(row.milliseconds.get(who)) for who in (OURS, *peers)]
        lines.append(markdown_line((row.name, *times, f"{row.ratio:.1f}", _ms(row.milliseconds[ENCODING]))))
    means = [_ms(_mean(rows, who)) for who in (OURS, *peers)]
    lines.append(markdown_line(("**mean**", *means, f"**{mean_ratio(list(rows)):.1f}**", _ms(_mean(rows, ENCODING)))))
    return "\n".join(lines)


def build_table(builds: Sequence[BuildSpeed], plain: float) -> str:
    """Return the table of builds of different sizes, their stages, and the procedures they are compared with."""
    sizes = [f"{build.images:,} images, shards of {build.images:,}" for build in builds]
    lines = [markdown_line(("ms per output, one process, one thread", *sizes)), "|---" + "|---:" * len(builds) + "|"]
    rows = [
        ("whole build", [build.build for build in builds]),
        *((f"&nbsp; {stage}", [build.stages[stage] for build in builds]) for stage in builds[0].stages),
        ("JPEG encoding of the same outputs", [build.encoding for build in builds]),
        ("plain procedure with the fastest package per corruption", [plain for _ in builds]),
    ]
    lines += [markdown_line((name, *(f"{spent:.3f}" for spent in times))) for name, times in rows]
    ratios = [f"**{build.ratio:.2f}**" for build in builds]
    lines.append(markdown_line(("build / JPEG encoding", *ratios)))
    ratios = [f"**{plain / build.build:.1f}**" for build in builds]
    lines.append(markdown_line(("plain procedure / build", *ratios)))
    lines += ["", "The plain procedure opens, resizes, corrupts and saves each output by itself."]
    return "\n".join(lines)


def scaling_table(
    scaling: Scaling, driver: Overhead, build_ms: float, megabytes: float, start: tuple[float, float]
) -> str:
    """Return the table of workers, driver, memory and start."""
    spent = driver.planning + driver.scheduling + driver.merging
    share = spent / (150_000 * build_ms / 1e3)
    lines = [
        markdown_line(("measured", "figure")),
        "|---|---:|",
        markdown_line(("outputs per second, 1 worker, after the start", f"{scaling.one:,.0f}")),
        markdown_line(("outputs per second, 2 workers, while both run", f"{scaling.two:,.0f} ({scaling.ratio:.2f} x)")),
        markdown_line(("planning 2,000 images x 75 outputs", f"{driver.planning:.2f} s")),
        markdown_line(("scheduling their work items", f"{driver.scheduling:.2f} s")),
        markdown_line(("merging their manifest", f"{driver.merging:.2f} s")),
        markdown_line(("these three, share of the build's core time", f"{share:.1%}")),
        markdown_line(("peak memory of a worker, 75 shards of 1,000 images", f"{megabytes:,.0f} MB")),
        markdown_line(("first payload of a process, including imports, kernels cached", f"{start[0]:.2f} s")),
        markdown_line(("one payload of each of 19 corruptions, including imports", f"{start[1]:.2f} s")),
    ]
    return "\n".join(lines)


def cifar_table(speed: CifarSpeed) -> str:
    """Return the table of CIFAR-10-C: comparison with the published procedure, and estimate for the whole data set."""
    lines = [
        markdown_line(("measured", "figure")),
        "|---|---:|",
        markdown_line(
            ("robustshards, from batch to shards, one process, one thread", f"{speed.ours:.3f} ms per output")
        ),
        markdown_line(
            ("published loop with the fastest package per corruption", f"{speed.published:.3f} ms per output")
        ),
        markdown_line(("published / robustshards", f"**{speed.published / speed.ours:.1f}**")),
        markdown_line(
            (
                f"{PART:,} images ({speed.outputs:,} outputs), {WORKERS} workers, including start",
                f"{speed.part_seconds:.0f} s",
            )
        ),
        markdown_line(("estimate for the whole: 10,000 images, 950,000 outputs", f"{speed.whole_minutes:.1f} min")),
    ]
    return "\n".join(lines)


def loader_table(speed: LoaderSpeed) -> str:
    """Return the table of the evaluator's loader and an image folder read as torchvision does."""
    lines = [
        markdown_line(("decode and normalise, one process, one thread", "images per second")),
        "|---|---:|",
        markdown_line(("shards, read by the evaluator", f"{speed.ours:,.0f}")),
        markdown_line(("image folder, read as torchvision does", f"{speed.folder:,.0f}")),
        "",
        f"{speed.images:,} images of 224 x 224. Evaluator / torchvision: **{speed.ours / speed.folder:.1f}**.",
    ]
    return "\n".join(lines)


def sequence_table(rows: Sequence[SequenceRow], presets: Sequence[PresetRow]) -> str:
    """Return the tables of perturbation sequences, compared with the published procedure, and of x264's presets."""
    titles = (
        "perturbation",
        "frames",
        "JPEG frames",
        "MP4",
        "published procedure",
        "published / JPEG frames",
        "published / MP4",
    )
    lines = [markdown_line(titles), "|---" + "|---:" * (len(titles) - 1) + "|"]
    for row in rows:
        times = (_ms(row.jpeg), _ms(row.mp4), _ms(row.published))
        ratios = (f"{row.published / row.jpeg:.0f}", f"{row.published / row.mp4:.1f}")
        lines.append(markdown_line((row.name, str(row.frames), *times, *ratios)))
    total = sum(row.frames for row in rows)
    jpeg, mp4, published = (
        sum(getattr(row, way) * row.frames for row in rows) / total for way in ("jpeg", "mp4", "published")
    )
    means = (_ms(jpeg), _ms(mp4), _ms(published), f"**{published / jpeg:.0f}**", f"**{published / mp4:.1f}**")
    lines.append(markdown_line(("**mean per frame**", str(total), *means)))
    lines += ["", f"{1e3 / jpeg:,.0f} frames per second and core as JPEG, {1e3 / mp4:,.0f} as MP4 (veryslow).", ""]
    lines += [
        markdown_line(("x264 preset", "ms per frame", "bytes per frame", "mean difference, levels of 255")),
        "|---|---:|---:|---:|",
    ]
    lines += [
        markdown_line((each.preset, f"{each.milliseconds:.2f}", f"{each.size:,.0f}", f"{each.difference:.2f}"))
        for each in presets
    ]
    return "\n".join(lines)


def page(sections: Sequence[str]) -> str:
    """Return the whole page."""
    about = f"Python {platform.python_version()}, {platform.machine()}, {processor()}, one thread."
    head = "# Benchmark\n\nWritten by `make bench`. Medians in milliseconds unless stated otherwise. " + about
    return "\n\n".join([head, *sections]) + "\n"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Plot robustshards, the fastest package and JPEG encoding as bars on a logarithmic axis."""
    figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
    positions = range(len(rows))
    series = [
        ("fastest published package", [row.fastest for row in rows], "#c9c9c9"),
        ("JPEG encoding of the output", [row.milliseconds[ENCODING] for row in rows], "#8fb8de"),
        ("robustshards", [row.milliseconds[OURS] for row in rows], "#d1495b"),
    ]
    for index, (label, values, colour) in enumerate(series):
        axes.barh(
            [position + (1 - index) * 0.27 for position in positions], values, height=0.27, label=label, color=colour
        )
    axes.set_yticks(list(positions), [f"{row.name}  {row.ratio:.0f} x" for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds per 224 x 224 image, mean of five severities, one thread")
    axes.set_title(
        f"Corruptions: {mean_ratio(list(rows)):.0f} times as fast as the fastest published package per corruption"
    )
    axes.legend(loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _mean(rows: Sequence[Row], who: str) -> float | None:
    times = [row.milliseconds[who] for row in rows if who in row.milliseconds]
    return sum(times) / len(times) if len(times) == len(rows) else None


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def markdown_line(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def processor() -> str:
    """Return the name of the CPU."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"
