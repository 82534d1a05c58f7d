"""Compilation for one precision at a time, when it is first needed, with a cache on disk that notices changes."""

import contextlib
import importlib
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.options import DefaultOptions

from nlattn.errors import PerformanceWarning

__all__ = ["Compiled", "compiled", "inner"]

# Seconds of compiling after which a user at a terminal is told what he waits for.
PATIENCE = 2.0
MESSAGE = "nlattn: compiling kernels for this machine, once; later runs start at once"

# What compiled functions call beside those of their own file.
_CALLED = "nlattn.backends.numba_cpu.vector."
# Without numba's reference counts, which took a third of the time of compiling: compiled functions allocate nothing.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True} | ({"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {})
_REALS = {"float32": types.float32, "float64": types.float64}

Signature = Callable[[Any], Any]
# numba's own annotations do not know all options.
njit: Any = numba.njit


class Compiled:
    """A function of arrays in float32 or float64: ``compiled[dtype]`` is its version for one of them.

    A version is compiled, or taken from the cache, when it is first asked for.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        self._signature = signature
        self._versions: dict[np.dtype[Any], Callable[..., Any]] = {}
        self.function = function
        # numba dates a cached function by its own file alone. What else it is made of goes into the name of the file.
        function.__qualname__ = f"{function.__name__}_{_stamp(function):08x}"

    def __getitem__(self, dtype: np.dtype[Any]) -> Callable[..., Any]:
        version = self._versions.get(dtype)
        if version is None:
            version = self._versions[dtype] = _compile(self.function, self._signature(_REALS[dtype.name]))
        return version


def compiled(signature: Signature) -> Callable[[Callable[..., Any]], Compiled]:
    """Decorator: `signature` gives the numba signature for the type of the floating-point numbers of a call."""
    return lambda function: Compiled(function, signature)


def inner(**options: Any) -> Any:
    """Decorator of a function that only compiled functions call: it needs no way in from Python, which takes long."""
    return njit(**_OPTIONS, no_cpython_wrapper=True, **options)


def _compile(function: Callable[..., Any], signature: Any) -> Any:
    with _watch.explained():
        try:
            version = njit(signature, cache=True, **_OPTIONS)(function)
        except RuntimeError as error:  # no folder to cache in can be written to
            told = f"{error}: compiled anew in each process; set NUMBA_CACHE_DIR"
            warnings.warn(told, PerformanceWarning, stacklevel=4)
            return njit(signature, **_OPTIONS)(function)
        _watch.cached = not version.stats.cache_misses
    return version


def _stamp(function: Callable[..., Any]) -> int:
    """A number that changes with the modules that a function is made of, and with the constants that it uses."""
    modules: set[str] = set()
    _add_modules(function.__globals__, modules)
    content = b"".join(Path(str(importlib.import_module(name).__file__)).read_bytes() for name in sorted(modules))
    used = (function.__globals__.get(name) for name in function.__code__.co_names)
    constants = repr([value for value in used if isinstance(value, int | float)])
    return zlib.crc32(constants.encode(), zlib.crc32(content))


def _add_modules(names: dict[str, Any], modules: set[str]) -> None:
    """Add the modules for compiled loops from which `names` are imported, and what these import in turn."""
    for value in tuple(names.values()):
        module = getattr(value, "__module__", None)
        if isinstance(module, str) and module.startswith(_CALLED) and module not in modules:
            modules.add(module)
            _add_modules(vars(importlib.import_module(module)), modules)


class _Watch:
    """Says once, where there is a terminal, that compiling is what takes so long."""

    def __init__(self) -> None:
        self.spent, self.told, self.cached = 0.0, False, False
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        if self.told or sys.stderr is None or not sys.stderr.isatty():
            yield
            return
        self.cached = False
        timer = threading.Timer(max(0.0, PATIENCE - self.spent), self._tell)
        timer.daemon = True
        began = time.monotonic()
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if not self.cached:
                self.spent += time.monotonic() - began

    def _tell(self) -> None:
        with self._lock:
            if not self.told:
                self.told = True
                print(MESSAGE, file=sys.stderr, flush=True)


_watch = _Watch()
