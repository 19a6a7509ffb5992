"""Builds of random recipes: their transforms, levels, seeds, encoders and shard sizes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import robustshards as rs
from pipeline.builder.regenerate import regenerate
from pipeline.datasets.roots import render_roots
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe

pytestmark = [pytest.mark.large, pytest.mark.usefixtures("workers_here")]

RECIPES = [recipe for recipe in map(library.load, library.shipped()) if recipe.prepare.steps and not recipe.bank_needs]


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """Return a shipped recipe with changes that leave it valid."""
    shipped = draw(st.sampled_from(RECIPES))
    names = st.sampled_from([name for name in shipped.family.names if not name.startswith("nvjpeg")])  # needs a GPU
    levels = st.sampled_from(shipped.transforms.levels)
    try:
        return shipped.changed(
            seed=draw(st.integers(0, 2**64 - 1)),
            transforms={
                "only": draw(st.lists(names, min_size=1, max_size=2, unique=True)),
                "levels": draw(st.lists(levels, min_size=1, max_size=2, unique=True)),
            },
            encoder={"name": draw(st.sampled_from(["jpeg", "png", "npy"]))},
            shards={"size": draw(st.integers(1, 3))},
        )
    except rs.UserError:
        reject()


@settings(max_examples=30)
@given(recipes())
def test_a_build_is_finished_verified_and_equal_to_the_rendered_set(photographs: Path, recipe: Recipe) -> None:
    with TemporaryDirectory() as folder:
        data, rendered = f"{folder}/data", f"{folder}/rendered"
        built, again = (rs.build(recipe, photographs, data, limit=3) for _ in range(2))
        assert (built.complete, built.failed, built.done.shards) == (True, 0, built.plan.shards)
        assert (again.complete, again.done.shards, again.shards_before) == (True, 0, built.plan.shards)
        assert not rs.open(data).verify().faults
        assert not regenerate(data, str(photographs), samples=10, seed=0).faults
        render_roots(rs.render(recipe, photographs, rendered, limit=3))
        assert rs.compare(data, rendered)
