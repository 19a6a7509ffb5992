"""Style transfer by adaptive instance normalisation (AdaIN): layers, weights and statistics, on PyTorch.

Source: Huang & Belongie, Arbitrary Style Transfer in Real-time with Adaptive Instance Normalization, ICCV 2017.
"""

import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.storage.zips import check_records
from pipeline.transforms.family import Image

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load, save
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise UserError(f"stylised needs {error.name}, which is not installed: pip install {error.name}") from error

Layers = Sequence[int | str]
"""Convolutions by the side of their kernels, "relu", "pool" (the largest of 2 x 2) and "up" (twice the side)."""

ENCODER: Layers = (
    1,
    *(3, "relu", 3, "relu", "pool"),
    *(3, "relu", 3, "relu", "pool"),
    *(3, "relu", 3, "relu", 3, "relu", 3, "relu", "pool"),
    *(3, "relu"),
)
"""VGG-19 up to relu4_1, after a convolution that normalises the colours."""

DECODER: Layers = (
    *(3, "relu", "up"),
    *(3, "relu", 3, "relu", 3, "relu", 3, "relu", "up"),
    *(3, "relu", 3, "relu", "up"),
    *(3, "relu", 3),
)
"""The mirror of the encoder, with reflected borders."""

LAYERS: Mapping[str, Layers] = {"encoder": ENCODER, "decoder": DECODER}

EPSILON = 1e-5
"""Added to variances."""

LARGEST_FILE = 2**30
"""Largest accepted file of weights in bytes."""

_COMPUTING = Lock()
"""The number of threads and the settings of cuDNN are those of the process."""

Statistics = tuple[torch.Tensor, torch.Tensor]
"""Mean and standard deviation of each channel, (1, channels, 1, 1)."""


class StyleTransfer:
    """Encoder and decoder on a device. Results are a function of the inputs and the device.

    Args:
        encoder: Its weights, as :func:`weights_of` returns them.
        decoder: Its weights.
        device: Device of PyTorch.

    Raises:
        ValueError: The two do not fit together, or there is no such device.
    """

    def __init__(self, encoder: NDArray[np.uint8], decoder: NDArray[np.uint8], device: str) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("PyTorch finds no GPU: use transforms.device = 'cpu'")
        self._device = device
        self._weights = {"encoder": _in_order(encoder, device), "decoder": _in_order(decoder, device)}
        given, taken = self._weights["encoder"][-1].shape[0], self._weights["decoder"][0].shape[1]
        if given != taken:
            raise ValueError(
                f"the encoder gives {given} channels, but the decoder takes {taken}: use those of one pair"
            )
        self._known: dict[int, Statistics] = {}

    def stylise(self, image: Image, paintings: NDArray[np.uint8], painting: int, alpha: float) -> Image:
        """Return an image in the style of a painting.

        Args:
            image: RGB (H, W, 3), uint8, of at least 16 x 16 pixels.
            paintings: RGB (N, H, W, 3), uint8. Always the same ones, whose statistics are kept.
            painting: Index of the painting.
            alpha: Strength 0..1: 0 decodes the features of the image as they are.

        Returns:
            RGB (H, W, 3), uint8.
        """
        settings = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with _COMPUTING, torch.inference_mode(), settings:
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                features = self._run("encoder", _tensor(image, self._device))
                if painting not in self._known:
                    self._known[painting] = statistics(self._run("encoder", _tensor(paintings[painting], self._device)))
                output = self._run("decoder", transferred(features, self._known[painting], alpha))
            finally:
                torch.set_num_threads(threads)
        height, width = image.shape[:2]
        levels = output[0, :, :height, :width].clamp(0, 1).mul(255).add(0.5).to(torch.uint8)
        return np.ascontiguousarray(levels.permute(1, 2, 0).cpu().numpy())

    def _run(self, part: str, values: torch.Tensor) -> torch.Tensor:
        weights = iter(self._weights[part])
        for layer in LAYERS[part]:
            if layer == "relu":
                values = functional.relu(values)
            elif layer == "pool":
                values = functional.max_pool2d(values, 2, ceil_mode=True)
            elif layer == "up":
                values = functional.interpolate(values, scale_factor=2)
            else:
                border = (int(layer) // 2,) * 4
                values = functional.conv2d(functional.pad(values, border, "reflect"), next(weights), next(weights))
        return values


def statistics(features: torch.Tensor) -> Statistics:
    """Return mean and standard deviation of each channel of features (1, channels, H, W)."""
    variance, mean = torch.var_mean(features, (2, 3), keepdim=True)
    return mean, (variance + EPSILON).sqrt()


def transferred(features: torch.Tensor, style: Statistics, alpha: float) -> torch.Tensor:
    """Return features with the statistics of a style, mixed with the features themselves: alpha 0..1."""
    (mean, deviation), (style_mean, style_deviation) = statistics(features), style
    return (1 - alpha) * features + alpha * (style_deviation * (features - mean) / deviation + style_mean)


def _tensor(image: Image, device: str) -> torch.Tensor:
    """Return an image as values 0..1, (1, 3, H, W)."""
    return torch.from_numpy(np.array(image)).to(device).permute(2, 0, 1)[None].float() / 255


def weights_of(part: str, path: Path) -> NDArray[np.uint8]:
    """Return the weights of the convolutions in a file, in the safetensors format without other tensors.

    The file has the weights of all convolutions in the order of their names, as those of the published networks
    ("0.weight", "0.bias", "2.weight" ...). The encoder may have more layers, which are not used. Channels may have any
    number.

    Args:
        part: "encoder" or "decoder".
        path: A safetensors file, or TorchScript, which torch loads and which may run code then.

    Raises:
        ValueError: The file is of another kind, for example a pickle, which is not read, or its weights do not fit.
        OSError: It cannot be read.
    """
    tensors = _tensors(path)
    names = sorted((name for name, tensor in tensors.items() if tensor.ndim == 4), key=_natural)
    kernels = [layer for layer in LAYERS[part] if isinstance(layer, int)]
    if len(names) < len(kernels) or (len(names) > len(kernels) and part == "decoder"):
        raise ValueError(f"{path} has {len(names)} convolutions, but the {part} of AdaIN has {len(kernels)}")
    chosen, channels = dict[str, torch.Tensor](), 3
    for index, (name, side) in enumerate(zip(names, kernels, strict=False)):
        weight, bias = tensors[name], tensors.get(f"{name.removesuffix('weight')}bias")
        takes = channels if index or part == "encoder" else weight.shape[1]
        gives = 3 if part == "decoder" and index == len(kernels) - 1 else weight.shape[0]
        needed = (gives, takes, side, side), (gives,)
        if bias is None or (tuple(weight.shape), tuple(bias.shape)) != needed:
            raise ValueError(
                f"{path} does not fit the {part} of AdaIN: {name} has the shape {tuple(weight.shape)} and the bias "
                f"{'none' if bias is None else tuple(bias.shape)}, but {needed[0]} and {needed[1]} are needed"
            )
        chosen |= {f"{index}.weight": weight.float().contiguous(), f"{index}.bias": bias.float().contiguous()}
        channels = gives
    return np.frombuffer(save(chosen), np.uint8).copy()


def _in_order(weights: NDArray[np.uint8], device: str) -> list[torch.Tensor]:
    """Return weight and bias of each convolution from what :func:`weights_of` returns."""
    tensors = load(weights.tobytes())
    return [tensors[f"{index // 2}.{('weight', 'bias')[index % 2]}"].to(device) for index in range(len(tensors))]


def _tensors(path: Path) -> Mapping[str, torch.Tensor]:
    """Return the tensors in a file by their names. Raises ValueError for files of other kinds, which are not read."""
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"{path} has {size:,} bytes; at most {LARGEST_FILE:,} are allowed")
    with path.open("rb") as file:
        start = file.read(9)
    if start[8:] == b"{":
        try:
            return load(path.read_bytes())
        except SafetensorError as error:
            raise ValueError(f"{path} cannot be read as safetensors: {error}") from error
    if not _is_torchscript(path):
        raise ValueError(
            f"{path} is neither a safetensors nor a TorchScript file; pickles (torch.save) can run code and are not "
            "read: save the state dict with safetensors.torch.save_file"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations, addressed to the author of the file
            check_records(path)
            module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # damaged files raise many types
        raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {str(error)[:200]}") from error
    state: Mapping[str, torch.Tensor] = module.state_dict()
    return state


def _is_torchscript(path: Path) -> bool:
    """Return whether a file is a TorchScript archive, by the criterion of torch."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _natural(name: str) -> list[int | str]:
    """Return a key that sorts numbers in names by their value. Texts and numbers alternate."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]
