"""Roots, comparisons and proofs, against an independent recursive tree."""

import json
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import manifests
import robustshards as rs
from manifests import Row
from pipeline.datasets.compare import compare, shipped
from pipeline.datasets.roots import COLUMNS, roots_of_tables
from pipeline.datasets.trees import MANY, audit_path, follow, sha256_of, tree_root
from pipeline.errors import UserError
from pipeline.recipes import library
from tests.conftest import Run
from tests.factories.data_sets import rows_of
from tests.factories.indexed_sets import change_rows
from tests.factories.manifest_rows import FAILED, ROW
from tests.golden.builds import RECIPES
from tests.golden.digests import committed
from tests.golden.reference import built_roots, shipped_roots

SELECTION = ("--only", "contrast,gaussian_noise", "--severities", "1,3")
"""The part of ImageNet-C in the fixture ``built_once``."""


def tree(leaves: Sequence[bytes]) -> bytes:
    """Return the root of leaves as RFC 6962 section 2.1 defines it."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1" + tree(leaves[:half]) + tree(leaves[half:])).digest()


def leaf(*values: object) -> bytes:
    return b"".join(f"{value}".encode() + b"\0" for value in values)


def expected(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the roots of rows, computed row by row."""
    rows = sorted(rows, key=lambda row: row.source_id.encode())
    conditions = []
    for transform, level in sorted({(row.transform, row.level) for row in rows}):
        of = [row for row in rows if (row.transform, row.level) == (transform, level)]
        found = {"transform": transform, "level": level, "version": of[0].version, "samples": len(of)}
        found["failed"] = sum(row.status == "failed" for row in of)
        for name in ("pixel", "payload"):
            leaves = [
                leaf(row.source_id, transform, level, "", "", "", "failed")
                if row.status == "failed"
                else leaf(
                    row.source_id, transform, level, row.frames, row.height, row.width, getattr(row, f"{name}_sha256")
                )
                for row in of
            ]
            found[f"{name}_root"] = tree(leaves).hex()
        conditions.append(found)
    images = {row.source_id: row for row in rows}.values()
    whole = {
        f"{name}_root": tree(
            [leaf(each["transform"], each["level"], each["samples"], each[f"{name}_root"]) for each in conditions]
        ).hex()
        for name in ("pixel", "payload")
    }
    return whole | {
        "label_root": tree([leaf(row.source_id, row.label) for row in images]).hex(),
        "source_root": tree([leaf(row.source_id, row.source_sha256 or "failed") for row in images]).hex(),
        "samples": len(rows),
        "conditions": conditions,
    }


def roots_json(data: Path) -> dict[str, Any]:
    return json.loads((data / "roots.json").read_text())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 7, 8, 255, 2 * MANY + 1])
def test_trees_and_paths_are_those_of_the_rfc(count: int) -> None:
    texts = [bytes([index % 251]) * (index % 140) for index in range(count)]
    leaves = sha256_of(
        np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)], dtype=np.int64), prefix=0
    )
    assert tree_root(leaves) == tree(texts)
    for index in {0, count // 2, count - 1} if count else ():
        path = audit_path(leaves, index)
        assert follow(leaves[index].tobytes(), index, count, path) == tree(texts)
        assert follow(leaves[index].tobytes(), index, count, [*path, b"x"]) is None
        assert count == 1 or follow(leaves[index].tobytes(), index, count, path[:-1]) is None


def rows_of_many() -> list[Row]:
    """Return unsorted rows of two conditions, with a failed one and ids beyond ASCII."""
    ids = [f"a/{name}" for name in ("é", "z", "10", "9", "Z")] + [f"b/{index}" for index in range(MANY)]
    digest = [sha256(f"{index}".encode()).hexdigest() for index in range(2 * len(ids))]
    rows = [
        ROW._replace(source_id=id_, transform=transform, level=level, label=place % 7, source_sha256=digest[place],
                     pixel_sha256=digest[len(ids) + place - level], payload_sha256=digest[place - level])
        for transform, level in (("fog", 10), ("fog", 9), ("é", 1))
        for place, id_ in enumerate(ids)
    ]  # fmt: skip
    rows[3] = rows[3]._replace(status=FAILED.status, pixel_sha256=None, payload_sha256=None, frames=None, error="x")
    return rows


def tables(rows: Sequence[Row]) -> list[pa.Table]:
    """Return rows in tables of 100, as manifests have row groups."""
    parts = [rows[first : first + 100] for first in range(0, len(rows), 100)]
    return [
        pa.table({name: pa.array([getattr(row, name) for row in part], manifests.SCHEMA.field(name).type)
                  for name in COLUMNS}) for part in parts
    ]  # fmt: skip


def test_roots_are_those_of_an_independent_tree() -> None:
    rows = rows_of_many()
    found = roots_of_tables(tables(rows), "made", b"recipe", 3).model_dump(mode="json")
    assert {name: found[name] for name in expected(rows)} == expected(rows)
    assert (found["recipe_sha256"], found["seed"]) == (sha256(b"recipe").hexdigest(), 3)
    assert [each["level"] for each in found["conditions"]] == [9, 10, 1]
    backwards = [row for level in (1, 9, 10) for row in rows[::-1] if row.level == level]
    assert roots_of_tables(tables(backwards), "made", b"recipe", 3).model_dump(mode="json") == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [*rows, rows[0]], "not consecutive"),
        (lambda rows: [rows[0], *rows], "listed twice"),
        (lambda rows: [rows[0]._replace(version=9), *rows[1:]], "several versions"),
        (lambda rows: [rows[0]._replace(source_id="a\0b"), *rows[1:]], "zero byte"),
    ],
)
def test_damaged_manifests_have_no_roots(change: Callable[[list[Row]], list[Row]], words: str) -> None:
    with pytest.raises(UserError, match=words):
        roots_of_tables(tables(change(rows_of_many())), "made")


def test_a_build_writes_the_roots_of_its_manifest(built_once: Path, robustshards: Run) -> None:
    found, wanted = roots_json(built_once), expected(rows_of(built_once))
    assert {name: found[name] for name in wanted} == wanted
    assert found["recipe_sha256"] == sha256((built_once / "recipe.toml").read_bytes()).hexdigest()
    assert (built_once / "roots.json").read_text() == json.dumps(found, sort_keys=True, indent=2) + "\n"
    printed = robustshards("roots", built_once, "--json")
    assert json.loads(printed.stdout) == found
    assert found["pixel_root"] in robustshards("roots", built_once).stdout


def test_roots_do_not_depend_on_shards_order_and_interruptions(
    built_once: Path, small_source: Path, robustshards: Run, tmp_path: Path
) -> None:
    grown = tmp_path / "grown"
    for levels in ("3", "1,3"):
        selection = ("--only", "contrast,gaussian_noise", "--severities", levels, "--shard-size", 5)
        robustshards.succeed("build", "imagenet-c", "--source", small_source, "--out", grown, *selection)
    first, second = roots_json(built_once), roots_json(grown)
    assert first.pop("recipe_sha256") != second.pop("recipe_sha256")  # it has the shard size
    assert first == second
    same = robustshards("compare", built_once, grown)
    assert (same.returncode, same.stdout.count("\n")) == (0, 1)
    assert first["pixel_root"] in same.stdout


def test_a_rendered_data_set_has_the_pixel_roots_of_the_built_one(
    built_once: Path, small_source: Path, robustshards: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "rendered"
    robustshards("render", "imagenet-c", "--source", small_source, "--out", folder, *SELECTION)
    assert "--render" in robustshards("roots", folder).stderr
    assert robustshards("roots", folder, "--render").returncode == 0
    rendered, built = roots_json(folder), roots_json(built_once)
    assert rendered["payload_root"] is None
    assert [each["pixel_root"] for each in rendered["conditions"]] == [
        each["pixel_root"] for each in built["conditions"]
    ]
    assert compare(str(folder), str(built_once))


def test_an_index_of_an_export_has_the_same_pixels(built_once: Path, robustshards: Run, tmp_path: Path) -> None:
    data, index = tmp_path / "folders", tmp_path / "index"
    robustshards("export", built_once, "--to", "imagefolder", "--out", data)
    assert robustshards("index", data, "--out", index).returncode == 0
    assert roots_json(index)["source_root"] is None
    robustshards.succeed("compare", index, "--published", built_once / "roots.json")


def with_recipe(change: Callable[[str], str]) -> Callable[[Path], object]:
    return lambda data: (data / "recipe.toml").write_text(change((data / "recipe.toml").read_text()))


def with_rows(**columns: Callable[[int, Row], Any]) -> Callable[[Path], object]:
    return lambda data: change_rows(data, **columns)


OTHER = "12" * 32


def other_pixels(index: int, row: Row) -> str | None:
    return OTHER if index == 2 else row.pixel_sha256


@pytest.mark.parametrize(
    ("changes", "cause", "samples"),
    [
        ([with_rows(source_sha256=lambda i, row: OTHER if i == 2 else row.source_sha256)], "other source files", 1),
        ([with_rows(version=lambda i, row: row.version + 1)], "another version of the transform (version ", 1),
        ([with_rows(encoder=lambda i, row: "png")], "another encoder (encoder jpeg", 1),
        ([with_rows(decoder=lambda i, row: "opencv")], "another decoder (decoder pillow and opencv", 1),
        ([with_rows(height=lambda i, row: 99 if i == 2 else row.height)], "another size (height 224 and 99", 1),
        ([with_recipe(lambda text: text.replace("seed = 0", "seed = 8"))], "another seed (0 and 8)", 1),
        ([with_recipe(lambda text: text.replace('numpy = "', 'numpy = "9'))], "other library versions (numpy", 1),
        ([], "a defect", 1),
    ],
)
def test_compare_names_the_cause(
    built: Path, built_once: Path, robustshards: Run, changes: list[Callable[[Path], object]], cause: str, samples: int
) -> None:
    for change in (with_rows(pixel_sha256=other_pixels), *changes):
        change(built)
    done = robustshards("compare", built_once, built, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["equal"]) == (1, False), done.stderr
    (difference,) = found["differences"]
    row = rows_of(built_once)[2]
    assert (difference["transform"], difference["level"]) == (row.transform, row.level)
    assert (difference["samples"], difference["first"]) == (samples, [row.source_id])
    assert cause in difference["causes"][0]
    assert cause in robustshards("compare", built_once, built).stdout


def test_compare_finds_other_labels_ids_and_images(built: Path, built_once: Path, small_source: Path) -> None:
    first = rows_of(built_once)[0]
    change_rows(built, label=lambda i, row: 5 if row.source_id == first.source_id else row.label)
    (difference,) = compare(str(built_once), str(built)).differences
    assert (difference.what, difference.samples, difference.first) == ("labels", 1, (first.source_id,))
    change_rows(built, source_id=lambda i, row: "x/1" if row.source_id == first.source_id else row.source_id)
    change_rows(built, pixel_sha256=lambda i, row: OTHER if row.source_id == "x/1" else row.pixel_sha256)  # other draws
    found = compare(str(built_once), str(built))
    assert len(found.differences) == 4
    line = "contrast 1, 3; gaussian_noise 1, 3: other pixels of 2 samples each"
    cause = "other source ids of the same images (1 only in the first, 1 only in the second)"
    assert list(found.lines())[1:] == [f"{line} ({first.source_id}, x/1): {cause}"]


def test_compare_lists_what_only_one_has(
    built_once: Path, small_source: Path, robustshards: Run, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    robustshards(
        "build", "imagenet-c", "--source", small_source, "--out", part, "--only", "contrast", "--severities", 1
    )
    done = robustshards("compare", built_once, part)
    assert (done.returncode, "only in the first: contrast-3" in done.stdout) == (1, True)
    assert robustshards("compare", built_once, part, "--common").returncode == 0
    assert rs.compare(part / "roots.json", rs.open(built_once), common=True).equal
    found = rs.compare(part, built_once)
    assert repr(found) == "<Comparison: different: 0 differences in 1 shared condition>"


def test_an_encoder_without_loss_changes_no_pixel(small_source: Path, robustshards: Run, tmp_path: Path) -> None:
    for name in ("png", "npy"):
        options = ("--only", "contrast", "--severities", 1, "--encoder", name, "--limit", 2)
        robustshards.succeed("build", "imagenet-c", "--source", small_source, "--out", tmp_path / name, *options)
    done = robustshards("compare", tmp_path / "png", tmp_path / "npy")
    assert (done.returncode, "the encoders png compression=3 and npy layout=" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-20], "damaged"),
        (lambda text: "[" * 100_000, "nested too deeply"),
        (lambda text: "[]", "format"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "format '2'"),
        (lambda text: text.replace('"seed": 0', '"seed": 0, "seed": 1'), "twice"),
        (lambda text: text.replace('"seed": 0', '"seed": 1e999'), "seed"),
        (lambda text: text.replace('"seed": 0', '"seed": 0, "run": "rm"'), "run: unknown field"),
        (lambda text: text.replace('"level": 1', '"level": 7', 1), "not sorted"),
        (lambda text: text.replace('"contrast"', '"cont\\u0000rast"'), "transform"),
        (lambda text: text.replace('"samples": 24', '"samples": 25'), "samples: not the sum"),
        (
            lambda text: text.replace(json.loads(text)["conditions"][0]["pixel_root"], "0" * 64),
            "pixel_root: not the root",
        ),
        (lambda text: text + " " * 2**22, "large|limit|more than"),
    ],
)
def test_hostile_lists_are_refused(
    built_once: Path, robustshards: Run, tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    (tmp_path / "roots.json").write_text(change((built_once / "roots.json").read_text()))
    message = robustshards.refuse("compare", built_once, tmp_path / "roots.json")
    assert re.search(words, message), message


def test_compare_says_what_it_accepts(built_once: Path, robustshards: Run, tmp_path: Path) -> None:
    for arguments in ((built_once,), (built_once, tmp_path), (built_once, tmp_path / "roots.json")):
        assert "give" in robustshards.refuse("compare", *arguments)


def test_a_proof_ties_an_image_to_a_root(built_once: Path, robustshards: Run, tmp_path: Path) -> None:
    row = rows_of(built_once)[1]
    arguments = (row.source_id, "--transform", row.transform, "--level", row.level)
    done = robustshards("prove", built_once, *arguments)
    proof = json.loads(done.stdout)
    assert (len(proof["path"]), proof["samples"], proof["pixel_sha256"]) == (3, 6, row.pixel_sha256)
    file, roots = tmp_path / "proof.json", built_once / "roots.json"
    file.write_text(done.stdout)
    (sample,) = (each for each in rs.open(built_once).samples(row.transform, row.level) if each.row == row)
    Image.fromarray(sample.pixels()).save(tmp_path / "image.png")
    Image.fromarray(sample.pixels()[::-1]).save(tmp_path / "other.png")
    valid = robustshards("prove", roots, "--check", file, "--image", tmp_path / "image.png")
    assert (valid.returncode, proof["pixel_root"] in valid.stdout) == (0, True), valid.stderr
    assert robustshards("prove", roots, "--check", file, "--image", tmp_path / "other.png").returncode == 1
    for name, value in (("level", 3 - row.level + 1), ("index", 5), ("pixel_sha256", OTHER), ("path", [])):
        file.write_text(json.dumps(proof | {name: value}))
        assert robustshards("prove", roots, "--check", file).returncode == 1
    unknown = robustshards.refuse("prove", built_once, "x/9", *arguments[1:])
    assert "no x/9 under gaussian_noise-1 (6 others, such as class0/image0)" in unknown


def recipe_of(name: str) -> str:
    return name.removesuffix("-photographs")


def test_shipped_lists_have_the_versions_of_the_committed_digests() -> None:
    digests = committed()
    assert {recipe_of(name) for name in shipped()} >= set(library.editions()) & set(RECIPES)
    for name in shipped():
        recipe, roots = library.load(recipe_of(name)), shipped_roots(recipe_of(name))
        assert [each.condition for each in roots.conditions] == sorted(recipe.conditions())
        family = recipe.family
        for each in roots.conditions:
            key = f"{family.name}/{recipe.profile}/{each.transform}/{each.level}"
            versions = {found.version for path, found in digests.items() if path == key or path.startswith(f"{key}/")}
            assert versions | {family.version(each.transform)} == {each.version}, key


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.large] * (each != "cifar-10-c-clean-photographs")) for each in shipped()],
)
def test_builds_have_the_shipped_roots(name: str) -> None:
    found, wanted = built_roots(recipe_of(name)), shipped_roots(recipe_of(name))
    assert found.model_copy(update={"recipe_sha256": wanted.recipe_sha256}) == wanted
