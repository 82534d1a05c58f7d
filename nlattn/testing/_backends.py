"""The array libraries and kernel backends that the conformance suite runs on."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nlattn.arrays.boundary import keep_tensors
from nlattn.dispatch import use_backend
from nlattn.testing._asserts import to_numpy

__all__ = ["BACKENDS", "Backend"]


def _nothing() -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Backend:
    """How arrays of one library are made, and in which context a method is called with them.

    Attributes
    ----------
    name : str
    library : str
        As in ``Record.namespaces``.
    make : callable
        ``make(x, dtype)`` makes an array from a NumPy array and the name of a dtype.
    dtypes : tuple of str
        Names of the real floating dtypes.
    context : callable
        Returns a context manager for the calls, such as ``lambda: use_backend("generic")``.
    unavailable : callable
        Returns a sentence that says why the backend cannot be used here, or None.
    """

    name: str
    library: str
    make: Callable[[Any, str], Any]
    dtypes: tuple[str, ...] = ("float64", "float32")
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    unavailable: Callable[[], str | None] = _nothing

    def array(self, x: Any, dtype: str | None = None) -> Any:
        """`x` as an array of this backend, in its own dtype or in the one of the given name."""
        x = np.asarray(x)
        return self.make(x, x.dtype.name if dtype is None else dtype)

    def to_numpy(self, array: Any) -> np.ndarray:
        """A NumPy copy or view."""
        return to_numpy(array)

    def __str__(self) -> str:
        return self.name


def _numpy(x: Any, dtype: str) -> Any:
    return np.array(x, dtype=dtype)


def _strict(x: Any, dtype: str) -> Any:
    xp = importlib.import_module("array_api_strict")
    # On another device than the default one, so that arrays made without device= give an error.
    return xp.asarray(np.array(x), dtype=getattr(xp, dtype), device=xp.Device("device1"))


def _torch(x: Any, dtype: str) -> Any:
    torch = importlib.import_module("torch")
    return torch.tensor(np.array(x), dtype=getattr(torch, dtype))


def _cupy(x: Any, dtype: str) -> Any:
    return importlib.import_module("cupy").array(x, dtype=dtype)


def _needs(module: str) -> Callable[[], str | None]:
    return lambda: None if importlib.util.find_spec(module) else f"{module} is not installed"


def _no_gpu() -> str | None:
    if importlib.util.find_spec("cupy") is None:
        return "cupy is not installed"
    try:
        importlib.import_module("cupy").cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"cupy finds no GPU: {error}"
    return None


_ALL = (
    Backend(
        name="numpy-numba",
        library="numpy",
        make=_numpy,
        dtypes=("float64", "float32", "float16"),
        context=lambda: use_backend("numba_cpu"),
        unavailable=_needs("numba"),
    ),
    Backend(
        name="numpy-generic",
        library="numpy",
        make=_numpy,
        dtypes=("float64", "float32", "float16"),
        context=lambda: use_backend("generic"),
    ),
    Backend(name="array-api-strict", library="array_api_strict", make=_strict, unavailable=_needs("array_api_strict")),
    Backend(
        name="torch-cpu",
        library="torch",
        make=_torch,
        dtypes=("float64", "float32", "float16", "bfloat16"),
        unavailable=_needs("torch"),
    ),
    Backend(
        name="torch-generic",
        library="torch",
        make=_torch,
        dtypes=("float64", "float32", "float16", "bfloat16"),
        context=keep_tensors,
        unavailable=_needs("torch"),
    ),
    Backend(
        name="cupy",
        library="cupy",
        make=_cupy,
        dtypes=("float64", "float32", "float16"),
        unavailable=_no_gpu,
    ),
)

#: Every backend that the suite knows, by name.
BACKENDS: Mapping[str, Backend] = MappingProxyType({backend.name: backend for backend in _ALL})
