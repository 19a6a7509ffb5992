"""The names and levels that type checkers accept. A test compares them with the registries.

``corruptions.corruptor`` and ``perturbations.perturber`` accept any ``str``, for names that are known only when a
program runs.
"""

from typing import Literal

ImageNetCName = Literal[
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression",
    "speckle_noise", "gaussian_blur", "spatter", "saturate",
]  # fmt: skip
"""Corruptions of ImageNet-C."""

BarName = Literal[
    "caustic_refraction", "inverse_sparkles", "sparkles", "perlin_noise", "blue_noise_sample", "plasma_noise",
    "checkerboard_cutout", "cocentric_sine_waves", "single_frequency_greyscale", "brownish_noise",
    "pinch_and_twirl", "ripple", "circular_motion_blur", "lines", "transverse_chromatic_abberation",
]  # fmt: skip
"""Corruptions of ImageNet-C-bar and CIFAR-10-C-bar."""

CandidateName = Literal[
    "Affines", "Blur", "Border", "ChannelDropout", "CoarseDropout", "ColorJitter", "Cutout", "Downscale",
    "ElasticTransform", "Emboss", "Flip", "GaussianBlur", "GaussNoise", "GridDistortion", "HueSaturationValue",
    "ImageCompression", "InvertImg", "ISONoise", "JpegCompression", "MedianBlur", "MotionBlur",
    "MultiplicativeNoise", "OpticalDistortion", "Perspective", "Posterize", "RandomBrightness", "RandomContrast",
    "RandomFog", "RandomGamma", "RandomGridShuffle", "RandomRain", "RandomShadow", "RandomSnow", "RandomSunFlare",
    "RGBShift", "Rotate", "Sharpen", "Solarize", "ToSepia", "Transpose",
]  # fmt: skip
"""Candidates of ImageNet-Syn2Nat."""

Noise3dccName = Literal["iso_noise", "low_light", "color_quant"]
"""Corruptions of ImageNet-3DCC that need no depth."""

WatermarkName = Literal["watermark"]
"""The watermark of ImageNet-W."""

LaionCName = Literal[
    "mosaic", "glitched", "vertical_lines", "geometric_shapes", "stickers", "luminance_checkerboard",
]  # fmt: skip
"""Distortions of LAION-C."""

FourierName = Literal["fourier_noise"]
"""A spatial frequency that is added."""

Name = ImageNetCName | BarName | CandidateName | Noise3dccName | WatermarkName | LaionCName | FourierName
"""Corruptions that ``corrupt`` accepts."""

PerturbationName = Literal[
    "gaussian_noise", "shot_noise", "motion_blur", "zoom_blur", "snow", "brightness", "translate", "rotate", "tilt",
    "scale", "speckle_noise", "gaussian_blur", "spatter", "shear",
]  # fmt: skip
"""Perturbations of ImageNet-P."""

Group = Literal[
    "benchmark", "validation", "all", "noise", "blur", "weather", "digital", "extra", "c-bar", "candidates", "syn2nat",
    "3dcc-noise", "imagenet-w", "laion-c", "fourier",
]  # fmt: skip
"""Groups of corruptions."""

Severity = Literal[1, 2, 3, 4, 5]
"""Severities of corruptions."""

Difficulty = Literal[1, 2, 3]
"""Difficulties of perturbations."""

Profile = Literal["imagenet", "inception", "tiny", "cifar", "detection"]
"""Published parameter values."""

Channels = Literal["rgb", "bgr"]
"""Orders in which a corruption reads the channels of an image."""
