"""The boundary for PyTorch: tensors on the CPU of which no gradient is wanted are computed with as NumPy arrays.

The arrays are views of the same memory, so that compiled kernels see what NumPy users give them, and results become
tensors again without a copy, equal bit for bit to those of the same call on NumPy arrays. bfloat16, which NumPy lacks,
goes through float32.

A call is lent as a whole or not at all. Where a gradient is wanted, where a tensor is traced or lies on another device,
and where an argument is an object that may hold tensors of its own (an operator, a function, an iterator), the tensors
stay what they are and the generic algorithms run.
"""

import copy
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast, overload

import numpy as np

__all__ = ["Lending", "carrier", "keep_tensors", "lend", "on_numpy"]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

#: What tensors may hold to be lent; of these NumPy lacks bfloat16 alone.
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
)

# Values that hold no array: whatever else is no tensor keeps a call from being lent.
_PLAIN = (bool, int, float, complex, str, np.generic, np.random.Generator, np.random.SeedSequence, type(None))

# Class -> the names of its attributes that hold arrays, or objects with arrays.
_CARRIERS: dict[type, tuple[str, ...]] = {}

_KEEP: ContextVar[bool] = ContextVar("nlattn_keep_tensors", default=False)


def carrier(*fields: str) -> Callable[[C], C]:
    """Declare a class whose objects cross the boundary: the named attributes hold the caller's arrays, no others do."""

    def declared(kind: C) -> C:
        _CARRIERS[kind] = fields
        return kind

    return declared


@contextmanager
def keep_tensors() -> Iterator[None]:
    """Inside a ``with`` block nothing is lent: the generic algorithms run on tensors, as where a gradient is wanted."""
    token = _KEEP.set(True)
    try:
        yield
    finally:
        _KEEP.reset(token)


class Lending:
    """Tensors lent to NumPy code: the arrays to compute with, and the way back.

    Attributes
    ----------
    narrow : torch.dtype or None
        bfloat16 if all floating tensors that were lent have it: for results that keep the dtype of the arguments.
    """

    def __init__(self, torch: Any, tensors: Iterable[Any] = ()) -> None:
        self._torch = torch
        floating = {tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point}
        self.narrow = torch.bfloat16 if floating == {torch.bfloat16} else None

    def arrays(self, value: Any) -> Any:
        """The value with each tensor in it, at any depth of tuples, lists, dicts and carriers, as an array."""
        if isinstance(value, self._torch.Tensor):
            # Conjugates and negatives may be lazy: a bit of the tensor that NumPy does not know.
            value = value.detach().resolve_conj().resolve_neg()
            return (value.float() if value.dtype == self._torch.bfloat16 else value).numpy()
        return _rebuilt(value, self.arrays)

    def tensors(self, value: Any, dtype: Any = None) -> Any:
        """The value with each array in it as a tensor, real floating ones in `dtype` if one is given."""
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            # PyTorch refuses views that run backwards, and warns of those that must not be written to.
            if not array.flags.writeable or any(stride < 0 for stride in array.strides):
                array = array.copy()
            tensor = self._torch.from_numpy(array)
            return tensor if dtype is None or not tensor.dtype.is_floating_point else tensor.to(dtype)
        return _rebuilt(value, functools.partial(self.tensors, dtype=dtype))


def lend(*values: Any) -> Lending | None:
    """A lending if the values hold tensors and all of these can be lent; None where the values stay what they are."""
    torch: Any = sys.modules.get("torch")
    if torch is None or _KEEP.get():
        return None
    tensors: list[Any] = []
    if not _gathered(torch.Tensor, values, tensors) or not tensors or _recording(torch):
        return None
    return Lending(torch, tensors) if all(_lendable(torch, tensor) for tensor in tensors) else None


@overload
def on_numpy(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def on_numpy(*, same_dtype: bool) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def on_numpy(function: Any = None, /, *, same_dtype: bool = False) -> Any:
    """Run a function of arrays on NumPy views where its arguments are tensors that can be lent.

    With `same_dtype` the results for bfloat16 are bfloat16, as for a function that keeps the dtype of its arguments.
    """
    if function is None:
        return functools.partial(on_numpy, same_dtype=same_dtype)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        lending = lend(args, kwargs)
        if lending is None:
            return function(*args, **kwargs)
        found = function(*lending.arrays(args), **lending.arrays(kwargs))
        return lending.tensors(found, lending.narrow if same_dtype else None)

    return wrapped


def _recording(torch: Any) -> bool:
    """Whether PyTorch records or replaces operations on plain tensors: compilers, jit.trace, make_fx, fake tensors."""
    return bool(torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack())


def _lendable(torch: Any, tensor: Any) -> bool:
    """Whether a tensor has memory on the host that NumPy can see, and nobody who follows what becomes of it."""
    # Subclasses have an arithmetic of their own; what is wrapped stands for several tensors or for a derivative.
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return False
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_nested or tensor._is_zerotensor():
        return False
    if str(tensor.dtype).removeprefix("torch.") not in DTYPES:
        return False
    if torch.is_grad_enabled() and tensor.requires_grad:
        return False
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is None


def _parts(value: Any) -> Iterable[Any] | None:
    """What a container or carrier holds; None for anything else."""
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, dict):
        return value.values()
    fields = _CARRIERS.get(type(value))
    return None if fields is None else [getattr(value, name) for name in fields]


def _gathered(tensor: type, value: Any, found: list[Any]) -> bool:
    """Append the tensors in a value; False where it also holds what may be, or hold, an array of another library."""
    parts = _parts(value)
    if parts is not None:
        return all(_gathered(tensor, part, found) for part in parts)
    # NumPy arrays are the usual case, and to ask whether a value is a tensor takes longest.
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, _PLAIN):
        return True
    found.append(value)
    return isinstance(value, tensor)


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A container or carrier of changed parts; the value itself where none changes."""
    parts = _parts(value)
    if parts is None:
        return value
    before = list(parts)
    after = [change(part) for part in before]
    if all(old is new for old, new in zip(before, after, strict=True)):
        return value
    if isinstance(value, tuple):
        return cast("Any", type(value))(*after) if hasattr(value, "_fields") else tuple(after)
    if isinstance(value, list):
        return after
    if isinstance(value, dict):
        return dict(zip(value, after, strict=True))
    twin = copy.copy(value)
    for name, part in zip(_CARRIERS[type(value)], after, strict=True):
        object.__setattr__(twin, name, part)
    return twin
