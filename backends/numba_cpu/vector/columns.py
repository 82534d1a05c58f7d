"""The maxima, exponentials and sums of the columns of a tile, a vector of columns at a time."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nlattn.backends.numba_cpu.runtime.compilation import inner, shared
from nlattn.backends.numba_cpu.vector.emitter import Emitter
from nlattn.backends.numba_cpu.vector.exponential import emit_exp

__all__ = ["column_exponentials", "column_maxima"]

#: Rows that are met together: as many maxima and sums are kept apart, which hides their latency and saves digits.
TOGETHER = 4

Step = Callable[[Any, Any], Any]


def _over_rows(emit: Emitter, n: Any, at: Any, row: Any, starts: list[Any], step: Step) -> list[Any]:
    """Carry TOGETHER values down a column of n vectors: each meets every fourth, the first one what is left over."""
    builder = emit.builder
    groups = builder.sdiv(n, emit.index(TOGETHER))

    def group(carried: list[Any]) -> list[Any]:
        at, *values = carried
        new = []
        for value in values:
            new.append(step(at, value))
            at = builder.add(at, row)
        return [at, *new]

    def single(carried: list[Any]) -> list[Any]:
        at, value = carried
        return [builder.add(at, row), step(at, value)]

    at, first, *others = emit.loop(groups, [at, *starts], group)
    rest = builder.sub(n, builder.mul(groups, emit.index(TOGETHER)))
    _, first = emit.loop(rest, [at, first], single)
    return [first, *others]


def _over_columns(emit: Emitter, m: Any, addresses: list[Any], body: Callable[..., None]) -> None:
    """Call `body` with the addresses of each vector of the m columns, a multiple of the lanes."""

    def step(at: list[Any]) -> list[Any]:
        body(*at)
        return [emit.offset(x, emit.lanes) for x in at]

    emit.loop(emit.builder.sdiv(m, emit.index(emit.lanes)), addresses, step)


@intrinsic
def _maxima(typingctx, n, m, tile, row, top, like):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        n, m, tile, row, top, _ = args
        emit = Emitter(context, builder, like)

        def larger(x: Any, y: Any) -> Any:
            # This form passes over a NaN in x, which then shows in the sum.
            return builder.select(builder.fcmp_ordered(">", x, y), x, y)

        def body(at: Any, top: Any) -> None:
            starts = [emit.load(top)] * TOGETHER
            a, b, c, d = _over_rows(emit, n, at, row, starts, lambda at, value: larger(emit.load(at), value))
            emit.store(larger(larger(a, b), larger(c, d)), top)

        _over_columns(emit, m, [tile, top], body)
        return context.get_dummy_value()

    return types.void(n, m, tile, row, top, like), codegen


@intrinsic
def _exponentials(typingctx, n, m, tile, row, shift, total, like):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        n, m, tile, row, shift, total, _ = args
        emit = Emitter(context, builder, like)

        def constant(kind: Any, x: float) -> Any:
            return ir.Constant(kind, [x] * emit.lanes)

        def body(at: Any, shift: Any, total: Any) -> None:
            lowered = emit.load(shift)

            def step(at: Any, value: Any) -> Any:
                x = emit_exp(builder, like, builder.fsub(emit.load(at), lowered), emit.integers, constant)
                emit.store(x, at)
                return builder.fadd(value, x)

            a, b, c, d = _over_rows(emit, n, at, row, [emit.all(0.0)] * TOGETHER, step)
            found = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
            emit.store(builder.fadd(emit.load(total), found), total)

        _over_columns(emit, m, [tile, shift, total], body)
        return context.get_dummy_value()

    return types.void(n, m, tile, row, shift, total, like), codegen


@shared(5)
def _find_maxima(n, m, tile, row, top, like):  # type: ignore[no-untyped-def]
    _maxima(n, m, tile, row, top, like)


@shared(6)
def _find_exponentials(n, m, tile, row, shift, total, like):  # type: ignore[no-untyped-def]
    _exponentials(n, m, tile, row, shift, total, like)


@inner()
def column_maxima(n, m, tile, row, top, like):  # type: ignore[no-untyped-def]
    """top <- the larger of itself and the largest of the n numbers of each of m columns.

    m is a multiple of `lanes(like)`; a tile is given by its address and the bytes to its next row.
    """
    _find_maxima((n, m, tile, row, top), like)


@inner()
def column_exponentials(n, m, tile, row, shift, total, like):  # type: ignore[no-untyped-def]
    """tile <- exp(tile - shift) in place, where no number is above its shift; total += the sums of the columns."""
    _find_exponentials((n, m, tile, row, shift, total), like)
