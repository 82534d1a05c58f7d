"""Queries, keys and values by the addresses of their rows, for products that need no more."""

from typing import Any, NamedTuple

from numba.extending import intrinsic

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.runtime.signatures import group, integer

__all__ = ["OPERANDS", "Operands", "Rows", "load_scaled", "operands", "head_addresses"]


class Rows(NamedTuple):
    """Where the rows of an array (B, G, n, c) lie.

    Attributes
    ----------
    first : int
        The address of the first row.
    batch, head, row : int
        Bytes from one element of an axis to the next.
    width : int
        Numbers from one row to the next, the leading dimension of BLAS.
    """

    first: int
    batch: int
    head: int
    row: int
    width: int


class Operands(NamedTuple):
    """What an attention kernel multiplies, its number of features, and how many query heads share a key head."""

    query: Rows
    key: Rows
    value: Rows
    features: int
    heads: int
    sharing: int


#: The type of `Operands` in a signature.
OPERANDS = group(Operands, *(group(Rows, *(integer,) * 5),) * 3, *(integer,) * 3)


def operands(query: Any, key: Any, value: Any) -> Operands:
    """The `Operands` of arrays whose rows are contiguous; they must live as long as these are used."""
    q, k, v = (Rows(x.ctypes.data, *x.strides[:3], x.strides[2] // x.itemsize) for x in (query, key, value))
    return Operands(q, k, v, query.shape[3], query.shape[1], query.shape[1] // key.shape[1])


@inner()
def head_addresses(operands, h):  # type: ignore[no-untyped-def]
    """The addresses of the first query, key and value of a head, counted through the batch."""
    b, h = h // operands.heads, h % operands.heads
    g = h // operands.sharing
    query, key, value = operands.query, operands.key, operands.value
    return (
        query.first + b * query.batch + h * query.head,
        key.first + b * key.batch + g * key.head,
        value.first + b * value.batch + g * value.head,
    )


@intrinsic
def _load(typingctx, address, like):  # type: ignore[no-untyped-def]
    """The number of the type of `like` at an address."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(args[0], context.get_value_type(like).as_pointer()))

    return like(address, like), codegen


@inner()
def load_scaled(at, scale, row):  # type: ignore[no-untyped-def]
    """row <- scale times the numbers at an address. Before a product of two such rows, which could overflow."""
    for c in range(row.size):
        row[c] = scale * _load(at + c * row.itemsize, scale)
