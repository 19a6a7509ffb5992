"""The limit on the size of the shards, and builds that stop at it."""

import json
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.builder.plan import ShardTask, WorkItem
from pipeline.builder.quota import MARGIN, Quota, Sizes, Withheld, estimated_bytes, parse_size
from pipeline.errors import UserError
from pipeline.sources.base import SourceImage
from pipeline.transforms.family import Condition
from tests.conftest import Run
from tests.factories.data_sets import data_digests

IMAGES = tuple(SourceImage(str(index), 0, "", "", 1) for index in range(10))
CONDITIONS = tuple(Condition(name, level) for name in ("contrast", "fog") for level in (1, 3))


def blocks(images: list[int]) -> list[WorkItem]:
    return [
        WorkItem(index, IMAGES[:count], tuple(ShardTask(condition, index, "") for condition in CONDITIONS))
        for index, count in enumerate(images)
    ]


def build(
    quota: Quota, work: list[WorkItem], sizes: dict[tuple[str, int], int], workers: int
) -> tuple[int, list[ShardTask]]:
    """Simulate a pool with ``workers`` work items in progress, which finish in order."""
    peak, made = quota.known.bytes.total(), []
    for fitting in quota.rounds(iter(work)):
        in_progress: deque[WorkItem] = deque()
        for block in fitting:
            in_progress.append(block)
            while len(in_progress) > workers:
                made += finish(quota, in_progress.popleft(), sizes)
        for block in in_progress:
            made += finish(quota, block, sizes)
        peak = max(peak, quota.known.bytes.total())
    return peak, made


def finish(quota: Quota, block: WorkItem, sizes: dict[tuple[str, int], int]) -> list[ShardTask]:
    conditions = [str(task.condition) for task in block.tasks]
    quota.add_finished(
        dict.fromkeys(conditions, len(block.images)),
        {condition: sizes[condition, block.index] for condition in conditions},
    )
    return list(block.tasks)


@st.composite
def builds(draw: st.DrawFn) -> tuple[list[WorkItem], dict[tuple[str, int], int], int, int]:
    """Draw blocks, the size of each shard (1000 bytes per sample, up to the margin more), a limit and workers."""
    work = blocks(draw(st.lists(st.integers(1, len(IMAGES)), min_size=1, max_size=8)))
    most = int(1000 * MARGIN)
    sizes = {
        (str(task.condition), block.index): len(block.images) * draw(st.integers(1000, most))
        for block in work
        for task in block.tasks
    }
    return work, sizes, draw(st.integers(1, 2 * sum(sizes.values()))), draw(st.integers(0, 5))


@given(builds())
def test_the_limit_is_never_exceeded_and_always_used(
    case: tuple[list[WorkItem], dict[tuple[str, int], int], int, int],
) -> None:
    work, sizes, limit, workers = case
    measured = Sizes()
    for condition in CONDITIONS:
        measured.add(str(condition), 1, 1000)
    quota = Quota(limit, Sizes(), measured)
    peak, made = build(quota, work, sizes, workers)
    tasks = [task for block in work for task in block.tasks]
    assert made == tasks[: len(made)]
    assert quota.known.bytes.total() == sum(sizes[str(task.condition), task.block] for task in made)
    assert peak <= limit
    if quota.withheld:
        following = tasks[len(made)]
        assert quota.withheld.tasks[0] == following
        images = len(work[following.block].images)
        known = quota.known.largest.get(str(following.condition), 1000)
        assert quota.known.bytes.total() + images * MARGIN * known > limit
    else:
        assert made == tasks


def test_without_a_limit_there_is_one_round() -> None:
    work = blocks([3, 10])
    quota = Quota()
    assert [list(fitting) for fitting in quota.rounds(iter(work))] == [work]
    assert quota.withheld is None


def test_finished_shards_take_precedence_over_measured_images() -> None:
    measured, known = Sizes(), Sizes()
    measured.add("fog-1", 1, 9000)
    measured.add("fog-3", 1, 500)
    known.add("fog-1", 10, 10_000)
    known.add("fog-1", 10, 30_000)
    assert estimated_bytes({"fog-1": 4, "fog-3": 2}, known, measured) == 4 * 2000 + 2 * 500
    rest = WorkItem(0, IMAGES, (ShardTask(Condition("fog", 1), 0, ""),))
    enough = 40_000 + MARGIN * 10 * 3000
    assert not list(Quota(enough - 1, known, measured).rounds(iter([rest])))
    assert [list(fitting) for fitting in Quota(enough, known, measured).rounds(iter([rest]))] == [[rest]]


@pytest.mark.parametrize(
    ("text", "size"), [("1234", 1234), ("50GB", 50 * 10**9), ("1.5 TB", 15 * 10**11), ("800MiB", 800 * 2**20)]
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


INVALID_SIZES = ("", "0", "-5GB", "much", "5 apples", "1e9", "nan", "inf", "9" * 5000, "9" * 19, "1..5", "5GB;", "0x10")


@pytest.mark.parametrize("text", [*INVALID_SIZES, "\u0665"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"800MiB, 50GB, 1\.5TB"):
        parse_size(text)


def test_withheld_names_sizes_and_remedy() -> None:
    text = str(Withheld(shards=1234, bytes=21 * 10**9, there=49 * 10**9))
    assert "49.0 GB; 1,234 shards of about 21.0 GB are missing" in text
    assert "with a larger --max-bytes" in text


def shard_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.tar"))


def test_a_build_stops_below_its_limit_and_continues_without_one(
    robustshards: Run, small_source: Path, tmp_path: Path
) -> None:
    command = ("build", "imagenet-c", "--source", small_source, "--only", "contrast", "--shard-size", 1)
    robustshards.succeed(*command, "--out", tmp_path / "undisturbed")
    whole, shards = shard_bytes(tmp_path / "undisturbed"), 6 * 5
    limit = whole // 2
    done = robustshards(*command, "--out", tmp_path / "data", "--max-bytes", limit, "--workers", 2, "--json")
    assert done.returncode == 3, done.stderr
    facts = json.loads(done.stdout)
    assert not facts["complete"]
    assert facts["withheld"]["there"] == shard_bytes(tmp_path / "data")
    assert limit - 2 * MARGIN * whole / shards < facts["withheld"]["there"] <= limit
    assert facts["withheld"]["shards"] == shards - len(list(tmp_path.glob("data/manifest/*.parquet")))
    assert facts["withheld"]["there"] + facts["withheld"]["bytes"] == pytest.approx(whole, rel=0.2)
    assert not (tmp_path / "data" / "manifest.parquet").exists()
    robustshards.succeed(*command, "--out", tmp_path / "data")
    assert data_digests(tmp_path / "data") == data_digests(tmp_path / "undisturbed")
