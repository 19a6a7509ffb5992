"""Stylised photographs: the network with made-up weights, what is refused, and data sets."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

import robustshards as rs
from corruptions import Options
from pipeline.builder.bank import with_bank
from pipeline.builder.plan import make_plan
from pipeline.builder.regenerate import regenerate
from pipeline.errors import UserError
from pipeline.recipes import library
from pipeline.recipes.schema import Recipe
from pipeline.render import bank as banks
from pipeline.sources.kinds import open_source
from pipeline.transforms import adain
from pipeline.transforms.family import Condition, Rendering
from pipeline.transforms.stylised import FAMILY
from tests.conftest import write_small_source
from tests.factories.data_sets import rows_of
from tests.factories.style_networks import SMALL, network, write_weights

pytestmark = pytest.mark.usefixtures("workers_here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with weights, four paintings and a damaged one, and photographs."""
    folder = tmp_path_factory.mktemp("stylised")
    write_small_source(folder / "paintings", images=4)
    (folder / "paintings" / "class0" / "z.png").write_bytes(b"no painting")
    write_small_source(folder / "photographs", images=3)
    for part in SMALL:
        write_weights(folder, part)
        torch.jit.script(network(part)).save(folder / f"{part}.ts")
    return folder


def recipe_of(folder: Path, **bank: Any) -> Recipe:
    files = {part: str(folder / f"{part}.safetensors") for part in SMALL}
    steps = [["shorter_side", 40], ["center_crop", 32]]
    given = {"source": str(folder / "paintings"), "files": files, **bank}
    return library.load("stylised").changed(bank=given, prepare={"steps": steps}, transforms={"levels": [0, 50, 100]})


def bank_of(folder: Path, paintings: np.ndarray) -> dict[str, np.ndarray]:
    weights = {part: adain.weights_of(part, folder / f"{part}.safetensors") for part in SMALL}
    return {"paintings": paintings, **weights}


def stylised(bank: dict[str, np.ndarray], image: np.ndarray, percent: int, seed: int = 1) -> np.ndarray:
    rendering = Rendering("imagenet", Options(), bank=bank)
    return FAMILY.render(Condition("stylised", percent), rendering)(image, seed)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 256, shape, np.uint8)


# The network


def test_it_computes_what_the_published_network_computes(folder: Path) -> None:
    image, painting = noise(45, 37, 3), noise(1, 32, 32, 3)
    encoder, decoder = network("encoder"), network("decoder")
    values = [torch.from_numpy(each).permute(2, 0, 1)[None] / 255 for each in (image, painting[0])]
    with torch.no_grad():
        content, style = (encoder(each) for each in values)
        mean, style_mean = (each.mean((2, 3), keepdim=True) for each in (content, style))
        deviation, style_deviation = ((each.var((2, 3), keepdim=True) + 1e-5).sqrt() for each in (content, style))
        for percent in (0, 40, 100):
            mixed = style_deviation * (content - mean) / deviation + style_mean
            expected = decoder((percent * mixed + (100 - percent) * content) / 100)[0, :, :45, :37]
            found = stylised(bank_of(folder, painting), image, percent)
            levels = expected.clamp(0, 1).permute(1, 2, 0).numpy() * 255
            assert np.abs(found - levels).max() <= 0.51
            assert found.shape == image.shape
            assert found.std() > 1


def test_it_computes_in_float32_and_in_one_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = torch.backends.cudnn
    run, seen = adain.StyleTransfer._run, set()

    def recorded(self: adain.StyleTransfer, part: str, values: torch.Tensor) -> torch.Tensor:
        seen.add((settings.enabled, settings.benchmark, settings.deterministic, settings.allow_tf32))
        return run(self, part, values)

    monkeypatch.setattr(adain.StyleTransfer, "_run", recorded)
    before = settings.deterministic, settings.allow_tf32
    stylised(bank_of(folder, noise(1, 32, 32, 3)), noise(45, 37, 3), 50)
    assert seen == {(True, False, True, False)}
    assert (settings.deterministic, settings.allow_tf32) == before


def test_statistics_become_those_of_the_painting() -> None:
    features, style = torch.rand(1, 5, 8, 9), torch.rand(1, 5, 4, 4) * 3
    wanted = adain.statistics(style)
    found = adain.statistics(adain.transferred(features, wanted, 1))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-3)
    assert torch.equal(adain.transferred(features, wanted, 0), features)
    same = adain.transferred(features, adain.statistics(features), 1)
    assert torch.allclose(same, features, atol=1e-4)


def test_colours_of_the_painting_arrive_where_weights_pass_pixels_on(tmp_path: Path) -> None:
    for part, layers in adain.LAYERS.items():
        tensors = dict[str, torch.Tensor]()
        for index, side in enumerate(layer for layer in layers if isinstance(layer, int)):
            weight = torch.zeros(3, 3, side, side)
            weight[range(3), range(3), side // 2, side // 2] = 1
            tensors |= {f"{index}.weight": weight, f"{index}.bias": torch.zeros(3)}
        (tmp_path / f"{part}.safetensors").write_bytes(save(tensors))
    image, painting = noise(32, 32, 3), np.full((1, 32, 32, 3), (200, 50, 0), np.uint8)
    bank = bank_of(tmp_path, painting)
    content = image.reshape(4, 8, 4, 8, 3).max(axis=(1, 3)).repeat(8, axis=0).repeat(8, axis=1)
    assert np.array_equal(stylised(bank, image, 0), content)
    assert np.abs(stylised(bank, image, 100).reshape(-1, 3).mean(axis=0) - (200, 50, 0)).max() < 1


def test_bytes_are_equal_on_a_cpu_and_levels_share_a_painting(folder: Path) -> None:
    paintings, image = noise(6, 32, 32, 3), noise(32, 32, 3)
    bank = bank_of(folder, paintings)
    assert np.array_equal(stylised(bank, image, 100, 3), stylised(dict(bank), image, 100, 3))
    assert len({stylised(bank, image, 100, seed).tobytes() for seed in range(30)}) == 6
    recipe = recipe_of(folder)
    seeds = {rs.sample_seed(recipe, "a", "stylised", level) for level in (0, 50, 100)}
    assert len(seeds) == 1 != len({rs.sample_seed(recipe, id_, "stylised", 100) for id_ in "ab"})
    threads = torch.get_num_threads()
    with pytest.raises(ValueError, match="at least 16 x 16 pixels, not 32 x 8"):
        stylised(bank, image[:8], 100)
    assert torch.get_num_threads() == threads


# Weights


def test_torchscript_has_the_same_weights_as_safetensors(folder: Path) -> None:
    for part in SMALL:
        one, other = (adain.weights_of(part, folder / f"{part}.{suffix}") for suffix in ("ts", "safetensors"))
        assert np.array_equal(one, other)
    deeper = {f"{40 + index}.weight": torch.zeros(10, 10, 3, 3) for index in range(2)}
    (folder / "more").mkdir()
    path = write_weights(folder / "more", "encoder", **deeper)
    assert np.array_equal(adain.weights_of("encoder", path), adain.weights_of("encoder", folder / "encoder.ts"))


class Harmful:
    def __reduce__(self) -> Any:
        return pytest.fail, ("the pickle was read",)


def write_bytes(data: bytes, path: Path) -> None:
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (partial(torch.save, {"0.weight": Harmful()}), "pickles .* are not read: save the state dict with safetensors"),
        (partial(write_bytes, pickle.dumps(Harmful())), "neither a safetensors nor a TorchScript file"),
        (partial(write_bytes, b""), "neither a safetensors"),
        (partial(write_bytes, b"\x50" + bytes(7) + b"{" + b"x" * 90), "cannot be read as safetensors: .*invalid JSON"),
        (partial(write_bytes, b"\xff" * 8 + b"{}"), "cannot be read as safetensors: .*header too large"),
        (partial(write_bytes, save({"a": torch.zeros(3, 3, 1, 1)})), "1 convolutions, but the encoder .* 10"),
        (partial(write_bytes, save({f"{i}.weight": torch.zeros(3, 3, 3, 3) for i in range(10)})),
         r"0.weight has the shape \(3, 3, 3, 3\) and the bias none, but \(3, 3, 1, 1\) and \(3,\) are needed"),
    ],
)  # fmt: skip
def test_other_weights_are_refused_and_pickles_unread(write: Any, message: str, tmp_path: Path) -> None:
    write(tmp_path / "weights.pt")
    with pytest.raises(ValueError, match=message):
        adain.weights_of("encoder", tmp_path / "weights.pt")


def test_a_damaged_record_is_found_before_torch_reads_it(folder: Path, tmp_path: Path) -> None:
    data = (folder / "encoder.ts").read_bytes()
    (tmp_path / "weights.ts").write_bytes(data.replace(b"Sequential", b"sequential"))
    with pytest.raises(ValueError, match=r"weights\.ts cannot be loaded: UnsafeZipError: its record .* is damaged"):
        adain.weights_of("encoder", tmp_path / "weights.ts")


def test_networks_of_two_pairs_are_refused(folder: Path, tmp_path: Path) -> None:
    other = {**SMALL, "decoder": (9, *SMALL["decoder"][1:])}
    (tmp_path / "decoder.safetensors").write_bytes(save(network("decoder", other).state_dict()))
    decoder = adain.weights_of("decoder", tmp_path / "decoder.safetensors")
    with pytest.raises(ValueError, match="the encoder gives 10 channels, but the decoder takes 9"):
        adain.StyleTransfer(adain.weights_of("encoder", folder / "encoder.ts"), decoder, "cpu")


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_numbers_of_other_sizes_are_read(kind: torch.dtype, tmp_path: Path) -> None:
    state = {name: value.bfloat16() for name, value in network("encoder").state_dict().items()}
    found = []
    for each in (kind, torch.float32):
        (tmp_path / "weights").write_bytes(save({name: value.to(each) for name, value in state.items()}))
        found.append(adain.weights_of("encoder", tmp_path / "weights"))
    assert np.array_equal(*found)


# Data sets


def test_a_data_set_keeps_its_bank_and_refuses_another(folder: Path, tmp_path: Path) -> None:
    recipe, out = recipe_of(folder), tmp_path / "out"
    build = partial(rs.build, source=str(folder / "photographs"), out=str(out), executor="local", workers=1)
    assert build(recipe).complete
    made = library.load(str(out / "recipe.toml"))
    assert made.bank is not None
    assert made.bank.digests is not None
    assert (made.bank.tiles, made.bank.damaged, set(made.bank.digests)) == (4, 1, set(SMALL))
    assert made.software["device"].startswith("cpu ")
    assert {(row.transform, row.level) for row in rows_of(out)} == {("stylised", level) for level in (0, 50, 100)}
    assert sorted(path.name for path in (out / "bank").iterdir()) == ["decoder.npy", "encoder.npy", "paintings.npy"]
    assert rs.open(str(out)).verify().faults == []
    scripts = {part: str(folder / f"{part}.ts") for part in SMALL}
    assert build(recipe_of(folder, files=scripts)).complete, "other files of the same weights are the same bank"
    with pytest.raises(UserError, match=r"bank\.sha256 is .* of 4 photographs, not .* of 2 photographs"):
        build(recipe_of(folder, limit=2))
    (out / "bank" / "encoder.npy").unlink()
    banks._OPEN.clear()
    with pytest.raises(UserError, match=r"cannot read the paintings, and the weights .*encoder\.npy"):
        regenerate(str(out), str(folder / "photographs"), samples=2, seed=0)


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        ({"source": ""}, "stylised needs paintings, and the weights .* give --set bank.source=FOLDER$"),
        ({"files": {}}, r"give --set 'bank.files=\{encoder=\"FILE\", decoder=\"FILE\"\}'"),
        ({"files": {"encoder": "x", "coder": "y"}}, "bank.files: unknown file 'coder'.*allowed: encoder, decoder"),
        ({"files": {"encoder": "/dev/zero", "decoder": "/dev/zero"}}, "bank.files: '/dev/zero' is not a file"),
        ({"files": {"encoder": "missing", "decoder": "missing"}}, "bank.files: cannot read 'missing': No such file"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_with_the_remedy(bank: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(UserError, match=message):
        with_bank(recipe_of(folder, **bank), str(folder / "photographs"))


def test_paintings_of_several_sizes_are_refused(folder: Path) -> None:
    with pytest.raises(UserError, match=r"become 60 x 41 and 60 x 40 pixels|become 60 x 42 and 60 x 40 pixels"):
        with_bank(recipe_of(folder).changed(prepare={"steps": []}), str(folder / "photographs"))


def test_a_plan_says_which_device_computes(folder: Path) -> None:
    recipe = recipe_of(folder)
    plan = make_plan(recipe, open_source("imagefolder", str(folder / "photographs")))
    assert any(text.startswith("cpu ") and "bytes depend on the device" in text for text in plan.warnings)
    with pytest.raises(UserError, match="PyTorch finds no GPU for the device cuda: use the device cpu"):
        recipe.changed(transforms={"device": "cuda"}).installed()
