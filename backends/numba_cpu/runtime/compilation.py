"""Compilation with a cache that notices changes in the modules that a kernel is made of."""

import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit

from nlattn.errors import PerformanceWarning

__all__ = ["compiled"]


def compiled(function: Callable[..., Any], signature: Any, *parts: ModuleType) -> Any:
    """`function` compiled for one signature, cached on disk; `parts` are the modules whose functions it calls.

    numba dates a cached function by its own file alone. The contents of the others go into the name of the cache file.
    """
    stamp = zlib.crc32(b"".join(Path(str(part.__file__)).read_bytes() for part in parts))
    function.__qualname__ = f"{function.__name__}_{stamp:08x}"
    try:
        return njit(signature, nogil=True, cache=True)(function)
    except RuntimeError as error:  # no folder to cache in can be written to
        warnings.warn(f"{error}: compiled anew in each process; set NUMBA_CACHE_DIR", PerformanceWarning, stacklevel=2)
        return njit(signature, nogil=True)(function)
