"""Shared fixtures: photographs, reference files, finished data sets, the command."""

import fcntl
import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.factories import commands, kernels

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(kernels.FOLDER)  # before numba is imported
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # on every machine, the tests compare what a CPU computes

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

import robustshards as rs
from tests.factories.layouts import cifar_10
from tests.golden import published
from tests.photographs import write_photographs

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
UNDER_CI = os.environ.get("CI") == "true"
SHARED_REQUIRED = os.environ.get("REQUIRE_SHARED") == "1"


LARGE = frozenset({"browse", "clients"})
"""Fixtures whose tests are left to ``make test-all``, as are those with the mark ``large``."""


SLOW = frozenset({"benchmarked", "ray_address", "references", "robustshards"})
"""Fixtures whose tests are left to ``make test``: commands, complete benchmarks, and all published images. So are tests
with the mark ``slow``."""


SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3", "--shard-size", "4")
"""The part of ImageNet-C in the fixture ``built_once``."""


RAY = pytest.param("ray", marks=pytest.mark.large)
"""The slow one of two engines that a test tries."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of ``make check``."""
    parser.addoption("--quick", action="store_true", help="Leave out tests by SLOW, and when they start a process.")


def pytest_configure(config: pytest.Config) -> None:
    """Free properties of deadlines, and compile the kernels once, before several test processes start."""
    settings.register_profile("untimed", deadline=None)  # a busy machine fails no test
    settings.load_profile("untimed")
    if config.getoption("numprocesses", None):
        kernels.compile_kernels()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select tests by their fixtures. Start the longest first, so that no process works on them alone at the end."""
    fixtures = {item: {*getattr(item, "fixturenames", ())} for item in items}
    for item in items:
        if LARGE & fixtures[item]:
            item.add_marker(pytest.mark.large)
    if config.getoption("--quick"):
        slow = {item for item in items if SLOW & fixtures[item] or item.get_closest_marker("slow")}
        config.hook.pytest_deselected(items=list(slow))
        items[:] = [item for item in items if item not in slow]
    items.sort(key=lambda item: item.path.name != "test_examples.py")


def pytest_collection_finish() -> None:
    """Keep Python's garbage collector from visiting the collected tests, and all modules, again and again."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quick(pytestconfig: pytest.Config) -> Iterator[None]:
    """Let tests skip themselves when they start a process, with the option ``--quick``."""
    with pytest.MonkeyPatch.context() as patch:
        if pytestconfig.getoption("--quick"):
            for owner, method in ((subprocess.Popen, "__init__"), (BaseProcess, "start")):
                patch.setattr(owner, method, lambda *_, **__: pytest.skip("starts a process"))
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the largest difference that the golden tests found for each corruption and profile."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    parity = [text for report in reports for name, text in report.user_properties if name == "parity"]
    if parity:
        terminalreporter.section("parity with the published images")
        terminalreporter.write_line("\n".join(map(str, parity)))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of reference files beside the checkout. Tests that need it are skipped if it is missing.

    With REQUIRE_SHARED=1 they fail instead.
    """
    if not (SHARED / "golden").is_dir():
        message = f"the reference files are not at {SHARED}"
        pytest.fail(message) if SHARED_REQUIRED else pytest.skip(message)
    return SHARED


@pytest.fixture(scope="session")
def references(shared: Path) -> Path:
    """Return the folder of the reference files, for tests that compare all published images."""
    return shared / "golden"


@pytest.fixture(scope="session")
def golden_folder(pytestconfig: pytest.Config) -> Path:
    """Return the folder of the published outputs of which a part is in this repository: that part with ``--quick``."""
    if (SHARED_REQUIRED or (SHARED / "golden").is_dir()) and not pytestconfig.getoption("--quick"):
        return SHARED / "golden"
    return published.FOLDER


@pytest.fixture(scope="session")
def fewer(pytestconfig: pytest.Config) -> int:
    """Return by what tests of distributions divide their numbers of draws: 8 with ``--quick``, else 1."""
    return 8 if pytestconfig.getoption("--quick") else 1


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Return a function that returns a folder, which the first test process to need it fills: ``once(name, fill)``."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (finished := shared / f"{name}.finished").exists():
                (shared / name).mkdir(exist_ok=True)  # a test may have been skipped while it was filled
                fill(shared / name)
                finished.touch()
        return shared / name

    return folder


@pytest.fixture(scope="session")
def photographs(once: Once) -> Path:
    """Return the photographs of scikit-image as an ImageFolder of five classes. Tests must not change it."""
    return once("photographs", write_photographs)


def write_small_source(folder: Path, images: int = 6, classes: int = 2) -> Path:
    """Write small generated images: colour ramps with noise, as PNG, distributed over the classes."""
    generator = np.random.default_rng(7)
    for index in range(images):
        rows, columns = np.mgrid[0 : 40 + index, 0:60]
        ramp = np.stack([rows * 4, columns * 3, rows + columns], axis=2) + generator.integers(
            0, 40, (40 + index, 60, 3)
        )
        path = folder / f"class{index % classes}" / f"image{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(ramp.astype(np.uint8)).save(path)
    return folder


@pytest.fixture(scope="session")
def small_source(once: Once) -> Path:
    """Return an ImageFolder of six generated images in two of seven classes. Tests must not change it.

    The small models have seven outputs, and labels count empty class folders too.
    """

    def fill(folder: Path) -> None:
        write_small_source(folder)
        for index in range(2, 7):
            (folder / f"class{index}").mkdir()
            (folder / f"class{index}" / ".keep").touch()  # object stores have no empty folders

    return once("small", fill)


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Start a Ray cluster on loopback that all tests of Ray share, and return its address.

    PYTHONPATH lets its workers import the tests, because workers do not import from the current folder.
    """
    from ray.cluster_utils import Cluster  # slow to import

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        shared_cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 2,
                "node_ip_address": "127.0.0.1",
                "object_store_memory": 100 * 2**20,
                "include_dashboard": False,
            },
        )
    yield shared_cluster.address
    shared_cluster.shutdown()


Run = commands.Run


@pytest.fixture(scope="session")
def robustshards() -> Run:
    """Return the command: ``robustshards("build", "imagenet-c", ...)``."""
    return Run()


@pytest.fixture(scope="session")
def build_once(once: Once, robustshards: Run) -> Callable[..., Path]:
    """Return a function that returns a data set, which one test process builds: ``build_once(name, recipe, ...)``."""

    def build(name: str, *arguments: object) -> Path:
        def fill(folder: Path) -> None:
            robustshards.succeed("build", *arguments, "--out", folder / "data")

        return once(name, fill) / "data"

    return build


@pytest.fixture(scope="session")
def built_once(small_source: Path, build_once: Callable[..., Path]) -> Path:
    """Build 6 images x 2 corruptions x 2 severities in shards of 4. Tests must not change the data set."""
    return build_once("built", "imagenet-c", "--source", small_source, *SELECTION, "--workers", 2)


@pytest.fixture(scope="session")
def rendered(small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> rs.DataSet:
    """Return the rendered data set with the samples of ``built_once``."""
    folder = tmp_path_factory.mktemp("rendered")
    selection = {"only": "contrast,gaussian_noise", "severities": (1, 3)}
    return rs.render("imagenet-c", small_source, folder / "data", cache=folder / "cache", **selection)


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """Return a copy of the finished data set that a test may change."""
    return shutil.copytree(built_once, tmp_path / "data")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 256 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="session")
def cifar_c(once: Once, build_once: Callable[..., Path]) -> Path:
    """Build two corruptions x five severities of five generated CIFAR images. Tests must not change the data set."""
    selection = ("--only", "contrast,fog", "--shard-size", 3, "--workers", 2)
    source = once("cifar", cifar_10) / "cifar-10-batches-py"
    return build_once("cifar-c", "cifar-10-c", "--source", source, *selection)


@pytest.fixture(scope="session")
def sequences(small_source: Path, build_once: Callable[..., Path]) -> Path:
    """Build noise at two difficulties and rotation of two images as JPEG frames. Tests must not change them."""
    selection = ("--limit", 2, "--only", "gaussian_noise,rotate", "--difficulty", "1,2")
    return build_once("sequences", "tiny-imagenet-p", "--source", small_source, *selection)
