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

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

from nlattn.errors import PerformanceWarning

__all__ = ["Compiled", "Shared", "compiled", "inner", "shared"]

# Seconds of compiling after which a user at a terminal is told what he waits for.
PATIENCE = 2.0
MESSAGE = "nlattn: compiling kernels for this machine, once; later runs start at once"

# What compiled functions call beside those of their own file.
_CALLED = "nlattn.backends.numba_cpu.vector."
# Without numba's reference counts, which took a third of the time of compiling: compiled functions allocate nothing.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True} | ({"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {})
_SHARED_OPTIONS = {name: value for name, value in _OPTIONS.items() if name == "_nrt"}
_REALS = {"float32": types.float32, "float64": types.float64}

Signature = Callable[[Any], Any]
# numba's own annotations do not know all options.
njit: Any = numba.njit


class Compiled:
    """A function of arrays in float32 or float64: ``compiled[dtype]`` is its version for one of them.

    A version is compiled, or taken from the cache, when it is first asked for, and after the shared functions that it
    calls.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature) -> None:
        self._signature = signature
        self._versions: dict[np.dtype[Any], Callable[..., Any]] = {}
        self.function = function
        self._modules = _modules_of(function)
        # numba dates a cached function by its own file alone. What else it is made of goes into the name of the file.
        function.__qualname__ = f"{function.__name__}_{_stamp(function):08x}"

    def __getitem__(self, dtype: np.dtype[Any]) -> Callable[..., Any]:
        version = self._versions.get(dtype)
        if version is None:
            kind = _REALS[dtype.name]
            for function in [x for x in _shared if x.module in self._modules]:
                function.make(kind)
            version = self._versions[dtype] = _compile(self.function, self._signature(kind))
        return version


class Shared:
    """A function that compiled functions call by its name in machine code: large, and compiled once for all of them.

    numba optimises what it takes in from other functions once more for each function on the way to the outermost one.
    """

    def __init__(self, function: Callable[..., Any], counts: int) -> None:
        self.module, self._function, self._counts = function.__module__, function, counts
        self._made: dict[Any, Any] = {}
        function.__qualname__ = f"{function.__name__}_{_stamp(function):08x}"
        self.call = _caller(self, counts)
        _shared.append(self)

    def make(self, kind: Any) -> None:
        """Compile it for a type of numbers, or take it from the cache, and make its name known."""
        if kind not in self._made:
            signature = types.void(*(types.int64,) * self._counts, kind)
            made = self._made[kind] = _compile(self._function, signature, numba.cfunc)
            llvmlite.binding.add_symbol(self.symbol(kind), made.address)

    def symbol(self, kind: Any) -> str:
        """Its name in machine code."""
        return f"nlattn_{self._function.__qualname__}_{kind}"


_shared: list[Shared] = []


def shared(counts: int) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a function of so many integers and a number whose type is that of the numbers at its addresses.

    What it returns is to be called with a tuple of the integers, and the number.
    """
    return lambda function: Shared(function, counts).call


def _caller(function: Shared, counts: int) -> Any:
    @intrinsic
    def call(typingctx, integers, like):  # type: ignore[no-untyped-def]
        function.make(like)

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            given = zip(cgutils.unpack_tuple(builder, args[0], counts), integers.types, strict=True)
            values = [*(context.cast(builder, x, kind, types.int64) for x, kind in given), args[1]]
            kind = ir.FunctionType(ir.VoidType(), [x.type for x in values])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, function.symbol(like)), values)
            return context.get_dummy_value()

        return types.void(integers, like), codegen

    return call


def compiled(signature: Signature) -> Callable[[Callable[..., Any]], Compiled]:
    """Decorator: `signature` gives the numba signature for the type of the floating-point numbers of a call."""
    return lambda function: Compiled(function, signature)


def inner(**options: Any) -> Any:
    """Decorator of a function that only compiled functions call: it needs no way in from Python, which takes long."""
    return njit(**_OPTIONS, no_cpython_wrapper=True, **options)


def _compile(function: Callable[..., Any], signature: Any, how: Any = None) -> Any:
    """The version of a function for a signature, by `njit` or numba's `cfunc`, from the cache if it is there."""
    how, options = (njit, _OPTIONS) if how is None else (how, _SHARED_OPTIONS)
    with _watch.explained():
        try:
            version = how(signature, cache=True, **options)(function)
        except RuntimeError as error:  # no folder to cache in can be written to
            told = f"{error}: compiled anew in each process; set NUMBA_CACHE_DIR"
            warnings.warn(told, PerformanceWarning, stacklevel=4)
            return how(signature, **options)(function)
        stats = getattr(version, "stats", None)
        _watch.cached = version.cache_hits > 0 if stats is None else not stats.cache_misses
    return version


def _stamp(function: Callable[..., Any]) -> int:
    """A number that changes with the modules that a function is made of, and with the constants that it uses."""
    modules = sorted(_modules_of(function))
    content = b"".join(Path(str(importlib.import_module(name).__file__)).read_bytes() for name in modules)
    used = (function.__globals__.get(name) for name in function.__code__.co_names)
    constants = repr([value for value in used if isinstance(value, int | float)])
    return zlib.crc32(constants.encode(), zlib.crc32(content))


def _modules_of(function: Callable[..., Any]) -> set[str]:
    """The modules for compiled loops that a function is made of."""
    modules = {function.__module__} if function.__module__.startswith(_CALLED) else set()
    _add_modules(function.__globals__, modules)
    return modules


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
