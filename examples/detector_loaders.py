"""Corruptions in the loaders of mmdetection, detectron2 and torchvision, with the draws of a mirror.

Keys are paths relative to the image root, as a mirror has them, so that images are the same for everyone.
mmdetection and detectron2 read images as BGR: ``channels="bgr"`` corrupts them as the RGB images that they are. With
``channels="rgb"``, the channels change places as in the results that were published with mmdetection.
"""

import os
from typing import Any

import numpy as np
from PIL import Image

import robustshards as rs


class MMDetectionCorrupt:
    """A transform of mmdetection, second in the test pipeline, after LoadImageFromFile.

    Register it with ``@TRANSFORMS.register_module()`` of ``mmdet.registry``.
    """

    def __init__(self, corruption: str, severity: int, root: str, seed: int = 0, channels: str = "bgr") -> None:
        self.root = root
        self.corrupt = rs.Corruptor(corruption, severity, seed=seed, channels=channels)

    def __call__(self, results: dict[str, Any]) -> dict[str, Any]:
        """Corrupt the image."""
        key = os.path.relpath(results["img_path"], self.root)
        results["img"] = self.corrupt(results["img"], key)
        return results


class Detectron2Mapper:
    """A mapper for ``build_detection_test_loader(dataset, mapper=...)`` of detectron2."""

    def __init__(self, mapper: Any, corrupt: rs.Corruptor, root: str) -> None:
        self.mapper, self.corrupt, self.root = mapper, corrupt, root
        self.augmentations, mapper.augmentations = mapper.augmentations, self._augment

    def __call__(self, dataset_dict: dict[str, Any]) -> dict[str, Any]:
        """Return what the mapper returns for the corrupted image."""
        self.key = os.path.relpath(dataset_dict["file_name"], self.root)
        mapped: dict[str, Any] = self.mapper(dataset_dict)
        return mapped

    def _augment(self, aug_input: Any) -> Any:
        aug_input.image = self.corrupt(aug_input.image, self.key)
        return self.augmentations(aug_input)


def corrupted_coco(dataset: type, corrupt: rs.Corruptor) -> type:
    """Return a class like ``torchvision.datasets.CocoDetection``, whose images are corrupted when they are read."""

    class CorruptedCoco(dataset):  # type: ignore[misc]
        def _load_image(self, id: int) -> Image.Image:
            key = self.coco.loadImgs(id)[0]["file_name"]
            return Image.fromarray(corrupt(np.asarray(super()._load_image(id)), key))

    return CorruptedCoco
