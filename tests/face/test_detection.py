"""Corruptions in the loaders of detectors, and the drop-in for imagecorruptions."""

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import corruptions
import robustshards as rs
from robustshards import imagecorruptions
from robustshards.imagecorruptions import corrupt, get_corruption_names

ROOT = Path(imagecorruptions.__file__).parents[1]
IMAGE = np.random.RandomState(0).randint(0, 256, (37, 45, 3)).astype(np.uint8)


@pytest.mark.parametrize("channels", ["rgb", "bgr"])
def test_corruptor_draws_as_a_build(channels: str) -> None:
    seed = rs.sample_seed("native-c", "city/a.png", "frost", 4)
    found = rs.Corruptor("frost", 4, channels=channels)(IMAGE, "city/a.png")
    order = slice(None, None, -1 if channels == "bgr" else None)
    expected = rs.corrupt(IMAGE[..., order], "frost", 4, profile="detection", seed=seed)[..., order]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        rs.corrupt(IMAGE, "frost", 4, profile="detection", seed=seed, channels=channels), expected
    )


def test_corruptor_can_be_pickled_and_used_in_threads() -> None:
    corruptor = rs.Corruptor("gaussian_noise", 2, seed=7, channels="bgr")
    keys = [f"{index}.jpg" for index in range(8)]
    expected = [corruptor(IMAGE, key) for key in keys]
    assert len({image.tobytes() for image in expected}) == len(keys)
    again = pickle.loads(pickle.dumps(corruptor))
    start = "Corruptor('gaussian_noise', 2, profile='detection', seed=7, channels='bgr'"
    assert (repr(again), repr(again)[: len(start)]) == (repr(corruptor), start)
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(expected, pool.map(lambda key: again(IMAGE, key), keys), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(corruptor(IMAGE, 3), corruptor(IMAGE, "3"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "fogg"}, "unknown corruption 'fogg'"),
        ({"name": "fog", "channels": "grb"}, "unknown order of channels 'grb'"),
        ({"name": "fog", "seed": -1}, "not -1"),
        ({"name": "fog", "profile": "native"}, "unknown profile 'native'"),
    ],
)
def test_corruptor_refuses_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rs.Corruptor(**arguments)


def test_images_below_32_pixels_and_imagemagick_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 x 32, not 31 x 45"):
        rs.Corruptor("fog")(IMAGE[:31], "a")
    with pytest.raises(ValueError, match="motion must be 'native'"):
        rs.Corruptor("fog", options=corruptions.Options(motion="imagemagick"))


def test_narrow_images_become_darker_by_motion_blur() -> None:
    white = np.full((40, 33, 3), 255, np.uint8)
    assert rs.corrupt(white, "motion_blur", 5, profile="detection", rng=np.random.RandomState(3112)).max() < 255


def test_spatter_without_drops_returns_the_image() -> None:
    image = IMAGE[:32, :32]
    outputs = [
        rs.corrupt(image, "spatter", 1, profile="detection", rng=np.random.RandomState(seed)) for seed in range(120)
    ]
    assert any((output == image).all() for output in outputs)
    assert all(output.any() for output in outputs)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(19))
def test_drop_in_draws_from_the_global_generator(number: int) -> None:
    name = get_corruption_names("all")[number]
    np.random.seed(5)
    by_number = corrupt(IMAGE, severity=2, corruption_number=number)
    state = np.random.get_state()[2]
    np.random.seed(5)
    by_name = corrupt(IMAGE, corruption_name=name, severity=2)
    rng = np.random.RandomState(5)
    expected = corruptions.corrupt(IMAGE, name, 2, profile="detection", rng=rng)
    assert rng.get_state()[2] == state
    np.testing.assert_array_equal(by_number, expected)
    np.testing.assert_array_equal(by_name, expected)


def test_drop_in_has_the_published_subsets() -> None:
    assert get_corruption_names() == list(corruptions.names("benchmark"))
    assert get_corruption_names("validation") == list(corruptions.names("validation"))
    assert get_corruption_names("all") == list(corruptions.names("all"))
    for subset in ("noise", "blur", "weather", "digital"):
        assert get_corruption_names(subset) == list(corruptions.names(subset))
    with pytest.raises(ValueError, match=r"subset must be one of common, .*'most'"):
        get_corruption_names("most")


@pytest.mark.parametrize(
    ("image", "arguments", "error"),
    [
        ([[0]], {"corruption_name": "fog"}, AttributeError),
        (IMAGE.astype(float), {"corruption_name": "fog"}, AttributeError),
        (IMAGE[0], {"corruption_name": "fog"}, AttributeError),
        (IMAGE[:31], {"corruption_name": "fog"}, AttributeError),
        (IMAGE[..., :2], {"corruption_name": "fog"}, AttributeError),
        (IMAGE, {"corruption_name": "fog", "severity": 0}, AttributeError),
        (IMAGE, {"corruption_name": "fog", "severity": 2.0}, TypeError),
        (IMAGE, {}, ValueError),
        (IMAGE, {"corruption_name": "fogg"}, KeyError),
        (IMAGE, {"corruption_number": 19}, IndexError),
    ],
)
def test_drop_in_has_the_published_errors(image: Any, arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        corrupt(image, **arguments)


def test_drop_in_makes_grey_images_rgb() -> None:
    grey = np.ascontiguousarray(IMAGE[..., 0])
    for image in (grey, grey[..., None]):
        np.random.seed(1)
        found = corrupt(image, 3, "gaussian_noise")
        np.random.seed(1)
        np.testing.assert_array_equal(found, corrupt(np.stack([grey] * 3, axis=-1), 3, "gaussian_noise"))


def test_drop_in_imports_no_compiled_code_before_the_first_call() -> None:
    code = (
        "import sys, robustshards.imagecorruptions as drop_in; "
        "print(len(drop_in.get_corruption_names()), sorted({'numba', 'torch', 'cv2', 'scipy'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert output.stdout == "15 []\n"


KEY = "city/a.png"


class AugInput:
    """The input of augmentations of detectron2."""

    def __init__(self, image: np.ndarray) -> None:
        self.image = image


class DatasetMapper:
    """What detectron2's class of this name does with an image."""

    def __init__(self) -> None:
        self.augmentations: Callable[[AugInput], list[Any]] = lambda aug_input: []

    def __call__(self, dataset_dict: dict[str, Any]) -> dict[str, Any]:
        image = np.array(Image.open(dataset_dict["file_name"]).convert("RGB"))[..., ::-1]
        aug_input = AugInput(image)
        transforms = self.augmentations(aug_input)
        assert transforms == []
        return {**dataset_dict, "image": aug_input.image}


class CocoDetection:
    """What torchvision's class of this name does with an image."""

    def __init__(self, root: str, coco: object) -> None:
        self.root, self.coco, self.ids = root, coco, [7]

    def _load_image(self, id: int) -> Image.Image:
        path = self.coco.loadImgs(id)[0]["file_name"]  # type: ignore[attr-defined]
        return Image.open(os.path.join(self.root, path)).convert("RGB")

    def __getitem__(self, index: int) -> tuple[Image.Image, list[Any]]:
        return self._load_image(self.ids[index]), []


class Coco:
    """The index of annotations of pycocotools."""

    def loadImgs(self, id: int) -> list[dict[str, Any]]:  # noqa: N802
        return [{"id": id, "file_name": KEY}]


@pytest.fixture
def loaders(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("detector_loaders")


@pytest.fixture
def city(tmp_path: Path) -> Path:
    (tmp_path / "city").mkdir()
    Image.fromarray(IMAGE).save(tmp_path / KEY)
    return tmp_path


def test_detector_loaders_corrupt_images_as_a_mirror(loaders: ModuleType, city: Path) -> None:
    expected = rs.Corruptor("frost", 3, seed=2)(IMAGE, KEY)
    transform = loaders.MMDetectionCorrupt("frost", 3, str(city), seed=2)
    results = {"img": np.ascontiguousarray(IMAGE[..., ::-1]), "img_path": str(city / KEY), "ori_shape": IMAGE.shape[:2]}
    np.testing.assert_array_equal(transform(results)["img"][..., ::-1], expected)
    mapper = loaders.Detectron2Mapper(DatasetMapper(), rs.Corruptor("frost", 3, seed=2, channels="bgr"), root=str(city))
    mapped = mapper({"file_name": str(city / KEY), "height": 37, "width": 45, "image_id": 7})
    np.testing.assert_array_equal(mapped["image"][..., ::-1], expected)
    assert mapped["image_id"] == 7
    data = loaders.corrupted_coco(CocoDetection, rs.Corruptor("frost", 3, seed=2))(str(city), Coco())
    image, _ = data[0]
    np.testing.assert_array_equal(np.asarray(image), expected)


def test_detector_loader_in_a_pipeline_of_mmcv(loaders: ModuleType, city: Path) -> None:
    pytest.importorskip("addict")  # of mmengine
    transforms = pytest.importorskip("mmcv.transforms")
    transforms.TRANSFORMS.register_module(module=loaders.MMDetectionCorrupt, force=True)
    corrupted = {"type": "MMDetectionCorrupt", "corruption": "frost", "severity": 3, "root": str(city), "seed": 2}
    pipeline = transforms.Compose([{"type": "LoadImageFromFile"}, corrupted])
    found = pipeline({"img_path": str(city / KEY)})["img"]
    np.testing.assert_array_equal(found[..., ::-1], rs.Corruptor("frost", 3, seed=2)(IMAGE, KEY))


def test_detector_loader_reads_an_index_of_pycocotools(loaders: ModuleType, city: Path) -> None:
    index = pytest.importorskip("pycocotools.coco").COCO()
    index.dataset = {"images": [{"id": 7, "file_name": KEY, "height": 37, "width": 45}]}
    index.createIndex()
    data = loaders.corrupted_coco(CocoDetection, rs.Corruptor("frost", 3, seed=2))(str(city), index)
    image, _ = data[0]
    np.testing.assert_array_equal(np.asarray(image), rs.Corruptor("frost", 3, seed=2)(IMAGE, KEY))


def test_drop_in_works_as_the_transform_of_mmdetection_calls_it() -> None:
    results = {"img": IMAGE}
    np.random.seed(3)
    img_dtype = results["img"].dtype
    found = corrupt(results["img"].astype(np.uint8), corruption_name="snow", severity=5).astype(img_dtype)
    assert found.shape == IMAGE.shape
    assert (found != IMAGE).any()
