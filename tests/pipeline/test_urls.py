"""Sources, data sets and evaluations behind URLs: a real S3 server on loopback, and file:// for the other protocols."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import s3fs
from aiohttp import web

from pipeline.builder.build import run_build
from pipeline.builder.settings import BuildSettings
from pipeline.cli.app import app
from pipeline.datasets.verify import verify
from pipeline.errors import UnreachableError, UserError
from pipeline.execution.resumable import SilentWatcher
from pipeline.recipes.library import load
from pipeline.sources.kinds import detect, open_source
from pipeline.storage import LocalStore, UrlStore, find_place, open_store, read_ahead
from tests.chaos.log import Log
from tests.chaos.proxy import FaultProxy, cut
from tests.conftest import ROOT, SELECTION, Run, write_small_source
from tests.factories.ceph import ceph
from tests.factories.data_sets import data_digests
from tests.factories.evaluator import evaluated
from tests.factories.impatient import StrandedWorker, impatient
from tests.factories.layouts import cifar_10
from tests.factories.object_store import ObjectStore, object_store, upload


@pytest.fixture(scope="module", params=[object_store, pytest.param(ceph, marks=pytest.mark.large)])
def s3(request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    with request.param() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment().items():
            patch.setenv(name, value)
        # The module's tests may run in several groups: connections of an earlier group are to a server that has ended.
        s3fs.S3FileSystem.clear_instance_cache()
        yield store


def digests_at(store: ObjectStore, name: str, folder: Path) -> dict[str, str]:
    """Return the digests of a data set in the bucket, which is copied to a folder."""
    store.files().get(f"{store.bucket}/{name}/", f"{folder}/", recursive=True)
    return data_digests(folder)


@pytest.fixture(scope="module")
def built_on_s3(s3: ObjectStore, small_source: Path, robustshards: Run) -> str:
    source = upload(s3, small_source, "photographs")
    robustshards.succeed(
        "build", "imagenet-c", "--source", source, "--out", f"{s3.url}/data", *SELECTION, "--workers", 2
    )
    return f"{s3.url}/data"


def test_a_build_from_s3_to_s3_has_the_same_bytes(
    s3: ObjectStore, built_on_s3: str, built_once: Path, tmp_path: Path
) -> None:
    assert digests_at(s3, "data", tmp_path) == data_digests(built_once)
    left = s3.files().find(f"{s3.bucket}/data")
    assert not [name for name in left if "/.lease/" in name or "/.partial/" in name]
    (record,) = (tmp_path / "runs").glob("*.json")
    assert json.loads(record.read_text())["source"] == f"{s3.url}/photographs"
    assert "testing" not in record.read_text(), "a credential was recorded"


def test_a_file_is_read_by_one_request(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("small", b"content"), ("empty", b"")):
        s3.files().pipe_file(f"{s3.bucket}/read/{name}", content)
    s3fs.S3FileSystem.clear_instance_cache()
    asked: list[str] = []
    call = s3fs.S3FileSystem._call_s3

    async def recording(files: s3fs.S3FileSystem, method: str, *arguments: Any, **options: Any) -> Any:
        asked.append(method)
        return await call(files, method, *arguments, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", recording)
    store = open_store(f"{s3.url}/read")
    assert (store.read("small"), store.read("small", 3), store.read_at("small", 3, 2)) == (b"content", b"tent", b"te")
    assert asked == ["get_object"] * 3
    assert store.read("empty") == b""
    with pytest.raises(FileNotFoundError):
        store.read("missing")


def test_a_second_build_makes_only_missing_shards(
    s3: ObjectStore, built_on_s3: str, built_once: Path, tmp_path: Path, robustshards: Run
) -> None:
    s3.files().cp(f"{s3.bucket}/data/", f"{s3.bucket}/copy/", recursive=True)
    s3.files().rm_file(f"{s3.bucket}/copy/shards/contrast/3/contrast-3-000001.tar")
    s3.files().pipe_file(f"{s3.bucket}/copy/shards/contrast/1/contrast-1-000000.tar", b"half")
    s3.files().rm_file(f"{s3.bucket}/copy/manifest/gaussian_noise-1-000000.parquet")
    command = ("build", "imagenet-c", "--source", f"{s3.url}/photographs", "--out", f"{s3.url}/copy", *SELECTION)
    done = robustshards.succeed(*command, "--json")
    assert (json.loads(done.stdout)["shards_before"], json.loads(done.stdout)["shards_made"]) == (5, 3)
    assert digests_at(s3, "copy", tmp_path) == data_digests(built_once)
    assert robustshards(*command, "--seed", 5).returncode == 2


@pytest.mark.large
def test_all_commands_read_urls(
    s3: ObjectStore, built_on_s3: str, built_once: Path, tmp_path: Path, robustshards: Run
) -> None:
    done = robustshards("verify", built_on_s3, "--deep", "--samples", 5)
    assert (done.returncode, "24 samples in 8 files: no faults" in done.stdout) == (0, True), done.stdout + done.stderr
    assert robustshards("preview", built_on_s3, "--out", tmp_path / "page.html").returncode == 0
    assert robustshards("export", built_on_s3, "--to", "imagefolder", "--out", tmp_path / "folders").returncode == 0
    assert len(list((tmp_path / "folders").rglob("*.JPEG"))) == 24
    command = ("--model", "tests.factories.small_models:tiny", "--batch-size", 4, "--loaders", 1)
    robustshards.succeed("evaluate", built_on_s3, *command, "--out", f"{s3.url}/evaluation", cwd=ROOT)
    evaluated(built_once, tmp_path / "near", loaders=0)
    robustshards.succeed("report", f"{s3.url}/evaluation", "--out", tmp_path / "report")
    s3.files().get_file(f"{s3.bucket}/evaluation/predictions.parquet", str(tmp_path / "far.parquet"))
    assert pq.read_table(tmp_path / "far.parquet").equals(pq.read_table(tmp_path / "near/predictions.parquet"))


def test_sources_of_arrays_and_tars(s3: ObjectStore, built_on_s3: str, tmp_path: Path) -> None:
    here = cifar_10(tmp_path)
    there = upload(s3, here, "cifar")
    assert detect(there) == detect(str(here)) == "cifar-10"
    listed, elsewhere = (list(open_source("cifar-10", each)) for each in (str(here), there))
    assert listed == elsewhere
    near, far = (open_source("cifar-10", each).read(listed[2]) for each in (str(here), there))
    assert np.array_equal(near, far)
    shards = f"{built_on_s3}/shards/contrast"
    assert detect(f"{shards}/1") == "webdataset"
    tars = open_source("webdataset", shards)
    assert len(list(tars)) == 12
    assert tars.read(next(iter(tars)))[:2] == b"\xff\xd8"


def test_listings_are_in_the_same_order_everywhere(s3: ObjectStore, tmp_path: Path) -> None:
    names = ["b/1.jpg", "a-b/2.jpg", "a/3.jpg", "a/b/4.jpg", "a/b-c/5.jpg", "a/B/6.jpg", ".hidden/7.jpg", "a/.8.jpg"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    there = upload(s3, tmp_path, "order")
    assert list(open_source("imagefolder", there)) == list(open_source("imagefolder", str(tmp_path)))
    near, far = open_store(str(tmp_path)), open_store(there)
    assert list(near.listing("", ".jpg").items()) == list(far.listing("", ".jpg").items())
    assert near.entries("a") == far.entries("a")
    assert list(read_ahead(far, names * 9)) == [(name, name.encode()) for name in names] * 9


@pytest.mark.parametrize("scheme", ["s3", "file"])
def test_a_store_returns_what_was_written(s3: ObjectStore, tmp_path: Path, scheme: str) -> None:
    store = open_store(f"{s3.url}/store" if scheme == "s3" else f"file://{tmp_path}/store")
    assert isinstance(store, UrlStore)
    assert find_place(store.root) is None
    store.publish_bytes(b"first", "a/b/x.txt")
    assert store.path("a/b/x.txt").read_bytes() == b"first"
    store.publish_bytes(b"second one", "a/b/x.txt")
    assert store.path("a/b/x.txt").read_bytes() == b"second one"
    assert (store.size("a/b/x.txt"), store.size("a/b"), store.size("nothing")) == (10, -1, -1)
    assert store.read("a/b/x.txt") == b"second one"
    assert store.read("a/b/x.txt", 7) == b"one"
    assert store.read("a/b/x.txt", 0, 6) == b"second"
    assert store.listing("a", ".txt") == {"a/b/x.txt": 10}
    with store.exclusive():
        pass
    store.remove("a/b/x.txt")
    store.remove("a/b/x.txt")
    assert store.listing("", "") == {}
    with pytest.raises(FileNotFoundError):
        store.read("a/b/x.txt")


def test_verify_finds_damage_behind_urls(built: Path) -> None:
    shard = next(built.rglob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:-1024] + bytes(1024 - 1) + b"x")
    faults = verify(f"file://{built}").faults
    assert faults
    assert all(shard.name in str(fault) for fault in faults)
    shard.unlink()
    assert any("is missing" in str(fault) for fault in verify(f"file://{built}").faults)


def test_missing_urls_are_errors(s3: ObjectStore, built_on_s3: str, tmp_path: Path, robustshards: Run) -> None:
    for arguments, text in (
        (("verify", f"{s3.url}/none"), "is not a data set: it has no recipe.toml"),
        (("verify", "nowhere://bucket/data"), "cannot open nowhere://bucket/data"),
        (("verify", "s3://a!b/data"), "cannot read s3://a!b/data/rendered.toml: the URL is invalid; correct it ("),
        (("verify", "s3:///data"), "the URL s3:///data names no bucket"),
        (("plan", "imagenet-c", "--source", f"{s3.url}/none"), "does not exist"),
        (("plan", "imagenet-c", "--source", "s3://no-such-bucket/x"), "does not exist"),
        (("export", f"{s3.url}/data", "--to", "imagefolder", "--out", f"{s3.url}/folders"), "only a local folder"),
        (("index", f"{s3.url}/none", "--out", tmp_path), "is a URL: copy the data set to a local folder"),
    ):
        done = robustshards(*arguments)
        assert (done.returncode, text in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    write_small_source(tmp_path / "images", images=1)
    command = ("--source", tmp_path / "images", "--out", "s3://no-such-bucket/data", *SELECTION)
    assert "cannot write to s3://no-such-bucket/data" in robustshards.refuse("build", "imagenet-c", *command)


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/data", "https://host/data?token=secret"])
def test_credentials_in_urls_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UserError, match="contains credentials") as raised:
        open_store(url)
    assert "secret" not in str(raised.value)


def test_missing_credentials_are_an_error(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch, robustshards: Run) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert "no credentials found" in robustshards.refuse("verify", f"{s3.url}/data")


def test_names_outside_of_the_store_are_refused(built_once: Path) -> None:
    store = open_store(f"file://{built_once}/shards")
    for name in ("../recipe.toml", "contrast/../../recipe.toml"):
        for asked in (store.path, store.open, store.read, store.size, store.remove):
            with pytest.raises(UserError, match="is outside of"):
                asked(name)
    with pytest.raises(UserError, match="a local folder"):
        LocalStore("s3://bucket")


def test_links_to_a_parent_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/to-b").symlink_to(tmp_path / "b")
    (tmp_path / "b/to-a").symlink_to(tmp_path / "a")
    with pytest.raises(UserError, match="same folder; remove the link"):
        list(open_source("imagefolder", str(tmp_path)))
    assert os.path.exists(tmp_path / "a/to-b/to-a")


class _DyingProxy(FaultProxy):
    """A proxy that answers a number of requests and then cuts every connection."""

    def __init__(self, target: str, requests: int) -> None:
        self.left = requests
        super().__init__(target, Log())

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.left -= 1
        return await super()._handle(request) if self.left >= 0 else cut(request)


@pytest.fixture
def dying(
    s3: ObjectStore, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[int], _DyingProxy]]:
    """A function that puts a dying proxy in front of the server. Calls are retried once, and so they end soon."""

    def die_after(requests: int) -> _DyingProxy:
        proxy = _DyingProxy(s3.endpoint, requests)
        request.addfinalizer(proxy.close)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        s3fs.S3FileSystem.clear_instance_cache()
        return proxy

    impatient(monkeypatch)
    yield die_after
    s3fs.S3FileSystem.clear_instance_cache()


MODEL = ("--model", "tests.factories.small_models:tiny", "--batch-size", 4, "--loaders", 0)


@pytest.fixture(scope="module")
def rendered_from_s3(s3: ObjectStore, built_on_s3: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rendered")
    arguments = ("render", "imagenet-c", "--source", f"{s3.url}/photographs", "--out", folder, "--only", "contrast")
    assert not app(list(map(str, arguments)), standalone_mode=False)
    return folder


@pytest.mark.parametrize(
    ("command", "requests"),
    [
        *product(
            [("evaluate", "{data}", *MODEL), ("verify", "{data}"), ("export", "{data}", "--to", "imagefolder")],
            (12, 28),
        ),
        (("evaluate", "{rendered}", *MODEL, "--cache", "off"), 4),
        (("verify", "{rendered}"), 4),
        (("render", "imagenet-c", "--source", "{source}"), 28),
    ],
    ids=lambda each: each if isinstance(each, int) else f"{each[0]} {each[1]}",
)
def test_a_store_that_stops_answering_ends_the_command(
    s3: ObjectStore, built_on_s3: str, rendered_from_s3: Path, tmp_path: Path, dying: Callable[[int], _DyingProxy],
    capsys: pytest.CaptureFixture[str], command: tuple[object, ...], requests: int,
) -> None:  # fmt: skip
    names = {"data": built_on_s3, "rendered": rendered_from_s3, "source": f"{s3.url}/photographs"}
    arguments = [str(part).format(**names) for part in command]
    if command[0] != "verify":
        arguments += ["--out", str(tmp_path / "out")]
    proxy = dying(requests)
    code = app(arguments, standalone_mode=False)
    assert proxy.left < 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert (code, "error: the store does not answer: cannot " in last) == (3, True), last
    assert last.lower().endswith(("run the same command again", "run the same command to continue"))


def test_a_store_that_does_not_answer_a_worker_ends_the_build(
    s3: ObjectStore, built_on_s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    recipe = load("imagenet-c").changed(transforms={"only": ["contrast"]}, shards={"size": 1})
    request = BuildSettings(recipe, f"{s3.url}/photographs", str(tmp_path / "out"), workers=1, executor="local")
    with pytest.raises(UnreachableError, match="the store does not answer: cannot read s3://"):
        run_build(request, SilentWatcher(), StrandedWorker)
    assert not (tmp_path / "out" / "manifest.parquet").exists()
