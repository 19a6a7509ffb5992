"""What an evaluation does not take on trust: labels, payloads, its own parts, the model's code, and the options."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import manifests
from pipeline.datasets.opening import open_data_set
from pipeline.errors import UserError
from pipeline.evaluate.models.loading import load_model
from pipeline.evaluate.predict import stream
from pipeline.evaluate.predict.result import EvaluationResult
from pipeline.evaluate.predict.run import evaluate
from pipeline.evaluate.predict.settings import EvaluationRequest, largest_batch
from tests.evaluate.test_evaluation import Silent, content, evaluated

SHARD = "shards/contrast/3/contrast-3-000000.tar"
UNIT = "contrast-3-000000"


def outcome(data: Path, out: Path, **options: Any) -> EvaluationResult:
    request = EvaluationRequest(str(data), "tests.small_models:tiny", str(out), batch=4)
    return evaluate(replace(request, **options), Silent())


def change_manifest(data: Path, change: Callable[[manifests.Row], manifests.Row]) -> None:
    path = data / "manifest.parquet"
    facts = manifests.read_facts(path)
    manifests.write_part([change(row) for row in manifests.read_rows(path)], facts, path)


def rewrite(path: Path, change: Callable[[str, bytes], bytes]) -> None:
    """Change members of a tar, their order and names kept."""
    with tarfile.open(path) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in members:
            changed = change(member.name, data)
            member.size = len(changed)
            tar.addfile(member, io.BytesIO(changed))


# Shards


def test_labels_changed_in_the_manifest_are_noticed(built: Path, tmp_path: Path) -> None:
    change_manifest(built, lambda row: row._replace(label=1 - row.label) if row.shard == SHARD else row)
    found = outcome(built, tmp_path / "r")
    ((name, reason),) = found.done.broken
    assert name == UNIT
    assert ".cls: does not say what the manifest says: run robustshards verify" in reason
    assert not (tmp_path / "r/predictions.parquet").exists()


def test_payloads_swapped_within_a_shard_are_noticed(built: Path, tmp_path: Path) -> None:
    with tarfile.open(built / SHARD) as tar:
        images = {name: tar.extractfile(name).read() for name in tar.getnames() if name.endswith(".jpg")}  # type: ignore[union-attr]
    (first, one), (second, two), *_ = images.items()
    longest = max(len(one), len(two))
    swapped = {first: two.ljust(longest, b"\0"), second: one.ljust(longest, b"\0")}
    rewrite(built / SHARD, swapped.get)
    places: dict[str, tuple[int, int]] = {}
    with tarfile.open(built / SHARD) as tar:
        places = {member.name: (member.offset_data, member.size) for member in tar}
    change_manifest(
        built,
        lambda row: (
            row._replace(**dict(zip(("offset", "size"), places[f"{row.key}.jpg"], strict=True)))
            if row.shard == SHARD
            else row
        ),
    )
    ((name, reason),) = outcome(built, tmp_path / "r").done.broken
    assert (name, "its payload in" in reason, "is another than the manifest says" in reason) == (UNIT, True, True)


def test_a_changed_description_is_noticed(built: Path, tmp_path: Path) -> None:
    rewrite(built / SHARD, lambda name, data: data.replace(b"contrast", b"brokrast") if ".json" in name else data)
    ((name, reason),) = outcome(built, tmp_path / "r").done.broken
    assert (name, ".json: does not say what the manifest says" in reason) == (UNIT, True)


def test_a_broken_shard_is_not_blamed_on_an_interruption(built: Path, tmp_path: Path) -> None:
    (built / SHARD).unlink()
    os.mkfifo(built / SHARD)  # nor waited for
    found = outcome(built, tmp_path / "r")
    assert not found.complete
    assert [each["shard"] for each in found.facts()["lost"]] == [UNIT]
    *_, last = found.summary("r")
    assert "1 of 8 shards cannot be used as they are; robustshards verify" in last
    assert "run the same command again" not in last


def test_a_loader_that_dies_ends_the_evaluation(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        import os\n"
        "        if name == 'simplejpeg': os.kill(os.getpid(), 11)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}")
    monkeypatch.setitem(sys.modules, "sitecustomize", None)
    with pytest.raises(
        UserError, match=r"died while reading one of gaussian_noise-1-000000.*robustshards verify.*--loaders"
    ):
        list(stream.load(str(built), list(open_data_set(str(built)).chunks()), 4, 1, pin=False))


# Resuming


def test_predictions_that_were_damaged_are_merged_again(built_once: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    evaluated(built_once, out)
    sound = content(out)
    for damaged in (sound[:-200], sound[:400] + b"\xff" + sound[401:], b""):
        (out / "predictions.parquet").write_bytes(damaged)
        facts = evaluated(built_once, out)
        assert (facts["frames_made"], facts["complete"]) == (0, True)
        assert content(out) == sound


def test_parts_that_were_damaged_are_predicted_again(built_once: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    evaluated(built_once, out)
    sound = content(out)
    part, other = out / f"parts/{UNIT}.parquet", out / "parts/contrast-1-000000.parquet"
    data = bytearray(part.read_bytes())
    data[40] ^= 1
    for damaged in (bytes(data), other.read_bytes(), b""):
        part.write_bytes(damaged)
        (out / "predictions.parquet").unlink()
        facts = evaluated(built_once, out)
        assert (facts["shards_before"], facts["complete"]) == (7, True)
        assert content(out) == sound


CODE = """
import torch
from {package} import constants
from {package}.constants import FACTOR

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = torch.nn.Linear(3, 7)
        self.norm = torch.nn.BatchNorm2d(3)
    def forward(self, images):
        return FACTOR * self.head(self.norm(images).mean((2, 3)))

def factory():
    print("not to standard output")
    return Scaled()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package in the current folder, which is on no path."""
    folder = tmp_path / f"users_{tmp_path.name.replace('-', '_')}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "made.py").write_text(CODE.format(package=folder.name))
    (folder / "constants.py").write_text("FACTOR = 1\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.meta_path)
    yield folder
    sys.meta_path[:] = before
    forget(folder.name)


def forget(package: str) -> None:
    """Let the next import read the files again, as another process would."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def test_code_that_has_changed_is_another_evaluation(
    built_once: Path, tmp_path: Path, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"{package.name}.made:factory"
    assert outcome(built_once, tmp_path / "r", model=spec).complete
    assert "not to standard output" not in capsys.readouterr().out
    for file, text in (("constants.py", "FACTOR = 12\n"), ("made.py", CODE.replace("(3)", "(3, eps=.25)"))):
        before = (package / file).read_text()
        forget(package.name)
        (package / file).write_text(text.format(package=package.name) if file == "made.py" else text)
        with pytest.raises(UserError, match=r"holds another evaluation \(model.code: \w{64} there, \w{64} asked for\)"):
            outcome(built_once, tmp_path / "r", model=spec)
        (package / file).write_text(before)
    forget(package.name)
    assert outcome(built_once, tmp_path / "r", model=spec).chunks_before == 8


def test_settings_from_elsewhere_change_the_code(package: Path) -> None:
    """The same source and weights, another epsilon: as where a factory reads it from a file."""
    source = (package / "made.py").read_text()
    (package / "made.py").write_text(source.replace("(3)", "(3, eps=float(open('eps').read()))"))
    digests = set()
    for epsilon in ("0.001", "0.1", "0.001"):
        Path("eps").write_text(epsilon)
        forget(package.name)
        digests.add(load_model(f"{package.name}.made:factory").code)
    assert len(digests) == 2


def test_libraries_of_another_version_are_another_evaluation(built_once: Path, tmp_path: Path) -> None:
    evaluated(built_once, tmp_path / "r")
    file = tmp_path / "r/evaluation.toml"
    file.write_text(file.read_text().replace(f'torch = "{torch.__version__}"', 'torch = "2.1.0"'))
    with pytest.raises(UserError, match=r"software.torch: 2.1.0 there, 2\..* asked for"):
        evaluated(built_once, tmp_path / "r")


# Factories


def test_the_users_folder_is_looked_in_last(package: Path) -> None:
    Path("statistics.py").write_text("raise SystemExit(0)")
    Path("manifests.py").write_text("raise SystemExit(0)")
    with pytest.raises(
        UserError, match=r"statistics:mean refers to .*statistics.py, not to .*both are called statistics; rename"
    ):
        load_model("statistics:mean")
    assert str(Path.cwd()) not in sys.path  # nor on that of processes that are started
    load_model(f"{package.name}.made:factory")
    assert str(Path.cwd()) not in sys.path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise SystemExit(0)", "cannot be loaded: SystemExit: 0; write it as package.module:function"),
        ("raise GeneratorExit", "cannot be loaded: GeneratorExit"),
        ("return 3", "returns a int; a torch.nn.Module is allowed"),
        ("return torch.nn.LazyLinear(3)", "a module with plain tensors for weights is allowed"),
    ],
)
def test_factories_cannot_end_the_command(package: Path, body: str, message: str) -> None:
    (package / "bad.py").write_text(f"import torch\ndef factory():\n    {body}\n")
    with pytest.raises(UserError, match=message):
        load_model(f"{package.name}.bad:factory")


@pytest.mark.parametrize("spec", ["..:x", "os..path:join", "1a:b", "os:.", "os:a..b"])
def test_names_that_no_module_has(spec: str) -> None:
    with pytest.raises(UserError, match=r"is not a valid name of a function: write it as package\.module:function"):
        load_model(spec)


@pytest.mark.parametrize("spec", ["pipeline.cli.app:main", "manifests:merge", "__main__:main"])
def test_this_project_makes_no_models(spec: str) -> None:
    with pytest.raises(UserError, match="is part of this project; name a function of your own"):
        load_model(spec)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x * float('inf')", "returns NaN or infinite values"),
        ("x[:, :0]", r"returns \(4, 0\) of torch.float32 for 4 images"),
        ("x[:1]", r"returns \(1, 7\) of torch.float32 for 4 images"),
        ("x + 0j", r"returns \(4, 7\) of torch.complex64"),
        ("sys.exit(0)", "fails on a batch of 4 images of 224 x 224: SystemExit: 0"),
        ("{}[0]", "fails on a batch of 4 images of 224 x 224: KeyError: 0"),
    ],
)
def test_models_that_fail_are_errors(built_once: Path, tmp_path: Path, package: Path, body: str, message: str) -> None:
    (package / "failing.py").write_text(
        f"import sys\nfrom {package.name}.made import Scaled\nclass Bad(Scaled):\n    def forward(self, images):\n"
        f"        x = super().forward(images)\n        return {body}\n"
    )
    with pytest.raises(UserError, match=message):
        outcome(built_once, tmp_path / "r", model=f"{package.name}.failing:Bad")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": (0.0, 1.0, 1.0)}, r"invalid --std 0.0,1.0,1.0: give three numbers from 1e-06 to"),
        ({"std": (-1.0, 1.0, 1.0)}, "invalid --std .*: give three numbers"),
        ({"std": (1.0, 1.0, float("inf"))}, "invalid --std .*: give three numbers"),
        ({"std": (1e-30, 1.0, 1.0)}, "invalid --std .*: give three numbers"),
        ({"mean": (float("nan"), 0.0, 0.0)}, r"invalid --mean nan,0.0,0.0: give three numbers"),
        ({"size": 10**9}, "invalid input size 1000000000: give --input-size 1 to 4096, or 0"),
        (
            {"batch": 10**9},
            r"invalid batch size 1000000000 for images of 224 x 224: give --batch-size 1 to 1783",
        ),
        ({"size": 4096, "batch": 6}, "give --batch-size 1 to 5"),
        ({"batch": -1}, "give --batch-size"),
        ({"device": "meta"}, "the device 'meta' is not available: ValueError: use cpu, cuda, mps, xpu"),
        ({"device": "cpu\0"}, "is not available"),
        ({"device": ""}, "is not available"),
        ({"loaders": 10**6}, "--loaders 1000000 is not allowed here: give at most"),
        ({"workers": 10**6}, "--workers 1000000 is not allowed here: give at most"),
        ({"name": ""}, "invalid name '': give --name 1 to 200 characters"),
        ({"name": "a\nb"}, r"invalid name 'a\\nb': give --name"),
        ({"name": "a\0"}, "give --name"),
        ({"name": "\udce9"}, "give --name"),
        ({"name": "x" * 10**6}, "give --name"),
    ],
)
def test_options_that_cannot_be(built_once: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        outcome(built_once, tmp_path / "r", **options)
    assert len(str(caught.value)) < 1000
    assert not (tmp_path / "r/evaluation.toml").exists()


def test_a_batch_is_bounded_by_its_bytes() -> None:
    assert largest_batch(32, 32, None) == 2**30 // (32 * 32 * 3 * 4)
    assert largest_batch(32, 32, 224) == largest_batch(224, 224, 0)
    assert largest_batch(30_000, 30_000, None) == 1


@pytest.mark.parametrize("name", ["predictions.parquet", "units.txt", "parts/mine.parquet"])
def test_files_of_others_are_not_overwritten(built_once: Path, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "r" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(UserError, match=f"holds {name} and no evaluation.toml.*choose another folder"):
        evaluated(built_once, tmp_path / "r")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("inside", ["", "shards", "shards/contrast/3/r", "manifest"])
def test_the_output_is_not_put_into_the_data_set(built: Path, inside: str) -> None:
    before = sorted(built.rglob("*"))
    with pytest.raises(UserError, match="which holds the data set: choose another folder"):
        evaluated(built, built / inside)
    assert sorted(built.rglob("*")) == before


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"a=" + b"[" * 10**5, b"a=" + b"9" * 10**4, b"[model]\nname=3\n"])
def test_a_damaged_evaluation_is_refused(built_once: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/evaluation.toml").write_bytes(content)
    with pytest.raises(UserError, match=r"evaluation.toml is not valid"):
        evaluated(built_once, tmp_path / "r")


def test_an_unfinished_copy_of_an_evaluation_is_refused(built_once: Path, tmp_path: Path) -> None:
    from pipeline.evaluate.results.folder import require_finished
    from pipeline.storage import open_store

    evaluated(built_once, tmp_path / "r")
    require_finished(open_store(str(tmp_path / "r")))
    shutil.copytree(tmp_path / "r", tmp_path / "copy")
    path = tmp_path / "copy/predictions.parquet"
    pq.write_table(pq.read_table(path), path)
    with pytest.raises(UserError, match=r"predictions.parquet is damaged.*run the same evaluate command again"):
        require_finished(open_store(str(tmp_path / "copy")))
