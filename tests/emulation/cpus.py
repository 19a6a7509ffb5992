"""The CPUs on which the digests are computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Emulator(StrEnum):
    """QEMU's program for each architecture."""

    X86_64 = "qemu-x86_64-static"
    AARCH64 = "qemu-aarch64-static"


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """A CPU and the kernels that it runs.

    Attributes:
        name: Name on the command line, and of its files.
        title: Name on the page.
        emulator: Program that emulates it; None for this machine's own CPU.
        model: QEMU's name of the CPU with its properties.
        kernels: LLVM's name of the CPU for which kernels are compiled.
        features: Features for which kernels are compiled, if others than the project chooses.
        compiled_by: Name of the CPU that compiles the kernels, which comes earlier in CPUS. Default: this one.
        environment: Further environment variables.
    """

    name: str
    title: str
    emulator: Emulator | None = None
    model: str = ""
    kernels: str
    features: str | None = None
    compiled_by: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernel_folder(self) -> str:
        """Name of the folder of its compiled kernels."""
        return self.compiled_by or self.name


GRAVITON_3 = "max,sve-max-vq=2,pauth-impdef=on"
"""A CPU with the vectors of Graviton3, for which QEMU 7.2 has no name. The last property makes emulation faster."""

CPUS: tuple[Cpu, ...] = (
    Cpu(name="aarch64", title="ARM without SVE", emulator=Emulator.AARCH64, model="neoverse-n1", kernels="generic"),
    Cpu(
        name="neoverse-v1",
        title="ARM with SVE of 256 bits",
        emulator=Emulator.AARCH64,
        model=GRAVITON_3,
        kernels="neoverse-v1",
    ),
    Cpu(
        name="neoverse-v1-sve",
        title="ARM with SVE of 256 bits, used by kernels",
        emulator=Emulator.AARCH64,
        model=GRAVITON_3,
        kernels="neoverse-v1",
        features="+sve",
    ),
    Cpu(name="native-haswell", title="x86-64, not emulated", kernels="haswell"),
    Cpu(name="native-nehalem", title="x86-64, not emulated", kernels="nehalem"),
    Cpu(
        name="haswell",
        title="x86-64 Haswell",
        emulator=Emulator.X86_64,
        model="Haswell",
        kernels="haswell",
        compiled_by="native-haswell",
    ),
    Cpu(
        name="nehalem",
        title="x86-64 Nehalem",
        emulator=Emulator.X86_64,
        model="Nehalem",
        kernels="nehalem",
        compiled_by="native-nehalem",
        environment={"OPENBLAS_CORETYPE": "NEHALEM"},  # OpenBLAS does not recognise it, and ends the process
    ),
)
"""In the order in which they start: the longest first."""
