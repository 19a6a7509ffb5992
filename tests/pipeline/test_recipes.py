from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
from pipeline.builder.settings import RecipeSettings
from pipeline.errors import UserError
from pipeline.images.resizers import prepare
from pipeline.recipes import library
from pipeline.transforms.family import Condition, Rendering
from pipeline.transforms.registry import FAMILIES

IMAGENET_C = library.load("imagenet-c")


def test_shipped_recipes_have_the_names_of_their_files() -> None:
    assert {"imagenet-c", "imagenet-c-clean", "imagenet-p", "imagenet-p-clean"} <= set(library.shipped())
    assert all(library.load(name).name == name for name in library.shipped())


def test_imagenet_c_is_the_published_benchmark() -> None:
    assert len(IMAGENET_C.conditions()) == 75
    assert IMAGENET_C.conditions()[0] == Condition("gaussian_noise", 1)
    assert IMAGENET_C.conditions()[-1] == Condition("jpeg_compression", 5)
    assert str(IMAGENET_C.encoder) == "jpeg quality=85 optimize=true"
    assert library.load("imagenet-c-clean").conditions() == (Condition("none", 0),)
    assert library.load("imagenet-c-clean").prepare == IMAGENET_C.prepare


def test_imagenet_p_is_the_published_benchmark() -> None:
    imagenet_p = library.load("imagenet-p")
    assert [str(condition) for condition in imagenet_p.conditions()][::9] == ["gaussian_noise-1", "scale-1"]
    assert len(imagenet_p.changed(transforms={"only": ["all"]}).conditions()) == 14
    assert imagenet_p.prepare == IMAGENET_C.prepare


def test_imagenet_syn2nat_is_the_published_benchmark() -> None:
    benchmark, every = library.load("imagenet-syn2nat"), library.load("imagenet-syn2nat-candidates")
    assert {condition.transform for condition in benchmark.conditions()} == set(corruptions.names("syn2nat"))
    assert [condition.transform for condition in every.conditions()] == list(corruptions.names("candidates"))
    assert {condition.level for condition in every.conditions()} == {1}
    assert (benchmark.prepare.decoder, benchmark.prepare.resize) == ("pillow", "opencv-area")
    assert benchmark.prepare.steps == (("square", 256), ("center_crop", 224))
    assert benchmark.prepare == every.prepare == library.load("imagenet-syn2nat-clean").prepare
    assert str(benchmark.encoder) == "png compression=3"
    with pytest.raises(UserError, match="profile: 'tiny' is not a profile of syn2nat; use imagenet"):
        benchmark.changed(profile="tiny")


def test_difficulties_apply_only_to_noises() -> None:
    """Only the noise sequences differ between difficulties, so the others are built once."""
    chosen = library.load("imagenet-p").changed(transforms={"only": ["shot_noise", "tilt"], "levels": [2, 3]})
    assert [str(condition) for condition in chosen.conditions()] == ["shot_noise-2", "shot_noise-3", "tilt-1"]


def test_real_severities_are_levels_in_hundredths() -> None:
    text = 'extends = "imagenet-c"\nname = "quarters"\n[transforms]\nonly = ["fog"]\nseverities = [1.75, 2.0, 0.25]'
    assert [str(each) for each in library.parse(text, "x").conditions()] == ["fog-2", "fog-25", "fog-175"]
    settings = RecipeSettings(IMAGENET_C, "x", only=["fog"], severities="0.25,3,1.75")
    changed = settings.changed_recipe()
    assert changed.transforms.levels == (25, 3, 175)
    assert "0.25,\n    3,\n    1.75," in changed.to_toml()
    assert library.parse(changed.to_toml(), "x") == changed
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    render = FAMILIES["corruptions"].render(Condition("fog", 175), Rendering("imagenet", corruptions.Options()))
    np.testing.assert_array_equal(render(image, 5), corruptions.corrupt(image, "fog", 1.75, seed=5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transforms": {"only": ["fgo"]}}, "transforms.only: unknown transform or group 'fgo'.*benchmark.*fog"),
        ({"transforms": {"levels": [0]}}, "transforms.levels: 0 is unknown; allowed: 1, 2, 3, 4, 5"),
        ({"transforms": {"levels": []}}, "must not be empty"),
        ({"transforms": {"levels": [0.123]}}, "multiples of 0.01 from 0.1 on, not 0.123"),
        ({"transforms": {"levels": [0.05]}}, "not 0.05"),
        ({"transforms": {"levels": [5.5]}}, "550 is unknown; allowed: 1, 2, 3, 4, 5"),
        ({"transforms": {"levels": [25]}}, r"levels: 25 is unknown; allowed: 1, 2, 3, 4, 5, and reals such as 1\.5"),
        ({"transforms": {"levels": [1.5], "only": ["fog", "spatter"]}}, "spatter has no severity 1.5 in the profile"),
        ({"transforms": {"levels": [1.5]}, "profile": "tiny"}, "severity 1.5 in the profile tiny; .* in the profile"),
        ({"transforms": {"motion": "fast"}}, "transforms.motion: .*'native' or 'imagemagick'"),
        ({"encoder": {"quality": 101}}, "encoder.quality: .*100"),
        ({"encoder": {"name": "gif"}}, "encoder: .*'gif'.*'jpeg', 'png', 'npy', 'own', 'mp4'"),
        ({"encoder": {"name": "mp4"}}, "mp4 stores sequences, but imagenet-c makes single images"),
        ({"encoder": {"name": "png", "quality": 90}}, "encoder.quality: unknown field"),
        ({"shards": {"size": 0}}, "shards.size"),
        ({"source": {"limit": -1}}, "source.limit"),
        ({"source": {"kind": "cloud"}}, "source.kind: .*allowed: auto, imagefolder"),
        ({"prepare": {"steps": [["shrink", 3]]}}, "prepare.steps.0.0: .*allowed: shorter_side"),
        *(({"seed": seed}, "seed") for seed in (-1, 2**64, 1.5)),
        ({"profile": "big"}, "profile: .*allowed: imagenet"),
        ({"name": "Über"}, "name"),
        ({"shards": {"sise": 3}}, "shards.sise: unknown field"),
    ],
)
def test_invalid_fields_name_the_field_and_allowed_values(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        IMAGENET_C.changed(**change)


@pytest.mark.parametrize("name", ["low-pass", "imagenet-p"])
def test_families_without_real_levels_refuse_them(name: str) -> None:
    with pytest.raises(UserError, match=r"transforms\.levels\.0: invalid value 1\.5: must be a valid integer"):
        library.load(name).changed(transforms={"levels": [1.5, 112]})


def test_order_of_selection_does_not_matter() -> None:
    one = IMAGENET_C.changed(transforms={"only": ["frost", "noise", "fog"], "levels": [5, 1, 5]})
    other = IMAGENET_C.changed(transforms={"only": ["fog", "noise", "frost", "fog"], "levels": [1, 5]})
    assert one.canonical({}, {}, {}) == other.canonical({}, {}, {})
    assert one.conditions() == other.conditions()


def test_a_recipe_is_unchanged_after_writing_and_reading() -> None:
    recipe = IMAGENET_C.changed(seed=2**64 - 1, source={"limit": 7}).canonical(
        {"numpy": "2.4.6"}, {"pillow": "Pillow 13; 31e6"}, {"opencv-area": "OpenCV 5; 9c0d"}
    )
    assert library.parse(recipe.to_toml(), "x") == recipe


def test_a_clean_companion_differs_in_its_transform_and_a_lossy_encoder() -> None:
    companion = library.load("imagenet-c-clean")
    assert companion.conditions() == (Condition("none", 0),)
    for table in ("profile", "seed", "source", "prepare", "shards"):
        assert getattr(companion, table) == getattr(IMAGENET_C, table)
    assert str(companion.encoder) == "png compression=3"


def test_a_recipe_can_extend_a_shipped_recipe() -> None:
    text = 'extends = "imagenet-c"\nname = "custom"\nprofile = "tiny"\n[encoder]\nname = "png"\n[shards]\nsize = 7\n'
    custom = library.parse(text, "custom.toml")
    assert (custom.name, custom.profile, str(custom.encoder), custom.shards.size) == (
        "custom",
        "tiny",
        "png compression=3",
        7,
    )
    assert custom.transforms == IMAGENET_C.transforms
    with pytest.raises(UserError, match=r"custom\.toml is not valid: extends: unknown recipe 'other'; .*-c"):
        library.parse('extends = "other"', "custom.toml")
    with pytest.raises(UserError, match=r"custom\.toml is not valid: shards\.sise: unknown field"):
        library.parse('extends = "imagenet-c"\n[shards]\nsise = 3', "custom.toml")


def test_changing_the_encoder_resets_its_options() -> None:
    assert str(IMAGENET_C.changed(encoder={"name": "png"}).encoder) == "png compression=3"
    assert str(IMAGENET_C.changed(encoder={"name": "jpeg", "quality": 90}).encoder) == "jpeg quality=90 optimize=true"
    assert str(IMAGENET_C.changed(encoder={"quality": 90}).encoder) == "jpeg quality=90 optimize=true"


def test_fields_are_parsed_from_the_command_line() -> None:
    texts = ["encoder.quality=90", "transforms.motion=imagemagick", "seed=4", "transforms.levels=[1, 2]"]
    changed = IMAGENET_C.changed(**library.parse_fields(texts))
    assert (changed.seed, changed.transforms.motion, changed.transforms.levels) == (4, "imagemagick", (1, 2))
    assert str(changed.encoder) == "jpeg quality=90 optimize=true"
    for text in ("encoder.quality", "=3", "encoder.=3"):
        with pytest.raises(UserError, match=r"use table\.field=value"):
            library.parse_fields([text])


def test_grid_selects_a_group() -> None:
    chosen = RecipeSettings(library.load("imagenet-s"), "source", grid="full").changed_recipe()
    assert len(chosen.conditions()) == 33
    with pytest.raises(UserError, match="--grid: unknown group 'fog'; allowed: benchmark, validation, all"):
        RecipeSettings(IMAGENET_C, "source", grid="fog").changed_recipe()
    with pytest.raises(UserError, match="--grid: unknown group 'full'; allowed: none"):
        RecipeSettings(library.load("imagenet-s-clean"), "source", grid="full").changed_recipe()


def test_a_recipe_is_loaded_by_path(tmp_path: Path) -> None:
    path = tmp_path / "custom.toml"
    path.write_text(IMAGENET_C.to_toml().replace('name = "imagenet-c"', 'name = "custom"'))
    assert library.load(str(path)).name == "custom"
    path.write_text("name = [")
    with pytest.raises(UserError, match=r"custom\.toml is not valid TOML"):
        library.load(str(path))
    with pytest.raises(UserError, match="cannot read"):
        library.load(str(tmp_path / "other.toml"))
    with pytest.raises(UserError, match=r"shipped: .*imagenet-c, imagenet-c-299"):
        library.load("imagenet-d")


EDITIONS = {
    "imagenet-c-299": ("inception", 299),
    "imagenet64-c": ("tiny", 64),
    "tiny-imagenet-c": ("tiny", 64),
    "cifar-10-c": ("cifar", 32),
    "cifar-100-c": ("cifar", 32),
    "imagenet-p-299": ("inception", 299),
    "imagenet64-p": ("tiny", 64),
    "tiny-imagenet-p": ("tiny", 64),
    "cifar-10-p": ("cifar", 32),
    "cifar-100-p": ("cifar", 32),
    "cifar-10-c-bar": ("cifar", 32),
    "imagenet-w-384": ("imagenet", 384),
    "low-pass-299": ("inception", 299),
    "low-pass-64": ("tiny", 64),
    "low-pass-32": ("cifar", 32),
    **dict.fromkeys(("native-c", "coco-c", "pascal-c", "cityscapes-c"), ("detection", None)),
    "fourier-32": ("cifar", 32),
}
"""Recipe -> its profile and the side of its images, of all others than 224 pixels of the profile imagenet."""


def test_every_edition_has_a_clean_companion() -> None:
    assert set(library.editions()) >= set(EDITIONS)
    photograph = np.zeros((75, 100, 3), np.uint8)
    for name in library.editions():
        profile, side = EDITIONS.get(name, ("imagenet", 224))
        for recipe in (library.load(name), library.load(f"{name}-clean")):
            assert recipe.profile == profile
            assert prepare(photograph, recipe.prepare.steps).shape == ((side, side, 3) if side else photograph.shape)


def test_groups_select_their_members() -> None:
    for family in FAMILIES.values():
        for group, members in family.groups.items():
            assert family.select([group]) == members
    assert FAMILIES["corruptions"].select(["extra", "fog"]) == ("fog", *corruptions.names("validation"))
    assert FAMILIES["perturbations"].select(["noise"]) == ("gaussian_noise", "shot_noise")
    assert len(FAMILIES["system-noise"].select(["paper", "decoders"])) == 13
    assert FAMILIES["syn2nat"].select(["spatial", "Flip"]) == ("Affines", "Cutout", "Flip", "Perspective")
