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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Literal, ParamSpec, TypeAlias, TypeVar, cast, get_args

from nlattn.arrays.arguments import check_choice
from nlattn.errors import BackendUnavailable, PerformanceWarning

__all__ = ["BACKENDS", "Backend", "BackendName", "backend_name", "kernel", "use_backend"]

P = ParamSpec("P")
R = TypeVar("R")

#: What `use_backend` takes: a backend, or the generic versions of all kernels.
BackendName: TypeAlias = Literal["generic", "numba_cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What is known of a backend before it is imported.

    Attributes
    ----------
    name : str
        That of its package in ``nlattn.backends``.
    serves : str
        The type of the arrays that it works on, by module and name.
    needs : str
        The package that it cannot do without.
    thread_count : str
        The function without arguments, in a module of its package, that returns how many threads share its work:
        ``"module:function"``.
    """

    name: str
    serves: str
    needs: str
    thread_count: str

    def package(self) -> ModuleType:
        """Its package, imported."""
        return importlib.import_module(f"nlattn.backends.{self.name}")

    def threads(self) -> int:
        """How many threads share its work."""
        module, function = self.thread_count.split(":")
        return int(getattr(importlib.import_module(f"nlattn.backends.{self.name}.{module}"), function)())

    def kernel(self, name: str) -> Callable[..., object] | None:
        """Its version of a kernel, or None where it has none."""
        path = f"nlattn.backends.{self.name}.kernels.{name}"
        if importlib.util.find_spec(path) is None:
            return None
        return cast("Callable[..., object]", getattr(importlib.import_module(path), name))


_ALL = (Backend(name="numba_cpu", serves="numpy.ndarray", needs="numba", thread_count="runtime.pool:threads"),)

#: The backends by name.
BACKENDS: Mapping[str, Backend] = MappingProxyType({backend.name: backend for backend in _ALL})

_FORCED: ContextVar[str | None] = ContextVar("nlattn_backend", default=None)


@contextmanager
def use_backend(name: BackendName) -> Iterator[None]:
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
    check_choice("backend", name, get_args(BackendName))
    if name != "generic":
        _available(BACKENDS[name], required=True)
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
        got = f"{array_type.__module__}.{array_type.__name__}"
        raise BackendUnavailable(
            f"backend {forced!r} works on {BACKENDS[forced].serves}, got {got}; "
            "convert the arrays yourself or use another backend"
        )
    return forced


def kernel(generic: Callable[P, R]) -> Callable[P, R]:
    """Declare `generic` as the specification of a kernel that backends may provide faster."""
    name = generic.__name__

    @functools.cache
    def implementation(backend: str) -> Callable[P, R] | None:
        return None if backend == "generic" else cast("Callable[P, R] | None", BACKENDS[backend].kernel(name))

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
    return next((backend.name for backend in BACKENDS.values() if backend.serves in names), "generic")


@functools.cache
def _default_backend(array_type: type) -> str:
    name = _serving(array_type)
    return name if name == "generic" or _available(BACKENDS[name], required=False) else "generic"


def _available(backend: Backend, *, required: bool) -> bool:
    """Whether the backend can be imported; where it cannot, the reason is raised or warned of."""
    try:
        backend.package()
        return True
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
            f"backend {backend.name!r} cannot be used: {reason}; install {backend.needs!r} or use another backend"
        ) from reason
    warnings.warn(
        f"backend {backend.name!r} cannot be used ({reason}); the slower generic kernels run instead",
        PerformanceWarning,
        stacklevel=5,
    )
    return False
