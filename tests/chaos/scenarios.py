"""Table of the scenarios: what is built, from which source to which output, and which faults are injected."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.injectors import POISON, SECOND_BUILD


@dataclass(frozen=True)
class Selection:
    """Arguments of the build command: for the full trials and for the short version."""

    arguments: Sequence[str]
    short: Sequence[str]


CORRUPTIONS = Selection(
    ("imagenet-c", "--only", "noise,contrast,pixelate", "--shard-size", "3"),
    ("imagenet-c", "--only", "noise,contrast", "--severities", "1,3", "--shard-size", "2"),
)
SEQUENCES = Selection(
    ("tiny-imagenet-p", "--only", "gaussian_noise,rotate,tilt,brightness", "--shard-size", "1"),
    ("tiny-imagenet-p", "--only", "gaussian_noise,rotate", "--shard-size", "2", "--limit", "4"),
)


@dataclass(frozen=True)
class Scenario:
    """A scenario: a build and the faults that are injected into it.

    Attributes:
        share: Weight of this scenario when the faults are distributed.
        engine: Engine of the workers, "ray" or "local".
        source: "folder" or "s3".
        output: "folder", "s3" or "disk" (a small disk).
        injectors: Kinds of faults. One is chosen at random at a time.
        pace: Smallest and largest fraction of all shards that are made between two faults.
        each: Maximum number of faults in a build.
        weather: Kinds of disturbances in the S3 proxy.
        rate: Fraction of the requests that are disturbed.
        poisoned: Whether some images crash the decoder.
        builds: Number of builds that are started at the same time.
        mends: Whether samples fail temporarily and are made by ``--retry-failed`` after the cause is removed.
    """

    name: str
    share: int
    selection: Selection = CORRUPTIONS
    engine: str = "ray"
    source: str = "folder"
    output: str = "folder"
    injectors: Sequence[str] = ()
    pace: tuple[float, float] = (0.02, 0.1)
    each: int = 1000
    weather: Sequence[str] = ()
    rate: float = 0.06
    poisoned: bool = False
    builds: int = 1
    mends: bool = False

    def kinds(self) -> list[str]:
        """Return all kinds of faults that occur in this scenario."""
        beforehand = [POISON] * self.poisoned + [SECOND_BUILD] * (self.builds > 1)
        return [*self.injectors, *self.weather, *beforehand]


_TORN = ("torn-shard", "torn-part", "lost-shard", "lost-part")

SCENARIOS: Sequence[Scenario] = (
    Scenario("workers killed", 16, injectors=("worker",), pace=(0.02, 0.06)),
    Scenario("local workers killed", 12, engine="local", injectors=("worker",), pace=(0.02, 0.06)),
    Scenario("sequences, workers killed", 6, SEQUENCES, injectors=("worker",), pace=(0.02, 0.2)),
    Scenario("machines lost", 8, injectors=("machine",), pace=(0.08, 0.2)),
    Scenario("machines that hang and come back", 3, injectors=("hang",), pace=(0.08, 0.2)),
    Scenario("driver killed, files torn", 12, injectors=("driver", "preemption", *_TORN), pace=(0.08, 0.25)),
    Scenario(
        "local, driver killed, files torn",
        16,
        engine="local",
        injectors=("driver", "preemption", *_TORN),
        pace=(0.08, 0.25),
    ),
    Scenario("workers that pause", 6, injectors=("pause",), pace=(0.08, 0.2)),
    Scenario("local workers that pause", 3, engine="local", injectors=("pause",), pace=(0.08, 0.2)),
    Scenario("permanent straggler", 3, injectors=("straggler",), pace=(0.08, 0.2)),
    Scenario("permanent local straggler", 3, engine="local", injectors=("straggler",), pace=(0.08, 0.2)),
    Scenario("disk full", 4, output="disk", injectors=("disk-full",), pace=(0.15, 0.4)),
    Scenario("local, disk full", 3, engine="local", output="disk", injectors=("disk-full",), pace=(0.15, 0.4)),
    Scenario(
        "local, source files gone", 8, engine="local", injectors=("source-gone",), pace=(0, 0), each=4, mends=True
    ),
    Scenario("source changed while listed", 2, injectors=("source-changed",), pace=(0, 0), each=1, mends=True),
    Scenario("poisoned images", 6, poisoned=True, mends=True),
    Scenario("local, poisoned images", 6, engine="local", poisoned=True, mends=True),
    Scenario("local, two builds at once", 3, engine="local", builds=2),
    Scenario("S3 answers errors", 36, source="s3", output="s3", weather=("s3-500", "s3-503")),
    Scenario("S3 is slow", 16, source="s3", output="s3", weather=("s3-slow", "s3-throttled")),
    Scenario(
        "S3 cuts connections",
        36,
        source="s3",
        output="s3",
        weather=("s3-cut-upload", "s3-cut-download", "s3-lost-answer"),
    ),
    Scenario("S3 unavailable", 3, source="s3", output="s3", injectors=("s3-unavailable",), pace=(0.05, 0.15)),
    Scenario("S3, driver killed", 4, source="s3", output="s3", injectors=("driver", "preemption"), pace=(0.12, 0.3)),
    Scenario("S3, two builds at once", 2, source="s3", output="s3", builds=2),
    Scenario(
        "all at once",
        20,
        source="s3",
        output="s3",
        injectors=("worker", "machine", "driver", "pause"),
        pace=(0.06, 0.15),
        weather=("s3-500", "s3-503", "s3-slow", "s3-cut-upload", "s3-cut-download", "s3-lost-answer"),
        rate=0.008,
    ),
)


def shares(faults: int) -> dict[str, int]:
    """Distribute ``faults`` over the scenarios in proportion to their shares, at least one each."""
    total = sum(scenario.share for scenario in SCENARIOS)
    return {scenario.name: max(1, -(-scenario.share * faults // total)) for scenario in SCENARIOS}
