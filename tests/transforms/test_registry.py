"""Registering a family checks its record and makes it available in recipes."""

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
    """Register the family of the tests until the test ends, and return it."""
    monkeypatch.setattr(FAMILIES, "_families", dict(FAMILIES))
    own = replace(FAMILY, modules=(), libraries=())
    registry.register(own)
    return own


def waves_recipe() -> Recipe:
    transforms = {"family": "own-waves", "only": ["everything"], "levels": [0]}
    return library.load("imagenet-c").changed(transforms=transforms)


def test_built_in_families_are_valid() -> None:
    assert next(iter(FAMILIES)) == "corruptions"
    for name, family in FAMILIES.items():
        check_family(family)
        assert family.name == name


def test_noise_is_grain_for_videos_and_unknown_sequences_of_an_index_are_not() -> None:
    family = FAMILIES["perturbations"]
    found = [name for name in (*family.names, "none") if family.grain(name)]
    assert found == ["gaussian_noise", "shot_noise", "speckle_noise"]


def test_recipes_and_indexes_accept_a_registered_family(registered: Family) -> None:
    recipe = waves_recipe()
    assert recipe.family is family_named("own-waves") is registered
    assert [str(condition) for condition in recipe.conditions()] == ["wave_rows-0", "wave_columns-0"]
    assert IndexTable(name="x", family="own-waves", layout="tars", location="x", manifest="").family == "own-waves"
    with pytest.raises(UserError, match="a family named 'own-waves' already exists"):
        registry.register(replace(registered, title="Other waves"))
    registry.register(registered)


def test_other_versions_of_its_libraries_raise(registered: Family) -> None:
    FAMILIES._families["own-waves"] = replace(registered, libraries=("numpy",))
    recipe = waves_recipe().model_copy(update={"software": {"numpy": "0.1"}})
    with pytest.raises(UserError, match=r"numpy .* the build uses 0\.1: install the same version there"):
        ready_renderer(recipe, None)
    ready_renderer(recipe.model_copy(update={"software": versions()}), None)


def test_transforms_are_tested_again_after_their_module_changes(
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
    with pytest.raises(UserError, match="cannot make samples of wave_rows: no waves"):
        ready_renderer(waves_recipe(), None)


def test_unknown_families_raise_with_the_known_families() -> None:
    with pytest.raises(UserError, match=r"unknown family 'x'; allowed: corruptions, .*install that package"):
        family_named("x")
    with pytest.raises(UserError, match=r"transforms\.family: .*unknown name 'x'; allowed: corruptions, perturbations"):
        library.load("imagenet-c").changed(transforms={"family": "x"})
    assert "x" not in FAMILIES
    assert FAMILIES.get("x") is None


def test_families_without_levels_use_level_zero() -> None:
    assert clean.FAMILY.levels == NO_LEVELS == (0,)
    assert FAMILY.level_of("wave_rows", 0) == 0


@pytest.mark.parametrize(
    ("change", "message"),
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
        ({"profiles": ()}, r"profiles: \(\) must be one or more of imagenet, inception"),
        ({"profiles": ("large",)}, r"profiles: \('large',\)"),
        ({"published": {"large": ("wave_rows",)}}, r"published: its profiles \('large',\) must be among"),
        ({"published": {"cifar": ("fog",)}}, "published: 'cifar' must have one or more of the names"),
        ({"level_of": lambda name, level: 9}, r"level_of: wave_rows maps to the levels \[9\]"),
        ({"version": lambda name: 0}, "version: 0 of wave_rows"),
        ({"version": lambda name: "1"}, "version: '1' of wave_rows"),
        ({"pairs": {"fog": Pair("pillow", "pillow-box")}}, "pairs: 'fog'"),
        ({"recognition": Recognition(bare_level=3)}, r"recognition\.bare_level: 3"),
        ({"recognition": Recognition(level_folders={"fog": {"2.35": 0}})}, r"recognition\.level_folders: 'fog'"),
        (
            {"recognition": Recognition(level_folders={"wave_rows": {"2.35": 7}})},
            r"level_folders: 'wave_rows' .* among",
        ),
        ({"citation": "Nobody, Waves, 2026"}, "citation: give one BibTeX entry"),
        ({"modules": ("nowhere.at_all",)}, r"modules: nowhere\.at_all cannot be imported"),
    ],
)
def test_registering_an_invalid_record_names_the_field(change: dict[str, Any], message: str) -> None:
    valid = replace(FAMILY, modules=(), libraries=())
    families = Families([valid])
    with pytest.raises(UserError, match=f"invalid family .*{message}"):
        families.register(replace(valid, **{"name": "others", **change}))
    assert "others" not in families


def test_all_faults_of_a_record_are_reported_together() -> None:
    with pytest.raises(UserError, match=r"title: .*; citation: "):
        check_family(replace(imagenet_c.FAMILY, title="", citation="x"))
    with pytest.raises(UserError, match="invalid family 'fog'"):
        Families([]).register("fog")
