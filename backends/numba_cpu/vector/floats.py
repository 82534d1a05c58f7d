"""Operations on single floating-point numbers, of any precision, that Python has no spelling for: LLVM instructions."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["add", "float_of", "infinite", "largest", "order_of"]

_INTEGERS: dict[Any, Any] = {types.float32: types.int32, types.float64: types.int64}
_FLOATS = {integer: real for real, integer in _INTEGERS.items()}


@intrinsic
def add(typingctx, a, b):  # type: ignore[no-untyped-def]
    """a + b, free to be reassociated, so that a sum is vectorised while the rest of its loop is left as written."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fadd(*args, flags=("reassoc", "nsz"))

    return a(a, b), codegen


@intrinsic
def order_of(typingctx, x):  # type: ignore[no-untyped-def]
    """A signed integer of the width of x that orders like it: NaN beyond the infinities, -0.0 just below 0.0.

    A maximum of floating-point numbers is vectorised only if NaN is assumed away; one of integers always is.
    """
    integer = _INTEGERS[x]

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _flip(builder, builder.bitcast(args[0], ir.IntType(integer.bitwidth)))

    return integer(x), codegen


@intrinsic
def float_of(typingctx, order):  # type: ignore[no-untyped-def]
    """The number x whose `order_of` this is."""
    real = _FLOATS[order]

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(_flip(builder, args[0]), context.get_value_type(real))

    return real(order), codegen


@intrinsic
def infinite(typingctx, like):  # type: ignore[no-untyped-def]
    """Infinity in the precision of `like`."""
    return like(like), lambda context, builder, signature, args: ir.Constant(args[0].type, float("inf"))


@intrinsic
def largest(typingctx, like):  # type: ignore[no-untyped-def]
    """The largest finite number in the precision of `like`."""
    most = float(np.finfo(like.name).max)
    return like(like), lambda context, builder, signature, args: ir.Constant(args[0].type, most)


def _flip(builder: Any, bits: Any) -> Any:
    """All bits but the sign inverted where the sign is set."""
    width = bits.type.width
    rest = ir.Constant(bits.type, 2 ** (width - 1) - 1)
    return builder.xor(bits, builder.and_(builder.ashr(bits, ir.Constant(bits.type, width - 1)), rest))
