"""Which backend runs a kernel: decided by the type of its first array.

A kernel is declared once, in ``nlattn/kernels``, by its generic version, which is also its specification::

    @kernel
    def softmax_attention(query, key, ...): ...

``backends/<name>/kernels/softmax_attention.py`` may define a function of the same name and signature. It returns
``NotImplemented``, before doing any work, for what it cannot do better, and the generic version runs.
"""

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast

from nlattn.errors import BackendUnavailable, PerformanceWarning

__all__ = ["BACKENDS", "backend_name", "kernel", "use_backend"]

P = ParamSpec("P")
R = TypeVar("R")

#: Backend name -> the array type that it serves, and the module that it needs.
BACKENDS: dict[str, tuple[str, str]] = {"numba_cpu": ("numpy.ndarray", "numba")}

_FORCED: ContextVar[str | None] = ContextVar("nlattn_backend", default=None)


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run the kernels inside a ``with`` block on the named backend.

    Parameters
    ----------
    name : {"generic", "numba_cpu"}
        ``"generic"`` runs the array-API version of every kernel. The setting is a context variable: it is local to
        the thread or task, and it does not reach threads started inside the block.

    Raises
    ------
    BackendUnavailable
        If the backend cannot be imported here, or, at the first kernel call, if it does not serve the array's type.

    Examples
    --------
    >>> import numpy as np, nlattn
    >>> q = np.ones((4, 8))
    >>> with nlattn.use_backend("generic"):
    ...     nlattn.exact_attention(q, q, q).shape
    (4, 8)
    """
    if name != "generic":
        if name not in BACKENDS:
            allowed = ", ".join(repr(b) for b in ["generic", *BACKENDS])
            raise ValueError(f"backend must be one of {allowed}, got {name!r}")
        _load(name, required=True)
    token = _FORCED.set(name)
    try:
        yield
    finally:
        _FORCED.reset(token)


def backend_name(array_type: type) -> str:
    """Name of the backend that runs kernels for arrays of this type in the present context."""
    forced = _FORCED.get()
    if forced is None:
        return _default_backend(array_type)
    if forced != "generic" and _serving(array_type) != forced:
        raise BackendUnavailable(
            f"backend {forced!r} works on {BACKENDS[forced][0]}, got {array_type.__module__}.{array_type.__name__}; "
            "convert the arrays yourself or use another backend"
        )
    return forced


def kernel(generic: Callable[P, R]) -> Callable[P, R]:
    """Declare `generic` as the specification of a kernel that backends may provide faster."""
    name = generic.__name__

    @functools.cache
    def implementation(backend: str) -> Callable[P, R] | None:
        if backend == "generic":
            return None
        path = f"nlattn.backends.{backend}.kernels.{name}"
        if importlib.util.find_spec(path) is None:
            return None
        return cast("Callable[P, R]", getattr(importlib.import_module(path), name))

    @functools.wraps(generic)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        special = implementation(backend_name(type(args[0])))
        if special is not None:
            result = special(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return generic(*args, **kwargs)

    return dispatched


@functools.cache
def _serving(array_type: type) -> str:
    names = {f"{t.__module__}.{t.__qualname__}" for t in array_type.__mro__}
    return next((backend for backend, (served, _) in BACKENDS.items() if served in names), "generic")


@functools.cache
def _default_backend(array_type: type) -> str:
    name = _serving(array_type)
    return name if name == "generic" or _load(name, required=False) else "generic"


def _load(name: str, *, required: bool) -> Any:
    try:
        return importlib.import_module(f"nlattn.backends.{name}")
    except ModuleNotFoundError as error:
        if error.name == "nlattn.backends":
            raise BackendUnavailable(
                "nlattn.backends is missing: a clone in the working directory hides the installed package; "
                "run from another directory, or install the clone with `pip install -e .`"
            ) from error
        reason: ImportError = error
    except ImportError as error:
        reason = error
    if required:
        raise BackendUnavailable(
            f"backend {name!r} cannot be used: {reason}; install {BACKENDS[name][1]!r} or use another backend"
        ) from reason
    warnings.warn(
        f"backend {name!r} cannot be used ({reason}); the slower generic kernels run instead",
        PerformanceWarning,
        stacklevel=5,
    )
    return None
