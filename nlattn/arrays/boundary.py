"""The boundary for PyTorch: tensors on the CPU of which no gradient is wanted are computed with as NumPy arrays.

The arrays are views of the same memory, so that compiled kernels see what NumPy users give them, and results become
tensors again without a copy. bfloat16, which NumPy lacks, goes through float32. Where a gradient is wanted, a tensor is
traced or lies on another device, it stays a tensor and the generic algorithms run.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

__all__ = ["Lending", "lend", "on_numpy"]

P = ParamSpec("P")
R = TypeVar("R")


class Lending:
    """Tensors lent to NumPy code: the arrays to compute with, and the way back."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def arrays(self, value: Any) -> Any:
        """The value with each tensor in it, at any depth of tuples, lists and dicts, as an array."""
        if isinstance(value, self._torch.Tensor):
            value = value.detach().resolve_neg()
            return (value.float() if value.dtype == self._torch.bfloat16 else value).numpy()
        return _rebuilt(value, self.arrays)

    def tensors(self, value: Any, dtype: Any = None) -> Any:
        """The value with each array in it as a tensor, in `dtype` if one is given."""
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if not array.flags.writeable or any(stride < 0 for stride in array.strides):
                array = array.copy()
            tensor = self._torch.from_numpy(array)
            return tensor if dtype is None else tensor.to(dtype)
        return _rebuilt(value, functools.partial(self.tensors, dtype=dtype))


def lend(*values: Any) -> Lending | None:
    """A lending if the values hold tensors and all of these can be lent; None where the values stay what they are."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    tensors: list[Any] = []
    mixed = not _collect(torch, values, tensors)
    if mixed or not tensors or torch.compiler.is_compiling() or torch.autograd.forward_ad._current_level >= 0:
        return None
    recorded = torch.is_grad_enabled()
    for tensor in tensors:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
        if not plain or tensor.device.type != "cpu" or (recorded and tensor.requires_grad) or _traced(torch, tensor):
            return None
    return Lending(torch)


def on_numpy(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function of arrays on NumPy views where its arguments are tensors that can be lent."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        lending = lend(args, kwargs)
        if lending is None:
            return function(*args, **kwargs)
        found = cast("Callable[..., R]", function)(*lending.arrays(args), **lending.arrays(kwargs))
        return cast("R", lending.tensors(found))

    return wrapped


def _traced(torch: Any, tensor: Any) -> bool:
    """Whether the tensor is that of a transformation (vmap, grad) and has no memory of its own."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _collect(torch: Any, value: Any, found: list[Any]) -> bool:
    """Append the tensors in a value; False where it also holds arrays of another library."""
    if isinstance(value, torch.Tensor):
        found.append(value)
        return True
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return all(_collect(torch, part, found) for part in value)
    return not hasattr(value, "__array_namespace__")


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A tuple, NamedTuple, list or dict of changed parts; anything else as it is."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(change, value))
    if isinstance(value, tuple | list):
        return type(value)(map(change, value))
    if isinstance(value, dict):
        return {name: change(part) for name, part in value.items()}
    return value
