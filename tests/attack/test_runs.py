"""Attacks as jobs: the same bytes for any number of workers, after kills, and for subsets that were made first."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from pipeline.attack import attack_recipe
from pipeline.attack.clean import CleanImages, drawn
from pipeline.errors import UserError
from tests.attack.conftest import LEVELS
from tests.conftest import ROOT, Run
from tests.factories.attack_runs import MODELS, attack, search
from tests.factories.attacked_models import SIDE
from tests.factories.commands import PROGRAM
from tests.factories.data_sets import data_digests
from tests.factories.processes import check_ended, is_local_worker, wait_until

NAMES = ["fgsm", "pgd_linf", "mim"]


def command(clean: Path, out: Path, *more: object) -> list[str]:
    """Return the command line of the attack of the fixture ``attacked``."""
    recipe = out.with_suffix(".toml")
    recipe.write_text(
        f'name = "adversarial"\nattacks = {NAMES}\nbatch = 8\nshard_size = 16\n[budgets]\nlinf = {list(LEVELS)}\n'
    )
    options = ["--model", f"{MODELS}:two_classes", "--attacks", recipe, "--out", out, "--executor", "local", *more]
    return ["attack", str(clean), *map(str, options)]


@pytest.mark.large
def test_two_workers_make_the_same_bytes(
    clean: Path, attacked: Path, tmp_path: Path, robustshards: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = robustshards.succeed(*command(clean, tmp_path / "two", "--workers", 2))
    assert "planning 24 images under 3 attacks at 3 budgets: 82.9 kB of pixels" in done.stderr
    assert data_digests(tmp_path / "two") == data_digests(attacked)


def test_a_killed_attack_is_continued(clean: Path, attacked: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([PROGRAM, *command(clean, out, "--workers", 1)], env=environment, stderr=subprocess.PIPE)
    wait_until(lambda: any(out.glob("manifest/*.parquet")) or process.poll() is not None)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert any(map(is_local_worker, workers))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    check_ended(workers)
    before = {part.name: part.stat().st_mtime_ns for part in out.glob("manifest/*.parquet")}
    result = attack(clean, out, "two_classes", NAMES, LEVELS)
    assert result.complete
    assert result.shards_before == len(before)
    after = {part.name: part.stat().st_mtime_ns for part in out.glob("manifest/*.parquet")}
    assert after.items() >= before.items()
    assert data_digests(out) == data_digests(attacked)


def test_a_data_set_grows(clean: Path, attacked: Path, tmp_path: Path) -> None:
    out = tmp_path / "grown"
    attack(clean, out, "two_classes", ["fgsm"], LEVELS[:2], limit=16)
    attack(clean, out, "two_classes", ["fgsm", "mim"], LEVELS[:2])
    result = attack(clean, out, "two_classes", NAMES, LEVELS)
    assert result.shards_before == 8
    assert data_digests(out) == data_digests(attacked)
    assert pq.read_table(out / "attacks.parquet").equals(pq.read_table(attacked / "attacks.parquet"))
    for names, budgets in ((["fgsm"], LEVELS), (NAMES, ("1/255", *LEVELS[1:]))):
        with pytest.raises(UserError, match="contains another data set"):
            attack(clean, out, "two_classes", names, budgets)


def test_a_search_is_continued(clean: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "parts"
    search(clean, whole, "two_classes", "fgsm", 8 / 255, 4)
    search(clean, out, "two_classes", "fgsm", 8 / 255, 4)
    kept = (out / "parts/000001.parquet").stat().st_mtime_ns
    (out / "parts/000000.parquet").write_bytes(b"damaged")
    (out / "budgets.parquet").unlink()
    result = search(clean, out, "two_classes", "fgsm", 8 / 255, 4)
    assert (result.images_before, result.done.images) == (8, 16)
    assert (out / "parts/000001.parquet").stat().st_mtime_ns == kept
    assert (out / "budgets.parquet").read_bytes() == (whole / "budgets.parquet").read_bytes()
    with pytest.raises(UserError, match=r"contains another search \(search.steps is 4, but 5 was requested\)"):
        search(clean, out, "two_classes", "fgsm", 8 / 255, 5)


def test_another_model_is_named_by_what_differs(clean: Path, attacked: Path) -> None:
    with pytest.raises(UserError, match=f"attack.model.spec is {MODELS}:two_classes, but {MODELS}:four_classes"):
        attack(clean, attacked, "four_classes", NAMES, LEVELS)


def test_samples_are_drawn_by_their_ids(clean: Path) -> None:
    images = CleanImages(str(clean))
    listed = [image.id for image in images]
    ten, five = ([image.id for image in drawn(images, count, seed=0)] for count in (10, 5))
    assert (len(ten), len(five)) == (10, 5)
    assert set(five) < set(ten)
    assert ten == [id_ for id_ in listed if id_ in set(ten)]
    assert ten != [image.id for image in drawn(images, 10, seed=1)]
    with pytest.raises(UserError, match="has 24 images, but --sample 25 was requested"):
        drawn(images, 25, seed=0)


def test_shipped_recipes() -> None:
    found = {name: attack_recipe.load(name) for name in attack_recipe.shipped()}
    assert list(found) == ["ares-transfer", "ares-white-box", "robustart", "robustart-transfer"]
    robustart = {entry.name: entry for entry in found["robustart"].entries()}
    assert len(robustart) == 8
    assert robustart["fgsm"].budgets == (0.5 / 255, 2 / 255, 8 / 255)
    assert (robustart["cw_l2"].budgets, robustart["pgd_l1"].budgets) == ((0.5, 2.0, 8.0), (100.0, 400.0, 1600.0))
    assert robustart["mim"].settings == {"steps": 20, "relative_step": 0.075, "step": 0, "decay": 1, "random_start": 1}
    ares = {entry.name: entry for entry in found["ares-white-box"].entries()}
    assert (ares["pgd_linf"].settings["steps"], ares["pgd_linf"].settings["step"]) == (100, 1 / 255)
    assert (found["ares-white-box"].sample, found["ares-transfer"].sample) == (1000, 1000)
    assert {entry.budgets for entry in found["ares-transfer"].entries()} == {(4 / 255,)}
    assert [entry.name for entry in found["robustart"].entries(["mim", "fgsm"])] == ["fgsm", "mim"]


def test_rendered_clean_images_are_attacked_like_built_ones(clean: Path, tmp_path: Path, robustshards: Run) -> None:
    options = ("--source", clean.parent / "images", "--set", f'prepare.steps=[["square", {SIDE}]]', "--encoder", "png")
    for command_name in ("build", "render"):
        robustshards.succeed(command_name, "imagenet-c-clean", *options, "--out", tmp_path / command_name)
        made = tmp_path / f"{command_name} attacked"
        assert attack(tmp_path / command_name, made, "two_classes", ["fgsm"], LEVELS).complete
        robustshards.succeed("verify", made, "--source", tmp_path / command_name)
    shards = [{path.name: path.read_bytes() for path in (tmp_path / f"{name} attacked").rglob("*.tar")} for name in
              ("build", "render")]  # fmt: skip
    assert shards[0] == shards[1] != {}
