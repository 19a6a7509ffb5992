"""Records are checked when they are registered, and what is registered may be named at once."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.datasets.opening import IndexTable
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render.warm_up import ready_renderer
from pipeline.software import versions
from pipeline.transforms import clean, imagenet_c, registry
from pipeline.transforms.checks import check_family
from pipeline.transforms.family import NO_LEVELS, Condition, Family, Pair, Recognition, Render, Rendering
from pipeline.transforms.registry import FAMILIES, Families, family_named
from tests.factories.own_waves import FAMILY


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Family:
    """The family of the tests, registered in this process until the test ends."""
    monkeypatch.setattr(FAMILIES, "_families", dict(FAMILIES))
    own = replace(FAMILY, modules=(), libraries=())
    registry.register(own)
    return own


def waves_recipe() -> Recipe:
    transforms = {"family": "own-waves", "only": ["everything"], "levels": [0]}
    return library.load("imagenet-c").changed(transforms=transforms)


def test_the_families_of_the_project_are_valid_and_named_as_in_recipes() -> None:
    assert list(FAMILIES)[:4] == ["corruptions", "perturbations", "system-noise", "none"]
    for name, family in FAMILIES.items():
        check_family(family)
        assert family.name == name
        assert family.citation.startswith("@") == (name != "none")


def test_a_registered_family_may_be_named_in_recipes_and_indexes(registered: Family) -> None:
    recipe = waves_recipe()
    assert recipe.family is family_named("own-waves") is registered
    assert [str(condition) for condition in recipe.conditions()] == ["wave_rows-0", "wave_columns-0"]
    assert IndexTable(name="x", family="own-waves", layout="tars", location="x").family == "own-waves"
    with pytest.raises(UserError, match="a family named 'own-waves' already exists"):
        registry.register(replace(registered, title="Other waves"))
    registry.register(registered)


def test_a_worker_with_another_version_of_its_libraries_is_refused(registered: Family) -> None:
    FAMILIES._families["own-waves"] = replace(registered, libraries=("numpy",))
    recipe = waves_recipe().model_copy(update={"software": {"numpy": "0.1"}})
    with pytest.raises(UserError, match=r"numpy .* the build uses 0\.1: install the same version there"):
        ready_renderer(recipe, None)
    ready_renderer(recipe.model_copy(update={"software": versions()}), None)


def test_transforms_are_tried_again_when_their_module_has_changed(
    registered: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, is_broken = tmp_path / "waves_of_test.py", False
    module.write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def render(condition: Condition, rendering: Rendering) -> Render:
        if is_broken:
            raise RuntimeError("no waves")
        return registered.render(condition, rendering)

    FAMILIES._families["own-waves"] = replace(registered, render=render, modules=("waves_of_test",))
    ready_renderer(waves_recipe(), None)
    is_broken = True
    ready_renderer(waves_recipe(), None)
    os.utime(module, (1, 1))
    with pytest.raises(UserError, match="wave_rows on this machine: no waves"):
        ready_renderer(waves_recipe(), None)


def test_unknown_families_are_told_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match=r"unknown family 'x'; allowed: corruptions, .*install that package"):
        family_named("x")
    with pytest.raises(UserError, match=r"transforms\.family: .*'x' is unknown; allowed: corruptions, perturbations"):
        library.load("imagenet-c").changed(transforms={"family": "x"})
    assert "x" not in FAMILIES
    assert FAMILIES.get("x") is None


def test_a_family_without_levels_has_level_zero() -> None:
    assert clean.FAMILY.levels == NO_LEVELS == (0,)
    assert FAMILY.level_of("wave_rows", 0) == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "Own Waves"}, "name: use lower case"),
        ({"title": ""}, "title: "),
        ({"names": ()}, "names: name at least one"),
        ({"names": ("wave_rows", "wave_rows", "wave_columns")}, "names: name each transform once"),
        ({"names": ("wave_rows", "wave_columns", "../x")}, r"names: '\.\./x' is invalid"),
        ({"groups": {"wave_rows": ("wave_columns",)}}, "groups: 'wave_rows' is also a transform"),
        ({"groups": {"some": ("fog",)}}, "groups: 'some' must contain known transforms"),
        ({"groups": {"some": ("wave_columns", "wave_rows")}}, "groups: 'some' .* in the order of names"),
        ({"levels": ()}, r"levels: \(\)"),
        ({"levels": (2, 1)}, r"levels: \(2, 1\)"),
        ({"levels": (-1,)}, r"levels: \(-1,\)"),
        ({"level_of": lambda name, level: 9}, r"level_of: wave_rows maps to the levels \[9\]"),
        ({"version": lambda name: 0}, "version: 0 of wave_rows"),
        ({"version": lambda name: "1"}, "version: '1' of wave_rows"),
        ({"pairs": {"fog": Pair("pillow", "pillow-box")}}, "pairs: 'fog'"),
        ({"recognition": Recognition(bare_level=3)}, r"recognition\.bare_level: 3"),
        ({"citation": "Nobody, Waves, 2026"}, "citation: give one BibTeX entry"),
        ({"modules": ("nowhere.at_all",)}, r"modules: nowhere\.at_all cannot be imported"),
    ],
)
def test_what_is_wrong_with_a_record_is_told_when_it_is_registered(change: dict[str, Any], told: str) -> None:
    sound = replace(FAMILY, modules=(), libraries=())
    families = Families([sound])
    with pytest.raises(UserError, match=f"invalid family .*{told}"):
        families.register(replace(sound, **{"name": "others", **change}))
    assert "others" not in families


def test_all_faults_of_a_record_are_told_at_once() -> None:
    with pytest.raises(UserError, match=r"title: .*; citation: "):
        check_family(replace(imagenet_c.FAMILY, title="", citation="x"))
    with pytest.raises(UserError, match="invalid family 'fog'"):
        Families([]).register("fog")
