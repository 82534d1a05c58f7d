"""Queries, keys and values by the addresses of their rows, for products that need no more."""

from typing import Any, NamedTuple

from numba.extending import intrinsic

from nlattn.backends.numba_cpu.runtime.compilation import inner
from nlattn.backends.numba_cpu.runtime.signatures import group, integer

__all__ = ["OPERANDS", "Operands", "head_addresses", "load_scaled", "operands"]


class Operands(NamedTuple):
    """What an attention kernel multiplies.

    Attributes
    ----------
    query, key, value : int
        The address of the first row of an array (B, G, n, c).
    query_batch, query_head, query_row, ... : int
        Bytes from one element of an axis to the next.
    features : int
        Numbers of a query.
    heads, sharing : int
        Query heads of a batch element, and those of a key head.
    """

    query: int
    query_batch: int
    query_head: int
    query_row: int
    key: int
    key_batch: int
    key_head: int
    key_row: int
    value: int
    value_batch: int
    value_head: int
    value_row: int
    features: int
    heads: int
    sharing: int


#: The type of `Operands` in a signature.
OPERANDS = group(*(integer,) * len(Operands._fields))


def operands(query: Any, key: Any, value: Any) -> Operands:
    """The `Operands` of arrays whose rows are contiguous; they must live as long as these are used."""
    places = [(x.ctypes.data, *x.strides[:3]) for x in (query, key, value)]
    heads, sharing = query.shape[1], query.shape[1] // key.shape[1]
    return Operands(*places[0], *places[1], *places[2], query.shape[3], heads, sharing)


@inner()
def head_addresses(operands, h):  # type: ignore[no-untyped-def]
    """The addresses of the first query, key and value of a head, counted through the batch."""
    b, h = h // operands.heads, h % operands.heads
    g = h // operands.sharing
    query = operands.query + b * operands.query_batch + h * operands.query_head
    key = operands.key + b * operands.key_batch + g * operands.key_head
    value = operands.value + b * operands.value_batch + g * operands.value_head
    return query, key, value


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
