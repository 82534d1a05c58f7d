"""Products of small matrices by register blocks: no packing, any strides of the left operand, any sizes.

A BLAS packs its operands, which takes a good part of the time of a small product, and it differs from processor to
processor which of its kernels are fast.
"""

from functools import partial
from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nlattn.backends.numba_cpu.runtime.compilation import inner, shared
from nlattn.backends.numba_cpu.vector.emitter import Emitter
from nlattn.backends.numba_cpu.vector.host import HOST

__all__ = ["Left", "Right", "lanes", "product"]

#: Columns that are left over beside whole vectors are met so many at a time, then one by one.
FEW = 4
#: Rows of the register blocks, for panels of whole vectors, of FEW columns, and of one column.
MANY, SOME = HOST.rows, HOST.rows // 3
PANELS = ((HOST.vectors, None, (MANY, SOME, 1)), (1, None, (MANY, SOME, 1)), (1, FEW, (MANY, 1)), (1, 1, (1,)))


class Left(NamedTuple):
    """The left operand of a product: the address of its first number, and bytes to the next row and column."""

    at: Any
    row: Any
    column: Any


class Right(NamedTuple):
    """The right operand or the result: the address of its first number, and bytes to the next row.

    Numbers of a row lie side by side.
    """

    at: Any
    row: Any


@intrinsic
def lanes(typingctx, like):  # type: ignore[no-untyped-def]
    """How many numbers of the type of `like` a vector holds, a constant."""
    count = HOST.lanes(like.bitwidth // 8)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return context.get_constant(types.int64, count)

    return types.int64(like), codegen


@intrinsic
def _product(typingctx, m, n, k, left, right, result, add, like):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        m, n, k, left, right, result, add, _ = args
        a = cgutils.unpack_tuple(builder, left, 3)
        (b, b_row), (c, c_row) = (cgutils.unpack_tuple(builder, x, 2) for x in (right, result))
        for vectors, width, blocks in PANELS:
            emit = Emitter(context, builder, like, width)
            columns = vectors * emit.lanes
            panels = builder.sdiv(n, emit.index(columns))
            n = builder.sub(n, builder.mul(panels, emit.index(columns)))
            panel = partial(_panel, emit, vectors, blocks, (m, k), a, b_row, c_row, add)
            b, c = emit.loop(panels, [b, c], panel)
        return context.get_dummy_value()

    return types.void(m, n, k, left, right, result, add, like), codegen


def _panel(
    emit: Emitter,
    vectors: int,
    blocks: tuple[int, ...],
    sizes: tuple[Any, Any],
    left: Any,
    b_row: Any,
    c_row: Any,
    add: Any,
    at: list[Any],
) -> list[Any]:
    """The product for all rows and one panel of columns; return the addresses of the next one."""
    builder, (rest, k), (a, a_row, a_step), (b, c) = emit.builder, sizes, left, at
    below = [a, c]
    for rows in blocks:

        def block(at: list[Any], rows: int = rows) -> list[Any]:
            a, c = at
            _block(emit, rows, vectors, k, (a, a_row, a_step), (b, b_row), (c, c_row), add)
            return [builder.add(x, builder.mul(y, emit.index(rows))) for x, y in ((a, a_row), (c, c_row))]

        count = builder.sdiv(rest, emit.index(rows))
        below = emit.loop(count, below, block)
        rest = builder.sub(rest, builder.mul(count, emit.index(rows)))
    return [emit.offset(x, vectors * emit.lanes) for x in (b, c)]


def _block(emit: Emitter, rows: int, vectors: int, k: Any, left: Any, right: Any, result: Any, add: Any) -> None:
    """The part of the product for so many rows and vectors of columns, with all sums in registers."""
    (a, a_row, a_step), (b, b_row), (c, c_row) = left, right, result
    builder = emit.builder

    def down(at: Any, i: int, row: Any) -> Any:
        return builder.add(at, builder.mul(row, emit.index(i))) if i else at

    cells = [emit.offset(down(c, i, c_row), j * emit.lanes) for i in range(rows) for j in range(vectors)]
    # What is there is added last: one sum over all tiles of keys would lose digits.
    zeros = [emit.all(0.0)] * len(cells)

    def step(carried: list[Any]) -> list[Any]:
        a, b, *sums = carried
        columns = [emit.load(emit.offset(b, j * emit.lanes)) for j in range(vectors)]
        factors = [emit.splat(emit.load_one(down(a, i, a_row))) for i in range(rows)]
        products = [(x, y) for x in factors for y in columns]
        new = [emit.fma(x, y, total) for (x, y), total in zip(products, sums, strict=True)]
        return [builder.add(a, a_step), builder.add(b, b_row), *new]

    sums = emit.loop(k, [a, b, *zeros], step)[2:]
    with builder.if_else(cgutils.as_bool_bit(builder, add)) as (then, otherwise):
        with then:
            for x, cell in zip(sums, cells, strict=True):
                emit.store(builder.fadd(x, emit.load(cell)), cell)
        with otherwise:
            for x, cell in zip(sums, cells, strict=True):
                emit.store(x, cell)


@shared(11)
def _multiply(m, n, k, a, a_row, a_step, b, b_row, c, c_row, add, like):  # type: ignore[no-untyped-def]
    _product(m, n, k, (a, a_row, a_step), (b, b_row), (c, c_row), add != 0, like)


@inner()
def product(m, n, k, left, right, result, add, like):  # type: ignore[no-untyped-def]
    """C (m, n) = A B, or C += A B where `add` is 1, for numbers of the type of `like` (A: Left, B and C: Right)."""
    _multiply((m, n, k, left[0], left[1], left[2], right[0], right[1], result[0], result[1], add), like)
