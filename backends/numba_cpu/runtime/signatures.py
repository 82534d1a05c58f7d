"""The types of compiled functions' arguments, in as few words as they need."""

from typing import Any

from numba import types

__all__ = ["flag", "group", "integer", "read", "strided", "write"]

integer = types.int64
flag = types.boolean


def read(kind: Any, ndim: int) -> Any:
    """A contiguous array that is only read."""
    return types.Array(kind, ndim, "C", readonly=True)


def strided(kind: Any, ndim: int) -> Any:
    """An array of any strides that is only read."""
    return types.Array(kind, ndim, "A", readonly=True)


def write(kind: Any, ndim: int) -> Any:
    """A contiguous array that is written to."""
    return types.Array(kind, ndim, "C")


def group(*members: Any) -> Any:
    """A tuple of such arguments. Unlike arrays on their own, its arrays must be exactly what is declared here.

    `layout.frozen` makes them so where they are only read. Tuples are passed as plain ones and get their names inside,
    as in ``keys = Keys(*keys)``: to tell what a NamedTuple holds takes numba some microseconds a call.
    """
    return types.BaseTuple.from_types(members)
