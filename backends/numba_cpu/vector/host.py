"""The vector registers of the processor that kernels are compiled for, as numba sees it."""

from typing import Any, NamedTuple

import llvmlite.binding
import numba.core.config

__all__ = ["HOST", "Host", "described"]


class Host(NamedTuple):
    """What a register-blocked product needs to know.

    Attributes
    ----------
    width : int
        Bytes of a vector.
    rows, vectors : int
        The register block of a product: `rows` times `vectors` accumulators, which leave room for the operands.
    """

    width: int
    rows: int
    vectors: int

    def lanes(self, itemsize: int) -> int:
        """Numbers of so many bytes in a vector."""
        return self.width // itemsize


def described(features: str, machine: str) -> Host:
    """The register block for the features of a processor, as LLVM lists them, and an architecture."""
    has = set(features.split(","))
    if "+avx512f" in has:
        return Host(64, 12, 2)
    if machine.startswith(("aarch64", "arm64")):
        return Host(16, 12, 2)
    # All others have 16 registers, or can imitate them.
    return Host(32 if "+avx2" in has else 16, 6, 2)


def _features() -> str:
    """The features that numba compiles for.

    numba combines a processor named by NUMBA_CPU_NAME with the features of the host. The name is then asked for to
    imitate a processor with fewer of them, so that wide vectors are used only where NUMBA_CPU_FEATURES lists them.
    """
    config: Any = numba.core.config
    if config.CPU_FEATURES is not None:
        return str(config.CPU_FEATURES)
    features = str(llvmlite.binding.get_host_cpu_features().flatten())
    if config.CPU_NAME not in (None, llvmlite.binding.get_host_cpu_name()):
        return ",".join(name for name in features.split(",") if not name.startswith("+avx512"))
    return features


#: What kernels are compiled for in this process.
HOST = described(_features(), llvmlite.binding.get_process_triple())
