"""Installed and missing components of this machine, with commands that install the missing ones."""

import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corruptions import imagemagick, textures
from corruptions.kernels import COMPILED
from pipeline.images.decoders import DECODERS
from pipeline.images.fingerprints import decoder_fingerprint, resizer_fingerprints
from pipeline.software import ATTACK_LIBRARIES, cpu_count, installed_versions, memory_bytes, versions

OPTIONAL_LIBRARIES = {"ray": "pip install ray", "torch": "pip install torch", **ATTACK_LIBRARIES}
"""Libraries that builds do not need -> command that installs them."""

NVIDIA_TIMEOUT_S = 10
"""Timeout of nvidia-smi, in seconds."""


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        what: Name of the component.
        found: Its version or state.
        remedy: Command that installs it if it is missing, else None.
    """

    what: str
    found: str
    remedy: str | None = None


def examine() -> list[Finding]:
    """Examine the system, CPU, GPU, libraries, decoders, resize operators and the requirements of optional features."""
    resizers = (Finding(f"resize operator {name}", each) for name, each in resizer_fingerprints().items())
    return [*_machine(), *_libraries(), *_decoders(), *resizers, *_features()]


def facts(findings: list[Finding]) -> dict[str, Any]:
    """Return the findings as JSON values: name of the component -> ``found`` and ``remedy``."""
    return {each.what: {"found": each.found, "remedy": each.remedy} for each in findings}


def _machine() -> Iterator[Finding]:
    import numpy as np

    yield Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Finding("processor", f"{processor()}, {cpu_count()} usable CPUs")
    found = np.show_config(mode="dicts").get("SIMD Extensions", {})
    yield Finding("vector extensions", " ".join([*found.get("baseline", []), *found.get("found", [])]) or "none")
    yield Finding("memory", f"{memory_bytes() / 2**30:.1f} GiB usable")
    yield Finding("GPU", _gpu() or "none found")


def _libraries() -> Iterator[Finding]:
    yield Finding("python", platform.python_version())
    for name, version in versions().items():
        yield Finding(name, version)
    found = installed_versions(OPTIONAL_LIBRARIES)
    for name, command in OPTIONAL_LIBRARIES.items():
        yield Finding(name, found[name]) if name in found else Finding(name, "not installed", command)


def _decoders() -> Iterator[Finding]:
    for name, decoder in DECODERS.items():
        missing = decoder.missing()
        found = "not installed" if missing else decoder_fingerprint(name)
        yield Finding(f"decoder {name}", found, f"{decoder.install}{decoder.requirement}" if missing else None)


def _features() -> Iterator[Finding]:
    try:
        for texture in textures.TEXTURES:
            textures.read_verified(textures.find_folder(None) / texture.name, texture.sha256)
        yield Finding("frost textures", "all six installed and valid")
    except (OSError, ImportError, ValueError) as error:
        yield Finding("frost textures", str(error), "pip install imagecorruptions")
    try:
        imagemagick.image_class()
        yield Finding("ImageMagick", "installed")
    except ImportError:
        command = "pip install wand, and apt-get install libmagickwand-dev"
        yield Finding("ImageMagick", "not installed (only needed for motion=imagemagick)", command)
    ffmpeg = shutil.which("ffmpeg")
    found = ffmpeg or "not installed (only needed for a test and a benchmark)"
    yield Finding("ffmpeg command", found, None if ffmpeg else "apt-get install ffmpeg")
    yield Finding("compiled kernels", f"cached in {COMPILED}")


def processor() -> str:
    """Return the name of the CPU."""
    cpus = Path("/proc/cpuinfo")
    for line in cpus.read_text("utf-8", "replace").splitlines() if cpus.exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _gpu() -> str:
    """Return the names and driver versions of the GPUs as printed by nvidia-smi; empty if there are none."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    query = [command, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=NVIDIA_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):  # the driver may hang
        return ""
    return "; ".join(done.stdout.split("\n")).strip("; ") if done.returncode == 0 else ""
